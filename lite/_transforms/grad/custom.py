"""Derivatives that a user writes, and results that are computed anew instead of kept."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lite._arrays.types import ArrayHolder
from lite._transforms.grad.running import leaf
from lite._transforms.grad.tape import is_traced, record_joint, value_of, values_of


class custom_vjp:
    """A function whose derivative the user gives.

    Args:
        fn: a function of arrays that returns one array.
        nondiff_argnums: positions of arguments that are no arrays to differentiate by.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> @lite.custom_vjp
        ... def clipped(x):
        ...     return np.clip(x, -1, 1)
        >>> clipped.defvjp(lambda x: (np.clip(x, -1, 1), None), lambda residuals, g: (g,))
        >>> lite.grad(lambda x: clipped(x).sum())(np.array([0.5, 3.0]))
        array([1., 1.])

    Source:
        The interface of jax.custom_vjp.
    """

    def __init__(self, fn: Callable[..., Any], nondiff_argnums: tuple[int, ...] = ()) -> None:
        self.fn = fn
        self.nondiff_argnums = nondiff_argnums
        self._fwd: Callable[..., Any] | None = None
        self._bwd: Callable[..., Any] | None = None
        functools.update_wrapper(self, fn)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Give the derivative.

        Args:
            fwd: with the arguments of the function, without derivatives; gives `(out, residuals)`.
            bwd: `bwd(*nondiff, residuals, g)` gives a tuple with a share for each argument that is not among
                `nondiff_argnums`, in its shape; None for no share.
        """
        self._fwd, self._bwd = fwd, bwd

    def __call__(self, *args: Any) -> Any:
        for x in args:
            if is_traced(x) or (isinstance(x, ArrayHolder) and is_traced(leaf(x))):
                return self._traced(args)
        return self.fn(*args)

    def _traced(self, args: tuple[Any, ...]) -> Any:
        fwd, bwd = self._fwd, self._bwd
        if fwd is None or bwd is None:
            raise TypeError(
                f"the derivative of {getattr(self.fn, '__name__', self.fn)} is missing: call defvjp."
            )
        out, residuals = fwd(*map(value_of, args))
        apart = self.nondiff_argnums
        fixed = [values_of(args[i]) for i in apart]
        given = [x for i, x in enumerate(args) if i not in apart] if apart else args
        return record_joint(out, given, lambda g: bwd(*fixed, residuals, g))
