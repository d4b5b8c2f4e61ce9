"""Inputs of a wrapper that are not TensorDicts: texts, histories, ids, and objects of their data classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, is_non_tensor, is_tensor_collection, lazy_stack
from lite.models.text.data import ChatHistory, Text, Tokens
from lite.models.text.history import History
from lite.models.text.nesting import flatten, list_shape, objects
from lite.models.wrapper.options import InputMode

_DATA = {"history": ChatHistory, "text": Text, "tokens": Tokens}


def is_entry(value: Any, mode: InputMode) -> bool:
    """Whether a value is an input of a wrapper in this mode, or an instance of the mode's data class.

    Example:
        >>> is_entry(["Hi", "Hello"], "text"), is_entry(["Hi", "Hello"], "history")
        (True, False)
    """
    if isinstance(value, _DATA[mode]):
        return True
    if mode == "history":
        return isinstance(value, History)
    if mode == "text" and is_non_tensor(value):
        return True
    if is_tensor_collection(value):
        return False
    if mode == "text":
        return isinstance(value, str | list) or (isinstance(value, np.ndarray) and value.dtype.kind in "UTO")
    return isinstance(value, list | tuple) or hasattr(value, "__array__")


def as_tensordict(value: Any, key: NestedKey, mode: InputMode) -> Any:
    """A TensorDict with a value at a key. Its batch size is that of the value.

    The batch size of texts is the shape of their lists. Of a History it lacks the dimension of the turns, of
    an array of ids that of the rows. Lists of ids are rows of any lengths.

    Example:
        >>> as_tensordict(["Hi", "Hello"], ("text", "prompt"), "text").batch_size
        (2,)
    """
    if isinstance(value, _DATA[mode]):
        parent = key[:-1] if isinstance(key, tuple) and key[-1] in value._fields else ()
        if parent:
            return TensorDict({parent: value}, batch_size=value.batch_size)
        raise ValueError(f"{type(value).__name__} has no {key!r}: give what it holds, or a TensorDict")
    if mode == "history":
        return TensorDict({key: value}, batch_size=value.batch_size[:-1])
    if mode == "text":
        if not isinstance(value, str | list):
            value = value.tolist()
        shape = list_shape(value)
        return TensorDict({key: objects(flatten(value, len(shape)), shape)}, batch_size=shape)
    if isinstance(value, list | tuple):
        if any(isinstance(item, list | tuple) or getattr(item, "ndim", 0) for item in value):
            return lazy_stack([as_tensordict(item, key, mode) for item in value])
        value = list(value)
    array = np.asarray(value)
    return TensorDict({key: array}, batch_size=array.shape[:-1])
