"""Which of several transformations answers for a call."""

from typing import Any

import numpy as np

import lite
from lite._transforms.levels import innermost, numbers


def test_numbers_rise() -> None:
    assert next(numbers) < next(numbers)


def test_the_innermost_is_found_in_nested_arguments() -> None:
    seen: list[Any] = []

    def inner(x: Any, outer: Any) -> Any:
        assert innermost(([1, {"a": outer}], slice(None, x))) is x
        assert innermost(([x], outer)) is x
        seen.append((type(x).__name__, type(outer).__name__))
        return (x * outer).sum()

    lite.vmap(lambda o: lite.grad(inner)(np.ones(2), o))(np.ones((3, 2)))
    lite.grad(lambda o: lite.vmap(lambda x: inner(x, o))(np.ones((3, 2))).sum())(np.ones(2))
    assert seen == [("TracedArray", "BatchedArray"), ("BatchedArray", "TracedArray")]
    assert innermost((1, "a", [np.ones(2)])) is None


def test_both_sides_of_an_operator() -> None:
    """Whoever stands on the left, the inner transformation computes."""
    x, y = np.arange(6.0).reshape(3, 2), np.array([2.0, 3.0])
    wanted = 2 * x + y

    def left(x: Any, y: Any) -> Any:
        return (x * x + x * y).sum()

    def right(x: Any, y: Any) -> Any:
        return (x * x + np.multiply(y, x)).sum()

    for fn in (left, right):
        np.testing.assert_array_equal(lite.vmap(lite.grad(fn), (0, None))(x, y), wanted)
        mapped = lite.grad(lambda x, fn=fn: lite.vmap(fn, (0, None))(x, y).sum())
        np.testing.assert_array_equal(mapped(x), wanted)
        closed = lite.grad(lambda y, fn=fn: lite.vmap(lambda x: fn(x, y))(x).sum())
        np.testing.assert_array_equal(closed(y), x.sum(0))
