"""Whether the names and locks of what a step gives are what they should be."""

from __future__ import annotations

from typing import Any

from fuzz_case import Case
from fuzz_dense import NotDense, dense_copy
from fuzz_sides import LITE, is_container, is_objects, stacked


def names_fit(value: Any, outer: tuple[Any, ...] = ()) -> bool:
    """Whether the names of every nested container begin with those of what holds it."""
    if isinstance(value, tuple):
        return all(names_fit(item) for item in value)
    if not is_container(value):
        return True
    try:
        names = tuple(value.names)
    except ValueError:  # parts that disagree
        return stacked(value)
    if names[: len(outer)] != outer:
        return False
    if stacked(value):
        dim = value.stack_dim
        return all(names_fit(part, names[:dim] + names[dim + 1 :]) for part in value.tensordicts)
    return all(names_fit(entry, names) for _, entry in value._items())


def names_agree(case: Case) -> bool:
    """Whether the names of the result and the target are those of the dense forms."""
    before = case.before()
    try:
        copies = [dense_copy(td, []) for td in before]
        expected = case.step.run(LITE, copies)
    except NotDense:  # parts whose names disagree
        return not case.error and names_fit((case.ours, case.target))
    except Exception:  # `cat` of parts with different keys
        return case.name == "cat" and not case.error and _names(case.ours) == _names(case.target)
    pairs = [(case.target, copies[case.step.facts["target"]])]
    results = (case.ours, expected)
    pairs += zip(*results, strict=True) if isinstance(case.ours, tuple) else [results]
    return all(_named_alike(ours, _names(wanted)) for ours, wanted in pairs)


def names_differ(value: Any) -> bool:
    """Whether the parts of a lazy stack, at any depth, disagree in their names."""
    if not stacked(value):
        return is_container(value) and not is_objects(value) and any(map(names_differ, value.values()))
    try:
        list(value.names)
    except (ValueError, IndexError):
        return True
    return any(map(names_differ, value.tensordicts))


def locks_agree(case: Case) -> bool:
    """Whether the result is locked as that of the dense forms is."""
    try:
        expected = case.step.run(LITE, [dense_copy(td, []) for td in case.before()])
    except Exception:
        return False
    return is_container(case.ours) and is_container(expected) and case.ours.is_locked == expected.is_locked


def locked_alike(value: Any, locked: bool) -> bool:
    """Whether a container and all nodes of it are locked, or none is."""
    if is_objects(value) or not is_container(value):
        return True
    inner = value.tensordicts if stacked(value) else value.values()
    return value.is_locked == locked and all(locked_alike(entry, locked) for entry in inner)


def _named_alike(ours: Any, wanted: Any) -> bool:
    """Whether something has some names; a lazy stack without parts, which name the others, has its own."""
    if stacked(ours) and not ours.tensordicts:
        wanted = [name if i == ours.stack_dim else None for i, name in enumerate(wanted)]
    return bool(_names(ours) == wanted)


def _names(value: Any) -> Any:
    return list(value.names) if is_container(value) else None


def parts_agree(value: Any, attribute: str) -> bool:
    """Whether every lazy stack, at any depth, says the same of itself as its parts do of themselves.

    Args:
        value: a container of either side.
        attribute: `is_locked`, or `batch_size` (which tensordict keeps from when the stack was made).
    """
    if isinstance(value, tuple | list):
        return all(parts_agree(item, attribute) for item in value)
    if not is_container(value) or is_objects(value):
        return True
    if not stacked(value):
        nodes = [entry for entry in value.values() if is_container(entry) and not is_objects(entry)]
        if attribute == "is_locked" and value.is_locked and not all(node.is_locked for node in nodes):
            return False
        return all(parts_agree(node, attribute) for node in nodes)
    parts, dim = value.tensordicts, value.stack_dim
    if attribute == "is_locked":
        fits = all(part.is_locked == value.is_locked for part in parts) and (parts or not value.is_locked)
    else:
        size = tuple(value.batch_size)
        inner = size[:dim] + size[dim + 1 :]
        fits = size[dim] == len(parts) and all(
            part.ndim == len(inner) and all(n in (m, -1) for n, m in zip(inner, part.batch_size, strict=True))
            for part in parts
        )
    return fits and all(parts_agree(part, attribute) for part in parts)
