"""TensorDict, modules, RL kernels and ONNX language models on NumPy, without torch."""

from importlib import import_module
from typing import Any

from lite._arrays.dtypes import default_dtype, get_default_dtype, set_default_dtype
from lite._arrays.foreign import from_dlpack
from lite._arrays.public import belong_here as _belong_here
from lite._arrays.settings import (
    capture_non_tensor_stack,
    get_defaults_to_none,
    list_to_stack,
    set_capture_non_tensor_stack,
    set_get_defaults_to_none,
    set_list_to_stack,
)
from lite._ops.combine import (
    cat,
    dense_stack_tds,
    lazy_stack,
    maybe_dense_stack,
    merge_tensordicts,
    pad,
    stack,
    where,
)
from lite._ops.compare import assert_allclose_td, assert_close
from lite._ops.create import empty_like, full_like, ones_like, rand_like, randn_like, zeros_like
from lite._tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase
from lite._tree.collection import default_is_leaf, is_leaf_nontensor, is_non_tensor, is_tensor_collection
from lite._tree.keys import NestedKey, unravel_key, unravel_key_list
from lite._tree.nontensor import MetaData, NonTensorData, NonTensorStack
from lite._tree.unbatched import UnbatchedTensor

__version__ = "0.2.0"

__all__ = [
    "LazyStackedTensorDict", "MemoryMappedTensor", "MetaData", "NestedKey", "NonTensorData", "NonTensorStack",
    "TensorClass", "TensorDict", "TensorDictBase", "TypedTensorDict", "UnbatchedTensor", "assert_allclose_td",
    "assert_close", "capture_non_tensor_stack", "cat", "checkpoint", "custom_vjp", "default_dtype",
    "default_is_leaf", "dense_stack_tds", "empty_like", "enable_grad", "from_any", "from_arrow",
    "from_consolidated", "from_csv", "from_dataclass", "from_dict", "from_dlpack", "from_h5", "from_json",
    "from_module", "from_modules", "from_namedtuple", "from_pandas", "from_parquet", "from_pytree",
    "from_struct_array", "from_torch", "from_tuple", "fromkeys", "full_like", "get_default_dtype",
    "get_defaults_to_none", "get_printoptions", "grad", "hessian", "is_grad_enabled", "is_leaf_nontensor",
    "is_memmap_archive", "is_non_tensor", "is_tensor_collection", "is_tensorclass", "isin", "jacfwd",
    "jacrev", "jit", "lazy_stack", "list_to_stack", "load", "load_memmap", "load_step", "make_tensordict",
    "maybe_dense_stack", "memmap", "merge_tensordicts", "no_grad", "ones_like", "pack_memmap", "pad",
    "pad_sequence", "rand_like", "randn_like", "refresh_archive_checksums", "register_pytree",
    "remove_duplicates", "save", "set_capture_non_tensor_stack", "set_default_dtype",
    "set_get_defaults_to_none", "set_grad_enabled", "set_list_to_stack", "set_printoptions", "stack",
    "tensorclass", "to_arrow", "unpack_memmap", "unravel_key", "unravel_key_list", "value_and_grad", "vjp",
    "vmap", "where", "zeros_like"
]  # fmt: skip

_belong_here(globals())


# What many programs never need: imported when it is first asked for.
_NAMES = {
    "_constructors": (
        "from_any from_csv from_dict from_json from_module from_modules from_namedtuple "
        "from_pandas from_parquet from_pytree from_struct_array from_torch from_tuple fromkeys "
        "make_tensordict"
    ),
    "_convert.pytree": "register_pytree",
    "_files.functions": (
        "from_arrow from_consolidated from_h5 is_memmap_archive load load_memmap memmap "
        "pack_memmap refresh_archive_checksums save to_arrow unpack_memmap"
    ),
    "_files.memory_mapped": "MemoryMappedTensor",
    "_ops.choose": "isin remove_duplicates",
    "_ops.padding": "pad_sequence",
    "_show.options": "get_printoptions set_printoptions",
    "_tensorclass.decorator": "from_dataclass is_tensorclass tensorclass",
    "_tensorclass.tensorclass": "TensorClass",
    "_tensorclass.typed": "TypedTensorDict",
    "_transforms.grad.custom": "checkpoint custom_vjp",
    "_transforms.grad.mode": "enable_grad is_grad_enabled no_grad set_grad_enabled",
    "_transforms.grad.transform": "grad value_and_grad vjp",
    "_transforms.jit.function": "jit",
    "_transforms.jit.saved": "load_step",
    "_transforms.jacobians": "hessian jacfwd jacrev",
    "_transforms.vmap.transform": "vmap",
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}
# So `lite.nn.Linear` needs no import of `lite.nn`, as with torch; it is one when it is asked for.
_PACKAGES = frozenset({"data", "kernels", "models", "nn", "optim"})


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"lite.{name}")
    if name in _PLACES:
        found = globals()[name] = getattr(import_module(f"lite.{_PLACES[name]}"), name)
        return found
    raise AttributeError(f"module 'lite' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
