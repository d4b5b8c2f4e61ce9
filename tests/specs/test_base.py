import copy
import itertools
import pickle

import numpy as np
from helpers.cases import raises

from lite import NonTensorData
from lite.data import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Stacked,
    TensorSpec,
    Unbounded,
)

SPECS: list[TensorSpec] = [
    Unbounded((2, 3)), Unbounded((2, -1), dtype=np.int64), Unbounded(4, dtype=bool),
    Unbounded((), dtype="uint8"), Bounded(-1.0, 1.0, (2, -1)), Bounded([0, 5], [3, 9], dtype=np.int32),
    Bounded(np.float16(-6e4), 6e4, (3,), dtype=np.float16),
    Bounded(-(2**63), 2**63 - 1, (4,), dtype=np.int64), Categorical(3, (2,)), Binary(4),
    NonTensor((2,), example_data="s"),
    Composite({"a": Unbounded((2, 3)), "b": {"c": Categorical(5, (2,))}}, shape=(2,)),
]  # fmt: skip


def safe(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if size < 0 else size for size in shape)


def test_other_names() -> None:
    for spec in SPECS:
        drawn = spec.rand(rng=0)
        assert spec.contains(drawn)
        assert spec.is_in(spec.zeros(3)) == spec.is_in(spec.zero(3))
    spec = Bounded([0, 5], [3, 9], dtype=np.int32)
    for found, value in ((spec.zeros(3), 0), (spec.ones(3), 1)):
        np.testing.assert_array_equal(found, np.full((3, 2), value, np.int32), strict=True)
    assert (SPECS[-1].ones(3)["a"] == 1).all()
    text = NonTensor((), example_data="s")
    assert (text.encode("a"), text.to_numpy("b")) == ("a", "b")


def test_what_is_drawn_is_in() -> None:
    for spec, shape in itertools.product(SPECS, ((), (5,), (2, 0))):
        for value in (spec.rand(shape, rng=0), spec.sample(shape, rng=np.random.default_rng(1))):
            assert spec.is_in(value), (spec, shape)
            assert tuple(value.shape) == (*shape, *safe(spec.shape))


def test_a_seed_gives_the_same_again() -> None:
    for spec in SPECS:
        if isinstance(spec, NonTensor):
            continue
        one, two, other = (spec.rand((20,), rng=seed) for seed in (7, 7, 8))
        assert (one == two).all(), spec
        assert not (one == other).all(), spec


def test_copies_are_equal_and_nothing_else_is() -> None:
    for spec in SPECS:
        for same in (spec.clone(), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
            assert same == spec
            assert repr(same) == repr(spec)
        assert [other == spec for other in SPECS].count(True) == 1
        assert spec != "spec"


def test_expanded() -> None:
    for spec in SPECS:
        big = spec.expand(5, *spec.shape)
        assert big.shape == (5, *spec.shape)
        assert big == spec.expand((5, *spec.shape))
        assert big.is_in(spec.zero((5,))) == spec.is_in(spec.zero())
        assert big.is_in(big.rand(rng=0))
        if spec.shape:  # anything ends with ()
            raises(ValueError, "expand", spec.expand, *spec.shape, 7)


def test_what_is_in_is_projected_to_itself() -> None:
    for spec in SPECS:
        value = spec.rand(rng=0)
        assert spec.project(value) is value
        spec.assert_is_in(value)


# -- shapes ------------------------------------------------------------------------------------


def test_a_negative_size_is_any_and_dimensions_may_come_before() -> None:
    """Of arrays, see tests/parity/test_specs.py."""
    for shape, value, expected in (
        ((3, -1), (3, 4), True),
        ((3, -1), (3, 0), True),
        ((3, -1), (2, 3, 1), True),
        ((3, -1), (2, 1), False),
        ((3, -1), (3,), False),
        ((1,), (4,), False),
    ):
        assert NonTensor(shape).is_in(NonTensorData("x", batch_size=value)) is expected


def test_shapes_that_are_none() -> None:
    for shape in (-2, (3, -2), "ab", 1.5, (2.0,)):
        for make in (Unbounded, NonTensor, lambda s: Composite(shape=s), lambda s: Bounded(0, 1, s)):
            raises((ValueError, TypeError), "shape", make, shape)


def test_shapes_of_as_many_elements() -> None:
    spec = Unbounded((2, 1, 3))
    assert spec.squeeze(0) == spec.flatten(0, 1).unflatten(0, (2, 1)) == spec
    assert Unbounded((-1, 1)).squeeze().unsqueeze(0).shape == (1, -1)
    spec = Unbounded((2, 1, 3))
    assert spec.reshape(3, -1).shape == spec.view((3, 2)).shape == (3, 2)
    assert spec.flatten(0, 1).unflatten(0, (2, 1)).unsqueeze(-1).squeeze(-1) == spec
    assert Bounded([[0, 1]], [[2, 3]]).expand(4, 2).is_in(np.full((4, 2), 2.0, np.float32))  # type: ignore[attr-defined]
    for one, shape in ((Unbounded((1, 3)), (3,)), (Unbounded((-1,)), 4)):
        raises(ValueError, "expand: shape must end with", one.expand, shape)
    masked = Categorical(3, (2,), mask=[[True, False, False], [False, True, True]]).unsqueeze(0)
    assert masked.is_in(np.array([[0, 1]]))
    assert not masked.is_in(np.array([[1, 1]]))
    columns = MultiCategorical([[2, 3], [4, 5]]).unsqueeze(1)
    np.testing.assert_array_equal(columns.nvec, [[[2, 3]], [[4, 5]]])  # type: ignore[attr-defined]


def test_shapes_that_do_not_fit() -> None:
    for dim in (4, -5):
        raises(IndexError, "dim must be from -4 to 3", Unbounded((2, 1, 3)).unsqueeze, dim)
    raises(ValueError, "reshape", lambda: Unbounded((2, 3)).reshape(4))
    raises(ValueError, "sizes that are known", lambda: Unbounded((2, -1)).reshape(-1))
    for spec in (OneHot(3, (2, 3)), MultiOneHot([1, 2], (2, 3)), MultiCategorical([2, 3, 4], (2, 3))):
        for call in (lambda spec: spec.unsqueeze(-1), lambda spec: spec.reshape(6)):
            raises(ValueError, "last sizes must stay", call, spec)


def test_the_dtype_is_cast() -> None:
    assert Categorical(3).to("int32").rand().dtype == np.int32
    nested = Composite(x=Unbounded((2,)), o=NonTensor((2,)), shape=2).to(np.float64)
    assert nested.zero()["x"].dtype == np.float64
    raises(ValueError, "high must exist in int8", lambda: Bounded(0, 1000, (2,)).to(np.int8))
    raises(TypeError, "dtype must be bool", lambda: Unbounded(2).to(np.complex64))


def test_the_device_is_the_cpu() -> None:
    for spec in (Bounded(-1, 1, (2,)), Composite(x=Unbounded((2,)), device="cpu")):
        assert spec.to("cpu") is spec.to("cpu:0") is spec.to(None) is spec.cpu() is spec
        raises(ValueError, "device must be 'cpu', got 'cuda:0'", spec.to, "cuda:0")
    assert Unbounded(2).device == "cpu"
    raises(ValueError, "device must be 'cpu', got 'cuda'", lambda: Composite(device="cuda"))


def test_values_of_a_composite_have_its_device() -> None:
    spec = Composite(x=Unbounded((2,)), shape=2, device="cpu")
    for one in (spec, spec.clone(), spec[:1], spec.expand(3, 2)):
        assert one.device == one.zero().device == one.rand().device == "cpu"
    bare = Composite({"x": Unbounded((2,)), "n": {"y": Unbounded((2,))}}, shape=2)
    assert bare.device is bare.zero().device is None
    assert bare.to("cpu").device == bare.cpu().zero(None)["n"].device == "cpu"
    assert bare.device is bare["n"].device is None
    assert spec != bare


def test_specs_that_differ_are_stacked() -> None:
    parts = [Bounded(-1, 1, (2,)), Bounded(-2, 2, (3,))]
    spec = np.stack(parts)
    assert isinstance(spec, Stacked)
    assert (spec.shape, spec.dtype, list(spec.unbind(0))) == ((2, -1), np.float32, parts)
    assert [spec[0], spec[1:], spec[np.array([1, 0])]] == [
        parts[0],
        np.stack(parts[1:]),
        np.stack(parts[::-1]),
    ]
    for value in (spec.rand(rng=0), spec.zero((4,)), spec.expand(4, 2, -1).one()):
        assert spec.is_in(value)
    assert [row.shape for row in value] == [(4, 2), (4, 3)]
    for value in (
        [np.zeros(2, np.float32)],
        [*spec.rand()][::-1],
        [np.full(n, 9, np.float32) for n in (2, 3)],
    ):
        assert not spec.is_in(value)
    assert [row.tolist() for row in spec.project(value)] == [[1, 1], [2, 2, 2]]
    assert (spec == spec.clone(), spec != np.stack(parts[::-1])) == (True, True)
    classes = np.stack([OneHot(3), OneHot(4)])
    vectors = classes.encode([2, 3])
    assert [row.tolist() for row in vectors] == [[0, 0, 1], [0, 0, 0, 1]]
    assert classes.to_numpy(vectors) == [2, 3]
    by_key = np.stack([Composite(a=OneHot(3)), Composite(a=OneHot(3), b=Categorical(2))])
    assert by_key.encode({"a": np.array([0, 2])})["a"].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert [part.dtype for part in spec.to(np.float64).unbind(0)] == [np.dtype(np.float64)] * 2
    for index in ((None, 0), np.zeros((1, 1), int), slice(2, 2)):
        raises(IndexError, "dimension of the stack takes one index", spec.__getitem__, index)


def test_stacks_along_other_dimensions() -> None:
    spec = np.stack([Unbounded((2, 3)), Unbounded((2, 4))], 1)
    assert (spec.shape, spec[:, 1], spec[0, 1], spec[0].shape) == (
        (2, 2, -1),
        Unbounded((2, 4)),
        Unbounded(4),
        (2, -1),
    )
    raises(IndexError, "before that of the stack", spec.__getitem__, (None, 1))
    assert spec.expand(5, *spec.shape).shape == (5, 2, 2, -1)
    twice = np.stack([spec, spec.clone()])
    assert (twice.shape, twice.unsqueeze(0).shape) == ((2, 2, 2, -1), (1, 2, 2, 2, -1))
    assert [part[:, 1] for part in twice.unbind(0)] == [Unbounded((2, 4))] * 2
    raises(ValueError, "not reshaped", spec.unsqueeze, 1)
    alone = Stacked(Unbounded((2, 3)), dim=1)
    assert (alone.shape, alone.dtype) == ((2, 1, 3), np.dtype(np.float32))
    spec = np.stack([Categorical(2, (5,)), Categorical(3, (5,))], 1)  # one array, as the shapes are equal
    assert (spec.rand().shape, spec.is_in(spec.one()), spec.is_in(spec.one() * 2)) == ((5, 2), True, False)
    assert spec.is_in(np.stack([np.ones(5, int), np.full(5, 2)], 1))
    for specs in (
        [Unbounded(2), Unbounded(2, dtype=np.int64)],
        [Unbounded(2), Unbounded((2, 2))],
        [Unbounded(2), Composite()],
    ):
        raises(ValueError, "one dtype and number of dimensions", np.stack, specs)
