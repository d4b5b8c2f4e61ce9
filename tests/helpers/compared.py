"""Tests whose body is run with each of two libraries, and entries of both."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lite import is_non_tensor


def on_both(
    compare: Callable[[Callable[..., Any]], Any], given: int = 1
) -> Callable[[Callable[..., Any]], Any]:
    """A decorator of tests that take a library first.

    Args:
        compare: gets the body as a function of a library, calls it with both and compares what it returns.
        given: how many arguments it gives the body.
    """

    def decorate(test: Callable[..., Any]) -> Any:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            compare(lambda *lib: test(*lib, *args, **kwargs))

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(parameters=[*signature.parameters.values()][given:])
        return run

    return decorate


def assert_same_entries(ours: Any, theirs: Any, rtol: float = 1e-5) -> None:
    """Equal batch sizes, keys, dtypes and shapes, and close values, in both libraries."""
    assert tuple(ours.batch_size) == tuple(theirs.batch_size)
    assert set(ours.keys(True, True)) == set(theirs.keys(True, True))
    for key in ours.keys(True, True):
        mine, other = ours.get(key), theirs.get(key).detach().numpy()
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape), key
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol, err_msg=str(key))


def assert_same(
    got: Any, expected: Any, rtol: float = 0.0, atol: float = 0.0, strict: bool = False, where: str = ""
) -> None:
    """Two trees have the same keys, lengths, shapes, and equal or close values; if `strict`, the same dtypes.

    A tree is an array or an object, or a TensorDict, a dict or an iterable of trees. Batch sizes and names of
    dimensions are the same, too, of each node.
    """
    options: dict[str, Any] = {"rtol": rtol, "atol": atol, "strict": strict}
    if hasattr(expected, "batch_size"):
        assert (got.batch_size, got.names) == (expected.batch_size, expected.names), where
        got, expected = (td.tolist() if is_non_tensor(td) else dict(td.items()) for td in (got, expected))
    if isinstance(expected, dict):
        assert got.keys() == expected.keys(), where
        for key, value in expected.items():
            assert_same(got[key], value, **options, where=f"{where}.{key}")
    elif isinstance(expected, Iterable) and not hasattr(expected, "dtype") and not isinstance(expected, str):
        for i, (one, other) in enumerate(zip(got, expected, strict=True)):
            assert_same(one, other, **options, where=f"{where}[{i}]")
    else:
        assert np.shape(got) == np.shape(expected), where  # NumPy takes a number for an array of it
        if (rtol or atol) and not isinstance(expected, str | None):
            np.testing.assert_allclose(got, expected, rtol, atol, err_msg=where, strict=strict)
        else:
            np.testing.assert_array_equal(got, expected, err_msg=where, strict=strict)
