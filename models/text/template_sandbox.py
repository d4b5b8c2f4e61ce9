"""The sandbox of chat templates: jinja2's own, with limits to what they build and to the time they take.

`template_budget` says what values cost; here is where a template pays:

- what it builds is charged by operators, calls and filters, and by what `_Meter` puts into its syntax tree;
- every turn of a loop, filter and call looks at the clock, and none of them alone takes long;
- filters, and methods of Python's own types, are those listed here.

The file needs jinja2, so it is imported when the first template is rendered.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from types import GeneratorType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.visitor import NodeTransformer

from lite.models.text.template_budget import (
    ELEMENT,
    MAX_SPELLED,
    Budget,
    charged,
    left_to_rendering,
    listed,
    room,
    size,
    spend,
    turns,
    walked,
    weigh,
    written,
)

_MARK = "_generation_mark"  # the variable that holds the mark which `{% generation %}` blocks write
MAX_TEMPLATE_CHARS = 1 << 17
_MAX_PRODUCT = 1 << 28  # of the sizes of two operands
_WIDEST = 1 << 11  # what one format may write without its value

# A width of four digits or more, or one given by an argument.
_WIDE = re.compile(r"\d{4,}|%[^a-zA-Z]*\*|\{[^{}]*\{")
# Methods of texts, and filters, whose result or time grows as the product of the sizes of their operands may.
_PRODUCTS = frozenset(
    {"join", "lstrip", "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip"}
)
# Filters for which it does not.
_LINEAR_FILTERS = frozenset({"d", "default", "float", "format", "int", "truncate"})
_STR = _PRODUCTS | {
    *("capitalize", "casefold", "count", "endswith", "find", "format", "format_map", "index", "isalnum"),
    *("isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable"),
    *("isspace", "istitle", "isupper", "lower", "partition", "removeprefix", "removesuffix", "split"),
    *("splitlines", "startswith", "swapcase", "title", "upper"),
}  # fmt: skip
_METHODS: dict[type, frozenset[str]] = {
    dict: frozenset({"copy", "get", "items", "keys", "values"}),
    list: frozenset({"copy", "count", "index"}),
    tuple: frozenset({"count", "index"}),
}
# Filters that look at all of a value; the others look at its length, or at one element after the other.
_DEEP_FILTERS = (
    *("capitalize", "dictsort", "e", "escape", "forceescape", "groupby", "indent", "join", "lower", "max"),
    *(
        "min",
        "replace",
        "safe",
        "sort",
        "string",
        "title",
        "trim",
        "truncate",
        "unique",
        "upper",
        "urlencode",
    ),
)
# Filters that make a list of the characters of a text.
_OF_CHARACTERS = frozenset({"join", "list", "map", "reject", "select", "sort", "title", "unique"})
_SHALLOW_FILTERS = (
    *("abs", "attr", "count", "d", "default", "first", "float", "int", "items", "last", "length", "list"),
    *("map", "reject", "rejectattr", "reverse", "round", "select", "selectattr", "sum"),
)
# Tests that look at all of a value.
_DEEP_TESTS = (
    *("!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "filter", "ge", "greaterthan", "gt", "in", "le"),
    *("lessthan", "lower", "lt", "ne", "test", "upper"),
)
_NUMBER_TESTS = ("divisibleby", "even", "odd")
_CHARGED, _WALKED, _TURNS = "(charged)", "(walked)", "(turns)"  # filters that `_Meter` puts in


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
        with Budget():
            for piece in template.generate(**context, **{_MARK: mark}):
                length += len(piece)
                if length > max_chars:
                    break
                pieces.append(piece)
    except jinja2.TemplateError as error:
        raise ValueError(f"the chat template failed: {error}") from error
    except _FAILURES as error:
        raise ValueError(f"the chat template failed with {type(error).__name__}: {error}") from error
    if length > max_chars:
        raise ValueError(f"the rendered conversation is longer than {max_chars} characters")
    return "".join(pieces)


_FAILURES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


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
    except (RecursionError, SyntaxError, MemoryError):
        raise ValueError("the chat template is nested too deeply") from None
    except (jinja2.TemplateError, *_FAILURES) as error:
        raise ValueError(f"the chat template is malformed: {error}") from None


@functools.cache
def _environment() -> Any:
    environment = _Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationBlock, loopcontrols],
        finalize=written,
    )
    own: dict[str, Callable[..., Any]] = {
        **{name: FILTERS[name] for name in _DEEP_FILTERS},
        "format": _format,
        "tojson": _tojson,
    }
    environment.filters = {
        **{name: _metered(name, function, deep=True) for name, function in own.items()},
        **{name: _metered(name, FILTERS[name], deep=False) for name in _SHALLOW_FILTERS},
        _CHARGED: charged,
        _WALKED: walked,
        _TURNS: turns,
    }
    environment.tests = {
        **TESTS,
        **{name: _weighing(name, TESTS[name]) for name in (*_DEEP_TESTS, *_NUMBER_TESTS)},
    }
    del environment.globals["lipsum"]
    environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
    return environment


class _Meter(NodeTransformer):
    """Puts a charge, or a look at a value's weight, wherever a template's syntax tree needs one.

    Filters, tests, calls and operators have theirs where they are defined.
    """

    def visit_For(self, node: Any) -> Any:
        self.generic_visit(node)
        text = sum(len(data.data) for part in node.body for data in _text_of(part))
        node.iter = _filtered(node.iter, _TURNS, nodes.Const(text))
        return node

    def visit_Concat(self, node: Any) -> Any:
        self.generic_visit(node)
        node.nodes = [_weighed(part) for part in node.nodes]
        return _filtered(node, _CHARGED)

    def visit_Compare(self, node: Any) -> Any:
        self.generic_visit(node)
        node.expr = _weighed(node.expr)
        for operand in node.ops:
            operand.expr = _weighed(operand.expr)
        return node

    def visit_Getitem(self, node: Any) -> Any:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            return _filtered(node, _CHARGED)
        node.arg = _weighed(node.arg)
        return node

    def visit_Dict(self, node: Any) -> Any:
        self.generic_visit(node)
        for pair in node.items:
            pair.key = _weighed(pair.key)
        return _filtered(node, _CHARGED)

    def visit_List(self, node: Any) -> Any:
        return _filtered(self.generic_visit(node), _CHARGED)

    def visit_Tuple(self, node: Any) -> Any:
        self.generic_visit(node)
        return _filtered(node, _CHARGED) if node.ctx == "load" else node

    def visit_Const(self, node: Any) -> Any:
        size(node.value)
        return node


def _filtered(node: Any, name: str, *arguments: Any) -> Any:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)


def _weighed(node: Any) -> Any:
    return node if isinstance(node, nodes.Const) else _filtered(node, _WALKED)


def _text_of(node: Any) -> Iterator[Any]:
    if isinstance(node, nodes.TemplateData):
        yield node
    yield from node.find_all(nodes.TemplateData)


def _before_call(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Charge a call, and refuse methods that would build or compare far more than they are given."""
    spend(ELEMENT * (len(arguments) + len(named)))
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(owner, (list, tuple)):
        weigh(owner)
    elif isinstance(owner, str) and name in _PRODUCTS:
        _bound_product(owner, (*arguments, *named.values()))


def _bound_product(value: Any, others: Iterable[Any]) -> None:
    """Refuse operands so large that the product of the sizes of two is more than can be built or compared."""
    if _extent(value) * max(map(_extent, others), default=0) > _MAX_PRODUCT:
        raise SecurityError("it builds too much, or would compare too much")


def _extent(value: Any) -> int:
    """How much a value may ask for: its characters, with those of all that is in it; or the number it is."""
    if isinstance(value, str):
        return len(value)
    if hasattr(value, "__next__"):  # it is not read: others may be as long as the path of an attribute
        return _MAX_PRODUCT // MAX_SPELLED
    return abs(value) if isinstance(value, int) else weigh(value)[0]


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
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})

    def _generate(self, source: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._generate(_Meter().visit(source), *args, **kwargs)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        if (args or kwargs) and not isinstance(__obj, Macro):
            args = tuple(map(walked, args))
            kwargs = {name: walked(value) for name, value in kwargs.items()}
        _before_call(__obj, args, kwargs)
        return charged(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if type(left) is str and type(right) is str and operator == "+":
            return charged(left + right)  # most of what templates do
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if operator == "+":
            spend(size(left) + size(right))
        elif operator == "%" and isinstance(left, str):
            _before_format(left, "%", right)
        elif operator == "**" and not (numbers and abs(left) <= 1 << 16 and abs(right) <= 64):
            raise SecurityError("the operands of ** are too large")
        elif operator == "*" and not numbers:
            item, count = (left, right) if isinstance(right, int) else (right, left)
            if isinstance(count, int):
                room(size(item) * max(count, 0))
        elif not numbers:
            walked(left), walked(right)
        return charged(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Any:
        formatted = super().wrap_str_format(value)
        if formatted is None or _WIDE.search(value.__self__):
            return None

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            _before_format(value.__self__, "{", (args, kwargs))
            return formatted(*args, **kwargs)

        return wrapper

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if not super().is_safe_attribute(obj, attr, value):
            return False
        if isinstance(obj, str):
            return attr in _STR and not (attr in ("format", "format_map") and _WIDE.search(obj))
        if type(obj).__module__ == "builtins":
            return attr in _METHODS.get(type(obj), ())
        return True


def _metered(name: str, function: Callable[..., Any], *, deep: bool) -> Callable[..., Any]:
    """A filter that pays for its result; its arguments are weighed first, of a deep one also its value."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def metered(*args: Any, **kwargs: Any) -> Any:
        left_to_rendering.get()  # LookupError while a template is compiled
        context, values, given = args[:first], args[first : first + 1], args[first + 1 :]
        values = tuple(map(walked, values)) if deep else values
        given, kwargs = tuple(map(walked, given)), {key: walked(value) for key, value in kwargs.items()}
        if values:
            _before_filter(name, values[0], given, kwargs)
        result = function(*context, *values, *given, **kwargs)
        if isinstance(result, GeneratorType):  # chains of generators are as deep as a loop is long
            return iter(listed(result))
        return charged(result)

    return metered


def _before_filter(name: str, value: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Refuse a filter that would build or compare far more than it is given."""
    others = [other for other in (*given, *named.values()) if isinstance(other, (str, int))]
    if others and name not in _LINEAR_FILTERS:
        _bound_product([value] if isinstance(value, int) else value, others)
    if isinstance(value, str) and name in _OF_CHARACTERS:
        room(ELEMENT * len(value))
    if name == "urlencode":
        room(12 * weigh(value)[0])
    if name == "round" and not isinstance(value, (int, float)):
        raise TypeError("round: the value must be a number")
    if name == "sum" and not all(
        isinstance(start, (int, float)) for start in (*given[1:], named.get("start", 0))
    ):
        raise SecurityError("sum: only numbers can be summed")


def _weighing(name: str, function: Any) -> Callable[..., Any]:
    """A test that weighs what it looks at; a remainder is one of numbers, as that of a text is a format."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def test(*args: Any, **kwargs: Any) -> Any:
        operands = (*args[first:], *kwargs.values())
        for value in operands:
            if not hasattr(value, "__next__"):  # what can be read only once is not read
                walked(value)
        if name in _NUMBER_TESTS and not all(isinstance(value, (int, float)) for value in operands):
            raise TypeError("the test is of numbers")
        return function(*args, **kwargs)

    return test


def _before_format(text: str, sign: str, values: Any) -> None:
    """Refuse a format whose result could be longer than what is left."""
    room(text.count(sign) * (_WIDEST + 2 * weigh(values)[0]))
    if _WIDE.search(text):
        raise SecurityError("the width of a format is too large")


def _format(value: Any, *args: Any, **kwargs: Any) -> str:
    _before_format(str(value), "%", (args, kwargs))
    return str(str(value) % (kwargs or args))


def _raise_exception(message: Any) -> None:
    raise jinja2.TemplateError(str(message)[:MAX_SPELLED])


def _strftime_now(form: str) -> str:
    if len(form) > MAX_SPELLED:
        raise SecurityError("strftime_now: the format is too long")
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
    if separators is not None and max(map(len, separators)) > 16:
        raise SecurityError("tojson: separators must have at most 16 characters")
    weight, depth = weigh(value)
    room(weight + weight // 16 * (16 + depth * (indent or 0)))
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
