"""Values of gymnasium's spaces as entries."""

import numpy as np
from gymnasium import spaces

from lite.data import Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot
from lite.envs.spaces import Encoding, Layout


def test_there_and_back():
    for space, categorical, spec, value in (
        (spaces.Discrete(3), False, OneHot(3, dtype=np.int64), 2),
        (spaces.Discrete(3, start=5), False, OneHot(3, dtype=np.int64), 6),
        (spaces.Discrete(3), True, Categorical(3), 2),
        (spaces.MultiDiscrete([2, 3]), False, MultiOneHot([2, 3], dtype=np.int64), [1, 2]),
        (spaces.MultiDiscrete([2, 3], start=[4, 4]), False, MultiOneHot([2, 3], dtype=np.int64), [5, 4]),
        (spaces.MultiDiscrete([2, 3]), True, MultiCategorical([2, 3]), [1, 2]),
        (spaces.MultiDiscrete([3, 3]), False, OneHot(3, (2, 3), dtype=np.int64), [0, 2]),
        (spaces.MultiDiscrete([3, 3]), True, Categorical(3, (2,)), [0, 2]),
        (spaces.Box(-1, 1, (2,)), False, Bounded(-1, 1, (2,)), [0.5, -0.5]),
    ):
        (leaf,) = Layout(space, "x").leaves
        encoding = Encoding(leaf, ("x",), categorical)
        assert encoding.spec == spec
        given = np.asarray(value, space.dtype)
        entry = encoding.entry(given)
        assert entry.dtype == spec.dtype
        assert spec.is_in(entry)
        np.testing.assert_array_equal(encoding.value(entry), given)
        batch = np.stack([given, given])
        np.testing.assert_array_equal(encoding.value(encoding.entry(batch)), batch)


def test_entries_are_copies():
    (leaf,) = Layout(spaces.Box(-1, 1, (2,)), "x").leaves
    given = np.zeros(2, np.float32)
    entry = Encoding(leaf, ("x",), False).entry(given)
    given[:] = 1
    np.testing.assert_array_equal(entry, [0.0, 0.0])
