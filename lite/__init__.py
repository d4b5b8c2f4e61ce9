"""TensorDict, modules, RL kernels and ONNX language models on NumPy, without torch."""

from lite import _tensordict as _tensordict  # which registers what makes TensorDicts
from lite._arrays.public import import_on_first_use as _import_on_first_use

__version__ = "0.2.0"

# The public names by what defines them: what many programs never need is imported when it is first asked for.
_NAMES = {
    "_arrays.dtypes": "default_dtype get_default_dtype set_default_dtype",
    "_arrays.foreign": "from_dlpack",
    "_arrays.settings": (
        "capture_non_tensor_stack get_defaults_to_none list_to_stack set_capture_non_tensor_stack "
        "set_get_defaults_to_none set_list_to_stack"
    ),
    "_constructors": (
        "from_any from_csv from_dict from_json from_module from_modules from_namedtuple "
        "from_pandas from_parquet from_pytree from_struct_array from_torch from_tuple fromkeys "
        "make_tensordict"
    ),
    "_convert.pytree": "register_pytree",
    "_files.functions": (
        "from_arrow from_consolidated from_h5 from_safetensors is_memmap_archive load load_memmap memmap "
        "pack_memmap refresh_archive_checksums save to_arrow to_safetensors unpack_memmap"
    ),
    "_files.memory_mapped": "MemoryMappedTensor",
    "_ops.cast": "is_bool is_floating is_inexact is_integer",
    "_ops.choose": "group_by isin remove_duplicates",
    "_ops.combine": "cat dense_stack_tds lazy_stack maybe_dense_stack merge_tensordicts pad stack where",
    "_ops.compare": "assert_allclose_td assert_close",
    "_ops.create": "empty_like full_like ones_like rand_like randn_like zeros_like",
    "_ops.pack": "PackLayout",
    "_ops.padding": "collate pad_sequence unpad_sequence",
    "_show.options": "get_printoptions set_printoptions",
    "_tensorclass.decorator": "from_dataclass is_tensorclass tensorclass",
    "_tensorclass.tensorclass": "TensorClass",
    "_tensorclass.typed": "TypedTensorDict",
    "_tensordict": "LazyStackedTensorDict TensorDict TensorDictBase",
    "_transforms.grad.custom": "checkpoint custom_vjp",
    "_transforms.grad.mode": "enable_grad is_grad_enabled no_grad set_grad_enabled",
    "_transforms.grad.transform": "grad value_and_grad vjp",
    "_transforms.jit.function": "jit",
    "_transforms.jit.saved": "load_step",
    "_transforms.jacobians": "hessian jacfwd jacrev",
    "_transforms.vmap.transform": "vmap",
    "_tree.collection": (
        "TensorCollection default_is_leaf is_leaf_nontensor is_non_tensor is_tensor_collection"
    ),
    "_tree.keys": "KEY_SEPARATOR NestedKey unravel_key unravel_key_list unravel_key_to_tuple",
    "_tree.nontensor": "MetaData NonTensorData NonTensorStack",
    "_tree.unbatched": "UnbatchedTensor",
}
# So `lite.nn.Linear` needs no import of `lite.nn`, as with torch; it is one when it is asked for.
_PACKAGES = {name: name for name in ("data", "envs", "kernels", "models", "nn", "optim")}

__all__, _get, __dir__ = _import_on_first_use(globals(), _NAMES, _PACKAGES)


def __getattr__(name: str) -> object:
    if name == "manual_seed":
        raise AttributeError(
            "module 'lite' has no attribute 'manual_seed': give a seed to what draws, as rng=0 to a layer, "
            "generator=0 to a buffer, a sampler or a policy, seed=0 to a Collector, and env.set_seed(0)"
        )
    return _get(name)
