"""`meta.json`: what is written is read, whatever keys are called."""

from helpers.cases import each_case, raises
from hypothesis import given, settings
from hypothesis import strategies as st

from lite import TensorDict
from lite._files import meta

KEY = st.sampled_from(["a", "shape", "device", "_type", "_names", "_lite", "_lite_", 'b"\n', "\ud800"])
KEYS = st.lists(KEY, unique=True)
NAMES = st.none() | st.lists(st.none() | st.sampled_from(["time", "_lite"]), max_size=2)


@settings(max_examples=40)
@given(KEYS, NAMES)
def test_entries_and_names_come_back_in_order(keys: list[str], names: list[str | None] | None) -> None:
    members = {key: meta.text_of({"type": f"T{i}"}) for i, key in enumerate(keys)}
    node = meta.loads(meta.join(members, (2, 0), names), "here")
    entries, found = meta.split(node, "here")
    assert list(entries) == keys
    assert [entry["type"] for entry in entries.values()] == [f"T{i}" for i in range(len(keys))]
    assert found == names
    assert (node["_type"], node["shape"]) == (meta.TENSORDICT, [2, 0])


@each_case("text", [b"", b"[]", b"1", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_damaged(text: bytes) -> None:
    raises(ValueError, "here is damaged or foreign", lambda: meta.loads(text, "here"))


@each_case(
    "text, named",
    [
        ("hats have no shape", False),
        ("'a/b' is no list", False),
        ("a is damaged or foreign", True),
        ("refusing to follow a link of a/b", True),
        ("there is no a", True),
    ],
)
def test_errors_that_name_the_file_stay_as_they_are(text: str, named: bool) -> None:
    def failing() -> None:
        with meta.damaged("a", ValueError):
            raise ValueError(text)

    raises(ValueError, f"^{text}$" if named else f"^a is damaged or foreign: {text}$", failing)


def test_an_entry_with_the_name_of_the_extension() -> None:
    assert list(meta.split({"_lite": {"type": "T"}, "shape": []}, "here")[0]) == ["_lite"]


@each_case("extension", [[], [{}], [{"entries": [[0, "a", {}]], "names": None}], 3])
def test_a_damaged_extension(extension: object) -> None:
    node = meta.loads(meta.dumps({"_lite": extension, "shape": []}), "here")
    raises(ValueError, "_lite", lambda: meta.split(node, "here"))


@each_case("value", [None, 3, [-1], [1.0], [True], [1 << 62], [1] * 65, ["1"]])
def test_what_is_no_shape(value: object) -> None:
    assert meta.shape_of([], "here") == ()
    assert meta.shape_of([0, 3], "here") == (0, 3)
    raises(ValueError, "is not a shape", lambda: meta.shape_of(value, "here"))


@each_case("value", [True, -1, 2, 1 << 40, "0", None, 0.0])
def test_a_stack_dim_that_no_stack_has_is_refused(value: object) -> None:
    parts = [TensorDict(batch_size=[3]), TensorDict(batch_size=[3])]
    assert meta.stack_dim_of(1, parts, "here") == 1
    raises(ValueError, "here is damaged or foreign: stack_dim is", meta.stack_dim_of, value, parts, "here")
