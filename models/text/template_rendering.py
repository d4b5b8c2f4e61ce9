"""Render conversations with the Jinja chat templates that models ship.

Templates come with models, so they are untrusted: they run in jinja2's immutable sandbox, and the
size of what they build and the time they take are limited (`template_budget`).
"""

from __future__ import annotations

import functools
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from lite.models.text import template_budget as budget

MAX_TEMPLATE_CHARS = 1 << 20
MAX_RENDERED_CHARS = 1 << 24

_MARK = "_generation_mark"
# a width of four digits or more, or one given by an argument
_WIDE = re.compile(r"\d{4,}|%[^a-zA-Z]*\*|\{[^{}]*\{")
_PADDING_METHODS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs", "translate"})


class Rendered(NamedTuple):
    """A rendered conversation.

    Attributes:
        text: The text to encode (without adding special tokens: the template wrote them).
        spans: Character ranges (start, end) of ``text`` inside ``{% generation %}`` blocks, in order.
    """

    text: str
    spans: tuple[tuple[int, int], ...]


def render_chat(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    documents: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = False,
    continue_final_message: bool = False,
    max_chars: int = MAX_RENDERED_CHARS,
    **variables: Any,
) -> Rendered:
    """Render one conversation.

    Templates see ``messages``, ``tools``, ``documents``, ``add_generation_prompt`` and the
    ``variables`` (special tokens, say), the functions ``raise_exception`` and ``strftime_now``, a
    ``tojson`` that keeps non-ASCII characters, loop controls, and ``{% generation %}`` blocks.

    Args:
        template: Jinja source.
        messages: Messages with at least "role" and "content".
        tools: JSON schemas of functions.
        documents: Documents, for templates that take them.
        add_generation_prompt: Let the template end with an assistant header.
        continue_final_message: Cut the text right after the last message's content, so that a
            model continues it.
        max_chars: Longest result allowed.
        **variables: Further template variables.

    Raises:
        ValueError: The template is malformed, fails, refuses the conversation, builds too much or takes
            longer than ten seconds.
        ImportError: The jinja2 package is missing.

    Example:
        >>> source = "{% for m in messages %}> {% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
        >>> render_chat(source, [{"role": "assistant", "content": "Hi"}])
        Rendered(text='> Hi', spans=((2, 4),))
    """
    if add_generation_prompt and continue_final_message:
        raise ValueError("add_generation_prompt and continue_final_message exclude each other")
    # Random marks, removed below, say where blocks began and ended: unlike counting what was
    # written so far, that also works inside macros, captures and filters.
    mark = secrets.token_hex(16)
    turns = [dict(message) for message in messages]
    if continue_final_message:
        turns = _mark_end(turns, f"{mark}!")
    context = {
        **variables,
        "messages": turns,
        "tools": tools,
        "documents": documents,
        "add_generation_prompt": add_generation_prompt,
        _MARK: mark,
    }
    text = _render(_compile(template), context, max_chars)
    if continue_final_message:
        text, found, _ = text.partition(f"{mark}!")
        if not found:
            raise ValueError("continue_final_message: the template does not write the last message's content")
    return _take_spans(text, mark)


def _render(template: Any, context: Mapping[str, Any], max_chars: int) -> str:
    import jinja2

    pieces: list[str] = []
    size = 0
    try:
        with budget.Budget():
            for piece in template.generate(**context):
                size += len(piece)
                if size > max_chars:
                    raise ValueError(f"the rendered conversation is longer than {max_chars} characters")
                pieces.append(piece)
    except jinja2.TemplateError as error:
        raise ValueError(f"the chat template failed: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"the chat template failed with {type(error).__name__}: {error}") from error
    return "".join(pieces)


def _mark_end(messages: list[dict[str, Any]], mark: str) -> list[dict[str, Any]]:
    if not messages:
        raise ValueError("continue_final_message needs at least one message")
    content = messages[-1].get("content")
    if isinstance(content, str):
        last: Any = content + mark
    elif isinstance(content, (list, tuple)) and any(isinstance(p, Mapping) and "text" in p for p in content):
        parts = [dict(part) for part in content]
        index = max(i for i, part in enumerate(parts) if "text" in part)
        parts[index]["text"] += mark
        last = parts
    else:
        raise ValueError("continue_final_message needs a last message with text")
    return [*messages[:-1], {**messages[-1], "content": last}]


def _take_spans(text: str, mark: str) -> Rendered:
    pieces = text.split(mark)
    out = [pieces[0]]
    spans: list[tuple[int, int]] = []
    position, depth, start = len(pieces[0]), 0, 0
    for piece in pieces[1:]:
        opens, body = piece[0] == "(", piece[1:]
        if opens:
            start = position if depth == 0 else start
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0 and position > start:
                spans.append((start, position))
        out.append(body)
        position += len(body)
    if depth and position > start:  # a block cut open by continue_final_message
        spans.append((start, position))
    return Rendered("".join(out), tuple(spans))


@functools.lru_cache(maxsize=64)
def _compile(source: str) -> Any:
    environment = _environment()
    import jinja2

    if len(source) > MAX_TEMPLATE_CHARS:
        raise ValueError(
            f"the chat template has {len(source)} characters; at most {MAX_TEMPLATE_CHARS} are allowed"
        )
    try:
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"the chat template is malformed, line {error.lineno}: {error.message}") from None
    except RecursionError:
        raise ValueError("the chat template is nested too deeply") from None


@functools.cache
def _environment() -> Any:
    try:
        from jinja2.exceptions import SecurityError
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise ImportError('chat templates need jinja2: pip install "tensordict-lite[llm]"') from error
    import jinja2
    from jinja2 import nodes

    class GenerationBlock(Extension):
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

    class Environment(ImmutableSandboxedEnvironment):
        # a few characters of template must not build gigabytes before the output limit is seen
        intercepted_binops = frozenset({"+", "*", "**", "%"})

        def _generate(self, source: Any, *args: Any, **kwargs: Any) -> Any:
            return super()._generate(budget.metered(source), *args, **kwargs)

        def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
            budget.before_call(__obj, args)
            return budget.charged(super().call(__context, __obj, *args, **kwargs))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
            if operator == "%" and isinstance(left, str) and _WIDE.search(left):
                raise SecurityError("the width of a % format is too large")
            if operator == "%" and isinstance(left, str):
                values = right if isinstance(right, tuple) else (right,)
                budget.spend(left.count("%") * max(map(budget.size, values), default=0))
            if operator == "+":
                budget.spend(budget.size(left) + budget.size(right))
            if operator == "**" and not (numbers and abs(left) <= 1 << 16 and abs(right) <= 64):
                raise SecurityError("the operands of ** are too large")
            if operator == "*" and not numbers:
                item, count = (left, right) if isinstance(right, int) else (right, left)
                if isinstance(count, int) and len(item) * count > MAX_RENDERED_CHARS:
                    raise SecurityError("the result of * is too large")
            return budget.charged(super().call_binop(context, operator, left, right))

        def wrap_str_format(self, value: Any) -> Any:
            text = getattr(value, "__self__", None)
            return None if isinstance(text, str) and _WIDE.search(text) else super().wrap_str_format(value)

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            if isinstance(obj, str) and attr in _PADDING_METHODS:
                return False
            if isinstance(obj, str) and attr in ("format", "format_map") and _WIDE.search(obj):
                return False
            return bool(super().is_safe_attribute(obj, attr, value))

    def safe_format(value: Any, *args: Any, **kwargs: Any) -> str:
        if _WIDE.search(str(value)):
            raise SecurityError("the width of a format is too large")
        return str(str(value) % (kwargs or args))

    def safe_indent(value: Any, width: int | str = 4, *args: Any, **kwargs: Any) -> str:
        if isinstance(width, int) and width > 64:
            raise SecurityError(f"indent: width must be at most 64, got {width}")
        if isinstance(width, str) and len(width) > 64:
            raise SecurityError("indent: width must be at most 64 characters")
        budget.spend(str(value).count("\n") * (width if isinstance(width, int) else len(width)))
        return str(indent(value, width, *args, **kwargs))

    def safe_replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
        budget.before_replace(str(value), old, new)
        return str(value).replace(str(old), str(new), -1 if count is None else count)

    @jinja2.pass_eval_context
    def safe_join(eval_context: Any, values: Any, d: str = "", attribute: Any = None) -> str:
        values = list(values)
        budget.spend(sum(map(budget.size, values)) + len(values) * len(str(d)))
        return str(join(eval_context, values, d, attribute))

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    def strftime_now(form: str) -> str:
        return datetime.now().strftime(form)

    def tojson(
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

    environment = Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[GenerationBlock, loopcontrols],
        finalize=budget.written,
    )
    environment.filters["tojson"] = tojson
    indent, join = environment.filters["indent"], environment.filters["join"]
    environment.filters |= {"format": safe_format, "indent": safe_indent, "join": safe_join}
    environment.filters |= {"replace": safe_replace, "_charged": budget.charged, "_turns": budget.turns}
    for name in (
        "batch",
        "center",
        "slice",
        "urlize",
        "wordwrap",
    ):  # their arguments alone decide how much they build
        del environment.filters[name]
    del environment.globals["lipsum"]
    environment.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    return environment
