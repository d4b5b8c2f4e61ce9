"""What a step should give, worked out without lazy stacks.

Two ways, both from the state before the step: operations that only move elements are done on an array of
their numbers (`moves`), all others on dense copies (`dense`), where entries that cannot be stacked (ragged
leaves, exclusive keys) are left out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from fuzz_case import Case, elements, same_elements
from fuzz_sides import LITE, is_container, is_objects, stacked

import lite

# Operations on v[at] alone that only move, repeat or drop elements.
MOVES = (
    "index", "reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze", "permute", "transpose",
    "movedim", "expand", "split", "chunk", "unbind", "repeat", "repeat_interleave", "flip", "gather",
    "masked_select",
)  # fmt: skip


class NotDense(Exception):
    """There is no dense form, even without some entries."""


def agrees(case: Case) -> bool:
    """Whether lite's result, and what became of its target, are what they should be."""
    try:
        if case.name in ("flat_round", "flatten_keys"):
            separator = None if case.name == "flat_round" else case.step.facts["args"][0]
            return flat_keys(case.ours, case.before()[case.step.facts["target"]], separator)
        if case.name in MOVES:
            return moves(case) or (case.name == "gather" and dense(case))  # which stacks different dtypes
        return dense(case)
    except NotDense:
        return False


def flat_keys(ours: Any, source: Any, separator: str | None) -> bool:
    """Whether entries were brought to the top, with a separator, or to the top and back down."""
    if stacked(ours) and stacked(source) and ours.batch_size == source.batch_size:
        pairs = zip(ours.tensordicts, source.tensordicts, strict=True)
        return ours.stack_dim == source.stack_dim and all(flat_keys(*pair, separator) for pair in pairs)
    wanted = without_empty(elements(source))
    return same_elements(
        without_empty(elements(ours)), wanted if separator is None else _flat(wanted, separator)
    )


def _flat(value: Any, separator: str) -> Any:
    """Elements with nested entries at the top; those of longer nested batches are lists of pieces."""
    if isinstance(value, list):
        return [_flat(item, separator) for item in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for key, item in value.items():
        nested = {key: item}
        if isinstance(item, dict):
            nested = {f"{key}{separator}{inner}": x for inner, x in _flat(item, separator).items()}
        elif isinstance(item, list):
            raise NotDense
        out |= nested
    return dict(sorted(out.items()))


def without_empty(value: Any) -> Any:
    """Elements without nested ones that have no entries."""
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: without_empty(item) for key, item in value.items()}
    return {key: item for key, item in found.items() if not _empty(item)}


def _empty(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_empty, value))
    return isinstance(value, dict) and not value


def fails_alike(case: Case) -> bool:
    """Whether lite raises for a dense TensorDict as well, the same class of error."""
    before = case.before()
    try:
        copies = [dense_copy(td, []) for td in before]
    except NotDense:
        return False
    try:
        case.step.run(LITE, copies)
    except Exception as error:
        return type(error).__name__ == case.error
    return False


def rows(value: Any) -> list[Any]:
    """The batch elements in row-major order."""
    out = [elements(value)] if is_container(value) else list(value)
    for _ in range(value.batch_dims):
        out = [row for part in out for row in part]
    return out


def moves(case: Case) -> bool:
    before = case.before()
    at = case.step.facts["target"]
    source = before[at]
    if -1 in source.batch_size:
        if case.name not in ("flatten", "reshape") or case.ours.batch_dims != 1:
            raise NotDense
        return same_elements(rows(case.ours), rows(source))
    numbers = np.arange(math.prod(source.batch_size)).reshape(source.batch_size)
    before[at] = lite.TensorDict({"at": numbers}, batch_size=source.batch_size)
    try:
        expected = case.step.run(LITE, before)
    except Exception:
        return False
    content = rows(source)
    pairs = [(case.ours, expected)]
    if isinstance(expected, tuple):
        if not isinstance(case.ours, tuple) or len(case.ours) != len(expected):
            return False
        pairs = list(zip(case.ours, expected, strict=True))
    for ours, wanted in pairs:
        if ours.batch_size != wanted.batch_size:
            return False
        if not same_elements(rows(ours), [content[i] for i in wanted["at"].ravel()]):
            return False
    return same_elements(elements(case.target), elements(source))


def dense(case: Case) -> bool:
    before = case.before()
    left_out: list[str] = []
    copies = [dense_copy(td, left_out) for td in before]
    try:
        expected = case.step.run(LITE, copies)
    except KeyError:  # an operand has what was left out of another
        copies = [_without(dense_copy(td, []), left_out) for td in case.before()]
        try:
            expected = case.step.run(LITE, copies)
        except Exception:
            return False
    except Exception:
        return False
    if not _same(case.ours, expected, left_out):
        return False
    target = copies[case.step.facts["target"]]
    return _same(case.target, target, left_out) or _unchanged(case, target)


def _unchanged(case: Case, target: Any) -> bool:
    """Whether a step changes neither the dense form of its target nor the target."""
    before = case.before()[case.step.facts["target"]]
    pairs = (target, dense_copy(before, [])), (case.target, before)
    return all(same_elements(elements(a), elements(b)) for a, b in pairs)


def merged(old: Any, new: Any) -> Any:
    """An element after it was assigned to, or two pieces of one put together."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: merged(old[key], item) if key in old else item for key, item in new.items()}
    if isinstance(old, dict) and np.isscalar(new):
        return {key: merged(item, new) for key, item in old.items()}
    if isinstance(old, list):
        items = new if isinstance(new, list) else [new] * len(old)
        return [merged(*pair) for pair in zip(old, items, strict=True)]
    if isinstance(old, np.ndarray) and (np.isscalar(new) or isinstance(new, np.ndarray)):
        return np.broadcast_to(np.asarray(new), old.shape).astype(old.dtype)
    return new


def padded(case: Case) -> bool:
    """Whether a ragged entry of one feature dim was read with -1 after the end of each row."""
    rows_of = [row[case.step.facts["key"]] for row in rows(case.before()[case.step.facts["target"]])]
    found = case.ours.reshape(len(rows_of), -1)
    return all(
        row.ndim == 1 and np.array_equal(line[: len(row)], row) and bool(np.all(line[len(row) :] == -1))
        for line, row in zip(found, rows_of, strict=True)
    )


def common_keys(case: Case) -> bool:
    """Whether the keys that were read are those that all parts of lazy stacks have."""
    keys = _keys(case.before()[case.step.facts["target"]])
    everything = sorted(str(path if len(path) > 1 else path[0]) for path in keys)
    return case.ours[0] == everything and sorted(case.ours[2]) == sorted(p[0] for p in keys if len(p) == 1)


def _keys(value: Any) -> set[tuple[str, ...]]:
    if stacked(value):
        return set.intersection(*map(_keys, value.tensordicts)) if value.tensordicts else set()
    found = set()
    for key, entry in value._items():
        found.add((key,))
        if is_container(entry) and not is_objects(entry):
            found |= {(key, *path) for path in _keys(entry)}
    return found


def flipped(case: Case) -> bool:
    """Whether the parts of a lazy stack, whose batch may be ragged, are flipped, or their order is."""
    before, ((d,),) = case.before()[case.step.facts["target"]], case.step.facts["args"]
    parts, at = before.tensordicts, d % before.ndim
    if at == before.stack_dim:
        wanted = [elements(part) for part in reversed(parts)]
    else:
        axis = at - (at > before.stack_dim)
        wanted = [_flip(elements(part), axis) for part in parts]
    return case.ours.stack_dim == before.stack_dim and same_elements(
        [elements(part) for part in case.ours.tensordicts], wanted
    )


def _flip(rows: list[Any], axis: int) -> list[Any]:
    return [_flip(row, axis - 1) for row in rows] if axis else rows[::-1]


def parts_apart(case: Case) -> bool:
    """Whether keys changed as if no part were in a lazy stack more than once."""
    if case.step.writes:
        return False
    copies = [td.clone() for td in case.before()]
    try:
        case.step.run(LITE, copies)
    except Exception:
        return False
    return same_elements(elements(case.target), elements(copies[case.step.facts["target"]]))


def last_places(case: Case) -> bool:
    """Whether each part of a lazy stack holds what the dense form does at the last place that it is at."""
    try:
        copies = [dense_copy(td, []) for td in case.before()]
        case.step.run(LITE, copies)
    except Exception:
        return False
    parts = case.target.tensordicts
    rows_of = copies[case.step.facts["target"]].unbind(case.target.stack_dim)
    last = {id(part): row for part, row in zip(parts, rows_of, strict=True)}
    return all(same_elements(elements(part), elements(last[id(part)])) for part in parts)


def popped(case: Case) -> bool:
    """Whether one entry was taken out, and no other changed."""
    before = case.before()[case.step.facts["target"]]
    key, _ = case.ours
    pairs = zip(case.target.tensordicts, before.tensordicts, strict=True)
    return all(same_elements(elements(part), elements(old.exclude(key))) for part, old in pairs)


def split_apart(case: Case) -> bool:
    """Whether the results of `split_keys` are, put together, what was split."""
    whole = without_empty(rows(case.before()[case.step.facts["target"]]))
    pieces = [without_empty(rows(td)) for td in case.ours]
    return same_elements([merged(*pair) for pair in zip(*pieces, strict=True)], whole)


def _same(ours: Any, expected: Any, left_out: list[str]) -> bool:
    if is_container(expected):
        if not is_container(ours) or ours.batch_size != expected.batch_size:
            return False
        return covers(elements(ours), elements(expected), left_out)
    if isinstance(expected, tuple | list):
        return len(ours) == len(expected) and all(
            _same(a, b, left_out) for a, b in zip(ours, expected, strict=True)
        )
    if is_objects(expected):
        return bool(is_objects(ours)) and ours.tolist() == expected.tolist()
    if isinstance(expected, dict):
        return all(_same(ours.get(key), expected[key], left_out) for key in expected)
    return covers(ours, expected, left_out)


def covers(ours: Any, expected: Any, left_out: list[str]) -> bool:
    """`same_elements`, where `ours` may have keys that were left out of `expected`.

    It may also lack new keys outside of what was assigned to: dense entries are zero there.
    """
    if isinstance(ours, list) and isinstance(expected, list):
        return len(ours) == len(expected) and all(
            covers(a, b, left_out) for a, b in zip(ours, expected, strict=True)
        )
    if isinstance(ours, dict) and isinstance(expected, dict):
        more = ours.keys() - expected.keys()
        return (
            all(_zero(expected[key]) for key in expected.keys() - ours.keys())
            and all(_zero(ours[key]) or any(left in key for left in left_out) for key in more)
            and all(covers(ours[key], expected[key], left_out) for key in expected.keys() & ours.keys())
        )
    return same_elements(ours, expected)


def _zero(value: Any) -> bool:
    if isinstance(value, list | dict):
        return all(map(_zero, value.values() if isinstance(value, dict) else value))
    return value is None or (isinstance(value, np.ndarray) and not value.any())


def dense_copy(td: Any, left_out: list[str]) -> Any:
    """A dense copy of what can be stacked; appends to `left_out` the keys of the rest."""
    if stacked(td):
        parts = [dense_copy(part, left_out) for part in td.tensordicts]
        if len({part.batch_size for part in parts}) != 1:
            raise NotDense
        out = _stack(parts, td.stack_dim, left_out)
    else:
        entries = {key: _copy(entry, left_out) for key, entry in td._items()}
        out = lite.TensorDict(entries, batch_size=td.batch_size)
    try:
        out.names = td.names
    except ValueError as error:  # parts that disagree
        raise NotDense from error
    return out.lock_() if td.is_locked else out


def _without(td: Any, keys: list[str]) -> Any:
    """A dense TensorDict without some keys, at any depth."""
    kept = {key: entry for key, entry in td._items() if key not in keys}
    nodes = {key: _without(e, keys) for key, e in kept.items() if is_container(e) and not is_objects(e)}
    out = lite.TensorDict(kept | nodes, batch_size=td.batch_size, names=td.names)
    return out.lock_() if td.is_locked else out


def _copy(entry: Any, left_out: list[str]) -> Any:
    if is_container(entry):
        return dense_copy(entry, left_out)
    return entry.copy() if isinstance(entry, np.ndarray) else entry.clone()


def _stack(parts: list[Any], dim: int, left_out: list[str]) -> Any:
    size = parts[0].batch_size
    out = lite.TensorDict({}, batch_size=(*size[:dim], len(parts), *size[dim:]))
    keys = sorted({key for part in parts for key in part.keys()})  # noqa: SIM118
    for key in keys:
        entries = [part.get(key) for part in parts]
        if all(isinstance(entry, np.ndarray) for entry in entries):
            stackable = len({entry.shape for entry in entries}) == 1
            value = np.stack(entries, dim) if stackable else None
        elif all(is_objects(entry) for entry in entries):
            stackable = len({entry.batch_size for entry in entries}) == 1
            value = lite.NonTensorStack._stacked(entries, dim) if stackable else None
        elif all(is_container(entry) for entry in entries):
            stackable = len({entry.batch_size for entry in entries}) == 1
            value = _stack(entries, dim, left_out) if stackable else None
        else:
            value = None
        if value is None:
            left_out.append(key)
        else:
            out.set(key, value)
    return out
