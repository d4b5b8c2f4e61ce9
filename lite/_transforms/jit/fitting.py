"""Arguments of a saved step: the entries that its graph does not read, and values in the traced form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lite._transforms.jit.structure import Structure, containers_of, leaf_count
from lite._transforms.jit.tracing import Program
from lite._tree.protocol import class_registry

Place = tuple[int, str]  # the number of a container, and a key
ABSENT = np.empty(0)
ABSENT.flags.writeable = False
_KEYS, _FORMS = 7, 8  # where the keys of a TensorDict's structure are, and the first of its entries


def unread(program: Program, structures: list[Structure], first: int) -> list[frozenset[Place]]:
    """The entries of each argument that a graph neither reads nor returns, by the argument's containers.

    A dynamic size that was read from such an entry is read from another one from here on.

    Args:
        program: program of the step.
        structures: structures of the arguments.
        first: the number of leaves before those of the arguments.
    """
    forms = {x.name: x.shape for x in program.traced.inputs}
    used = {i for i, name in enumerate(program.arguments) if name in forms} | set(program.written)
    for label, (i, _) in list(program.labels.items()):
        others = [(k, forms[name]) for k, name in enumerate(program.arguments) if name in forms]
        found = [(k, shape.index(label)) for k, shape in others if label in shape]
        if i not in used and found:
            program.labels[label] = found[0]
        used.add(program.labels[label][0])
    whole = set(_given(program.structure)) | {i for i, *_ in program.entries}
    for _, _, form, _ in program.entries:
        whole.update(() if form is None else _given(form))
    out, count = [], 0
    for structure in structures:
        total = len(list(containers_of(structure)))
        own = {i - count for i in whole}
        leaves = {i - first for i in used}
        out.append(frozenset(_unread(structure, leaves, own, 0, 0)))
        count, first = count + total, first + leaf_count(structure)
    return out


def _unread(structure: Structure, used: set[int], whole: set[int], leaf: int, place: int) -> Iterator[Place]:
    """The entries of a structure without a leaf in `used` and without a container in `whole`.

    `leaf` and `place` are the numbers of the structure's first leaf and of its first container.
    """
    tag = structure[0]
    if tag not in ("list", "tuple", "dict", "td"):
        return
    number, place = place, place + (tag == "td")
    keys = structure[_KEYS] if tag == "td" else ()
    first = {"td": _FORMS, "dict": 2}.get(tag, 1)
    for i, form in enumerate(structure[first:]):
        ends = leaf + leaf_count(form), place + len(list(containers_of(form)))
        if keys and used.isdisjoint(range(leaf, ends[0])) and whole.isdisjoint(range(place, ends[1])):
            yield number, keys[i]
        yield from _unread(form, used, whole, leaf, place)
        leaf, place = ends


def _given(structure: Any) -> Iterator[int]:
    """The numbers of the arguments' containers that are results of the step themselves ("given")."""
    if isinstance(structure, tuple) and structure:
        if structure[0] == "given":
            yield structure[1]
        for item in structure:
            yield from _given(item)


def in_form(
    value: Any,
    structure: Structure,
    added: Mapping[Place, Structure],
    passed: frozenset[Place],
    nodes: list[Any],
) -> Any:
    """A value in the form of a structure: TensorDicts with its order of keys, its device and its lock.

    Args:
        value: an argument.
        structure: structure of the argument that was traced.
        added: additional entries that the value may have.
        passed: entries that nothing reads: they may be missing, and are replaced by an empty array.
        nodes: a list to which the TensorDicts of the value are appended, to be written to.
    """
    tag = structure[0]
    if tag in ("list", "tuple") and type(value).__name__ == tag and len(value) == len(structure) - 1:
        items = zip(value, structure[1:], strict=True)
        return type(value)([in_form(item, form, added, passed, nodes) for item, form in items])
    if tag != "td" or type(value) is not class_registry.dense or structure[1] is not None:
        return value
    _, _, _, _, _, device, locked, keys, *forms = structure
    place, data = len(nodes), value._data
    others = [key for key in data if key not in keys]
    if any((place, key) not in added for key in others):
        return value
    if any(key not in data and (place, key) not in passed for key in keys):
        return value
    nodes.append(value)
    entries = {}
    for key, form in zip(keys, forms, strict=True):
        if (place, key) in passed:
            entries[key] = _absent(form)
            nodes += [entries[key]] * len(list(containers_of(form)))
        else:
            entries[key] = in_form(data[key], form, added, passed, nodes)
    entries.update({key: data[key] for key in others})
    out = class_registry.dense._make(entries, value.batch_size, device, value._names)
    return out.lock_() if locked else out


def _absent(structure: Structure) -> Any:
    """An object of a structure whose leaves are `ABSENT`."""
    if structure[0] != "td":
        return ABSENT
    _, _, dims, sizes, names, device, locked, keys, *forms = structure
    entries = {key: _absent(form) for key, form in zip(keys, forms, strict=True)}
    out = class_registry.dense._make(
        entries, (0,) * dims if sizes is None else sizes, device, None if names is None else list(names)
    )
    return out.lock_() if locked else out


def titles(structure: Structure, name: str) -> Iterator[str]:
    """The name of each array of an argument in errors, such as `batch['next', 'reward']`."""
    tag = structure[0]
    if tag == "td":
        yield from _entries(structure, name, ())
    elif tag == "dict":
        for key, form in zip(structure[1], structure[2:], strict=True):
            yield from titles(form, f"{name}[{key!r}]")
    elif tag in ("list", "tuple"):
        for i, form in enumerate(structure[1:]):
            yield from titles(form, f"{name}[{i}]")
    elif leaf_count(structure):
        yield name


def _entries(structure: Structure, name: str, path: tuple[str, ...]) -> Iterator[str]:
    """`titles` for the arrays of a TensorDict, whose path from the argument is `path`."""
    for key, form in zip(structure[_KEYS], structure[_FORMS:], strict=True):
        if form[0] == "td":
            yield from _entries(form, name, (*path, key))
        elif leaf_count(form):
            yield f"{name}[{', '.join(map(repr, (*path, key)))}]"


def narrowed(name: str, value: Structure, wanted: Structure) -> tuple[str, Structure, Structure]:
    """The title and both forms of the first item of lists, tuples and dicts that differs from the trace."""
    first = {"list": 1, "tuple": 1, "dict": 2}.get(wanted[0])
    if first is None or value[:first] != wanted[:first] or len(value) != len(wanted):
        return name, value, wanted
    keys: Any = wanted[1] if first == 2 else range(len(wanted) - 1)
    for key, one, other in zip(keys, value[first:], wanted[first:], strict=True):
        if one != other:
            return narrowed(f"{name}[{key!r}]", one, other)
    return name, value, wanted


def difference(value: Structure, wanted: Structure, passed: frozenset[Place], sets: list[str]) -> str:
    """The keys that an argument lacks, and those that the traced one lacked: the end of an error.

    Args:
        value: the structure of the argument.
        wanted: the structure that was traced.
        passed: entries that may be missing.
        sets: keys that a call sets.
    """
    if value[0] != "td" or wanted[0] != "td":
        return ""
    lacks, more = _keys(value, wanted, passed, [0], ())
    out = f" It lacks {lacks}." if lacks else ""
    if any(key in sets for key in more):
        return f"{out} A call sets {sets}: give each call a TensorDict without them."
    if more or out:
        return f"{out} It has {more} beside them: exclude(...) leaves entries out." if more else out
    return _head(value, wanted)


def _head(value: Structure, wanted: Structure, of: str = "") -> str:
    """The attribute in which two TensorDicts of the same keys differ, for errors."""
    titles = {
        2: "number of batch dimensions",
        4: "names of dimensions",
        5: "device",
        6: "is_locked",
        7: "order of keys",
    }
    for i, title in titles.items():
        if value[i] != wanted[i]:
            return f" Its {title}{of} is {value[i]!r}, in place of {wanted[i]!r}."
    for key, one, other in zip(wanted[_KEYS], value[_FORMS:], wanted[_FORMS:], strict=True):
        if one[0] == other[0] == "td" and one != other:
            return _head(one, other, f" at {key!r}")
    return ""


def _keys(
    value: Structure, wanted: Structure, passed: frozenset[Place], count: list[int], path: tuple[str, ...]
) -> tuple[list[Any], list[Any]]:
    """The keys that `value` lacks, and those that `wanted` lacks, also in nested TensorDicts.

    `count` has the number of the next container, in which `passed` names entries.
    """
    place = count[0]
    count[0] += 1
    have = dict(zip(value[_KEYS], value[_FORMS:], strict=True))
    lacks: list[Any] = []
    more: list[Any] = [_name((*path, key)) for key in have if key not in wanted[_KEYS]]
    for key, form in zip(wanted[_KEYS], wanted[_FORMS:], strict=True):
        nested = form[0] == "td" and key in have and have[key][0] == "td" and (place, key) not in passed
        if nested:
            found = _keys(have[key], form, passed, count, (*path, key))
            lacks, more = lacks + found[0], more + found[1]
            continue
        count[0] += len(list(containers_of(form)))
        if key not in have and (place, key) not in passed:
            lacks.append(_name((*path, key)))
    return lacks, more


def _name(path: tuple[str, ...]) -> Any:
    return path[0] if len(path) == 1 else path
