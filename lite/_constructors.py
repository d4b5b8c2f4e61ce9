"""TensorDict's constructors from other containers, as functions."""

from __future__ import annotations

from lite._tensordict import TensorDict

from_any = TensorDict.from_any
from_dataclass = TensorDict.from_dataclass
from_dict = TensorDict.from_dict
from_namedtuple = TensorDict.from_namedtuple
from_pytree = TensorDict.from_pytree
from_struct_array = TensorDict.from_struct_array
from_torch = TensorDict.from_torch
from_pandas = TensorDict.from_pandas
from_parquet = TensorDict.from_parquet
from_tuple = TensorDict.from_tuple
fromkeys = TensorDict.fromkeys
