"""Tests whose body is run with each of two libraries, and entries of both."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np


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
