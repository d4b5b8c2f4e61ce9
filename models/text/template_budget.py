"""The budget of a chat template's rendering: limits of size and time, and the costs of values.

Output alone is no measure: a loop may run for hours and write nothing, a variable that is doubled sixty
times fills any memory, and sixty lists that hold each other twice are small until they are printed. So

- every string or list that a template makes is charged when it is made (`spend`), before it is made where
  its size does not follow from that of its operands (`room`);
- whatever looks at all of a value, as printing, comparing or hashing do, first bounds it with everything in
  it counted as often as it is held (`weigh`);
- every charge looks at the thread's processor time, which a busy machine does not use up.

Where a template pays is said in `template_sandbox`. This needs jinja2, as that does.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, MappingView
from contextvars import ContextVar
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, Macro
from jinja2.utils import Namespace

MAX_UNITS = 1 << 26  # characters; see `ELEMENT`
MAX_SECONDS = 10.0  # of the thread's processor time
ELEMENT = 32  # units that an element of a list costs
MAX_SPELLED = 1 << 12  # characters of a number, or of the path of an attribute
_MAX_WEIGHT = 1 << 24  # characters of a value with all that is in it, counted as often as it is held
_MAX_DEPTH = 128  # of values in values
_MAX_BITS = 1 << 12  # of an integer

_HOLDERS: Any = (list, tuple, set, frozenset, Mapping, MappingView)
# The context is the rendering's own, which `{% generation %}` blocks hand on.
_PLAIN = frozenset({bool, int, float, type(None), jinja2.Undefined, Context})

# A browser has one thread, and no clock of it.
_processor_time = getattr(time, "thread_time", time.process_time)

left_to_rendering: ContextVar[Budget] = ContextVar("budget")


class Budget:
    """The remaining budget of one rendering; used as a context manager around it."""

    def __init__(self) -> None:
        self.units = MAX_UNITS
        self._deadline = _processor_time() + MAX_SECONDS

    def __enter__(self) -> None:
        self._token = left_to_rendering.set(self)

    def __exit__(self, *error: object) -> None:
        left_to_rendering.reset(self._token)

    def spend(self, units: int) -> None:
        self.units -= units
        if self.units < 0:
            raise SecurityError("it builds too much")
        if _processor_time() > self._deadline:
            raise SecurityError("it takes too long")


def spend(units: int) -> None:
    """Charge the rendering that goes on. LookupError while a template is compiled: nothing is folded then."""
    left_to_rendering.get().spend(units)


def room(units: int) -> None:
    """Refuse to build more than is left; what is built is charged by who knows its size."""
    budget = left_to_rendering.get()
    budget.spend(0)
    if units > budget.units:
        raise SecurityError("it builds too much")


def size(value: Any) -> int:
    """The cost of holding a value, without its content."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (list, tuple, dict)):
        return ELEMENT * len(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise SecurityError("an integer is too large")
    return 1


def weigh(value: Any) -> tuple[int, int]:
    """How long a value would be in print, about, and how deep it is; SecurityError beyond the limits.

    What several places hold counts at each: who prints, compares or hashes it walks there each time.
    """
    level, total, depth = [value], 0, 0
    while level:
        inner: list[Any] = []
        for item in level:
            if isinstance(item, str):
                total += len(item)
            elif isinstance(item, int):
                total += 8 + size(item) + item.bit_length() // 3
            elif isinstance(item, Namespace):
                inner.append(object.__getattribute__(item, "_Namespace__attrs"))
            elif isinstance(item, _HOLDERS):
                total += 16 * len(item)
                if total > _MAX_WEIGHT:
                    break
                inner.extend(item)
                if isinstance(item, Mapping):
                    inner.extend(item.values())
            else:
                total += 64 + len(item.name or "") if isinstance(item, Macro) else 64
        depth += 1
        if total > _MAX_WEIGHT or depth > _MAX_DEPTH:
            raise SecurityError("it builds too much: a value holds too much, or the same too often")
        level = inner
    return total, depth


def walked(value: Any) -> Any:
    """A value that may be looked at as a whole; the list of what can be read only once."""
    kind = type(value)
    if (kind is str and len(value) <= MAX_SPELLED) or kind in _PLAIN:
        return value
    if hasattr(value, "__next__"):
        value = listed(value)
    if not isinstance(value, str):
        weigh(value)
    spend(0)
    return value


def charged(value: Any) -> Any:
    """The value, paid for."""
    spend(size(value))
    return value


def written(value: Any) -> Any:
    """Text for the output or a block; constants are written while compiling, without a budget."""
    if (budget := left_to_rendering.get(None)) is None:
        return value
    if not isinstance(value, (str, jinja2.Undefined)):
        weigh(value)
        value = str(value)
    budget.spend(size(value))
    return value


def turns(values: Iterable[Any], cost: int) -> Iterator[Any]:
    """The values of a loop, each of which costs as much as the text that the loop's body holds."""
    for value in values:
        spend(max(cost, 0))
        yield value


def listed(values: Iterable[Any]) -> list[Any]:
    """The values of something that is read once, each paid for."""
    return list(turns(values, ELEMENT))
