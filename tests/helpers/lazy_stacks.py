"""Lazy stacks for tests, ragged and regular ones, and their comparison with dense ones."""

from typing import Any

import numpy as np

from lite import LazyStackedTensorDict, NonTensorStack, TensorDict, lazy_stack


def ragged(*lengths: int) -> LazyStackedTensorDict:
    """Rows whose leaf `a` has these lengths, with a regular leaf, a text and a nested ragged leaf."""
    return lazy_stack(
        [
            TensorDict(a=np.arange(n) + 10 * i, b=np.full(2, i), s=f"s{i}", n={"c": np.ones(n)})
            for i, n in enumerate(lengths)
        ]
    )


def regular(shape: tuple[int, ...], dim: int, names: list[str | None] | None = None) -> LazyStackedTensorDict:
    """A stack that could be dense, of this batch size."""
    dense = TensorDict(
        {
            "a": np.arange(np.prod(shape) * 2).reshape(*shape, 2),
            "n": {"c": np.arange(np.prod(shape)).reshape(shape)},
            "s": NonTensorStack._wrap(
                np.array([f"s{i}" for i in range(int(np.prod(shape)))], object).reshape(shape)
            ),
        },
        batch_size=shape,
    )
    out = lazy_stack([row.clone() for row in dense.unbind(dim)], dim)
    out.names = names or [None] * len(shape)
    return out


def assert_same(got: Any, expected: Any) -> None:
    """Equal entries, batch size and names, whether lazy or dense."""
    assert got.batch_size == expected.batch_size
    assert got.names == expected.names
    assert sorted(got.keys(True), key=str) == sorted(expected.keys(True), key=str)
    for key in expected.keys(True, True):
        np.testing.assert_array_equal(got[key], expected[key])
    for key in ("s",):
        if key in expected:
            assert got.get(key).tolist() == expected.get(key).tolist()
