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
from collections.abc import Callable, Iterator, Mapping
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
    read,
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
_MAX_COMPARED = 1 << 28  # characters that searching from the right may compare
_WIDEST = 1 << 11  # what one format may write without its value

# A width of four digits or more, or one given by an argument.
_WIDE = re.compile(r"\d{4,}|%[^a-zA-Z]*\*|\{[^{}]*\{")
_LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"

_STRIP = frozenset({"strip", "lstrip", "rstrip"})
_FROM_THE_RIGHT = frozenset({"rfind", "rindex", "rpartition", "rsplit"})
_STR = _STRIP | _FROM_THE_RIGHT | {
    *("capitalize", "casefold", "count", "endswith", "find", "format", "format_map", "index", "isalnum"),
    *("isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isprintable"),
    *("isspace", "istitle", "isupper", "join", "lower", "partition", "removeprefix", "removesuffix"),
    *("replace", "split", "splitlines", "startswith", "swapcase", "title", "upper"),
}  # fmt: skip
_BUILDING = _STRIP | _FROM_THE_RIGHT | {"join", "replace", "split", "splitlines"}
_METHODS: dict[type, frozenset[str]] = {
    dict: frozenset({"copy", "get", "items", "keys", "values"}),
    list: frozenset({"copy", "count", "index"}),
    tuple: frozenset({"count", "index"}),
}
# Filters that look at all of a value; the others look at its length, or at one element after the other.
_DEEP_FILTERS = (
    *("capitalize", "dictsort", "e", "escape", "forceescape", "groupby", "lower", "max", "min", "safe"),
    *("sort", "string", "title", "trim", "truncate", "unique", "upper", "urlencode"),
)
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
        "indent": _indent,
        "join": _join,
        "replace": _replace,
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
        **{name: _weighing(TESTS[name]) for name in _DEEP_TESTS},
        **{name: _of_numbers(TESTS[name]) for name in _NUMBER_TESTS},
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
    if not isinstance(owner, str) or name not in _BUILDING:
        return
    given = [value for value in (*arguments, *named.values()) if isinstance(value, str)]
    longest = max(map(len, given), default=0)
    if name in _STRIP | _FROM_THE_RIGHT and len(owner) * longest > _MAX_COMPARED:
        raise SecurityError(f"{name} would compare too much")
    if name == "replace" and len(given) > 1:
        room(owner.count(given[0]) * len(given[1]))
    elif name == "splitlines":
        room(ELEMENT * _lines(owner))
    elif name in ("split", "rsplit"):
        room(ELEMENT * (owner.count(given[0]) if given and given[0] else len(owner) // 2))
    elif name == "join" and arguments:
        room(weigh(arguments[0])[0] + len(owner) * len(arguments[0]))


def _lines(text: str) -> int:
    return sum(map(text.count, _LINE_BREAKS))


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
            args = tuple(read(value) for value in args)
            kwargs = {name: read(value) for name, value in kwargs.items()}
        _before_call(__obj, args, kwargs)
        return charged(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
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
    """A filter that pays for its result; a deep one weighs its arguments first."""
    first, checked, budget = (
        1 if hasattr(function, "jinja_pass_arg") else 0,
        name in _CHECKED,
        left_to_rendering,
    )

    @functools.wraps(function)
    def metered(*args: Any, **kwargs: Any) -> Any:
        budget.get()  # LookupError while a template is compiled
        if checked:
            _check_filter(name, args[first:], kwargs)
        if deep:
            args = (*args[:first], *map(read, args[first:]))
        elif len(args) > first + 1:
            args = (*args[: first + 1], *map(walked, args[first + 1 :]))
        if kwargs:
            kwargs = {key: read(value) for key, value in kwargs.items()}
        result = function(*args, **kwargs)
        if isinstance(result, GeneratorType):  # chains of generators are as deep as a loop is long
            return iter(listed(result))
        return charged(result)

    return metered


_BY_ATTRIBUTE = ("groupby", "map", "max", "min", "rejectattr", "selectattr", "sort", "sum", "unique")
_CHECKED = frozenset(
    {
        *_BY_ATTRIBUTE,
        "float",
        "int",
        "join",
        "list",
        "reject",
        "round",
        "select",
        "title",
        "trim",
        "urlencode",
    }
)


def _check_filter(name: str, values: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Refuse the few arguments that make one filter do too much."""
    value = values[0] if values else None
    if isinstance(value, str) and name in ("list", "map", "reject", "select", "sort", "title", "unique"):
        room(ELEMENT * len(value))
    if isinstance(value, str) and name in ("int", "float") and len(value) > MAX_SPELLED:
        raise SecurityError(f"{name}: the number has too many digits")
    if name == "round" and isinstance(value, (str, list, tuple)):
        raise TypeError("round: the value must be a number")
    if name == "urlencode":
        room(12 * weigh(value)[0])
    if name == "round" and any(isinstance(given, int) and abs(given) > 64 for given in values[1:2]):
        raise SecurityError("round: precision must be at most 64")
    if name == "round" and isinstance(named.get("precision"), int) and abs(named["precision"]) > 64:
        raise SecurityError("round: precision must be at most 64")
    if name == "trim" and isinstance(value, str):
        chars = [given for given in (*values[1:], *named.values()) if isinstance(given, str)]
        if len(value) * max(map(len, chars), default=0) > _MAX_COMPARED:
            raise SecurityError("trim would compare too much")
    if name == "sum" and (values[2:] or "start" in named):
        start = named["start"] if "start" in named else values[2]
        if not isinstance(start, (int, float)):
            raise SecurityError("sum: only numbers can be summed")
    paths = values[1:2] if name in ("map", "selectattr", "rejectattr") else values[1:4]
    given = (*paths, named.get("attribute")) if name in _BY_ATTRIBUTE else (named.get("attribute"),)
    if any(isinstance(path, str) and len(path) > MAX_SPELLED for path in given):
        raise SecurityError(f"{name}: the path of the attribute is too long")


def _weighing(function: Any) -> Callable[..., Any]:
    """A test that weighs what it looks at."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def test(*args: Any, **kwargs: Any) -> Any:
        kwargs = {name: _tested(value) for name, value in kwargs.items()}
        return function(*args[:first], *map(_tested, args[first:]), **kwargs)

    return test


def _of_numbers(function: Any) -> Callable[..., Any]:
    """A test that computes a remainder, which is a format where the value is text."""

    @functools.wraps(function)
    def test(*args: Any, **kwargs: Any) -> Any:
        if not all(isinstance(value, (int, float)) for value in (*args, *kwargs.values())):
            raise TypeError("the test is of numbers")
        return function(*args, **kwargs)

    return test


def _tested(value: Any) -> Any:
    """An argument of a test; what can be read only once is not read."""
    return value if hasattr(value, "__next__") else walked(value)


def _before_format(text: str, sign: str, values: Any) -> None:
    """Refuse a format whose result could be longer than what is left."""
    room(text.count(sign) * (_WIDEST + 2 * weigh(values)[0]))
    if _WIDE.search(text):
        raise SecurityError("the width of a format is too large")


def _format(value: Any, *args: Any, **kwargs: Any) -> str:
    _before_format(str(value), "%", (args, kwargs))
    return str(str(value) % (kwargs or args))


def _indent(value: Any, width: int | str = 4, *args: Any, **kwargs: Any) -> str:
    if isinstance(width, int) and width > 64:
        raise SecurityError(f"indent: width must be at most 64, got {width}")
    if isinstance(width, str) and len(width) > 64:
        raise SecurityError("indent: width must be at most 64 characters")
    room(_lines(str(value)) * (ELEMENT + (width if isinstance(width, int) else len(width))))
    return str(FILTERS["indent"](value, width, *args, **kwargs))


def _replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = str(value), str(old), str(new)
    room(text.count(old) * len(new))
    return text.replace(old, new, -1 if count is None else count)


@jinja2.pass_eval_context
def _join(eval_context: Any, values: Any, d: str = "", attribute: Any = None) -> str:
    if isinstance(values, str):
        room(ELEMENT * len(values))
    values = list(values)
    room(weigh(values)[0] + len(values) * len(str(d)))
    return str(FILTERS["join"](eval_context, values, d, attribute))


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
