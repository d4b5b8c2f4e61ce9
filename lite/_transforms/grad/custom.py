"""`custom_vjp`: derivatives written by the user. `checkpoint`: results that are computed again, not kept."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

import lite._transforms.grad.ufuncs  # noqa: F401  # which gives traced arrays their rules
from lite._arrays.public import belong_to
from lite._arrays.types import Array, ArrayHolder, HostArray
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.leaves import Structure
from lite._transforms.grad.mode import Mode, differentiated, no_grad
from lite._transforms.grad.running import nestings, state
from lite._transforms.grad.tape import (
    OUTERMOST,
    Node,
    has_derivative,
    level_of,
    lifted,
    next_number,
    value_of,
    walk,
    with_vjp,
)
from lite._transforms.levels import innermost
from lite._transforms.vmap.array import BatchedArray


class custom_vjp:
    """A function with a derivative of the user's; a decorator.

    Args:
        fn: a function of positional arguments that returns one array.
        nondiff_argnums: indices of arguments without a derivative, such as options. The others are arrays or
            numbers.

    Raises:
        TypeError: a call under a gradient before `defvjp`, or a result that is not an array.

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
        """Set the derivative.

        Args:
            fwd: called with the arguments, as values without derivatives; returns `(out, residuals)`: the
                result, and anything that `bwd` needs.
            bwd: `bwd(*nondiff, residuals, g)` returns a tuple with the derivative by each argument that is
                not in `nondiff_argnums`, in the argument's shape, or None for zeros. `g` is the derivative by
                the result.
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
            return self._traced(args)
        if type(inner) is BatchedArray and any(type(_behind(x)) is TracedArray for x in args):
            return self._mapped(args, inner.level)
        return self.fn(*args)

    def _traced(self, args: tuple[Any, ...]) -> Array:
        name = getattr(self.fn, "__name__", type(self.fn).__name__)
        fwd, bwd = self._require_rules()
        level = level_of(args)
        if nestings[0] and level is not None:
            level = innermost(args).level
            args = lifted(args, level)
        out, residuals = fwd(*map(value_of, args))
        if not hasattr(out, "dtype"):
            raise TypeError(
                f"the fwd of {name} must give an array and residuals, got a {type(out).__name__}."
            )
        if type(out) is TracedArray and (level is None or out.level >= level):
            raise TypeError(f"the fwd of {name} must compute from its arguments alone.")
        fixed = [value_of(args[i]) for i in self.nondiff_argnums]
        parents = [x for i, x in enumerate(args) if i not in self.nondiff_argnums]

        def vjp(g: Array) -> Any:
            shares = bwd(*fixed, residuals, g)
            if not isinstance(shares, tuple | list) or len(shares) != len(parents):
                raise TypeError(
                    f"the bwd of {name} must give a tuple of {len(parents)} shares, got {shares!r}."
                )
            return shares

        vjp.__qualname__ = name
        return with_vjp(out, parents, vjp)

    def _mapped(self, args: tuple[Any, ...], level: int) -> Array | BatchedArray:
        """The call inside of `vmap`, for arrays that hold traced ones."""
        fwd, bwd = self._require_rules()
        on = [type(x) is BatchedArray and x.level == level for x in args]
        size = next(len(x.value) for x, mapped in zip(args, on, strict=True) if mapped)
        nondiff = self.nondiff_argnums
        diff = [i for i in range(len(args)) if i not in nondiff]

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
            fixed = [BatchedArray(x, level) if on[i] else x for i, x in zip(nondiff, fixed, strict=True)]
            shares = bwd(*fixed, residuals, BatchedArray(g, level))
            return tuple(
                None if share is None else full(share) if on[i] else full(share).sum(0)
                for i, share in zip(diff, shares, strict=True)
            )

        inner = custom_vjp(self.fn, nondiff)
        inner.defvjp(forward, backward)
        return BatchedArray(
            inner(*[x.value if mapped else x for x, mapped in zip(args, on, strict=True)]), level
        )

    def _require_rules(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        if self._rules is None:
            name = getattr(self.fn, "__name__", type(self.fn).__name__)
            raise TypeError(f"{name} has no derivative yet: give it with {name}.defvjp(fwd, bwd).")
        return self._rules


def _behind(x: Any) -> Any:
    """The traced array inside arrays of `vmap`, or the innermost value."""
    while isinstance(x, HostArray) and type(x) is not TracedArray and hasattr(x, "value"):
        x = x.value
    return x


def checkpoint(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is computed again in the backward pass, so that its intermediate results are not kept.

    Only its arguments and results are kept. A step takes the time of `fn` once more.

    Args:
        fn: a function from arrays and structures of them, as for `value_and_grad`, to such. A second call
            must give the same results: random numbers must be arguments, not drawn inside.

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
        if inner is not None and type(inner) is not TracedArray:  # inside of vmap nothing is recorded
            return fn(*args, **kwargs)
        if nestings[0]:  # an outer gradient goes through the intermediate results, too
            return fn(*args, **kwargs)
        if level is None:
            if make is state.base:
                return fn(*args, **kwargs)
            level = OUTERMOST  # for parameters that `fn` reads from its closure

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
        floats = list(filter(_is_continuous, plain))
        if not floats:
            return out.map(value_of)
        ends = [0, *itertools.accumulate(value.size for value in floats)]

        def pairs(g: Array) -> Iterator[tuple[Any, Any]]:
            nodes = [Node((), None, leaf.value) if type(leaf) is TracedArray else None for leaf in leaves]
            first = next_number()
            # The gradient of this level computes again, so gradients inside of `fn` find it running.
            with Mode(make, False), nullcontext() if level == OUTERMOST else differentiated(level):
                found = list(filter(_is_continuous, call(nodes).leaves()))
            shares = walk(
                [
                    (leaf.node, g[start : start + leaf.size].reshape(leaf.shape))
                    for leaf, start in zip(found, ends, strict=False)
                    if type(leaf) is TracedArray and leaf.node is not None  # others are constants
                ],
                since=first,
            )
            for leaf, node in zip(leaves, nodes, strict=True):
                if node is not None:
                    yield leaf.node, shares.pop(node, None)
            for end, share in shares.items():
                yield end if type(end) is Node else Node((), None, share, end), share

        flat = np.concatenate([value.reshape(-1) for value in floats])
        whole = TracedArray(flat, Node([], pairs, flat), level)
        starts = iter(ends)

        def result(leaf: object) -> Any:
            value = value_of(leaf)
            if not _is_continuous(value):
                return value
            start = next(starts)
            return whole[start : start + value.size].reshape(value.shape).astype(value.dtype, copy=False)

        return out.map(result)

    return run


def _is_continuous(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and has_derivative(leaf)


belong_to("lite", custom_vjp)
