"""The short way through a module does what the long way does, and is left where it does not apply."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite import TensorDict, lazy_stack, nn
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictModuleBase
from lite.nn import TensorDictSequential as Seq

KEYS = st.sampled_from(["a", "b", "c", ("n", "x"), ("n", "y"), ("a", "z"), "_"])
LEAVES = st.sampled_from(
    [
        np.arange(2.0),
        np.arange(4).reshape(2, 2),
        np.array(["x", "y"]),
        np.array([None, 1], dtype=object),
        1.5,
        "text",
        [1, 2],
    ]
)


def short_way(module: Any, *args: Any, **kwargs: Any) -> Any:
    return module(*args, **kwargs)


def long_way(module: Any, *args: Any, **kwargs: Any) -> Any:
    return TensorDictModuleBase.__call__(module, *args, **kwargs)


def plain(value: Any) -> Any:
    if isinstance(value, TensorDict):
        entries = {str(key): plain(leaf) for key, leaf in value.items(True, True, is_leaf=lambda cls: True)}
        return value.batch_size, value.is_locked, {**entries, **{str(k): None for k in value.keys(True)}}
    if isinstance(value, tuple | list):
        return type(value), [plain(item) for item in value]
    return type(value), value.dtype if isinstance(value, np.ndarray) else None, repr(value)


def outcome(function: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return plain(function(*args, **kwargs))
    except Exception as err:
        return type(err), str(err), getattr(err, "__notes__", None)


@st.composite
def entries(draw: Any) -> dict[Any, Any]:
    found = {}
    for key in draw(st.lists(st.sampled_from(["a", "b", "n"]), unique=True)):
        found[key] = {"x": draw(LEAVES), "y": draw(LEAVES)} if key == "n" else draw(LEAVES)
    return found


class Results:
    """A module that gives prepared results, whatever it is called with."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.seen: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.seen.append((plain(args), sorted(kwargs)))
        return self.result


RESULTS = st.one_of(
    LEAVES,
    st.tuples(LEAVES),
    st.tuples(LEAVES, LEAVES),
    st.just({"a": np.ones(2)}),
    st.just(None),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(KEYS.filter(lambda key: key != "_"), max_size=3),
    st.lists(KEYS, max_size=2),
    entries(),
    RESULTS,
    st.booleans(),
    st.sampled_from([(), (2,)]),
)
def test_calls_with_a_tensordict(
    in_keys: Any, out_keys: Any, content: Any, result: Any, lock: bool, batch_size: Any
) -> None:
    outcomes = []
    for call in (short_way, long_way):
        payload = Results(result)
        module = Mod(payload, in_keys=list(in_keys), out_keys=list(out_keys))
        try:
            td = TensorDict(content, batch_size=batch_size, lock=lock)
        except (RuntimeError, ValueError):  # not content for this batch size
            return
        got = outcome(call, module, td)
        outcomes.append((got, payload.seen, plain(td)))
    assert outcomes[0] == outcomes[1]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(KEYS.filter(lambda key: key != "_"), max_size=3),
    st.lists(KEYS, max_size=2),
    st.lists(LEAVES, max_size=3),
    st.dictionaries(st.sampled_from(["a", "b", "n_x", "a_z", "other"]), LEAVES, max_size=2),
    RESULTS,
)
def test_dispatched_calls(in_keys: Any, out_keys: Any, args: Any, kwargs: Any, result: Any) -> None:
    outcomes = []
    for call in (short_way, long_way):
        payload = Results(result)
        module = Mod(payload, in_keys=list(in_keys), out_keys=list(out_keys))
        outcomes.append((outcome(call, module, *args, **dict(kwargs)), payload.seen))
    assert outcomes[0] == outcomes[1]


@settings(max_examples=30, deadline=None)
@given(entries(), st.booleans())
def test_sequences(content: Any, fails: bool) -> None:
    def add(x: Any) -> Any:
        return x[:5] if fails else x + 1

    outcomes = []
    for call in (short_way, long_way):
        seq = Seq(Mod(add, ["a"], ["b"]), Mod(add, [("n", "x")], [("m", "c")]), Mod(add, ["b"], ["a"]))
        td = TensorDict(content)
        got = outcome(call, seq, td)
        array = outcome(lambda s, c=call: c(s, np.ones(2), n_x=np.zeros(2)), seq)
        outcomes.append((got, array, plain(td)))
    assert outcomes[0] == outcomes[1]


ARRAY = np.arange(2.0)


@pytest.mark.parametrize(
    ("in_keys", "out_keys", "result"),
    [
        (["a"], ["b"], ARRAY),
        (["a"], ["b"], np.arange(3.0)),  # not of the batch size
        (["a"], ["b"], np.array(["x", "y"])),  # becomes an object
        (["a"], ["b"], 1.5),
        (["a"], ["_"], ARRAY),
        (["a"], [("n", "x")], ARRAY),
        (["a"], [("a", "x")], ARRAY),  # below an array
        (["a"], [], None),
        (["a"], ["b", "c"], (ARRAY, ARRAY)),
        (["a"], ["b", "c"], ARRAY),  # too few
        (["a", "a"], ["b"], ARRAY),
        (["a", ("n", "y")], ["b"], ARRAY),
        ([("n", "y"), "n_y"], ["b"], ARRAY),  # one name for both
    ],
)
@pytest.mark.parametrize("lock", [False, True])
@pytest.mark.parametrize("batch_size", [(), (2,)])
def test_chosen_calls(in_keys: Any, out_keys: Any, result: Any, lock: bool, batch_size: Any) -> None:
    given = [ARRAY + i for i, _ in enumerate(in_keys)]
    by_name = {key if isinstance(key, str) else "_".join(key): ARRAY for key in in_keys}
    outcomes = []
    for call in (short_way, long_way):
        payload = Results(result)
        module = Mod(payload, in_keys=list(in_keys), out_keys=list(out_keys))
        content = {"a": ARRAY, "n": {"y": ARRAY}, "n_y": ARRAY}
        td = TensorDict(content, batch_size=batch_size, lock=lock)
        found = [outcome(call, module, td), plain(td), outcome(call, module, *given)]
        outcomes.append((found, outcome(call, module, **by_name), payload.seen))
    assert outcomes[0] == outcomes[1]


def one() -> Any:
    return Mod(lambda x: x + 1, ["a"], ["b"])


def value(td: Any, key: Any = "b") -> int:
    return int(td[key])


def make_plan(module: Any) -> None:
    assert value(module(TensorDict(a=0))) == 1
    assert module.__dict__["_plan"]


class TestChangesAreSeen:
    def test_hooks(self) -> None:
        module = one()
        make_plan(module)
        with module.register_forward_hook(lambda m, args, out: out.set("b", 7)):
            assert value(module(TensorDict(a=0))) == 7
        with module.register_forward_pre_hook(lambda m, args: TensorDict(a=5)):
            assert value(module(TensorDict(a=0))) == 6
        assert value(module(TensorDict(a=0))) == 1

    def test_keys(self) -> None:
        module = one()
        make_plan(module)
        module.in_keys[0] = "c"
        assert value(module(TensorDict(a=0, c=5))) == 6
        module.out_keys[0] = "d"
        assert value(module(TensorDict(c=5)), "d") == 6
        assert module.__dict__["_plan"].in_seen == ["c"] or module(c=np.ones(1)) == [2]
        module.in_keys = ["e"]
        assert value(module(TensorDict(e=1)), "d") == 2
        assert module(e=np.array([1])) == [2]

    @pytest.mark.parametrize(
        ("name", "setting", "expected"),
        [
            ("inplace", False, ["b"]),
            ("inplace", "empty", ["b"]),
            ("module", lambda x: x - 1, ["a", "b"]),
            ("method_kwargs", {"k": 3}, None),
        ],
    )
    def test_attributes(self, name: str, setting: Any, expected: Any) -> None:
        module = Mod(lambda x, k=1: x + k, ["a"], ["b"])
        make_plan(module)
        setattr(module, name, setting)
        out = module(TensorDict(a=0))
        assert value(out) == {"module": -1, "method_kwargs": 3}.get(name, 1)
        assert expected is None or list(out.keys()) == expected

    def test_the_payload(self) -> None:
        module = Mod(nn.Identity(), ["a"], ["b"])
        assert value(module(TensorDict(a=3))) == 3

        class Plus(nn.Module):
            def forward(self, x: Any) -> Any:
                return x + 1

        module.add_module("module", Plus())
        assert value(module(TensorDict(a=3))) == 4
        module.module.register_forward_hook(lambda m, args, out: out * 2)
        assert value(module(TensorDict(a=3))) == 8
        module.forward = lambda td: td.set("b", -1)
        assert value(module(TensorDict(a=3))) == -1

    def test_selection_and_skipping(self) -> None:
        module = Mod(lambda x: (x + 1, x + 2), ["a"], ["b", "c"])
        assert value(module(TensorDict(a=0)), "c") == 2
        module.select_out_keys("c")
        assert list(module(TensorDict(a=0, z=1)).keys()) == ["a", "c"]
        assert module(np.array([0])) == [2]
        module.reset_out_keys()
        assert list(module(TensorDict(a=0)).keys()) == ["a", "b", "c"]
        with nn.set_skip_existing():
            assert value(module(TensorDict(a=0, b=9, c=9))) == 9

    def test_sequences(self) -> None:
        seq = Seq(one(), Mod(lambda x: x * 2, ["b"], ["c"]))
        assert value(seq(TensorDict(a=0)), "c") == 2
        seq[1] = Mod(lambda x: x * 3, ["b"], ["d"])
        assert value(seq(TensorDict(a=0)), "d") == 3
        seq.append(Mod(lambda x: x + 1, ["d"], ["e"]))
        assert seq(a=np.array(0)) == (1, 3, 4)
        seq.partial_tolerant = True
        assert list(seq(TensorDict(z=0)).keys()) == ["z"]
        seq.inplace = "empty"
        assert set(seq(TensorDict(a=0)).keys()) == {"b", "d", "e"}


def test_overridden_steps_take_the_long_way() -> None:
    class Doubled(Mod):
        def forward(self, tensordict: Any) -> Any:  # type: ignore[override]
            return super().forward(tensordict).set("twice", 2)

    assert value(Doubled(lambda x: x, ["a"], ["b"])(TensorDict(a=1)), "twice") == 2


def test_other_containers_take_the_long_way() -> None:
    module = one()
    make_plan(module)
    stack = lazy_stack([TensorDict(a=0), TensorDict(a=1)])
    np.testing.assert_array_equal(module(stack)["b"], [1, 2])
    with pytest.raises(KeyError, match="necessary for the module call"):
        module(TensorDict(z=0))


def test_the_plan_is_not_copied() -> None:
    module = Mod(nn.Identity(), ["a"], ["b"])
    module(TensorDict(a=1))
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), copy.copy(module)):
        assert "_plan" not in other.__dict__
        other.register_forward_hook(lambda m, args, out: out.set("b", 7))
        assert value(other(TensorDict(a=1))) == 7


def test_inputs_are_not_written() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    module = Mod(lambda x: x + 1, ["a"], ["a"])
    td = TensorDict(a=array)
    np.testing.assert_array_equal(module(td)["a"], [1, 2, 3])
    np.testing.assert_array_equal(array, [0, 1, 2])
