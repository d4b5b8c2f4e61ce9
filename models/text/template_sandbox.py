"""The sandbox of chat templates: jinja2's own, with limits to what they build and to the time they take.

Output alone is no measure: a loop may run for hours and write nothing, and a variable that is doubled sixty
times fills any memory. So every string or list that a template makes is charged when it is made, and every
turn of a loop and every call looks at the clock.

The file needs jinja2, so it is imported when the first template is rendered.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

_MARK = "_generation_mark"  # the variable that holds the mark which `{% generation %}` blocks write
MAX_TEMPLATE_CHARS = 1 << 20
MAX_UNITS = 1 << 26  # characters; an element of a list counts as eight
MAX_SECONDS = 10.0
MAX_REPEATED = 1 << 24  # characters or elements that one `*` makes
_MAX_BITS = 1 << 12  # of an integer

# A width of four digits or more, or one given by an argument.
_WIDE = re.compile(r"\d{4,}|%[^a-zA-Z]*\*|\{[^{}]*\{")
_PADDING_METHODS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs", "translate"})
# Filters whose arguments alone decide how much they build.
_UNBOUNDED_FILTERS = ("batch", "center", "slice", "urlize", "wordwrap")

_left: ContextVar[_Budget] = ContextVar("budget")


def render(source: str, context: Mapping[str, Any], mark: str, max_chars: int) -> str:
    """The text that a template gives, with `mark` before and after every `{% generation %}` block.

    Raises:
        ValueError: the template is malformed, fails, builds too much or takes too long, or the text has more
            than `max_chars` characters.
    """
    template = _compile(source)
    pieces: list[str] = []
    length = 0
    try:
        with _Budget():
            for piece in template.generate(**context, **{_MARK: mark}):
                length += len(piece)
                if length > max_chars:
                    raise ValueError(f"the rendered conversation is longer than {max_chars} characters")
                pieces.append(piece)
    except jinja2.TemplateError as error:
        raise ValueError(f"the chat template failed: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"the chat template failed with {type(error).__name__}: {error}") from error
    return "".join(pieces)


@functools.lru_cache(maxsize=64)
def _compile(source: str) -> Any:
    if len(source) > MAX_TEMPLATE_CHARS:
        raise ValueError(
            f"the chat template has {len(source)} characters; at most {MAX_TEMPLATE_CHARS} are allowed"
        )
    try:
        return _environment().from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"the chat template is malformed, line {error.lineno}: {error.message}") from None
    except RecursionError:
        raise ValueError("the chat template is nested too deeply") from None


@functools.cache
def _environment() -> Any:
    environment = _Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationBlock, loopcontrols],
        finalize=_written,
    )
    environment.filters |= {"format": _format, "indent": _indent, "join": _join, "replace": _replace}
    environment.filters |= {"tojson": _tojson, "_charged": _charged, "_turns": _turns}
    for name in _UNBOUNDED_FILTERS:
        del environment.filters[name]
    del environment.globals["lipsum"]
    environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
    return environment


class _Budget:
    """What is left to one rendering; used as a context manager around it."""

    def __init__(self) -> None:
        self._units = MAX_UNITS
        self._deadline = time.monotonic() + MAX_SECONDS

    def __enter__(self) -> None:
        self._token = _left.set(self)

    def __exit__(self, *error: object) -> None:
        _left.reset(self._token)

    def spend(self, units: int) -> None:
        self._units -= units
        if self._units < 0:
            raise SecurityError("it builds too much")
        if time.monotonic() > self._deadline:
            raise SecurityError("it takes too long")


def _spend(units: int) -> None:
    """Charge the rendering that goes on. LookupError while a template is compiled: nothing is folded then."""
    _left.get().spend(units)


def _size(value: Any) -> int:
    """What holding a value costs."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (list, tuple, dict)):
        return 8 * len(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise SecurityError("an integer is too large")
    return 1


def _charged(value: Any) -> Any:
    """The value, paid for."""
    _spend(_size(value))
    return value


def _written(value: Any) -> Any:
    """What goes to the output or into a block; constants are written while compiling, without a budget."""
    if (budget := _left.get(None)) is not None:
        budget.spend(_size(value))
    return value


def _turns(values: Iterable[Any], text: int) -> Iterator[Any]:
    """The values of a loop whose body holds `text` characters of its own."""
    for value in values:
        _spend(text)
        yield value


class _Meter(NodeTransformer):
    """Puts a charge at every loop, filter, slice and `~` of a template's syntax tree."""

    def visit_For(self, node: Any) -> Any:
        self.generic_visit(node)
        text = sum(len(data.data) for part in node.body for data in _text_of(part))
        node.iter = _filtered(node.iter, "_turns", nodes.Const(text))
        return node

    def visit_Filter(self, node: Any) -> Any:
        return _filtered(self.generic_visit(node), "_charged")

    visit_Concat = visit_Filter

    def visit_Getitem(self, node: Any) -> Any:
        self.generic_visit(node)
        return _filtered(node, "_charged") if isinstance(node.arg, nodes.Slice) else node


def _filtered(node: Any, name: str, *arguments: Any) -> Any:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)


def _text_of(node: Any) -> Iterator[Any]:
    if isinstance(node, nodes.TemplateData):
        yield node
    yield from node.find_all(nodes.TemplateData)


def _before_call(function: Any, arguments: tuple[Any, ...]) -> None:
    """Charge string methods whose result may be as long as the product of their operands."""
    text, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(text, str) and name == "replace" and len(arguments) > 1:
        _before_replace(text, *arguments[:2])
    elif isinstance(text, str) and name == "join" and arguments:
        _spend(len(text) * len(arguments[0]) if hasattr(arguments[0], "__len__") else 0)
    elif isinstance(text, str) and name in ("format", "format_map"):
        _spend(text.count("{") * max((_size(argument) for argument in arguments), default=0))
    _spend(1)


def _before_replace(text: str, old: Any, new: Any) -> None:
    """Charge what replacing would build."""
    _spend(str(text).count(str(old)) * len(str(new)))


class _GenerationBlock(Extension):
    """``{% generation %} ... {% endgeneration %}``: what the assistant wrote."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        mark = nodes.ContextReference()
        return nodes.CallBlock(self.call_method("_wrap", [mark]), [], [], body).set_lineno(line)

    def _wrap(self, context: Any, caller: Any) -> str:
        mark = context[_MARK]
        return f"{mark}({caller()}{mark})"


class _Environment(ImmutableSandboxedEnvironment):
    # A few characters of template must not build gigabytes before the limit of the output is seen.
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def _generate(self, source: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._generate(_Meter().visit(source), *args, **kwargs)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        _before_call(__obj, args)
        return _charged(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if operator == "%" and isinstance(left, str) and _WIDE.search(left):
            raise SecurityError("the width of a % format is too large")
        if operator == "%" and isinstance(left, str):
            values = right if isinstance(right, tuple) else (right,)
            _spend(left.count("%") * max(map(_size, values), default=0))
        if operator == "+":
            _spend(_size(left) + _size(right))
        if operator == "**" and not (numbers and abs(left) <= 1 << 16 and abs(right) <= 64):
            raise SecurityError("the operands of ** are too large")
        if operator == "*" and not numbers:
            item, count = (left, right) if isinstance(right, int) else (right, left)
            if isinstance(count, int) and len(item) * count > MAX_REPEATED:
                raise SecurityError("the result of * is too large")
        return _charged(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Any:
        text = getattr(value, "__self__", None)
        return None if isinstance(text, str) and _WIDE.search(text) else super().wrap_str_format(value)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr in _PADDING_METHODS:
            return False
        if isinstance(obj, str) and attr in ("format", "format_map") and _WIDE.search(obj):
            return False
        return bool(super().is_safe_attribute(obj, attr, value))


def _format(value: Any, *args: Any, **kwargs: Any) -> str:
    if _WIDE.search(str(value)):
        raise SecurityError("the width of a format is too large")
    return str(str(value) % (kwargs or args))


def _indent(value: Any, width: int | str = 4, *args: Any, **kwargs: Any) -> str:
    if isinstance(width, int) and width > 64:
        raise SecurityError(f"indent: width must be at most 64, got {width}")
    if isinstance(width, str) and len(width) > 64:
        raise SecurityError("indent: width must be at most 64 characters")
    _spend(str(value).count("\n") * (width if isinstance(width, int) else len(width)))
    return str(FILTERS["indent"](value, width, *args, **kwargs))


def _replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    _before_replace(str(value), old, new)
    return str(value).replace(str(old), str(new), -1 if count is None else count)


@jinja2.pass_eval_context
def _join(eval_context: Any, values: Any, d: str = "", attribute: Any = None) -> str:
    values = list(values)
    _spend(sum(map(_size, values)) + len(values) * len(str(d)))
    return str(FILTERS["join"](eval_context, values, d, attribute))


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    if indent is not None and not 0 <= indent <= 16:
        raise SecurityError(f"tojson: indent must be in 0..16, got {indent}")
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
