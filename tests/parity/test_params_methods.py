"""What TensorDictParams answers to each name that needs no argument, in both libraries."""

import inspect
from collections.abc import Mapping

import numpy as np
import pytest
from parity.functional import LIBS, QUIET, TORCH, kind, raw

pytestmark = QUIET

# Torch's own machinery, and what the reference has for autograd and compilers.
TORCH_ONLY = {
    *("T_destination", "call_super_init", "dump_patches", "share_memory", "clear_refs_for_compile_"),
    *("attrs", "grad", "as_tensor"),
}
# What differs without an argument, and how.
ELSEWHERE = {
    "keys": "the views print differently",
    "split_keys": "plain TensorDicts, as of all that select",
    "permute": "without dims: ValueError, self",
    "flatten": "self, or a copy, where there is nothing to flatten",
    "densify": "self, or a copy, where there is nothing lazy",
    "dtype": "the classes of dtypes have other names",
    "new_empty": "not initialised",
    "non_tensor_items": "the reference counts arrays",
    "zero_grad": "None, as of a module",
    "flip": "without dims: all of them, as NumPy's",
    "tile": "without repeats: a copy",
    "update": "without a source: nothing to do",
}


def build(lib):
    td = lib.TD({"w": lib.ones(3, 2), "n": {"b": lib.ones(3, 4)}}, batch_size=[3])
    params = lib.tdnn.TensorDictParams(td)
    for parameter in params.parameters():
        parameter.requires_grad_(False)
    return params


def described(lib, td):
    leaves = [(key, shown(lib, leaf, td)) for key, leaf in td.items(True, True)]
    return tuple(td.batch_size), leaves


def shown(lib, value, params):
    """A result without what only one library can say about it."""
    if value is params:
        return "self"
    if isinstance(value, lib.tdnn.TensorDictParams):
        return "params", described(lib, value)
    if isinstance(value, lib.base.TensorDictBase):
        return "tensordict", described(lib, value)
    if isinstance(value, Mapping):
        return {str(key): shown(lib, item, params) for key, item in value.items()}
    if isinstance(value, list | tuple) or inspect.isgenerator(value):
        return [shown(lib, item, params) for item in value]
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return kind(lib, value), np.round(raw(value), 4).tolist()
    return value if isinstance(value, bool | int | float | str | None) else type(value).__name__


def asked(lib, name):
    params = build(lib)
    try:
        value = getattr(params, name)
        value = value() if callable(value) else value
        return shown(lib, value, params), described(lib, params)
    except Exception:
        return "an error"  # of an argument that is missing, mostly: NumPy and torch differ in the class


NAMES = [
    name
    for name in dir(build(TORCH))
    if name.isidentifier() and not name.startswith("_") and name not in TORCH_ONLY and name not in ELSEWHERE
]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_answer(name):
    mine, theirs = (asked(lib, name) for lib in LIBS)
    assert mine == theirs
