"""Gradients by the parameters in a TensorDict, and of the results in one."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from lite._arrays.types import ArrayHolder, HostArray
from lite._tree.protocol import Container, T
from lite._tree.walks import leaves


def grad(td: Container) -> Any:
    """The gradients of the parameters among the entries, under the same keys; None if there are none.

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
    """Give the parameters gradients, which are copied where there are some already.

    Raises:
        KeyError: `gradients` lack an entry.
        RuntimeError: an entry is no parameter.
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
    """Forget the gradients of all parameters among the entries; returns self.

    Args:
        set_to_none: False sets them to zeros, in place, where there are any.
    """
    for leaf in leaves(td):
        if isinstance(leaf, ArrayHolder):
            leaf.clear_grad(set_to_none)
    return td


def requires_grad(td: Container) -> bool:
    """Whether gradients by an entry are wanted, or one was computed from such."""
    return any(getattr(leaf, "requires_grad", False) for leaf in leaves(td))


def requires_grad_(td: T, requires_grad: bool = True) -> T:
    """Say whether gradients by the entries, which must be parameters, are wanted; returns self.

    Raises:
        RuntimeError: gradients are wanted by an entry that is no parameter, or not of floats; no flag is set
            then.
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
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of all entries that were computed from parameters to the `grad` of those.

    Args:
        gradient: a TensorDict with what the gradient of each such entry is multiplied by; without one, they
            must be single numbers, and it is 1.
        retain_graph: whether it can be called again.
        create_graph: must be False: there are no gradients of gradients.
        inputs: the parameters that get gradients, in a list or a TensorDict; all if not given.

    Raises:
        RuntimeError: no entry was computed from parameters, or one is no single number.
        TypeError: `gradient` is no TensorDict.
        KeyError: it lacks an entry.
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
                raise RuntimeError(
                    f"the gradient of {key!r} must have shape {leaf.shape}, got {share.shape}."
                )
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
    total.backward(retain_graph=bool(create_graph if retain_graph is None else retain_graph),
                   create_graph=create_graph, inputs=wanted)  # fmt: skip


def _is_result(leaf: Any) -> bool:
    """Whether an entry remembers how it was computed."""
    return isinstance(leaf, HostArray) and getattr(leaf, "requires_grad", False)
