"""Specs of the entries that a module writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lite import NestedKey
from lite.specs.arrays import Bounded
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite


def specs_by_key(spec: TensorSpec | None, keys: Sequence[NestedKey], owner: object) -> Composite:
    """The specs of a module's outputs by key; outputs that are not known have none.

    Args:
        spec: None, a `Composite` (which is copied), or the spec of the only key.
        keys: the entries that the module writes.
        owner: the module, for errors.

    Raises:
        TypeError: `spec` is not a spec.
        RuntimeError: one spec for several keys, or specs of other keys.
    """
    if spec is None:
        return Composite()
    if not isinstance(spec, TensorSpec):
        raise TypeError(f"spec must be a spec or None, got {type(spec).__name__}.")
    if not isinstance(spec, Composite):
        if len(keys) != 1:
            raise RuntimeError(
                f"{type(owner).__name__} writes {list(keys)}, so spec must be a Composite of the specs that "
                f"are known, by key; got {spec!r}."
            )
        return Composite({keys[0]: spec})
    strange = [key for key in spec.keys(True, True) if key not in keys]
    if strange:
        raise RuntimeError(
            f"the spec has the keys {strange}, which {type(owner).__name__} does not write: {list(keys)}."
        )
    return spec.clone()


def action_specs(spec: TensorSpec | None, key: NestedKey) -> Composite | None:
    """The spec of an action as a Composite by key. A Composite, with several actions, is returned unchanged.

    Raises:
        TypeError: `spec` is not a spec.
    """
    if spec is None or isinstance(spec, Composite):
        return spec
    return specs_by_key(spec, [key], spec)


def joined_specs(modules: Iterable[Any]) -> Composite:
    """The joined `spec` attributes of modules; for a key of two modules that of the later one."""
    joined = Composite()
    for module in modules:
        spec = getattr(module, "spec", None)
        if isinstance(spec, Composite):
            joined.update(spec)
    return joined


def project_entries(specs: Composite, tensordict: Any) -> None:
    """Replace entries outside their spec by the nearest values in it."""
    for key, spec in specs.items(True, True):
        entry = tensordict.get(key, None)
        if entry is not None:
            near = projected(spec, entry)
            if near is not entry:
                tensordict.set(key, near)


def projected(spec: TensorSpec, value: Any) -> Any:
    """`spec.project(value)`, with a derivative for bounds, where values are traced or symbolic."""
    if isinstance(spec, Bounded) and type(value) is not np.ndarray:
        near = np.clip(value, spec.low, spec.high)
        return near if near.dtype == spec.dtype else near.astype(spec.dtype)
    return spec.project(value)
