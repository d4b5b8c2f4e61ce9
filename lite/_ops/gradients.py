"""Gradients of the Parameters in a TensorDict, and the backward pass from results in one."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from lite._arrays.types import ArrayHolder, HostArray
from lite._tree.protocol import Container, T
from lite._tree.walks import leaves


def grad(td: Container) -> Any:
    """The gradients of all Parameters, under the same keys; None if there are none.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> from lite import TensorDict, nn
        >>> params = TensorDict(a=nn.Parameter(np.ones(2, np.float32)))
        >>> with lite.enable_grad():
        ...     (params["a"] * 3).sum().backward()
        >>> params.grad["a"]
        array([3., 3.], dtype=float32)
    """
    return td.apply(lambda leaf: getattr(leaf, "grad", None), filter_empty=True, propagate_lock=True)


def set_grad(td: Container, gradients: Any) -> None:
    """Set the gradients of Parameters; existing gradients are written in place.

    Raises:
        KeyError: `gradients` lacks an entry.
        RuntimeError: an entry is not a Parameter.
    """
    found = []
    for key, leaf in td.items(True, True):
        if not isinstance(leaf, ArrayHolder):
            raise RuntimeError(f"only Parameters have gradients, got an array for {key!r}.")
        found.append((leaf, gradients[key]))
    for leaf, value in found:
        if leaf.grad is None:  # type: ignore[attr-defined]
            leaf.grad = value  # type: ignore[attr-defined]
        else:
            leaf.grad[...] = value  # type: ignore[attr-defined]


def zero_grad(td: T, set_to_none: bool = True) -> T:
    """Remove the gradients of all Parameters; returns self.

    Args:
        set_to_none: False sets existing gradients to zeros in place instead.
    """
    for leaf in leaves(td):
        if isinstance(leaf, ArrayHolder):
            leaf.clear_grad(set_to_none)
    return td


def requires_grad(td: Container) -> bool:
    """Whether an entry requires gradients or was computed from one that does."""
    return any(getattr(leaf, "requires_grad", False) for leaf in leaves(td))


def requires_grad_(td: T, requires_grad: bool = True) -> T:
    """Set `requires_grad` of all entries, which must be Parameters; returns self.

    Raises:
        RuntimeError: an entry is not a Parameter of floats. No flag is set then.
    """
    found = list(leaves(td))
    for leaf in found:
        if requires_grad and not isinstance(leaf, ArrayHolder):
            raise RuntimeError(
                "only Parameters require gradients, got an array; nn.TensorDictParams(td) makes Parameters "
                "of the entries."
            )
    holders = [leaf for leaf in found if isinstance(leaf, ArrayHolder)]
    before = [leaf.requires_grad for leaf in holders]  # type: ignore[attr-defined]
    try:
        for leaf in holders:
            leaf.requires_grad_(requires_grad)  # type: ignore[attr-defined]
    except RuntimeError:
        for leaf, flag in zip(holders, before, strict=True):
            leaf.requires_grad = flag  # type: ignore[attr-defined]
        raise
    return td


def backward(
    td: Container,
    gradient: object = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: object = None,
) -> None:
    """Run the backward pass from all traced entries, and add the gradients to `grad` of the Parameters.

    Args:
        gradient: a TensorDict with the gradient of each traced entry; by default 1 for entries of one
            element.
        retain_graph: whether `backward` can be called again.
        create_graph: must be False: `lite.grad` has gradients of gradients.
        inputs: the Parameters that get gradients, in a list or a TensorDict; all if not given.

    Raises:
        RuntimeError: no entry was computed from Parameters, or one needs a `gradient`.
        TypeError: `gradient` is not a TensorDict.
        KeyError: `gradient` lacks an entry.
        NotImplementedError: `create_graph`.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> from lite import TensorDict, nn
        >>> x = nn.Parameter(np.array([1.0, 2.0, 3.0]))
        >>> with lite.enable_grad():
        ...     losses = TensorDict(actor=x.sum(), critic=(x * x).sum())
        >>> losses.backward()
        >>> x.grad
        array([3., 5., 7.])

    Source:
        tensordict.TensorDictBase.backward.
    """
    ends = [(key, leaf) for key, leaf in td.items(True, True) if _is_result(leaf)]
    if not ends:
        raise RuntimeError(
            "backward() needs an entry that was computed from parameters that require gradients, inside "
            "`with lite.enable_grad():`; got none."
        )
    if gradient is not None and not isinstance(gradient, Container):
        raise TypeError(f"gradient must be a TensorDict, got {type(gradient).__name__}.")
    parts = []
    for key, leaf in ends:
        if gradient is not None:
            share = gradient.get(key, None)
            if share is None:
                raise KeyError(f"gradient has no entry for {key!r}.")
            if share.shape != leaf.shape:
                raise RuntimeError(f"gradient of {key!r} must have shape {leaf.shape}, got {share.shape}.")
            parts.append((leaf * share).sum())
        elif leaf.size != 1:
            raise RuntimeError(
                f"backward() without a gradient needs single numbers, got the shape {leaf.shape} for {key!r}."
            )
        else:
            parts.append(leaf.sum())
    wanted = inputs
    if isinstance(inputs, Container):
        wanted = list(leaves(inputs))
    total = functools.reduce(np.add, parts)
    total.backward(
        retain_graph=bool(create_graph if retain_graph is None else retain_graph),
        create_graph=create_graph,
        inputs=wanted,
    )


def _is_result(leaf: object) -> bool:
    """Whether an entry is a traced result."""
    return isinstance(leaf, HostArray) and getattr(leaf, "requires_grad", False)
