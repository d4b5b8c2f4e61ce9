"""TensorDict's constructors from other containers and from modules, as functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lite._tensordict import TensorDict

from_any = TensorDict.from_any
from_csv = TensorDict.from_csv
from_dict = TensorDict.from_dict
from_json = TensorDict.from_json
from_modules = TensorDict.from_modules
from_namedtuple = TensorDict.from_namedtuple
from_pytree = TensorDict.from_pytree
from_struct_array = TensorDict.from_struct_array
from_torch = TensorDict.from_torch
from_pandas = TensorDict.from_pandas
from_parquet = TensorDict.from_parquet
from_tuple = TensorDict.from_tuple
fromkeys = TensorDict.fromkeys


def make_tensordict(
    input_dict: Mapping[Any, Any] | None = None,
    batch_size: Any = None,
    device: Any = None,
    auto_batch_size: bool | None = None,
    **kwargs: Any,
) -> Any:
    """A TensorDict from a mapping or TensorDict, and from keyword arguments; see `TensorDict.from_dict`.

    Where both have a key, the mapping gives the value.

    Example:
        >>> import numpy as np
        >>> from lite import make_tensordict
        >>> make_tensordict(a=np.zeros((3, 2)), b=np.ones(3), auto_batch_size=True).batch_size
        (3,)
    """
    return TensorDict.from_dict(
        {**kwargs, **({} if input_dict is None else input_dict)},
        auto_batch_size=auto_batch_size,
        batch_size=batch_size,
        device=device,
    )


def from_module(module: Any, as_module: bool = False, lock: bool = True, use_state_dict: bool = False) -> Any:
    """The parameters and buffers of a module; `TensorDict.from_module`, locked by default.

    Example:
        >>> from lite import from_module, nn
        >>> from_module(nn.Linear(2, 3)).is_locked
        True
    """
    return TensorDict.from_module(module, as_module, lock, use_state_dict)
