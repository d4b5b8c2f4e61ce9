"""Gradient clipping, of Parameters in place or of a TensorDict of gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from lite import TensorDict
from lite._arrays.dtypes import compute_dtype, is_floating
from lite._arrays.foreign import class_name
from lite._arrays.types import Array, as_array, is_interpreted, raw
from lite._tree.walks import leaves
from lite.nn._modules.parameter import Parameter
from lite.nn._parameters.tree import map_floats, tree_of

_SMALL = 1 << 14  # elements of a gradient whose copy costs less than the operators of a norm of its own


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Array:
    """Scale gradients in place so that their norm, as of one vector, is at most `max_norm`.

    Args:
        parameters: Parameters or one, whose `grad` is scaled if there is one; or a TensorDict of gradients.
        max_norm: the largest norm that is left as it is.
        norm_type: p of the p-norm; `math.inf` for the largest absolute value.
        error_if_nonfinite: raise if the norm is NaN or infinite; otherwise all gradients become NaN or 0.
        foreach: taken as torch does, and ignored.

    Returns:
        The norm before, an array without dimensions.

    Raises:
        RuntimeError: a norm that is not finite, if asked for; nothing has changed then.
        TypeError: neither Parameters nor a TensorDict.

    Source:
        torch.nn.utils.clip_grad_norm_; Pascanu et al. (2013), On the difficulty of training recurrent neural
        networks.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, optim
        >>> grads = TensorDict(a=np.array([3.0]), b=np.array([4.0]))
        >>> float(optim.clip_grad_norm_(grads, 1.0)), grads["b"].round(3)
        (5.0, array([0.8]))
    """
    arrays = list(_gradients(parameters))
    norm = _norm(arrays, norm_type, error_if_nonfinite)
    share = _share(norm, max_norm)
    with np.errstate(invalid="ignore"):  # a norm that is not finite makes NaN of numbers, as documented
        for array in arrays:
            np.multiply(array, share.astype(array.dtype), out=array)
    return norm


def clip_grad_norm(
    grads: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> tuple[Any, Array]:
    """Gradients scaled so that their norm is at most `max_norm`, and the norm before.

    Args: those of `clip_grad_norm_`; `grads` is a TensorDict, which is only read.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, optim
        >>> grads, norm = optim.clip_grad_norm(TensorDict(a=np.array([3.0, 4.0])), 10.0)
        >>> grads["a"], float(norm)
        (array([3., 4.]), 5.0)
    """
    norm = _norm(list(_gradients(tree_of(grads, "grads"))), norm_type, error_if_nonfinite)
    share = _share(norm, max_norm)
    with np.errstate(invalid="ignore"):
        return map_floats(grads, lambda array: array * share.astype(array.dtype)), norm


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Clip every number of gradients to [-clip_value, clip_value], in place. See `clip_grad_norm_`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, optim
        >>> grads = TensorDict(a=np.array([3.0, -0.5, -4.0]))
        >>> optim.clip_grad_value_(grads, 1.0)
        >>> grads["a"]
        array([ 1. , -0.5, -1. ])
    """
    for array in list(_gradients(parameters)):
        np.clip(array, -float(clip_value), float(clip_value), out=array)


def clip_grad_value(grads: Any, clip_value: float) -> Any:
    """A TensorDict of gradients with every number clipped to [-clip_value, clip_value]; `grads` is only read.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, optim
        >>> optim.clip_grad_value(TensorDict(a=np.array([3.0, -0.5])), 1.0)["a"]
        array([ 1. , -0.5])
    """
    value = float(clip_value)
    return map_floats(grads, lambda array: np.clip(array, -value, value))


def _gradients(parameters: Any) -> Iterator[Array]:
    """The arrays of all gradients that are not None."""
    node = TensorDict._as_node(parameters)
    if node is not None and not any(isinstance(leaf, Parameter) for leaf in leaves(node)):
        for leaf in leaves(node):
            if is_floating(leaf.dtype):
                yield raw(leaf)
        return
    given: Iterable[Any] = leaves(node) if node is not None else parameters
    for param in [given] if isinstance(given, Parameter) or not isinstance(given, Iterable) else given:
        if not isinstance(param, Parameter):
            raise TypeError(
                f"parameters must be Parameters or a TensorDict of gradients, got {class_name(param)}."
            )
        if isinstance(param.grad, np.generic):  # arithmetic makes it of an array without dimensions
            param.grad = np.asarray(param.grad)
        if param.grad is not None:
            yield raw(param.grad)


def _norm(arrays: Sequence[Array], norm_type: float, error_if_nonfinite: bool) -> Array:
    """The norm of all numbers as of one vector, in at least float32, of the first array's dtype."""
    order = float(norm_type)
    if arrays and is_interpreted(arrays[0]):
        return _interpreted_norm(arrays, order, error_if_nonfinite)
    with np.errstate(all="ignore"):
        norms = [
            float(np.linalg.norm(array.reshape(-1).astype(compute_dtype(array.dtype)[0], copy=False), order))
            if array.size
            else 0.0
            for array in arrays
        ]
        total = float(np.linalg.norm(norms, order)) if norms else 0.0
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"the norm of the gradients is {total}, so they cannot be clipped; error_if_nonfinite=False "
            f"scales them by it."
        )
    with np.errstate(over="ignore"):
        return np.array(total, arrays[0].dtype if arrays else np.float32)


def _interpreted_norm(arrays: Sequence[Array], order: float, error_if_nonfinite: bool) -> Array:
    if error_if_nonfinite:
        raise NotImplementedError(
            "error_if_nonfinite=True: a graph and vmap raise no errors; return the norm and look at it."
        )
    small: dict[Any, list[Array]] = {}
    parts: list[Array] = []
    for x in arrays:
        flat = x.reshape(-1).astype(compute_dtype(x.dtype)[0], copy=False)
        (small.setdefault(flat.dtype, []) if x.size <= _SMALL else parts).append(flat)
    parts += [np.concatenate(one) for one in small.values()]
    norms = [np.linalg.norm(part, order).astype(np.float64) for part in parts]
    total: Any = norms[0] if len(norms) == 1 else np.linalg.norm(np.stack(norms), order)
    return total.astype(arrays[0].dtype)


def _share(norm: Array, max_norm: float) -> Array:
    """The factor of the gradients."""
    with np.errstate(all="ignore"):
        share: Array = np.minimum(max_norm / (norm.astype(compute_dtype(norm.dtype)[0]) + 1e-6), 1.0)
    return as_array(share)
