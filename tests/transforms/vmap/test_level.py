"""Arrays as batching rules see them."""

import numpy as np

from lite._transforms.vmap.level import Level, batched_in, level_of

X = np.arange(6.0).reshape(2, 3)


def test_values_are_aligned_with_the_mapped_dimension_first() -> None:
    level = Level(1, 2)
    assert level.align(level.wrap(X), 3).shape == (2, 1, 1, 3)
    assert level.align(X, 3) is X
    assert level.full(X).shape == (2, 2, 3)
    np.testing.assert_array_equal(level.full(level.wrap(X)), X)


def test_the_innermost_map_decides() -> None:
    outer, inner = Level(1, 2), Level(2, 3)
    found = batched_in((outer.wrap(X), {"k": [inner.wrap(X.T)]}, slice(None)), [])
    assert (level_of(found).number, level_of(found).size, len(found)) == (2, 3, 2)
    assert not outer.on(found[1])
    assert outer.value(found[1]) is found[1]
