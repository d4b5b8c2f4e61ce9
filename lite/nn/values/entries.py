"""Checks of the TensorDicts that modules read, and arrays without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorDictBase
from lite._arrays.namespace import as_constant
from lite._arrays.types import ArrayHolder, HostArray, Path, has_namespace, is_interpreted, raw, stored
from lite._tree.collection import TensorCollection
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn._parameters.from_module import from_module


def detached(value: Any) -> Any:
    """An array, a Parameter, or a TensorDict of them without gradients, over the same memory."""
    if isinstance(value, TensorCollection):
        data: Any = value
        return data.data.apply(detached, filter_empty=False)
    array: Any = value.data if isinstance(value, ArrayHolder) else value
    if has_namespace(array):
        return as_constant(array)
    if type(array) is np.ndarray or not isinstance(array, HostArray):
        return array
    return array.detach()


@contextmanager
def hold_out_net(network: Module) -> Iterator[None]:
    """A context in which a network's parameters are constants: only its inputs get derivatives.

    A graph of `lite.jit` reads the parameters at each call, as it does for any network.

    Example:
        >>> import numpy as np
        >>> from lite import enable_grad, nn
        >>> from lite.nn.losses import hold_out_net
        >>> model, value = nn.Linear(3, 2), nn.Linear(2, 1)
        >>> with enable_grad(), hold_out_net(value):
        ...     imagined = value(model(np.ones((4, 3), np.float32))).mean()
        >>> imagined.backward()
        >>> model.weight.grad is None, value.weight.grad is None
        (False, True)

    Source:
        torchrl.objectives.hold_out_net.
    """
    leaves = from_module(network)
    arrays = list(leaves.values(True, True))
    learn = [x for x in arrays if isinstance(x, Parameter) and x.requires_grad]
    for parameter in learn:
        parameter.requires_grad = False
    try:
        if any(is_differentiated(raw(x)) for x in arrays):  # what to_module put there
            leaves = leaves.apply(lambda x: detached(x).copy() if is_differentiated(raw(x)) else x)
            with leaves.to_module(network):
                yield
        else:
            yield
    finally:
        for parameter in learn:
            parameter.requires_grad = True


def require_tensordict(tensordict: Any, reader: str) -> None:
    """Raise TypeError unless `tensordict` is a TensorDict."""
    if not isinstance(tensordict, TensorDictBase):
        raise TypeError(f"{reader} needs a TensorDict, got {type(tensordict).__name__}.")


def require_keys(network: Any, reader: object) -> None:
    """Raise TypeError unless a network has `in_keys`."""
    if not hasattr(network, "in_keys"):
        raise TypeError(
            f"{type(reader).__name__} needs networks that read entries: "
            "TensorDictModule(network, in_keys, out_keys), or Actor and ValueOperator, which have keys by "
            f"default; got {type(network).__name__}."
        )


def require_time(tensordict: Any, reader: str) -> None:
    """Raise unless `tensordict` is a TensorDict with a batch dimension, the last of which is time."""
    require_tensordict(tensordict, reader)
    if not tensordict.ndim:
        raise ValueError(f"{reader} needs a TensorDict with a time dimension, got batch_size=().")


def is_differentiated(entry: Any) -> bool:
    """Whether a gradient is computed for an array."""
    return is_interpreted(entry) and type(stored(entry)) is not type(entry)


def require_array(td: TensorDictBase, path: Path, reader: str, differentiated: bool = False) -> NDArray[Any]:
    """The array at `path`; KeyError where there is no entry, TypeError where it is not an array.

    An array that a gradient is computed for is accepted only with `differentiated`.
    """
    entry = td.get(path, None)
    if entry is None:
        key = path if len(path) > 1 else path[0]
        raise KeyError(f"{reader} reads the entry {key!r}, which the TensorDict lacks.")
    if not isinstance(entry, np.ndarray) and (
        not is_interpreted(entry) or (is_differentiated(entry) and not differentiated)
    ):
        help = ""
        if has_namespace(entry):
            help = "; it computes with NumPy, outside of jax.jit and jax.grad: td.to('cpu'), or np.asarray(x)"
        elif isinstance(stored(entry), np.ndarray):
            help = "; td.detach() has its values"
        raise TypeError(f"{reader} reads the entry {path} as an array, got {type(entry).__name__}{help}.")
    return entry
