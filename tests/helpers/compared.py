"""Tests whose body is run with each of two libraries."""

import functools
import inspect
from collections.abc import Callable
from typing import Any


def on_both(compare: Callable[[Callable[[Any], Any]], Any]) -> Callable[[Callable[..., Any]], Any]:
    """A decorator of tests that take a library first.

    Args:
        compare: gets the body as a function of a library, calls it with both and compares what it returns.
    """

    def decorate(test: Callable[..., Any]) -> Any:
        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            compare(lambda lib: test(lib, *args, **kwargs))

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])
        return run

    return decorate
