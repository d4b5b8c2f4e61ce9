"""The built-in chat templates, a registry for more, and the rule that picks one for a tokenizer.

Each template wraps what the assistant wrote in a ``{% generation %}`` block, so that the tokens an
assistant produced can be told from the frame around them. Of a content in parts they write the texts.
Tool calls and responses that the content spells out already, as it does after parsing, are not written a
second time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

_TEXT = """\
{% macro text(content) %}
{% if content is string %}{{ content }}{% else %}
{% for part in content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}
{% endif %}
{% endmacro %}
"""

_CHATML = """\
{% for message in messages %}
{{ '<|im_start|>' ~ message.role ~ '\\n' }}
{%- if message.role == 'assistant' %}
{% generation %}{{ text(message.content) }}{% endgeneration %}
{% else %}
{{ text(message.content) }}
{%- endif %}
{{ '<|im_end|>\\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{%- endif %}
"""

_QWEN = """\
{% set has_system = messages and messages[0].role == 'system' %}
{% set system = text(messages[0].content) if has_system else 'You are a helpful assistant.' %}
{{ '<|im_start|>system\\n' ~ system }}
{%- if tools %}
{{ '\\n\\n# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n' }}
{{- 'You are provided with function signatures within <tools></tools> XML tags:\\n<tools>' }}
{%- for tool in tools %}{{ '\\n' ~ tool | tojson }}{% endfor %}
{{ '\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments' }}
{{- ' within <tool_call></tool_call> XML tags:\\n<tool_call>\\n' }}
{{- '{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call>' }}
{%- endif %}
{{ '<|im_end|>\\n' }}
{%- for message in messages %}
{% set said = text(message.content) %}
{% if message.role == 'assistant' %}
{{ '<|im_start|>assistant\\n' }}
{%- generation %}
{% if said %}{{ said }}{% endif %}
{% for call in (message.tool_calls or []) if '<tool_call>' not in said %}
{% set call = call.function or call %}
{% if said or not loop.first %}{{ '\\n' }}{% endif %}
{{ '<tool_call>\\n{"name": ' ~ call.name | tojson ~ ', "arguments": ' ~ call.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{% endgeneration %}
{{ '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>tool' }}{% endif %}
{% if '<tool_response>' in said %}
{{ '\\n' ~ said }}
{%- else %}
{{ '\\n<tool_response>\\n' ~ (message.tool_responses or said) ~ '\\n</tool_response>' }}
{%- endif %}
{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{% elif not (loop.first and has_system) %}
{{ '<|im_start|>' ~ message.role ~ '\\n' ~ said ~ '<|im_end|>\\n' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""

_DIALOGPT = """\
{% for message in messages %}
{% if message.role == 'assistant' %}
{% generation %}{{ text(message.content) }}{% endgeneration %}{{ eos_token }}
{%- elif message.role == 'user' %}
{{ text(message.content) ~ eos_token }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}{{ ' ' }}{% endif %}
"""

# The turns of falcon and deepseek; END is what ends a turn of the assistant.
_LABELLED = """\
{% for message in messages %}
{% if message.role == 'assistant' %}
{{ 'Assistant:' }}{% generation %}{{ ' ' ~ text(message.content) }}{% endgeneration %}{{ END }}
{%- elif message.role == 'user' %}
{{ 'User: ' ~ text(message.content) ~ '\\n\\n' }}
{%- elif message.role == 'system' %}
{{ text(message.content) ~ '\\n\\n' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}
"""
_FALCON = _LABELLED.replace("END", "'\\n'")
_DEEPSEEK = "{{ bos_token }}" + _LABELLED.replace("END", "eos_token")

_LLAMA = """\
{{ bos_token }}
{%- for message in messages %}
{% set leads = loop.first and message.role == 'system' %}
{% set said = text(message.content) | trim if leads else text(message.content) %}
{% if said or not leads %}
{{ '<|header_start|>' ~ message.role ~ '<|header_end|>\\n\\n' }}
{%- if message.role == 'assistant' %}
{% generation %}{{ said }}{% endgeneration %}
{% else %}
{{ said }}
{%- endif %}
{{ '<|eot|>' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<|header_start|>assistant<|header_end|>\\n\\n' }}{% endif %}
"""

BUILT_IN: dict[str, str] = {
    "chatml_format": _TEXT + _CHATML, "qwen": _TEXT + _QWEN, "dialogpt": _TEXT + _DIALOGPT,
    "falcon": _TEXT + _FALCON, "deepseek": _TEXT + _DEEPSEEK, "llama": _TEXT + _LLAMA,
}  # fmt: skip


class _HasTemplate(Protocol):
    name_or_path: str

    @property
    def chat_template(self) -> str | None: ...


_GENERATION = re.compile(r"\{%[-+]?\s*generation\b")

Parser = Callable[[str], list[dict[str, Any]]]

_added: dict[str, str] = {}
_parsers: dict[str, Parser] = {}
_keywords: dict[str, str] = {}


def add_chat_template(
    name: str,
    template: str,
    inverse_parser: Parser | None = None,
    model_family_keywords: Sequence[str] | None = None,
) -> None:
    """Register a chat template under a name, for the whole process.

    Args:
        name: The name to use as ``chat_template_name``.
        template: Jinja source; it must mark what assistants wrote with ``{% generation %}`` blocks.
        inverse_parser: Turns rendered text back into messages (dicts with "role" and "content"),
            for ``History.from_text``.
        model_family_keywords: The template is chosen for tokenizers whose ``name_or_path``
            contains one of these words (in any case). They win over the built-in families.

    Raises:
        ValueError: The template has no ``{% generation %}`` block.
        TypeError: It is not a str.

    Example:
        >>> source = "{% for m in messages %}> {% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
        >>> add_chat_template("quoted", source)
        >>> find_chat_template(None, name="quoted") == source
        True
    """
    if not isinstance(template, str):
        raise TypeError(f"template must be Jinja source, a str, got {template!r}")
    if not has_generation_block(template):
        raise ValueError(
            f"the chat template {name!r} has no {{% generation %}} block around what the assistant says"
        )
    _added[name] = template
    if inverse_parser is not None:
        _parsers[name] = inverse_parser
    for keyword in model_family_keywords or ():
        _keywords[keyword.lower()] = name


def has_generation_block(template: str) -> bool:
    """Whether the source has a ``{% generation %}`` block, however its tag is spaced."""
    return _GENERATION.search(re.sub(r"\{#.*?#\}", "", template, flags=re.DOTALL)) is not None


def custom_parser(name: str) -> Parser | None:
    """The parser registered with a template, if any."""
    return _parsers.get(name)


def keyword_match(name_or_path: str) -> str | None:
    """The registered template whose keywords the tokenizer's name has, if any."""
    lowered = name_or_path.lower()
    return next((name for keyword, name in _keywords.items() if keyword in lowered), None)


def family_match(name_or_path: str) -> str | None:
    """The built-in template whose family the last part of the tokenizer's name has, if any."""
    last = name_or_path.lower().replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    return next((f for f in ("qwen", "dialogpt", "falcon", "deepseek", "llama") if f in last), None)


def find_chat_template(
    tokenizer: _HasTemplate | None,
    *,
    name: str | None = None,
    source: str | None = None,
    tools: object = None,
) -> str:
    """The Jinja source to render with.

    In this order: ``source``; the template called ``name``; one registered for the tokenizer's name;
    the tokenizer's own (the one it calls "tool_use", if there is one and ``tools`` are given); the built-in
    one of its family; ``chatml_format``. The own template comes
    before the family because it is what the model was trained on: many a model with "llama" in its
    name has another format.

    Raises:
        KeyError: There is no template of that name.
        RuntimeError: Nothing is given to choose by.
    """
    if source is not None:
        return source
    if name is None:
        if tokenizer is None:
            raise RuntimeError(
                "pass a tokenizer, chat_template or chat_template_name to choose a chat template"
            )
        name = keyword_match(tokenizer.name_or_path)
        if name is None and (own := own_template(tokenizer, tools)) is not None:
            return own
        name = name or family_match(tokenizer.name_or_path) or "chatml_format"
    if name in _added:
        return _added[name]
    if name in BUILT_IN:
        return BUILT_IN[name]
    raise KeyError(f"unknown chat template name {name!r}; known are {sorted({*BUILT_IN, *_added})}")


def own_template(tokenizer: _HasTemplate, tools: object) -> str | None:
    """The tokenizer's template for conversations with or without tools, None if it has none."""
    named = getattr(tokenizer, "chat_templates", {})
    if tools is not None and "tool_use" in named:
        return str(named["tool_use"])
    return tokenizer.chat_template if isinstance(tokenizer.chat_template, str) else None
