"""The sandbox of chat templates: jinja2's own, with limits to what they build and to the time they take.

`Budget` says what values cost, and where a template pays:

- what it builds is charged by operators, calls and filters, and by what `_Meter` puts into its syntax tree;
- every turn of a loop, filter and call looks at the clock, and none of them alone takes long;
- filters, and methods of Python's own types, are those listed here; a text has all methods but those that are
  listed, as the product of their operands bounds the others.

The file needs jinja2, so it is imported when the first template is rendered.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView
from contextvars import ContextVar
from datetime import datetime
from types import GeneratorType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

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


_MARK = "_generation_mark"  # the variable that holds the mark which `{% generation %}` blocks write
MAX_TEMPLATE_CHARS = 1 << 17
_MAX_PRODUCT = 1 << 28  # of the sizes of two operands
_WIDEST = 1 << 11  # what one format may write without its value

# A width of four digits or more, or one given by an argument.
_WIDE = re.compile(r"\d{4,}|%[^a-zA-Z]*\*|\{[^{}]*\{")
# Methods of texts that write what their operands do not bound, or bytes, whose methods are not bounded.
_UNBOUNDED = frozenset(
    {"center", "encode", "expandtabs", "ljust", "maketrans", "rjust", "translate", "zfill"}
)
_METHODS: dict[type, frozenset[str]] = {
    dict: frozenset({"copy", "get", "items", "keys", "values"}),
    list: frozenset({"copy", "count", "index"}),
    tuple: frozenset({"count", "index"}),
}
# Filters that look at all of a value; the shallow ones look at its length, or at one element after the other.
_DEEP_FILTERS = (
    *("capitalize", "dictsort", "e", "escape", "forceescape", "format", "groupby", "indent", "join", "lower"),
    *("max", "min", "replace", "safe", "sort", "string", "title", "tojson", "trim", "truncate", "unique"),
    *("upper", "urlencode"),
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
_LINEAR_FILTERS = frozenset({"d", "default", "float", "format", "int", "truncate"})  # in each operand
# Filters that make a list of the characters of a text.
_OF_CHARACTERS = frozenset({"join", "list", "map", "reject", "select", "sort", "title", "unique"})
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
        bare = [i for i, turn in enumerate(context["messages"]) if "content" not in turn]
        hint = f' (messages {bare} have no content, where the template may take "")' if bare else ""
        raise ValueError(f"the chat template failed: {error}{hint}") from error
    except Exception as error:
        raise ValueError(f"the chat template failed with {type(error).__name__}: {error}") from error
    if length > max_chars:
        raise ValueError(f"the rendered conversation is longer than {max_chars} characters")
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
    except (RecursionError, SyntaxError, MemoryError):
        raise ValueError("the chat template is nested too deeply") from None
    except Exception as error:
        raise ValueError(f"the chat template is malformed: {error}") from None


@functools.cache
def _environment() -> Any:
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols], finalize=written
    )
    own: dict[str, Callable[..., Any]] = {**FILTERS, "format": _format, "tojson": _tojson}
    environment.filters = {
        **{name: _metered(name, own[name], deep=True) for name in _DEEP_FILTERS},
        **{name: _metered(name, own[name], deep=False) for name in _SHALLOW_FILTERS},
        _CHARGED: charged,
        _WALKED: walked,
        _TURNS: turns,
    }
    environment.tests = {
        **TESTS,
        **{name: _metered(name, TESTS[name], deep=True) for name in (*_DEEP_TESTS, *_NUMBER_TESTS)},
    }
    del environment.globals["lipsum"]
    environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
    return environment


class _Meter(NodeTransformer):
    """Puts a charge, or a look at a value's weight, wherever a template's syntax tree needs one.

    Filters, tests, calls and operators have theirs where they are defined.
    """

    def generic_visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        super().generic_visit(node)
        match node:
            case nodes.For():
                text = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
                node.iter = _filtered(node.iter, _TURNS, nodes.Const(text))
            case nodes.Compare() | nodes.Operand():
                node.expr = _weighed(node.expr)
            case nodes.Pair():
                node.key = _weighed(node.key)
            case nodes.Getitem(arg=nodes.Slice()) | nodes.Dict() | nodes.List() | nodes.Tuple(ctx="load"):
                return _filtered(node, _CHARGED)
            case nodes.Getitem():
                node.arg = _weighed(node.arg)
            case nodes.Concat():
                node.nodes = [_weighed(part) for part in node.nodes]
                return _filtered(node, _CHARGED)
        return node


def _filtered(node: Any, name: str, *arguments: Any) -> Any:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)


def _weighed(node: Any) -> Any:
    return node if isinstance(node, nodes.Const) else _filtered(node, _WALKED)


def _bound_product(value: Any, others: Iterable[Any]) -> None:
    """Refuse operands so large that the product of the sizes of two is more than can be built or compared."""
    sizes = [abs(other) if isinstance(other, int) else weigh(other)[0] for other in others]
    if not sizes:
        return
    # An iterator is not read: others may be as long as the path of an attribute.
    own = _MAX_PRODUCT // MAX_SPELLED if hasattr(value, "__next__") else weigh(value)[0]
    if own * max(sizes) > _MAX_PRODUCT:
        raise SecurityError("it builds too much, or would compare too much")


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
        if not isinstance(__obj, Macro):
            args = tuple(map(walked, args))
            kwargs = {name: walked(value) for name, value in kwargs.items()}
        spend(ELEMENT * (len(args) + len(kwargs)))
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, (list, tuple)):
            weigh(owner)
        elif isinstance(owner, str):
            _bound_product(owner, [arg for arg in (*args, *kwargs.values()) if not isinstance(arg, int)])
        return charged(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if type(left) is str and type(right) is str and operator == "+":
            return charged(left + right)  # most of what templates do
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if operator == "%" and isinstance(left, str):
            _before_format(left, "%", right)
        elif operator == "**" and not (numbers and abs(left) <= 1 << 16 and abs(right) <= 64):
            raise SecurityError("the operands of ** are too large")
        elif operator == "*" and not numbers:
            item, count = (left, right) if isinstance(right, int) else (right, left)
            if isinstance(count, int):
                room(size(item) * max(count, 0))
        elif operator != "+" and not numbers:
            walked(left), walked(right)
        return charged(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Any:
        formatted: Any = super().wrap_str_format(value)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            _before_format(value.__self__, "{", (args, kwargs))
            return formatted(*args, **kwargs)

        return wrapper if formatted is not None else None

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if not super().is_safe_attribute(obj, attr, value):
            return False
        if isinstance(obj, str):
            return attr not in _UNBOUNDED
        if type(obj).__module__ == "builtins":
            return attr in _METHODS.get(type(obj), ())
        return True


def _metered(name: str, function: Any, *, deep: bool) -> Callable[..., Any]:
    """A filter or test that weighs its arguments, a deep one also its value, and pays for its result."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def metered(*args: Any, **kwargs: Any) -> Any:
        left_to_rendering.get()  # LookupError while a template is compiled
        context, value, given = args[:first], args[first], tuple(map(walked, args[first + 1 :]))
        value = walked(value) if deep else value
        kwargs = {key: walked(argument) for key, argument in kwargs.items()}
        _before(name, value, given, kwargs)
        result = function(*context, value, *given, **kwargs)
        # Chains of generators are as deep as a loop is long.
        return iter(listed(result)) if isinstance(result, GeneratorType) else charged(result)

    return metered


def _before(name: str, value: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Refuse a filter or test that would build or compare far more than it is given."""
    if name in FILTERS and name not in _LINEAR_FILTERS:
        _bound_product(value, [arg for arg in (*given, *named.values()) if isinstance(arg, (str, int))])
    if name in _OF_CHARACTERS and isinstance(value, str):
        room(ELEMENT * len(value))
    if name == "urlencode":
        room(12 * weigh(value)[0])
    # A text that is rounded is repeated, and its remainder is a format.
    if name in ("round", *_NUMBER_TESTS) and not isinstance(value, (int, float)):
        raise TypeError(f"{name}: the value must be a number")
    if name == "sum" and not isinstance(named.get("start", (*given, 0, 0)[1]), (int, float)):
        raise SecurityError("sum: only numbers can be summed")


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
    weight, depth = weigh(value)
    between = 16 + depth * abs(indent or 0) + sum(map(len, separators or ()))  # two parts of the value
    room(weight + weight // 16 * between)
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
