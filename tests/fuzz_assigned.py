"""What an assignment must give: done element by element, in the arrays as they were before the step.

Arrays that share memory, as parts do that are in a lazy stack more than once, share it here, too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from fuzz_case import Case, full_index
from fuzz_dense import covers, rows
from fuzz_sides import LITE, arrays, is_container, is_objects, stacked, thaw
from fuzz_values import paths

import lite


class _Recorder:
    """Stands for the target of an assignment, and remembers it instead of doing it."""

    def __init__(self, td: Any) -> None:
        self.td = td

    def __getitem__(self, index: Any) -> Any:
        return self.td[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.index = index
        self.value = self.td if value is self else value


def assigned(case: Case) -> bool:
    """Whether an assignment changed the elements that the index picks, one by one."""
    before = case.before()
    at = case.step.facts["target"]
    td = before[at]
    thaw(td)
    before[at] = recorder = _Recorder(td)
    case.step.run(LITE, before)
    value, size = recorder.value, td.batch_size
    if -1 in size:
        whole = full_index(case) or (size[0] == 1 and type(recorder.index) is int)
        return whole and np.isscalar(value) and _filled(case.target, td, value)
    if isinstance(value, dict):
        value = td[recorder.index].empty().update(value)
    numbers = np.arange(math.prod(size)).reshape(size)
    picked = lite.TensorDict({"at": numbers}, batch_size=size)[recorder.index]
    if is_container(value) and picked.ndim < value.ndim and picked.numel() == value.numel():
        value = value.reshape(picked.batch_size)
    if is_container(value) and picked.ndim < value.ndim:
        return False
    try:
        new = (
            rows(value.expand(picked.batch_size).clone()) if is_container(value) else [value] * picked.numel()
        )
        places = [np.unravel_index(n, size) for n in picked["at"].ravel()]
        for place, row in zip(places, new, strict=True):
            _write(td, place, row)
        owners = [_owner(td, place) for place in np.ndindex(size)]
        was = rows(td)
        content = list(was)
        for place, row in zip(places, new, strict=True):
            for n, owner in enumerate(owners):
                if owner == _owner(td, place):
                    content[n] = _rest(was[n], row)
    except ValueError:  # rows that have no element's shape
        return False
    return covers(rows(case.target), content, [])


def _filled(td: Any, before: Any, number: Any) -> bool:
    found = [array for array in arrays(td) if array.dtype != object]
    filled = all(bool(np.all(array == np.asarray(number, array.dtype))) for array in found)
    return filled and paths(td) == paths(before)


def _owner(td: Any, place: tuple[Any, ...]) -> tuple[Any, ...]:
    """The dense TensorDict that an element is in, and where."""
    if not stacked(td):
        return (id(td), *map(int, place))
    dim = td.stack_dim
    return _owner(td.tensordicts[place[dim]], place[:dim] + place[dim + 1 :])


def _write(td: Any, place: tuple[Any, ...], row: Any) -> None:
    """Write the arrays of one element."""
    if stacked(td):
        dim = td.stack_dim
        _write(td.tensordicts[place[dim]], place[:dim] + place[dim + 1 :], row)
        return
    for key, entry in td._items():
        item = row.get(key) if isinstance(row, dict) else row
        if item is None or is_objects(entry):
            continue
        if is_container(entry):
            for inner in np.ndindex(entry.batch_size[len(place) :]):
                _write(entry, (*place, *inner), _at(item, inner))
        else:
            entry[place] = item


def _at(item: Any, place: tuple[int, ...]) -> Any:
    for i in place:
        item = item[i] if isinstance(item, list) else item
    return item


def _rest(old: Any, new: Any) -> Any:
    """An element after its objects and new entries were assigned to."""
    if isinstance(old, dict):
        if not isinstance(new, dict):
            return {key: _rest(item, new) for key, item in old.items()}
        return old | {key: _rest(old[key], item) if key in old else item for key, item in new.items()}
    if isinstance(old, list):
        items = new if isinstance(new, list) else [new] * len(old)
        return [_rest(*pair) for pair in zip(old, items, strict=True)]
    return old if isinstance(old, np.ndarray) else new
