"""What a write must give: done leaf by leaf with NumPy on the arrays as they were before the step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from fuzz_case import Case, elements, lazy_somewhere, path_of, ragged, same_elements
from fuzz_sides import LITE, Array, arrays, is_container, is_objects, stacked

Leaves = dict[tuple[str, ...], Array]


def written(case: Case) -> bool:
    """Whether lite's target holds what NumPy gives."""
    at, facts = case.step.facts["target"], case.step.facts
    try:
        before = case.before()
        value = facts["source"](LITE, before)
        if case.name == "update" and facts["how"] in ("update_", "inplace") and _pairs_up(before[at], value):
            found = zip(case.target.tensordicts, before[at].tensordicts, value.tensordicts, strict=True)
            return all(same(flat(part), _copied(old, new)) for part, old, new in found)
        if case.name == "set" and facts["how"] in ("set_", "inplace") and facts["key"] in before[at]:
            return _entry_written(case, before[at], value)
        expected = flat(before[at])
        size = before[at].batch_size
        if case.name == "set_index":
            _assign(expected, size, np.arange(math.prod(size)).reshape(size)[facts["index"]], value)
        elif facts["how"] == "update_at_":
            _assign(expected, size, np.arange(math.prod(size)).reshape(size)[0], value)
        else:
            _copy(expected, path_of(facts["key"]) if case.name == "set" else (), value)
        return same(flat(case.target), expected)
    except (ValueError, IndexError, TypeError, RuntimeError, KeyError, AttributeError):
        return False  # NumPy would not do it, or the step says nothing about its source


def _pairs_up(target: Any, source: Any) -> bool:
    """Whether two lazy stacks are updated part by part."""
    both = stacked(target) and stacked(source) and target.stack_dim == source.stack_dim
    return both and len(target.tensordicts) == len(source.tensordicts)


def _entry_written(case: Case, before: Any, value: Any) -> bool:
    """Whether an entry of a ragged TensorDict holds what NumPy gives, and all others what they did."""
    key = case.step.facts["key"]
    if np.ndim(value) == 0 and -1 in before.get_item_shape(key):
        entries = arrays(case.target.get(key, as_list=True))
        filled = all(bool(np.all(array == np.asarray(value, array.dtype))) for array in entries)
        return filled and same_elements(*(elements(td.exclude(key)) for td in (case.target, before)))
    expected = flat(before.get(key))
    _copy(expected, (), value)
    if (
        stacked(before) and () in expected and not is_objects(before.get(key))
    ):  # as one part may be there more than once
        _write(before, path_of(key), expected[()])
        expected = flat(before.get(key))
    if not same(flat(case.target.get(key)), expected):
        return False
    rest = [td.exclude(key) for td in (case.target, before)]
    return same_elements(*map(elements, rest))


def _write(td: Any, path: tuple[str, ...], array: Array) -> None:
    if stacked(td):
        for part, rows in zip(td.tensordicts, np.moveaxis(array, td.stack_dim, 0), strict=True):
            _write(part, path, rows)
    elif len(path) > 1:
        _write(td.get(path[0]), path[1:], array)
    else:
        td.get(path[0])[...] = array


def _copied(old: Any, new: Any) -> Leaves:
    leaves = flat(old)
    _copy(leaves, (), new)
    return leaves


def flat_before(case: Case) -> Leaves:
    """The leaves that the target had before the step; none if they are ragged."""
    try:
        return flat(case.before()[case.step.facts["target"]])
    except RuntimeError:
        return {}


def flat(value: Any, prefix: tuple[str, ...] = ()) -> Leaves:
    """Copies of all leaves by path; objects as object arrays. RuntimeError for ragged ones."""
    if isinstance(value, dict):
        found: Leaves = {}
        for key, item in value.items():
            found |= flat(item, (*prefix, *path_of(key)))
        return found
    if is_objects(value):
        return {prefix: np.array(value._objects(), dtype=object)}
    if not is_container(value):
        return {prefix: np.array(value)}
    if lazy_somewhere(value):
        if ragged(value):
            raise RuntimeError("ragged")
        value = value.contiguous()
    found = {}
    for key, entry in value.items():
        found |= flat(entry, (*prefix, key))
    return found


def same(ours: Leaves, expected: Leaves) -> bool:
    return ours.keys() == expected.keys() and all(map(_same, ours.values(), (expected[p] for p in ours)))


def _same(ours: Array, expected: Array) -> bool:
    if expected.dtype.kind == "U":  # text of a mapping, for a batch of any size
        return bool(np.all(ours == expected))
    exact = ours.dtype == expected.dtype and ours.shape == expected.shape
    return exact and np.array_equal(ours, expected, equal_nan=ours.dtype.kind in "fc")


def _assign(leaves: Leaves, size: tuple[int, ...], picked: Array, value: Any) -> None:
    """`td[index] = value`, where `picked` are the flat numbers of the elements that the index picks."""
    if np.isscalar(value):
        sources = dict.fromkeys(leaves, np.asarray(value))
    else:
        own, found = tuple(value.batch_size) if is_container(value) else picked.shape, flat(value)
        shapes = [array.shape for array in found.values() if array.dtype != object]
        if not own and all(shape[: picked.ndim] == picked.shape for shape in shapes):
            own = picked.shape  # which the source does not say, but its entries do
        sources = {path: _spread(array, own, picked.shape) for path, array in found.items()}
    for path, source in sources.items():
        if path not in leaves:
            new = None if source.dtype == object else 0
            leaves[path] = np.full(size + source.shape[picked.ndim :], new, source.dtype)
        target = leaves[path]
        rows = target.reshape(math.prod(size), *target.shape[len(size) :])
        while source.ndim > picked.ndim + rows.ndim - 1 and len(source) == 1:
            source = source[0]  # as NumPy does, but not with a 0-d index array
        rows[picked] = source
        leaves[path] = rows.reshape(target.shape)


def _spread(array: Array, own: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """An entry of a source of one batch size for another one that it broadcasts to."""
    if own != shape and own == shape[len(shape) - len(own) :]:
        return np.broadcast_to(array, shape[: len(shape) - len(own)] + array.shape)
    return array


def _copy(leaves: Leaves, prefix: tuple[str, ...], value: Any) -> None:
    """An update in place: into the arrays there are, otherwise the values themselves."""
    for path, source in flat(value, prefix).items():
        if path in leaves:
            leaves[path][...] = source
        else:
            leaves[path] = source
