"""The weights that `update_policy_weights_` of all collectors takes: of modules, TensorDicts or dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lite import TensorDict, is_tensor_collection
from lite.nn import Module


def only_source(*sources: Any) -> Any:
    """The one argument that is not None, or None.

    Raises:
        ValueError: several are given.
    """
    given = [source for source in sources if source is not None]
    if len(given) > 1:
        raise ValueError("give one of policy_or_weights, weights and policy, got several.")
    return given[0] if given else None


def weights_of(source: Any) -> Any:
    """The weights of a Module, a TensorDict or a dict, as a TensorDict of arrays.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(source, Module):
        source = TensorDict.from_module(source)
    elif isinstance(source, Mapping) and not is_tensor_collection(source):
        source = TensorDict(dict(source))
    if not is_tensor_collection(source):
        raise TypeError(f"weights must be a Module, a TensorDict or a dict, got {type(source).__name__}.")
    return source.data
