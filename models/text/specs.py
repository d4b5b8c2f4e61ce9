"""`default_spec` of the data classes: the specs of their fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lite import data

Entry = Callable[[tuple[int, ...]], "data.TensorSpec"]  # the spec of a field, from the shape of its batch


def default_spec_of(
    fields: Sequence[str], entry: Entry, *, padded: bool = False
) -> classmethod[Any, ..., data.Composite]:
    """The class method `default_spec` of a class with these fields.

    Args:
        fields: the names of the fields.
        entry: makes the spec of each field.
        padded: whether the class has the field `padded`, too.
    """

    def default_spec(cls: type[Any], shape: Any = (-1,), keys: Sequence[str] | None = None) -> data.Composite:
        """The spec of each field: texts and conversations are objects, arrays are (*shape, -1).

        Args:
            shape: the batch size; -1 where it is not known.
            keys: the fields to include, by default all; `padded` is always included.

        Returns:
            A spec whose own shape lacks the last size of `shape`.

        Raises:
            ValueError: there is no such field.
        """
        if isinstance(keys, str) or (keys is not None and not set(keys) <= set(fields)):
            raise ValueError(f"keys must be among {list(fields)}, got {keys!r}")
        size = data.NonTensor(shape).shape
        specs = {name: entry(size) for name in (fields if keys is None else keys)}
        if padded:
            specs["padded"] = data.NonTensor(shape, example_data=False)
        return data.Composite(specs, shape=size[:-1], data_cls=cls)

    return classmethod(default_spec)


def of_texts(size: tuple[int, ...]) -> data.TensorSpec:
    """The spec of a field with a text for each element."""
    return data.NonTensor(size, example_data="a string")


def of_rows(dtype: Any) -> Entry:
    """Makes the spec of a field with a row of any length for each element."""
    return lambda size: data.Unbounded((*size, -1), dtype=dtype)
