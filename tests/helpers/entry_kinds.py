"""TensorDicts with every kind of entry, and what has to come back of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import lite
from lite import NonTensorStack, TensorClass, TensorDict, TypedTensorDict, lazy_stack, nn


class Row(TensorClass):
    x: np.ndarray
    note: str = "n"


class Obs(TypedTensorDict):
    x: np.ndarray


def _parameter(count: int) -> Any:
    return nn.Parameter(np.arange(1, count + 1, dtype=np.float32))


@lite.enable_grad()
def _traced() -> TensorDict:
    p = _parameter(3)
    return TensorDict({"x": p * 2, "n": {"y": p[:, None] + 1}}, [3])


@lite.enable_grad()
def _traced_number() -> TensorDict:
    return TensorDict(x=_parameter(3).sum(), y=2.0)


@lite.enable_grad()
def _traced_rows() -> Any:
    return lazy_stack([TensorDict(x=_parameter(n) * 2) for n in (1, 3, 2)])


KINDS: dict[str, Callable[[], Any]] = {
    "array": lambda: TensorDict({"x": np.arange(3), "y": np.ones((3, 2), np.float16)}, [3]),
    "nested": lambda: TensorDict({"x": np.arange(3), "n": TensorDict({"y": np.ones((3, 2))}, [3])}, [3]),
    "traced": _traced,
    "parameter": lambda: TensorDict({"x": _parameter(3)}, [3]),
    "0-d": lambda: TensorDict(x=np.float32(1.5), y=np.array(2)),
    "0-d traced": _traced_number,
    "lazy": lambda: lazy_stack([TensorDict(x=np.arange(2) + n) for n in range(3)]),
    "ragged": lambda: lazy_stack([TensorDict(x=np.arange(n)) for n in (1, 3, 2)]),
    "ragged traced": _traced_rows,
    "object": lambda: TensorDict({"x": np.arange(3), "s": NonTensorStack("a", "b", "c"), "k": "one"}, [3]),
    "typed": lambda: Obs(x=np.arange(3), batch_size=[3]),
    "tensorclass": lambda: Row(x=np.arange(3), batch_size=[3]),
    "nested tensorclass": lambda: TensorDict({"row": Row(x=np.arange(3), batch_size=[3])}, [3]),
}


def content(td: Any, classes: bool = True) -> Any:
    """The class and the entries of each row: dtypes, shapes and numbers, of results of gradients, too."""
    if lite.is_non_tensor(td):
        return repr(td.tolist())
    if isinstance(td, str):  # as tensorclasses give objects
        return repr(td)
    if not lite.is_tensor_collection(td):
        array = np.asarray(td.detach() if hasattr(td, "detach") else td)
        return array.dtype.name, array.shape, array.tolist()
    if td.ndim:
        return [content(row, classes) for row in td.unbind(0)]
    own = classes and isinstance(td, (Row, Obs))
    return type(td).__name__ if own else "", {key: content(td.get(key), classes) for key in sorted(td.keys())}
