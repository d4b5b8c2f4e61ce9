"""Derivatives that a user writes, and results that are computed anew instead of kept."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import lite._transforms.grad.dispatch  # noqa: F401  # which gives traced arrays their rules
from lite._arrays.public import belong_to
from lite._arrays.types import Array, ArrayHolder, HostArray
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.leaves import Structure
from lite._transforms.grad.mode import Mode, no_grad
from lite._transforms.grad.running import state
from lite._transforms.grad.tape import (
    OUTERMOST,
    Node,
    has_derivative,
    level_of,
    next_number,
    value_of,
    walk,
    with_vjp,
)
from lite._transforms.levels import innermost
from lite._transforms.vmap.array import BatchedArray


class custom_vjp:
    """A function whose derivative is given with it; a decorator.

    Args:
        fn: a function of positional arguments that gives one array.
        nondiff_argnums: which arguments are nothing to differentiate by, such as options. The others are
            arrays or numbers.

    Raises:
        TypeError: at a call that a gradient is computed for, if `defvjp` was not called, or a result is no
            array.

    Source:
        The interface of jax.custom_vjp.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> @lite.custom_vjp
        ... def clipped(x):
        ...     return np.clip(x, -1, 1)
        >>> def forward(x):
        ...     return np.clip(x, -1, 1), x.dtype
        >>> def straight_through(dtype, g):  # as if nothing was clipped
        ...     return (g.astype(dtype),)
        >>> clipped.defvjp(forward, straight_through)
        >>> lite.grad(lambda x: clipped(x).sum())(np.array([0.5, 3.0]))
        array([1., 1.])
    """

    def __init__(self, fn: Callable[..., Any], nondiff_argnums: tuple[int, ...] = ()) -> None:
        self.fn = fn
        self.nondiff_argnums = tuple(nondiff_argnums)
        self._rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        functools.update_wrapper(self, fn)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Give the derivative.

        Args:
            fwd: called with the arguments, as values without derivatives; gives `(out, residuals)`: the
                result, and anything that `bwd` needs.
            bwd: `bwd(*nondiff, residuals, g)` gives a tuple with a share for each argument that is not among
                `nondiff_argnums`, in that one's shape, or None for no share. `g` is the derivative by the
                result.
        """
        self._rules = (fwd, bwd)

    def __call__(self, *args: Any) -> Any:
        for x in args:
            if isinstance(x, HostArray) or (state.leaf is not None and isinstance(x, ArrayHolder)):
                return self._transformed(args)
        return self.fn(*args)

    def _transformed(self, args: tuple[Any, ...]) -> Any:
        inner = innermost(args)
        if inner is None or type(inner) is TracedArray:
            return self._noted(args)
        if type(inner) is BatchedArray and any(type(_behind(x)) is TracedArray for x in args):
            return self._mapped(args, inner.level)
        return self.fn(*args)

    def _noted(self, args: tuple[Any, ...]) -> Array:
        name = getattr(self.fn, "__name__", type(self.fn).__name__)
        fwd, bwd = self._given()
        out, residuals = fwd(*map(value_of, args))
        if not hasattr(out, "dtype"):
            raise TypeError(
                f"the fwd of {name} must give an array and residuals, got a {type(out).__name__}."
            )
        if type(out) is TracedArray:
            raise TypeError(f"the fwd of {name} must compute from its arguments alone.")
        apart = self.nondiff_argnums
        fixed = [value_of(args[i]) for i in apart]
        given = [x for i, x in enumerate(args) if i not in apart]

        def shares(g: Array) -> Any:
            found = bwd(*fixed, residuals, g)
            if not isinstance(found, tuple | list) or len(found) != len(given):
                raise TypeError(f"the bwd of {name} must give a tuple of {len(given)} shares, got {found!r}.")
            return found

        shares.__qualname__ = name
        return with_vjp(out, given, shares)

    def _mapped(self, args: tuple[Any, ...], level: int) -> Array | BatchedArray:
        """The call inside of `vmap`, for arrays that hold traced ones."""
        fwd, bwd = self._given()
        on = [type(x) is BatchedArray and x.level == level for x in args]
        size = next(len(x.value) for x, mapped in zip(args, on, strict=True) if mapped)

        def inside(values: Iterable[Any]) -> list[Any]:
            return [BatchedArray(x, level) if mapped else x for x, mapped in zip(values, on, strict=True)]

        def full(x: Any) -> Array:
            if type(x) is BatchedArray and x.level == level:
                return x.value
            return np.broadcast_to(x, (size, *x.shape))

        def forward(*values: Any) -> tuple[Array, Any]:
            out, residuals = fwd(*inside(values))
            return full(out), residuals

        def backward(*rest: Any) -> Any:
            *fixed, residuals, g = rest
            fixed = [BatchedArray(x, level) if on[i] else x for i, x in zip(apart, fixed, strict=True)]
            shares = bwd(*fixed, residuals, BatchedArray(g, level))
            return tuple(
                None if share is None else full(share) if on[i] else full(share).sum(0)
                for i, share in zip(taken, shares, strict=True)
            )

        apart = self.nondiff_argnums
        taken = [i for i in range(len(args)) if i not in apart]
        below = custom_vjp(self.fn, apart)
        below.defvjp(forward, backward)
        return BatchedArray(
            below(*[x.value if mapped else x for x, mapped in zip(args, on, strict=True)]), level
        )

    def _given(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        if self._rules is None:
            name = getattr(self.fn, "__name__", type(self.fn).__name__)
            raise TypeError(f"{name} has no derivative yet: give it with {name}.defvjp(fwd, bwd).")
        return self._rules


def _behind(x: Any) -> Any:
    """The traced array that arrays of `vmap` hold, if there is one."""
    while isinstance(x, HostArray) and type(x) is not TracedArray and hasattr(x, "value"):
        x = x.value
    return x


def checkpoint(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is computed again on the way back, instead of keeping what its derivative needs.

    In between only its arguments and results are kept. A step takes the time of `fn` once more.

    Args:
        fn: a function of arrays and structures of them, as for `value_and_grad`, which gives arrays, too. It
            must give the same when it is called again: random numbers are arguments, not drawn inside.

    Returns:
        A function with the arguments and results of `fn`.

    Source:
        The interface of jax.checkpoint.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> @lite.checkpoint
        ... def block(x, weight):
        ...     return np.tanh(x @ weight)
        >>> weight = np.eye(2) / 2
        >>> lite.grad(lambda w: block(block(np.ones((3, 2)), w), w).sum())(weight).round(3)
        array([[2.434, 2.434],
               [2.434, 2.434]])
    """

    @functools.wraps(fn, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        given = Structure((args, kwargs))
        leaves = given.leaves()
        level, make = level_of(leaves), state.leaf
        inner = innermost(leaves)
        if inner is not None and type(inner) is not TracedArray:  # inside of vmap nothing is saved
            return fn(*args, **kwargs)
        if level is None:
            if make is state.base:
                return fn(*args, **kwargs)
            level = OUTERMOST  # for parameters that `fn` takes from elsewhere

        def call(nodes: list[Any]) -> Structure:
            queue = iter(zip(leaves, nodes, strict=True))

            def entry(_: Any) -> Any:
                leaf, node = next(queue)
                return TracedArray(leaf.value, node, level) if type(leaf) is TracedArray else leaf

            again, options = given.map(entry)
            return Structure(fn(*again, **options))

        with no_grad():
            out = call([None] * len(leaves))
        plain = [value_of(leaf) for leaf in out.leaves()]
        noted = [value for value in plain if hasattr(value, "dtype") and has_derivative(value)]
        if not noted:
            return out.map(value_of)
        ends = [0, *itertools.accumulate(value.size for value in noted)]

        def pairs(g: Array) -> Iterator[tuple[Any, Any]]:
            nodes = [Node((), None, leaf.value) if type(leaf) is TracedArray else None for leaf in leaves]
            first = next_number()
            with Mode(make, False):
                found = [leaf for leaf in call(nodes).leaves() if type(leaf) is TracedArray]
            shares = walk(
                [
                    (leaf.node, g[start : start + leaf.size].reshape(leaf.shape))
                    for leaf, start in zip(found, ends, strict=False)
                    if leaf.node is not None
                ],
                since=first,
            )
            for leaf, node in zip(leaves, nodes, strict=True):
                if node is not None:
                    yield leaf.node, shares.pop(node, None)
            for end, share in shares.items():
                yield end if type(end) is Node else Node((), None, share, end), share

        flat = np.concatenate([value.reshape(-1) for value in noted])
        whole = TracedArray(flat, Node([], pairs, flat), level)
        starts = iter(ends)

        def result(leaf: object) -> Any:
            value = value_of(leaf)
            if not hasattr(value, "dtype") or not has_derivative(value):
                return value
            start = next(starts)
            return whole[start : start + value.size].reshape(value.shape).astype(value.dtype, copy=False)

        return out.map(result)

    return run


belong_to("lite", custom_vjp)
