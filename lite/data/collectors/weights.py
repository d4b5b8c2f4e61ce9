"""The weights that `update_policy_weights_` of all collectors takes: of modules, TensorDicts or dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lite import TensorDict, is_tensor_collection
from lite.nn import Module, UninitializedBuffer


def only_source(*sources: Any) -> Any:
    """The one argument that is not None, or None.

    Raises:
        ValueError: several are given.
    """
    given = [source for source in sources if source is not None]
    if len(given) > 1:
        raise ValueError("give one of policy_or_weights, weights and policy, got several.")
    return given[0] if given else None


def learnt_weights(source: Any) -> Any:
    """What a policy of a language model has learnt, for its `update_weights_`; other weights by name."""
    if is_tensor_collection(source):
        return dict(source.flatten_keys(".").items())
    learnt = getattr(source, "learnt_weights", None)
    return source if learnt is None else learnt()


def weights_of(source: Any, policy: Any = None) -> Any:
    """The weights of a Module, a TensorDict or a (state) dict, as a TensorDict of arrays.

    Args:
        source: one of these.
        policy: who gets the weights; those of a Module must be the same ones, of the same shapes. None of
            them is written before all are there, and a number is not taken for all of an array.

    Raises:
        TypeError: it is something else.
        KeyError: some are missing, or no weights of the policy.
        ValueError: one has another shape.
    """
    found = source
    if isinstance(source, Module):
        found = TensorDict.from_module(source)
    elif isinstance(source, Mapping) and not is_tensor_collection(source):
        found = TensorDict(dict(source)).unflatten_keys(".")  # a state dict has dots
    if not is_tensor_collection(found):
        raise TypeError(f"weights must be a Module, a TensorDict or a dict, got {type(source).__name__}.")
    if isinstance(policy, Module) and policy is not source:
        _check(
            dict(found.data.items(True, True)), dict(TensorDict.from_module(policy).data.items(True, True))
        )
    return found.data


def _check(given: dict[Any, Any], own: dict[Any, Any]) -> None:
    lacks, more = [key for key in own if key not in given], [key for key in given if key not in own]
    if lacks or more:
        raise KeyError(
            f"weights must be those of the policy: they lack {lacks[:4]} and have {more[:4]} beside them."
        )
    for key, array in own.items():
        if not isinstance(array, UninitializedBuffer) and given[key].shape != array.shape:
            raise ValueError(f"weights: {key} has the shape {given[key].shape}, in the policy {array.shape}.")
