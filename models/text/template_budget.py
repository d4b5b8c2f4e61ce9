"""What rendering one chat template may cost: characters and elements built, and seconds.

Output alone is no measure: a loop may run for hours and write nothing, and a variable that is doubled sixty
times fills any memory. So every string or list that a template makes is charged when it is made, and every
turn of a loop and every call looks at the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

MAX_UNITS = 1 << 26  # characters; an element of a list counts as eight
MAX_SECONDS = 10.0
_MAX_BITS = 1 << 12  # of an integer

_left: ContextVar[Budget] = ContextVar("budget")


class Budget:
    """What is left to one rendering; used as a context manager around it."""

    def __init__(self) -> None:
        self._units = MAX_UNITS
        self._deadline = time.monotonic() + MAX_SECONDS

    def __enter__(self) -> None:
        self._token = _left.set(self)

    def __exit__(self, *error: object) -> None:
        _left.reset(self._token)

    def spend(self, units: int) -> None:
        from jinja2.exceptions import SecurityError

        self._units -= units
        if self._units < 0:
            raise SecurityError("it builds too much")
        if time.monotonic() > self._deadline:
            raise SecurityError("it takes too long")


def spend(units: int) -> None:
    """Charge the rendering that goes on. LookupError while a template is compiled: nothing is folded then."""
    _left.get().spend(units)


def size(value: Any) -> int:
    """What holding a value costs."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (list, tuple, dict)):
        return 8 * len(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        from jinja2.exceptions import SecurityError

        raise SecurityError("an integer is too large")
    return 1


def charged(value: Any) -> Any:
    """The value, paid for."""
    spend(size(value))
    return value


def written(value: Any) -> Any:
    """What goes to the output or into a block; constants are written while compiling, without a budget."""
    if (budget := _left.get(None)) is not None:
        budget.spend(size(value))
    return value


def turns(values: Iterable[Any], text: int) -> Iterator[Any]:
    """The values of a loop whose body holds `text` characters of its own."""
    for value in values:
        spend(text)
        yield value


def before_call(function: Any, arguments: tuple[Any, ...]) -> None:
    """Charge string methods whose result may be as long as the product of their operands."""
    text, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(text, str) and name == "replace" and len(arguments) > 1:
        before_replace(text, *arguments[:2])
    elif isinstance(text, str) and name == "join" and arguments:
        spend(len(text) * len(arguments[0]) if hasattr(arguments[0], "__len__") else 0)
    elif isinstance(text, str) and name in ("format", "format_map"):
        spend(text.count("{") * max((size(argument) for argument in arguments), default=0))
    spend(1)


def before_replace(text: str, old: Any, new: Any) -> None:
    """Charge what replacing would build."""
    spend(str(text).count(str(old)) * len(str(new)))


def metered(template: Any) -> Any:
    """The syntax tree of a template with a charge at every loop, filter, slice and `~`."""
    from jinja2 import nodes
    from jinja2.visitor import NodeTransformer

    def filtered(node: Any, name: str, *arguments: Any) -> Any:
        return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)

    class Meter(NodeTransformer):
        def visit_For(self, node: Any) -> Any:
            self.generic_visit(node)
            text = sum(len(data.data) for part in node.body for data in _text_of(part))
            node.iter = filtered(node.iter, "_turns", nodes.Const(text))
            return node

        def visit_Filter(self, node: Any) -> Any:
            return filtered(self.generic_visit(node), "_charged")

        visit_Concat = visit_Filter

        def visit_Getitem(self, node: Any) -> Any:
            self.generic_visit(node)
            return filtered(node, "_charged") if isinstance(node.arg, nodes.Slice) else node

    def _text_of(node: Any) -> Iterator[Any]:
        if isinstance(node, nodes.TemplateData):
            yield node
        yield from node.find_all(nodes.TemplateData)

    return Meter().visit(template)
