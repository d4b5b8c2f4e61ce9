import pickle

import numpy as np
import pytest
from helpers.cases import raises

from lite import LazyStackedTensorDict, TensorDict, lazy_stack, nn
from lite.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    NonTensor,
    OneHot,
    StackedComposite,
    Unbounded,
)


def test_ragged_stacks() -> None:
    for stack_dim in (0, 1):
        rows = [TensorDict({"x": np.zeros((2, n))}, batch_size=[2]) for n in (1, 2, 3)]
        stack = lazy_stack(rows, stack_dim)
        assert isinstance(stack, LazyStackedTensorDict)
        shape = (3, 2) if stack_dim == 0 else (2, 3)
        assert Composite(x=Unbounded((*shape, -1), dtype=np.float64)).is_in(stack)
        assert not Composite(x=Unbounded((*shape[::-1], -1), dtype=np.float64)).is_in(stack)
        assert not Composite(x=Unbounded((*shape, 2), dtype=np.float64)).is_in(stack)
        assert not Composite(x=Unbounded((*shape, -1), dtype=np.float32)).is_in(stack)


def test_nested_access() -> None:
    leaf = Unbounded((2, 3))
    spec = Composite({"a": {"b": leaf}, ("x", "y"): NonTensor((2,))}, c=Categorical(3, (2,)), shape=(2,))
    assert spec["a", "b"] is leaf is spec["a"]["b"] is spec.get(("a", "b"))
    assert isinstance(spec["x"], Composite)
    assert spec["x"].shape == (2,)
    assert list(spec.keys()) == list(spec) == ["a", "x", "c"]
    assert list(spec.keys(True)) == [("a", "b"), "a", ("x", "y"), "x", "c"]
    assert list(spec.keys(True, True)) == [("a", "b"), ("x", "y"), "c"]
    assert dict(spec.items(True, True))["a", "b"] is leaf
    assert spec.values(True, True)[0] is leaf
    assert len(spec) == 3
    assert ("a", "b") in spec
    assert ("a", "z") not in spec
    assert ("c", "z") not in spec
    del spec["a", "b"]
    assert spec["a"].is_empty()
    assert not spec.is_empty()
    assert spec.get("z", 5) == 5
    for read in (
        lambda: spec["z"],
        lambda: spec.get("z"),
        lambda: spec["c", "z"],
        lambda: spec.__delitem__("z"),
    ):
        raises(KeyError, "z", read)
    raises(IndexError, "no dimension", lambda: Composite(a=Unbounded(2))[0])
    spec.update({"a": {"n": leaf}, "c": leaf})
    assert spec["a", "n"] is spec["c"]
    for wrong in ({"a": {"m": leaf}, "c": Unbounded(3)}, {"a": {"m": leaf, "k": 5}}):
        raises((ValueError, TypeError), r"'c'|'k'", spec.update, wrong)
        assert list(spec["a"]) == ["n"]


def test_entries_begin_with_the_shape() -> None:
    spec = Composite(shape=(3,))
    with pytest.raises(ValueError, match=r"'a'.*\(3,\)"):
        spec["a"] = Unbounded(2)
    with pytest.raises(TypeError, match="'a'"):
        spec["a"] = np.zeros(3)  # type: ignore[assignment]
    assert spec.is_empty()
    spec["n"] = Composite(x=Unbounded((3, 2)))
    assert spec["n"].shape == (3,)
    with pytest.raises(ValueError, match="'x'"):
        spec["n"] = Composite(x=Unbounded(2))
    assert list(spec["n"]) == ["x"]


def test_a_shape_that_is_set_goes_inwards() -> None:
    spec = Composite(a=Unbounded((3, 4)), n=Composite(x=Unbounded((3, 2)), m=Composite(y=Unbounded(3))))
    spec.shape = [3]  # type: ignore[assignment]
    assert spec.shape == spec["n"].shape == spec["n", "m"].shape == (3,)
    big = spec.expand(2, 3)
    assert big["n"].shape == big["n", "m", "y"].shape == (2, 3)
    assert big["n", "x"].shape == (2, 3, 2)
    with pytest.raises(ValueError, match=r"\('n', 'x'\) must begin with \(3, 2, 3\), got \(3, 2\)"):
        Composite(n=Composite(m=Composite(), x=Unbounded((3, 2)))).shape = (3, 2, 3)
    with pytest.raises(ValueError, match=r"'a' must begin with \(5,\)"):
        spec.shape = (5,)
    assert spec.shape == spec["n"].shape == (3,)
    spec.shape = ()
    assert (spec.shape, spec["n"].shape) == ((), (3,))


def test_composites_of_values() -> None:
    spec = Composite({"a": Unbounded((3, 2)), "n": {"b": Bounded(0, 1, (3,))}}, shape=(3,))
    value = spec.rand(rng=0)
    assert value.batch_size == (3,)
    assert spec.zero((4,)).batch_size == (4, 3)
    assert spec.is_in(value)
    assert spec.is_in(value.to_dict())
    assert spec.is_in(value.clone().set("more", np.zeros(3)))
    assert not spec.is_in(value.exclude("a"))
    assert not spec.is_in(value.exclude(("n", "b")))
    assert not spec.is_in(np.zeros(3))
    wrong = value.clone().set(("n", "b"), np.zeros((3, 1)))
    with pytest.raises(
        AssertionError, match=r"at key \('n', 'b'\)[^$]*shape \(3, 1\) and dtype float64, expected B"
    ):
        spec.assert_is_in(wrong)
    raises(AssertionError, r"at key \('n', 'b'\)", spec.assert_is_in, wrong.to_dict())
    spec.assert_is_in(value)
    with pytest.raises(AssertionError, match=r"^the value is not in the spec: got TensorDict"):
        spec.assert_is_in(value.exclude("a"))
    assert not spec.is_in(TensorDict(a=value["a"], n=np.zeros(3), batch_size=[3]))
    del spec["n", "b"]
    assert spec.is_in(value.exclude("n"))
    raises(KeyError, "'a'", lambda: spec.project(value.exclude("a")))


def test_projecting_a_composite_changes_it_whole_or_not_at_all() -> None:
    spec = Composite({"n": {"b": Bounded(0, 1, (3,))}, "a": Unbounded((3, 2))}, shape=(3,))
    value = spec.zero()
    value["n", "b"] = np.full(3, 5, np.float32)
    assert spec.project(value) is value
    np.testing.assert_array_equal(value["n", "b"], np.ones(3))
    value["n", "b"] = np.full(3, 5, np.float32)
    value["a"] = np.zeros((3, 4), np.float32)
    raises(ValueError, "shape", lambda: spec.project(value))
    np.testing.assert_array_equal(value["n", "b"], np.full(3, 5))


def test_projecting_lazy_stacks() -> None:
    spec = Composite(x=Bounded(1, 2, (2, -1)))
    even, ragged = (lazy_stack([TensorDict({"x": np.zeros(n)}) for n in sizes]) for sizes in [(2, 2), (1, 2)])
    assert spec.is_in(spec.project(even))
    np.testing.assert_array_equal(even["x"], np.ones((2, 2), np.float32))
    raises(ValueError, "one by one", lambda: spec.project(ragged))
    with pytest.raises(TypeError, match="specs"):
        Composite([spec])  # type: ignore[arg-type]


def test_entries_are_drawn_one_by_one() -> None:
    x, y = Unbounded(3), Unbounded(3)
    both = Composite(x=x, y=y).rand(rng=0)
    assert not np.array_equal(both["x"], both["y"])


def test_shapes_of_composites_are_of_the_batch() -> None:
    spec = Composite({"a": Unbounded((2, 3)), "n": {"b": Unbounded((2, -1))}}, shape=2)
    wide = spec.unsqueeze(-1)
    assert (wide.batch_size, wide["a"].shape, wide["n"].shape, wide["n", "b"].shape) == (
        (2, 1), (2, 1, 3), (2, 1), (2, 1, -1),
    )  # fmt: skip
    assert wide.squeeze() == wide.reshape(2) == wide.flatten(0, 1) == spec


def test_specs_are_set_and_taken_out() -> None:
    spec = Composite({"a": Unbounded(2), "n": {"b": Unbounded(3)}}, device="cpu")
    assert spec.set(("n", "c"), Unbounded(4)) is spec
    assert spec.pop(("n", "c")) == Unbounded(4)
    assert spec.pop(("n", "c"), None) is None
    raises(KeyError, "c", lambda: spec.pop("c"))
    assert spec.keys(True, True) == ["a", ("n", "b")]
    assert spec.empty() == Composite(device="cpu")


def test_locks_of_scripts_change_nothing() -> None:
    spec = Composite(a=Unbounded(2)).lock_()
    assert spec.unlock_(recurse=True) is spec
    spec.lock_()["b"] = Unbounded(3)
    assert list(spec.keys()) == ["a", "b"]
    assert not spec.is_locked


def test_none_leaves_a_key_out() -> None:
    spec = Composite(action=Unbounded(2), value=None)
    assert spec == Composite(action=Unbounded(2))
    spec["action"] = None
    assert spec.is_empty()
    policy = nn.ProbabilisticActor(
        nn.TensorDictModule(lambda x: (x, x + 1), ["x"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=nn.distributions.Normal,
        spec=Composite(action=Unbounded(2), loc=None, scale=None),
    )
    assert policy.spec == Composite(action=Unbounded(2))


def test_repr() -> None:
    assert repr(Unbounded((3, -1), dtype=np.int64)) == "Unbounded(shape=(3, -1), dtype=int64)"
    assert repr(Bounded(0, [1, 2])) == "Bounded(low=0.0, high=[1.0, 2.0], shape=(2,), dtype=float32)"
    assert repr(Categorical(3)) == "Categorical(n=3, shape=(), dtype=int64)"
    assert repr(Binary(4)) == "Binary(shape=(4,), dtype=int8)"
    assert repr(Composite()) == "Composite(shape=())"
    assert repr(Composite({"a": {"b": NonTensor((2,), example_data="s")}}, shape=(2,))) == (
        "Composite(\n    a: Composite(\n        b: NonTensor(shape=(2,), example_data='s'),\n"
        "        shape=(2,)),\n    shape=(2,))"
    )


def test_specs_of_other_bounds_are_stacked() -> None:
    parts = [Composite(a=Bounded(-t, [t, 9], (2,)), n=Composite(b=Unbounded(1))) for t in (1, 2, 3)]
    spec = np.stack(parts)
    assert spec["a"] == Bounded([[-1, -1], [-2, -2], [-3, -3]], [[1, 9], [2, 9], [3, 9]])
    assert (spec.shape, spec["n", "b"].shape, list(spec.unbind(0)) == parts) == ((3,), (3, 1), True)
    assert np.stack([part["a"] for part in parts], 1).high.tolist() == [[1, 2, 3], [9, 9, 9]]
    assert [spec.is_in(spec.rand()) for _ in range(5)] == [True] * 5


def test_a_stack_has_what_all_parts_have() -> None:
    common = {"image": Unbounded((4, 4)), "n": Composite(b=Unbounded(1))}
    parts = [
        Composite({**common, "speed": Unbounded(2)}),
        Composite({**common, "n": Composite(b=Unbounded(3))}),
    ]
    spec = np.stack(parts)
    assert isinstance(spec, StackedComposite)
    assert (spec.shape, spec.stack_dim, spec.keys(True, True)) == ((2,), 0, ["image", ("n", "b")])
    assert (spec["image"], spec["n", "b"].shape) == (Unbounded((2, 4, 4)), (2, -1))
    assert [spec[i] for i in (0, -1)] == list(spec.unbind(0)) == parts
    assert (spec[np.array([1, 1])], spec != spec[::-1]) == (np.stack(parts[1:] * 2), True)
    for value, size in ((spec.rand(), (2,)), (spec.zero((5,)), (5, 2)), (spec.expand(5, 2).one(), (5, 2))):
        assert isinstance(value, LazyStackedTensorDict)
        assert (value.batch_size, spec.is_in(value)) == (size, True)
        assert "speed" in value[..., 0]
    assert not any(spec.is_in(other) for other in (value[..., ::-1], value[..., :1], {}, value[0, 0]))
    # A level is a lazy stack where something of its own differs, no other one is.
    around = np.stack([Composite(a=part, c=Unbounded(1)) for part in parts])
    assert (type(around), type(around["a"])) == (Composite, StackedComposite)
    assert around.is_in(pickle.loads(pickle.dumps(around)).rand())


def test_values_of_stacks_along_other_dimensions() -> None:
    parts = [Composite({key: Unbounded((3,))}, shape=(3,)) for key in "ab"]
    spec = np.stack(parts, 1)
    value = spec.rand((5,))
    assert (value.batch_size, value.stack_dim, spec.is_in(value)) == ((5, 3, 2), 2, True)
    alone = type(spec)(parts[0], dim=1)
    assert (alone.shape, alone.rand().batch_size) == ((3, 1), (3, 1))


def test_what_is_set_in_a_stack_goes_to_its_parts() -> None:
    parts = [Composite(a=Bounded(-1, 1, (n,)), n=Composite(b=Unbounded(n))) for n in (1, 2)]
    spec = np.stack(parts)
    spec.update({"n": {"c": Unbounded((2, 5))}, "d": np.stack([Unbounded(1), Unbounded(4)])})
    assert [part["d"].shape for part in spec.unbind(0)] == [(1,), (4,)]
    assert [part["n", "c"] for part in spec.unbind(0)] == [Unbounded(5)] * 2
    spec.pop("a")
    del spec["d"]
    spec["n", "b"] = None
    assert spec.unbind(0) == (Composite(n=Composite(c=Unbounded(5))),) * 2
    assert [part.keys() for part in parts] == [["a", "n"]] * 2
    raises(KeyError, "no spec 'z'", spec.__delitem__, "z")
    raises(ValueError, r"'e' must begin with \(2,\)", spec.set, "e", Unbounded(3))
    value = np.stack(parts).one() * 9
    assert [row["a"].tolist() for row in np.stack(parts).project(value)] == [[1], [1, 1]]
    assert [row["a"].tolist() for row in value] == [[1], [1, 1]]


def test_composites_that_do_not_stack() -> None:
    for other, text in (
        (Unbounded(2), "composites of one shape"),
        (Composite(shape=(2,)), "composites of one shape"),
        (
            Composite(n=Composite(b=Unbounded(1, dtype=np.int64))),
            r"^'n': 'b': stack needs specs of one dtype",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            np.stack([Composite(n=Composite(b=Unbounded(1))), other])
    raises(ValueError, "composites of one shape", StackedComposite)
    spec = np.stack([Composite(a=Unbounded(n)) for n in (1, 2)])
    raises(ValueError, "not reshaped", spec.unsqueeze, 1)
    raises(NotImplementedError, "cardinality", spec.cardinality)
    raises(NotImplementedError, "listed", spec.enumerate)


def test_equal_specs_are_stacked() -> None:
    spec = np.stack([Composite({"a": Bounded(0, [1, 2])})] * 3)
    assert (spec.shape, spec["a"].shape) == ((3,), (3, 2))
    assert [part["a"] for part in spec.unbind(0)] == [Bounded(0, [1, 2])] * 3
    assert np.stack([Bounded(-1, 1, (2,))] * 4, 1).space.low.shape == (2, 4)
    for kind in (Categorical, OneHot):
        masked = kind(2, mask=[True, False])
        assert masked == masked.clone()
        for other in (kind(2), kind(2, mask=[True, True])):
            assert masked != other
            assert other != masked


def test_an_empty_one_has_one_combination() -> None:
    assert Composite(shape=(2,)).enumerate().batch_size == (2,)
    grown = Composite(text=NonTensor((), example_data="x"), shape=(3,))
    assert grown["text"].shape == (3,)
    assert Composite().cardinality() == 0
    spec = Composite({"a": Categorical(2, (1,)), "n": Composite(b=Categorical(3, (1,)), shape=1)}, shape=1)
    assert (spec.cardinality(), spec.enumerate().batch_size) == (6, (6, 1))
    assert spec.enumerate()["a"].ravel().tolist() == [0, 0, 0, 1, 1, 1]
    assert spec.enumerate()["n", "b"].ravel().tolist() == [0, 1, 2, 0, 1, 2]
    raises(NotImplementedError, "cardinality is not known", lambda: Composite(a=Unbounded(2)).cardinality())
