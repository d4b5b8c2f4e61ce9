"""The key flow of a sequence: what it needs, what it writes, which modules a selection keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lite._tree.keys import NestedKey


def infer_keys(modules: Iterable[Any]) -> tuple[list[NestedKey], list[NestedKey]]:
    """The keys a sequence needs (in order of first use) and writes (each at its last writer)."""
    needed: dict[NestedKey, None] = {}
    written: dict[NestedKey, None] = {}
    for module in modules:
        for key in module.in_keys:
            if key not in written:
                needed.setdefault(key)
        for key in module.out_keys:
            written.pop(key, None)
            written[key] = None
    return list(needed), list(written)


def select_modules(
    named: list[tuple[str, Any]], in_keys: Iterable[Any], out_keys: Iterable[Any], nested_type: type
) -> list[tuple[str, Any]]:
    """The (name, module) pairs that lead from `in_keys` to `out_keys`.

    Args:
        named: the modules in order.
        in_keys: keys that are given.
        out_keys: keys that are wanted.
        nested_type: modules of exactly this type are narrowed by their own `select_subsequence`;
            subclasses are kept whole, as their behaviour is not known here.
    """
    available = set(in_keys)
    computable = []
    for name, module in named:
        if type(module) is nested_type:
            module = _narrowed(module, in_keys=available)
        if module is not None and all(key in available for key in module.in_keys):
            available.update(module.out_keys)
            computable.append((name, module))
    wanted = set(out_keys)
    kept = []
    for name, module in reversed(computable):
        if not any(key in wanted for key in module.out_keys):
            continue
        if type(module) is nested_type:
            module = _narrowed(module, out_keys=wanted)
        wanted.update(module.in_keys)
        kept.append((name, module))
    return kept[::-1]


def _narrowed(module: Any, **keys: Any) -> Any:
    try:
        return module.select_subsequence(**keys)
    except ValueError:
        return None
