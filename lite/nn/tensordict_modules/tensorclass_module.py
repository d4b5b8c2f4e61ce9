"""Modules from one tensorclass to another."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, TypeVar, get_args, get_origin

from lite import NestedKey, TensorClass, TensorDict
from lite._arrays.public import belong_to
from lite._tensorclass.annotations import annotation_of
from lite.nn._modules.module import Module
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch

In = TypeVar("In")
Out = TypeVar("Out")


class TensorClassModuleBase(Module, Generic[In, Out]):
    """Base of modules whose input and output are tensorclasses, named in the brackets of the base.

    Subclasses define `forward` from an instance of `In` to one of `Out`. `as_td_module()` makes a module of
    it that reads and writes the fields in TensorDicts.

    Attributes:
        input_type: the class `In`.
        output_type: the class `Out`.

    Raises:
        ValueError: from `as_td_module`, if one of the types is not a tensorclass.

    Example:
        >>> import numpy as np
        >>> from lite import TensorClass, TensorDict
        >>> from lite.nn import TensorClassModuleBase
        >>> class Point(TensorClass):
        ...     x: np.ndarray
        ...     y: np.ndarray
        >>> class Length(TensorClass):
        ...     length: np.ndarray
        >>> class Norm(TensorClassModuleBase[Point, Length]):
        ...     def forward(self, point):
        ...         return Length(np.hypot(point.x, point.y), batch_size=point.batch_size)
        >>> float(Norm()(Point(x=np.array(3.0), y=np.array(4.0))).length)
        5.0
        >>> module = Norm().as_td_module()
        >>> module.in_keys, module.out_keys
        (['x', 'y'], ['length'])
        >>> float(module(TensorDict(x=3.0, y=4.0))["length"])
        5.0
    """

    input_type: type[In]
    output_type: type[Out]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__dict__.get("__orig_bases__", ()):
            if get_origin(base) is TensorClassModuleBase:
                cls.input_type, cls.output_type = get_args(base)

    def as_td_module(self) -> TensorClassModuleWrapper:
        """This module for TensorDicts, with the fields of the types as keys."""
        return TensorClassModuleWrapper(self)


class TensorClassModuleWrapper(TensorDictModuleBase):
    """A module of tensorclasses as a module of TensorDicts; see `TensorClassModuleBase.as_td_module`.

    `in_keys` and `out_keys` are the fields of the input and of the output, those of fields that are
    tensorclasses themselves as nested keys. A call gives the module an instance of its input type, with the
    fields that the TensorDict has (others are None), and returns a new TensorDict of the fields of the
    output. Called with arrays, it returns the output's fields (see `dispatch`).

    Args:
        module: the module.

    Raises:
        ValueError: if its input or its output is not a tensorclass.
    """

    def __init__(self, module: TensorClassModuleBase[Any, Any]) -> None:
        super().__init__()
        for name in ("input_type", "output_type"):
            kind = getattr(module, name, None)
            if not _is_tensorclass(kind):
                raise ValueError(
                    f"the {name} of {type(module).__name__} must be a tensorclass, got {kind!r}: derive it "
                    "from TensorClassModuleBase[Input, Output] with two tensorclasses."
                )
        self.tc_module = module
        self.in_keys = _keys(module.input_type)
        self.out_keys = _keys(module.output_type)

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any) -> Any:
        """Run the module on the fields of its input in `tensordict`, of which other entries do not matter.

        Returns:
            A new TensorDict of the fields of the output, with its batch size.
        """
        given = _instance(self.tc_module.input_type, tensordict)
        return self.tc_module(given).to_tensordict()


def _is_tensorclass(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, TensorClass)


def _kinds(cls: Any) -> dict[str, Any]:
    """Names of the fields, with the class of those that are tensorclasses, else None."""
    fields = {field.name: annotation_of(cls, field.name) for field in dataclasses.fields(cls)}
    return {name: kind if _is_tensorclass(kind) else None for name, kind in fields.items()}


def _keys(cls: Any) -> list[NestedKey]:
    keys: list[NestedKey] = []
    for name, kind in _kinds(cls).items():
        if kind is None:
            keys.append(name)
        else:
            keys += [(name, *([key] if isinstance(key, str) else key)) for key in _keys(kind)]
    return keys


def _instance(cls: Any, tensordict: Any) -> Any:
    """An instance over the entries that are fields, which it shares."""
    node = TensorDict._as_node(tensordict)
    names = [name for name in _kinds(cls) if name in node]
    out = cls.from_tensordict(node.select(*names))
    for name, kind in _kinds(cls).items():
        if kind is not None and name in names:
            out.set(name, _instance(kind, node.get(name)))
    return out


belong_to("lite.nn", TensorClassModuleBase, TensorClassModuleWrapper)
