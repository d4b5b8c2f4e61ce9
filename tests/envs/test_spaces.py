import numpy as np
import pytest
from gymnasium import spaces

from lite.data import Binary, Bounded, Categorical, Unbounded
from lite.envs.spaces import Encoding, Layout

MANY = spaces.Dict(
    {
        "a": spaces.Discrete(3),
        "b": spaces.Tuple((spaces.Box(-1, 1, (2,)), spaces.MultiBinary(4))),
        "c": spaces.Dict({"d": spaces.MultiDiscrete([2, 5])}),
    }
)


def test_specs():
    for space, spec in (
        (spaces.Discrete(3), Categorical(3, (), dtype=np.int64)),
        (spaces.Discrete(3, start=-1), Bounded(-1, 1, (), dtype=np.int64)),
        (spaces.MultiBinary(4), Binary(4)),
        (spaces.MultiBinary([2, 3]), Binary(shape=(2, 3))),
        (spaces.MultiDiscrete([2, 5]), Bounded(0, [1, 4], (2,), dtype=np.int64)),
        (spaces.MultiDiscrete([2, 5], start=[1, 2]), Bounded([1, 2], [2, 6], (2,), dtype=np.int64)),
        (spaces.Box(-1, 2, (2, 3), np.float64), Bounded(-1, 2, (2, 3), dtype=np.float64)),
        (spaces.Box(0, 255, (4, 4), np.uint8), Unbounded((4, 4), dtype=np.uint8)),
        (spaces.Box(-np.inf, np.inf, (2,), np.float32), Unbounded((2,), dtype=np.float32)),
        (spaces.Box(-1, 1, (), np.float32), Bounded(-1, 1, (1,), dtype=np.float32)),
    ):
        (leaf,) = Layout(space, "x").leaves
        assert leaf.path == ("x",)
        assert leaf.spec == spec
        assert leaf.shape == space.shape
        value = np.asarray(space.sample()).reshape(leaf.spec.shape)
        assert leaf.spec.is_in(value)


def test_nested_spaces_have_nested_keys():
    paths = [("b", "0"), ("b", "1"), ("a",), ("c", "d")]
    assert {leaf.path for leaf in Layout(MANY, "x", root=True).leaves} == set(paths)
    assert {leaf.path for leaf in Layout(MANY, "x").leaves} == {("x", *path) for path in paths}
    assert [leaf.path for leaf in Layout(MANY["b"], "x", root=True).leaves] == [("x", "0"), ("x", "1")]


def test_values_go_there_and_back():
    layout = Layout(MANY, "x")
    value = MANY.sample()
    arrays = layout.arrays(value)
    assert [np.shape(array) for array in arrays] == [leaf.shape for leaf in layout.leaves]
    back = layout.value(arrays)
    assert MANY.contains(back)
    np.testing.assert_equal(back, dict(value))
    for kinds in ([2, 5], [3, 3]):  # one-hot, of classes that do not start at 0
        (leaf,) = Layout(spaces.MultiDiscrete(kinds, start=[1, 2]), "x").leaves
        encoding = Encoding(leaf, ("x",), False)
        entry = encoding.entry(np.array([2, 3]))
        assert np.flatnonzero(entry).tolist() == [1, kinds[0] + 1]
        assert encoding.value(entry).tolist() == [2, 3]


def test_other_spaces_are_refused():
    for space in (spaces.Text(5), spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))})):
        with pytest.raises(TypeError, match=r"spaces must be Box, .*got (Text|Sequence)"):
            Layout(space, "x")
