"""Plain callables on their way into a pickle."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any


class Sendable:
    """A callable in the state of a module; a pickle has the callable itself.

    What `pickle` cannot take (a lambda, a function inside another, an object that holds one) goes by value,
    with cloudpickle, which the receiver needs, too.

    Args:
        function: the callable.
    """

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __reduce__(self) -> Any:
        try:
            pickle.dumps(self.function)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            try:
                from cloudpickle import dumps
            except ImportError:
                raise pickle.PicklingError(
                    f"{self.function!r} cannot be pickled ({error}): define it at the top level of a module, "
                    "or install cloudpickle."
                ) from error
            return pickle.loads, (dumps(self.function),)
        # The function by names of the standard library, so that pickles do not depend on this file.
        return operator.getitem, ((self.function,), 0)

    def __deepcopy__(self, memo: dict[int, Any]) -> Sendable:
        return Sendable(copy.deepcopy(self.function, memo))


def packed(state: dict[str, Any], name: str) -> dict[str, Any]:
    """A module's state with the callable under a name, if there is one, ready for a pickle."""
    return {**state, name: Sendable(state[name])} if state.get(name) is not None else state


def unpacked(state: dict[str, Any], name: str) -> dict[str, Any]:
    """The state as it is, for copies, which are not pickled."""
    held = state.get(name)
    return {**state, name: held.function} if isinstance(held, Sendable) else state
