"""Methods of tensordict that lite omits on purpose: each raises, and the error names the replacement."""

from __future__ import annotations

from typing import Any, NoReturn

_PROCESSES = "lite has no distributed backend; send the pickled TensorDict, or share files with memmap"
_QUANTISED = "NumPy has no such dtype; cast with to(dtype)"
_PINNED = "NumPy arrays cannot be pinned; use to('cuda') to move them"
_STORE = "use memmap, save, or to_h5"

_SENDING = """
    all_gather all_reduce arecv asend broadcast from_remote_init gather_and_stack init_remote irecv isend recv
    reduce scatter send
"""
_INSTEAD: dict[str, str] = {
    **dict.fromkeys(_SENDING.split(), _PROCESSES),
    **dict.fromkeys(("complex32", "qint32", "qint8", "quint4x2", "quint8"), _QUANTISED),
    **dict.fromkeys(("pin_memory", "pin_memory_", "record_stream"), _PINNED),
    **dict.fromkeys(("from_zarr", "to_mds", "to_store", "to_zarr"), _STORE),
    "attrs": "to(other=td) takes the dtype and device of another TensorDict",
    "get_nestedtensor": "get(key, as_list=True) and get(key, as_padded_tensor=True) give ragged entries",
    "clear_refs_for_compile_": "there is no compiler to prepare for",
    "make_memmap_from_storage": "use make_memmap_from_tensor",
}


def _refusing(name: str, instead: str) -> Any:
    def method(self: Any, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(f"{name} is not available: {instead}.")

    method.__name__ = name
    method.__qualname__ = f"TensorDictBase.{name}"
    method.__doc__ = f"Raises NotImplementedError: {instead}."
    return method


def refusals() -> dict[str, Any]:
    """Every name, with a method that raises."""
    return {name: _refusing(name, instead) for name, instead in _INSTEAD.items()}
