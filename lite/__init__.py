"""TensorDict, modules, RL kernels and ONNX language models on NumPy, without torch."""

from lite._base import TensorDictBase
from lite._collection import default_is_leaf, is_leaf_nontensor, is_non_tensor, is_tensor_collection
from lite._combine import (
    cat,
    dense_stack_tds,
    lazy_stack,
    maybe_dense_stack,
    merge_tensordicts,
    stack,
)
from lite._defaults import default_dtype, get_default_dtype, set_default_dtype, set_get_defaults_to_none
from lite._keys import NestedKey, unravel_key, unravel_key_list
from lite._lazy import LazyStackedTensorDict
from lite._nontensor import NonTensorData, NonTensorStack
from lite._tensordict import TensorDict

__all__ = [
    "LazyStackedTensorDict",
    "NestedKey",
    "NonTensorData",
    "NonTensorStack",
    "TensorDict",
    "TensorDictBase",
    "cat",
    "default_dtype",
    "default_is_leaf",
    "dense_stack_tds",
    "get_default_dtype",
    "is_leaf_nontensor",
    "is_non_tensor",
    "is_tensor_collection",
    "lazy_stack",
    "maybe_dense_stack",
    "merge_tensordicts",
    "set_default_dtype",
    "set_get_defaults_to_none",
    "stack",
    "unravel_key",
    "unravel_key_list",
]
