"""What both libraries keep in files, in a form that compares."""

import re
from typing import Any

import numpy as np
import tensordict
import torch

import lite

INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
DTYPES = ["bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128"]
ODD_KEYS = [
    "", ".", "..", "a/b", "a b", "%", "%41", "a.memmap", "meta.json", "é", "日本", "xy:z", "\n",
    "\x7f", "a\\b", "names", "data", "type", "_lite", "0", "_tensordict", "C:x", "COMMIT", "a" * 80,
]  # fmt: skip


_OF_15 = re.compile(rb',\s*"(?:_format_version|_class|stack_dim_name)":\s*(?:1|null|"[^"]*")')


def without_version(content: bytes) -> bytes:
    """A `meta.json` without the members that tensordict adds as of 0.15, which lite reads without them."""
    return _OF_15.sub(b"", content)


def tensor(array: np.ndarray[Any, Any]) -> Any:
    return torch.from_numpy(array.copy())


def bits(value: Any) -> Any:
    if hasattr(value, "numpy"):
        if value.dtype == torch.bfloat16:
            return "bfloat16", tuple(value.shape), value.contiguous().view(torch.uint16).numpy().tobytes()
        value = value.contiguous().numpy()
    return str(value.dtype), value.shape, value.tobytes()


def plain(td: Any) -> Any:
    """Everything that a file keeps in both libraries."""
    if lite.is_non_tensor(td) or tensordict.is_non_tensor(td):
        return "objects", listed(td.tolist())
    if not hasattr(td, "keys"):
        return bits(td)
    parts = getattr(td, "tensordicts", None)
    if parts is not None:
        return "lazy", td.stack_dim, [plain(part) for part in parts]
    return tuple(td.batch_size), {key: plain(td.get(key)) for key in td.keys()}  # noqa: SIM118


def listed(value: Any) -> Any:
    """JSON's view of an object; NaN equal to itself."""
    if isinstance(value, list | tuple):
        return [listed(item) for item in value]
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    return repr(value) if isinstance(value, float) else value
