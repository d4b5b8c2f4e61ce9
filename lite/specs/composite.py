"""`Composite`: specs by key; and stacks of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from lite import (
    NestedKey,
    TensorDict,
    is_non_tensor,
    is_tensor_collection,
    is_tensorclass,
    lazy_stack,
    unravel_key,
)
from lite._arrays.device import is_cpu
from lite._arrays.public import belong_to
from lite._tree.entry_errors import error_path
from lite.specs.arrays import ArraySpec
from lite.specs.base import (
    Shape,
    Stacked,
    TensorSpec,
    as_size,
    checked_device,
    indexed_shape,
    known,
    normalized_dim,
    stacked,
)
from lite.specs.objects import NonTensor

NOTHING = object()


class Composite(TensorSpec):
    """Specs by key, as the values are in a TensorDict.

    Args:
        specs: specs, or dicts of them, by key; a nested key makes the composites on its way. None, which
            stands for an entry of which nothing is known, leaves the key out.
        shape: the batch size; the shapes of all specs begin with it.
        device: None or "cpu", the device of values.
        data_cls: the class of values, if not TensorDict.
        **more: specs by key, too.

    Values that have all of the entries are in, also if they have more; their batch size is not asked for.

    Raises:
        ValueError: the shape of a spec does not begin with `shape`, or another device.
        TypeError: a value is not a spec, or a key is invalid.

    Source:
        torchrl.data.Composite.

    Example:
        >>> import numpy as np
        >>> from lite.data import Categorical, Composite, Unbounded
        >>> spec = Composite({"obs": Unbounded((2, 3)), "info": {"id": Categorical(9, (2,))}}, shape=(2,))
        >>> spec["info", "id"].n
        9
        >>> td = spec.zero()
        >>> td["obs"].shape, spec.is_in(td), spec.is_in(td.exclude("obs"))
        ((2, 3), True, False)
    """

    def __init__(
        self,
        specs: Mapping[Any, Any] | Composite | None = None,
        /,
        *,
        shape: Any = (),
        device: Any = None,
        data_cls: type[Any] | None = None,
        **more: Any,
    ) -> None:
        self.shape = as_size(() if shape is None else shape)
        self.device = None if device is None else checked_device(device)
        self.data_cls = data_cls
        self._specs: dict[str, TensorSpec] = {}
        if not isinstance(specs, (Mapping, Composite, type(None))):
            raise TypeError(f"specs must be a dict or a Composite, got {type(specs).__name__}")
        self._set_all({} if specs is None else specs)
        self._set_all(more)

    @property
    def shape(self) -> Shape:
        """The batch size. Composites inside that do not begin with one that is set get it, too.

        Raises:
            ValueError: the shape of a spec does not begin with the one that is set; nothing is changed.
        """
        return self.__dict__["shape"]

    @shape.setter
    def shape(self, value: Any) -> None:
        shape = as_size(value)
        followers = list(self._followers(shape, ()))
        for composite in followers:
            composite.__dict__["shape"] = shape

    batch_size = shape

    # -- by key ---------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """The spec at a key; or all specs, indexed in their batch dimensions."""
        if not isinstance(key, str) and not (
            isinstance(key, tuple) and key and isinstance(key[0], (str, tuple))
        ):
            return self._indexed(key)
        node: TensorSpec = self
        for name in _path(key):
            if not isinstance(node, Composite) or name not in node._specs:
                raise KeyError(f"there is no spec {key!r}; there are {self.keys(True, True)}")
            node = node._specs[name]
        return node

    def __setitem__(self, key: NestedKey, spec: TensorSpec | Mapping[Any, Any] | None) -> None:
        name, *inner = _path(key)
        if spec is None:
            self.pop(key, None)
            return
        if inner:
            node = self._specs[name] if name in self._specs else Composite(shape=self.shape)
            if not isinstance(node, Composite):
                raise KeyError(f"{name!r} is not a composite, so {key!r} cannot be set")
            node[tuple(inner)] = spec
            self._specs[name] = node
            return
        if isinstance(spec, Mapping):
            spec = Composite(spec, shape=self.shape)
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"{name!r} must be a spec or a dict of specs, got {type(spec).__name__}")
        if spec.ndim < self.ndim and self.shape[: spec.ndim] == spec.shape:
            if isinstance(spec, Composite):
                spec = Composite(spec, shape=self.shape, data_cls=spec.data_cls)
            elif isinstance(spec, NonTensor):
                spec = spec._expanded(self.shape)
        if spec.shape[: self.ndim] != self.shape:
            raise ValueError(f"the shape of {name!r} must begin with {self.shape}, got {spec.shape}")
        self._specs[name] = spec

    def __delitem__(self, key: NestedKey) -> None:
        *outer, name = _path(key)
        node = self[tuple(outer)] if outer else self
        if not isinstance(node, Composite) or name not in node._specs:
            raise KeyError(f"there is no spec {key!r}; there are {self.keys(True, True)}")
        del node._specs[name]

    def __contains__(self, key: NestedKey) -> bool:
        return self.get(key, None) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def get(self, key: NestedKey, default: Any = NOTHING) -> Any:
        """The spec at a key; `default` if it is missing, or KeyError without a default."""
        try:
            return self[key]
        except KeyError:
            if default is NOTHING:
                raise
            return default

    def set(self, key: NestedKey, spec: TensorSpec | Mapping[Any, Any] | None) -> Self:
        """`spec[key] = spec`, which returns the composite."""
        self[key] = spec
        return self

    def pop(self, key: NestedKey, default: Any = NOTHING) -> Any:
        """Take a spec out; `default` if it is missing, or KeyError without a default."""
        found = self.get(key, default)
        if key in self:
            del self[key]
        return found

    def empty(self) -> Self:
        """A composite of the same shape, device and class of values, without specs."""
        return self._like({}, self.shape)

    def update(self, specs: Mapping[Any, Any] | Composite) -> Self:
        """Set specs by key, all or, where one raises, none; nested composites on both sides are joined."""
        self.clone()._set_all(specs)
        self._set_all(specs)
        return self

    def keys(self, include_nested: bool = False, leaves_only: bool = False) -> list[NestedKey]:
        """The keys; with `include_nested`, also those inside; with `leaves_only`, none of composites."""
        return [key for key, _ in self.items(include_nested, leaves_only)]

    def values(self, include_nested: bool = False, leaves_only: bool = False) -> list[TensorSpec]:
        """The specs, as `keys`."""
        return [spec for _, spec in self.items(include_nested, leaves_only)]

    def items(
        self, include_nested: bool = False, leaves_only: bool = False
    ) -> list[tuple[NestedKey, TensorSpec]]:
        """Keys and specs, as `keys`."""
        found: list[tuple[NestedKey, TensorSpec]] = []
        for name, spec in self._specs.items():
            nested = isinstance(spec, Composite)
            if isinstance(spec, Composite) and include_nested:
                found += [((name, *_path(key)), leaf) for key, leaf in spec.items(True, leaves_only)]
            if not (nested and leaves_only):
                found.append((name, spec))
        return found

    def cardinality(self) -> float:
        return math.prod(spec.cardinality() for spec in self._specs.values()) if self._specs else 0

    def enumerate(self, use_mask: bool = False) -> Any:
        """All combinations of the values of its specs, as a TensorDict."""
        if not self._specs:
            return self.zero()
        one = self[(0,) * self.ndim] if self.ndim else self
        values = {name: spec.enumerate(use_mask) for name, spec in one._specs.items()}
        where = np.indices([len(value) for value in values.values()]).reshape(len(values), -1)
        chosen = {name: value[i] for (name, value), i in zip(values.items(), where, strict=True)}
        made = (self.data_cls or TensorDict).from_dict(chosen, batch_size=where.shape[1:], device=self.device)
        return made.reshape(-1, *[1] * self.ndim).expand(-1, *self.shape) if self.ndim else made

    def lock_(self, recurse: bool | None = None) -> Self:
        """Returns self, as specs are never locked; after a change call `empty_cache` of the environment."""
        return self

    unlock_ = lock_
    is_locked = False

    def is_empty(self) -> bool:
        """Whether there are no specs."""
        return not self._specs

    # -- values ---------------------------------------------------------------------------------

    def is_in(self, value: Any) -> bool:
        """Whether a TensorDict, data class or dict has entries as the specs say; others are not read.

        A node without specs, as one that `del` emptied, may be missing.
        An unset field of a data class is None, which is in a `NonTensor` and in no other spec.
        """
        if self.data_cls is not None and not isinstance(value, self.data_cls):
            return False
        if not (isinstance(value, Mapping) or (is_tensor_collection(value) and not is_non_tensor(value))):
            return False
        for name, spec in self._specs.items():
            entry = _read(value, name, spec)
            if entry is NOTHING and isinstance(spec, Composite) and spec.is_empty():
                continue
            if entry is NOTHING or not spec.is_in(entry):
                return False
        return True

    def assert_is_in(self, value: Any) -> None:
        if self.is_in(value):
            return
        if isinstance(value, Mapping) or (is_tensor_collection(value) and not is_non_tensor(value)):
            for name, spec in self._specs.items():
                if (entry := _read(value, name, spec)) is not NOTHING:
                    with error_path(name):
                        spec.assert_is_in(entry)
        super().assert_is_in(value)

    def zero(self, shape: Any = ()) -> Any:
        return self._filled({name: spec.zero(shape) for name, spec in self._specs.items()}, shape)

    def one(self, shape: Any = ()) -> Any:
        return self._filled({name: spec.one(shape) for name, spec in self._specs.items()}, shape)

    def rand(self, shape: Any = (), *, rng: np.random.Generator | int | None = None) -> Any:
        rng = np.random.default_rng(rng)
        return self._filled({name: spec.rand(shape, rng=rng) for name, spec in self._specs.items()}, shape)

    def project(self, value: Any) -> Any:
        """Replace entries that are not in their spec by the nearest values; returns `value`.

        Raises:
            KeyError: an entry is missing.
            TypeError: it is neither a TensorDict nor a data class.
            ValueError: nothing is near an entry; `value` is as it was.
        """
        for key, near in self._mended(value, ()):
            value.set(key, near)
        return value

    def clone(self) -> Self:
        return self._like({name: spec.clone() for name, spec in self._specs.items()}, self.shape)

    def to(self, dest: Any) -> Self:
        """As `TensorSpec.to`; on a device, values have it."""
        if self.device is not None or not is_cpu(dest):
            return super().to(dest)
        on = self._like({name: spec.to(dest) for name, spec in self._specs.items()}, self.shape)
        on.device = checked_device(dest)
        return on

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Composite)
            and (self.shape, self.device, self.data_cls) == (other.shape, other.device, other.data_cls)
            and self._specs == other._specs
        )

    def __repr__(self) -> str:
        parts = [f"{name}: {spec!r}" for name, spec in self._specs.items()]
        parts.append(f"shape={self.shape}")
        if self.data_cls is not None:
            parts.append(f"data_cls={self.data_cls.__name__}")
        if not self._specs:
            return f"Composite({', '.join(parts)})"
        return "Composite(\n    " + ",\n".join(parts).replace("\n", "\n    ") + ")"

    def _drawn_alone(self) -> list[tuple[NestedKey, TensorSpec]]:
        """The specs by key whose values, set one after the other, make one of this spec."""
        return self.items(True, True)

    def _leaf_keys(self) -> list[NestedKey]:
        """The keys of leaves, including those that only some parts of a stack have."""
        nested = [(name, spec) for name, spec in self._specs.items() if isinstance(spec, Composite)]
        leaves: list[NestedKey] = [name for name in self._specs if name not in dict(nested)]
        return leaves + [(name, *_path(key)) for name, spec in nested for key in spec._leaf_keys()]

    def _set_all(self, specs: Mapping[Any, Any] | Composite) -> None:
        for key, spec in specs.items():
            old = self.get(key, None)
            if isinstance(old, Composite) and isinstance(spec, (Mapping, Composite)):
                old._set_all(spec)
            else:
                self[key] = spec

    def _filled(self, entries: dict[str, Any], shape: Any) -> Any:
        size = self._made(shape)
        return (self.data_cls or TensorDict).from_dict(entries, batch_size=size, device=self.device)

    def _mended(self, value: Any, path: tuple[str, ...]) -> list[tuple[Any, Any]]:
        if not is_tensor_collection(value) or (self.data_cls and not isinstance(value, self.data_cls)):
            wanted = (self.data_cls or TensorDict).__name__
            raise TypeError(f"project needs a {wanted} at {path}, got {type(value).__name__}")
        found = []
        for name, spec in self._specs.items():
            entry = _read(value, name, spec)
            if entry is NOTHING:
                raise KeyError(f"project reads the entry {(*path, name)}, which is missing")
            if isinstance(spec, Composite) and not isinstance(spec, Stacked):
                found += spec._mended(entry, (*path, name))
            elif not spec.is_in(entry):
                found.append(
                    ((*path, name), spec.project(entry.clone() if isinstance(spec, Stacked) else entry))
                )
        return found

    def encode(self, vals: Mapping[Any, Any]) -> Any:
        """A TensorDict of values by key, each as its spec encodes it.

        Raises:
            KeyError: a key has no spec.
        """
        made = {key: self[key].encode(value) for key, value in vals.items()}
        return (self.data_cls or TensorDict).from_dict(made, batch_size=known(self.shape))

    def to_numpy(self, val: Any, safe: bool | None = None) -> dict[str, Any]:
        """The values of a TensorDict as a dict, each as its spec gives it."""
        return {name: self._specs[name].to_numpy(value) for name, value in val.items()}

    def _indexed(self, index: Any) -> Self:
        shape = indexed_shape(self.shape, index, self.ndim)
        return self._like({name: spec[index] for name, spec in self._specs.items()}, shape)

    def _followers(self, shape: Shape, path: tuple[str, ...]) -> Iterator[Composite]:
        """The composites that get a shape which is set, once all specs are found to begin with it."""
        for name, spec in self.__dict__.get("_specs", {}).items():
            if spec.shape[: len(shape)] == shape:
                continue
            if not isinstance(spec, Composite):
                key = (*path, name) if path else name
                raise ValueError(f"the shape of {key!r} must begin with {shape}, got {spec.shape}")
            yield from spec._followers(shape, (*path, name))
        yield self

    def _expanded(self, shape: Shape) -> Self:
        specs = {name: spec.expand(*shape, *spec.shape[self.ndim :]) for name, spec in self._specs.items()}
        return self._like(specs, shape)

    def _reshaped(self, shape: Shape) -> Self:
        specs = {
            name: spec._reshaped((*shape, *spec.shape[self.ndim :])) for name, spec in self._specs.items()
        }
        return self._like(specs, shape)

    def _stacked_with(self, others: list[TensorSpec], axis: int) -> TensorSpec:
        parts = [part for part in (self, *others) if isinstance(part, Composite) and part.shape == self.shape]
        if len(parts) <= len(others):
            raise ValueError(f"stack needs composites of one shape, got {[self, *others]}.")
        lazy = StackedComposite(*parts, dim=axis)
        if any(part._specs.keys() != self._specs.keys() for part in parts) or any(
            isinstance(spec, Stacked) and not isinstance(spec, Composite) for spec in lazy._specs.values()
        ):
            return lazy
        return self._like(lazy._specs, lazy.shape)

    def _cast(self, dtype: np.dtype[Any]) -> Self:
        return self._like({name: spec._cast(dtype) for name, spec in self._specs.items()}, self.shape)

    def _like(self, specs: dict[str, TensorSpec], shape: Shape) -> Self:
        return type(self)(specs, shape=shape, device=self.device, data_cls=self.data_cls)


class StackedComposite(Stacked, Composite):
    """The spec of a lazy stack of TensorDicts whose specs differ, such as the observations of several games.

    By key it has what all parts have; what else the first has is in `spec[0]`. Its values are lazy stacks.

    Args:
        *specs: those of the parts, of one shape.
        dim: the dimension of the stack, from -ndim - 1 to ndim.

    Raises:
        ValueError: there is no part, or the shapes differ.
        IndexError: there is no such dimension.

    Source:
        torchrl.data.StackedComposite.

    Example:
        >>> import numpy as np
        >>> from lite.data import Composite, Unbounded
        >>> one = Composite(image=Unbounded((4, 4)), speed=Unbounded(1))
        >>> spec = np.stack([one, Composite(image=Unbounded((6, 6)))])
        >>> spec.keys(), spec["image"].shape, spec[0].keys()
        (['image'], (2, -1, -1), ['image', 'speed'])
        >>> spec.is_in(spec.rand())
        True
    """

    parts: tuple[Composite, ...]

    def __init__(self, *specs: Composite, dim: int = 0) -> None:
        if not specs or any(spec.shape != specs[0].shape for spec in specs):
            raise ValueError(f"stack needs composites of one shape, got {list(specs)}.")
        self.device, self.data_cls, self.dtype = specs[0].device, None, None
        self._take(specs, normalized_dim(dim, specs[0].ndim + 1))

    def _take(self, specs: Any, dim: int) -> None:
        self._specs = {}
        super()._take(specs, dim)
        shared: dict[str, TensorSpec] = {}
        for name in [name for name in specs[0]._specs if all(name in spec._specs for spec in specs)]:
            try:
                shared[name] = stacked([spec._specs[name] for spec in specs], dim)
            except ValueError as error:
                raise ValueError(f"{name!r}: {error}") from None
        self._specs = shared

    def __setitem__(self, key: NestedKey, spec: TensorSpec | Mapping[Any, Any] | None) -> None:
        """Set the spec of a key in all parts: to its part of `spec`; None takes it out."""
        given = None if spec is None else Composite({key: spec}, shape=self.shape)[key]
        made = [part.clone() for part in self.parts]
        for i, part in enumerate(made):
            part[key] = None if given is None else given[(slice(None),) * self.dim + (i,)]
        self._take(tuple(made), self.dim)

    def __delitem__(self, key: NestedKey) -> None:
        if not any(key in part for part in self.parts):
            raise KeyError(f"there is no spec {key!r}; there are {self._leaf_keys()}")
        self[key] = None

    def empty(self) -> Any:
        return Composite(shape=self.shape, device=self.device)

    def project(self, value: Any) -> Any:
        return value if self.is_in(value) else value.update(super().project(value.clone()))

    def to(self, dest: Any) -> Self:
        return self._of([spec.to(dest) for spec in self.parts], self.dim)

    encode, to_numpy = Composite.encode, Composite.to_numpy  # type: ignore[assignment]  # by key

    def _set_all(self, specs: Mapping[Any, Any] | Composite) -> None:
        for key, spec in specs.items():
            if isinstance(spec, (Mapping, Composite)) and isinstance(self.get(key, None), Composite):
                self._set_all({(key, inner): part for inner, part in spec.items()})
            else:
                self[key] = spec

    def _drawn_alone(self) -> list[tuple[NestedKey, TensorSpec]]:
        return []  # some are in some parts alone

    def _leaf_keys(self) -> list[NestedKey]:
        return list(dict.fromkeys(key for part in self.parts for key in part._leaf_keys()))

    def _rows(self, value: Any) -> list[Any]:
        fits = is_tensor_collection(value) and value.ndim >= self.ndim
        return list(value.unbind(value.ndim - self.ndim + self.dim)) if fits else []

    def _joined(self, rows: list[Any]) -> Any:
        return lazy_stack(rows, rows[0].ndim - self.ndim + 1 + self.dim)


belong_to("lite.data", Composite, StackedComposite)


def stacked_alike(specs: list[Any]) -> Any:
    """The spec of a stack of values of composites that differ in bounds at most.

    Raises:
        ValueError: they differ in more.
    """
    found: Any = stacked(specs)
    if any(isinstance(spec, Stacked) for spec in (found, *found.values(True))):
        raise ValueError(f"stack needs equal specs, or other bounds alone, got {specs}.")
    return found


def _path(key: Any) -> tuple[str, ...]:
    if not isinstance(key, (str, tuple)) or not key:
        raise TypeError(f"a key must be a str or a tuple of them, got {key!r}")
    flat = unravel_key(key)
    return (flat,) if isinstance(flat, str) else flat


def _read(value: Any, name: str, spec: TensorSpec) -> Any:
    """The entry of a value, ragged arrays as lists of rows; NOTHING where there is none."""
    if isinstance(value, Mapping):
        return value.get(name, NOTHING)
    entry = value.get(name, None, as_list=True)
    if isinstance(entry, list) and isinstance(spec, ArraySpec):
        # Lists have the dimension of the stack in front, which need not be the first one.
        return [_read(row, name, spec) for row in value.unbind(0)] if value.ndim else entry
    if entry is None and not (isinstance(spec, NonTensor) and is_tensorclass(value)):
        return NOTHING
    return entry
