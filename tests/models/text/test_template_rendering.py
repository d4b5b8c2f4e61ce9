import sys
import warnings
from typing import Any

import pytest
from helpers.cases import raises
from helpers.models.tool_templates import CONVERSATION, THINKING, TOOLS

from lite.models import History
from lite.models.text.builtin_templates import BUILT_IN
from lite.models.text.template_rendering import Rendered, render_chat, warn_of_dropped

USER = {"role": "user", "content": "Hi"}
BOT = {"role": "assistant", "content": "Yo"}


def test_text_and_spans() -> None:
    source = "{% for m in messages %}<{% generation %}{{ m.content }}{% endgeneration %}>{% endfor %}"
    assert render_chat(source, [USER, BOT]) == Rendered("<Hi><Yo>", ((1, 3), (5, 7)))


LANGUAGE: list[tuple[str, Rendered]] = [
    (
        "{% macro m() %}a{% generation %}b{% endgeneration %}c{% endmacro %}x{{ m() }}",
        Rendered("xabc", ((2, 3),)),
    ),
    (
        "{% set s %}{% generation %}b{% endgeneration %}{% endset %}x{{ s }}{{ s }}",
        Rendered("xbb", ((1, 2), (2, 3))),
    ),
    ("{% generation %}a{% generation %}b{% endgeneration %}{% endgeneration %}", Rendered("ab", ((0, 2),))),
    ("{%- generation -%} a {%- endgeneration -%} b", Rendered("ab", ((0, 1),))),
    ("a{% generation %}{% endgeneration %}b", Rendered("ab", ())),
    ("  {% if true %}\na\n  {% endif %}\nb", Rendered("a\nb", ())),
    ("{% for i in range(5) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", Rendered("01", ())),
    ("{{ {'é': '<'} | tojson }}{{ [1] | tojson(indent=2) }}", Rendered('{"é": "<"}[\n  1\n]', ())),
    ("{{ undefined_name }}{{ messages[0].nothing }}", Rendered("", ())),
    (
        "{{ '{}-{:>3}'.format(1, 2) }}{{ '%s%03d' % ('a', 7) }}{{ '%s!' | format('b') }}",
        Rendered("1-  2a007b!", ()),
    ),
    ("{{ 'a\nb' | indent(2) }}", Rendered("a\n  b", ())),
    ("{{ 7 % 4 }}{{ 2 ** 3 }}{{ '=' * 3 }}", Rendered("38===", ())),
    ("{{ 'a b' | urlencode }}{{ 'abc' | list | length }}", Rendered("a%20b3", ())),
    ("{% set ns = namespace(a=['x']) %}{{ [ns.a] == [['x']] }}{{ ns == ns }}", Rendered("TrueTrue", ())),
    ("{{ 65536 ** 1 }} {{ 2 ** 64 }} {{ 2 ** -1 }}", Rendered("65536 18446744073709551616 0.5", ())),
    ("{{ [1, 2] | sum(start=3) }}{{ [{'a': 1}] | sum('a', 2) }}", Rendered("63", ())),
]


def test_template_language() -> None:
    for source, expected in LANGUAGE:
        assert render_chat(source, [USER]) == expected, source


def test_variables_and_functions() -> None:
    source = "{{ bos }}{{ tools | length }}{{ documents[0].text }}{{ strftime_now('%%') }}"
    out = render_chat(source, [USER], bos="<s>", tools=[{}], documents=[{"text": "d"}])
    assert out.text == "<s>1d%"


def test_raise_exception_is_the_template_refusing() -> None:
    with pytest.raises(ValueError, match="roles must alternate"):
        render_chat("{{ raise_exception('roles must alternate') }}", [USER])


HOSTILE = [
    "{{ messages.append(1) }}", "{{ ''.__class__.__mro__ }}",
    "{{ messages.__class__.__bases__[0].__subclasses__() }}", "{{ 'a' * 100000000 }}",
    "{{ 65537 ** 1 }}", "{{ 2 ** 65 }}", "{{ [[1]] | sum(start=[]) }}", "{{ [{'a': [1]}] | sum('a', []) }}",
    "{{ [0] * 100000000 }}", "{{ 9 ** 9 ** 9 }}", "{{ '%1000000000d' % 1 }}",
    "{{ '{:1000000000}'.format(1) }}", "{{ '{:{}}'.format(1, 1000000000) }}",
    "{{ '%*d' % (1000000000, 1) }}", "{{ '%1000000000d' | format(1) }}",
    "{{ '{x:1000000000}'.format_map({'x': 1}) }}", "{{ 'a'.ljust(1000000000) }}",
    "{{ 'a\nb' | indent(1000000000) }}", "{{ [1] | batch(1000000000, 2) | list }}",
    "{{ lipsum(n=1000000000) }}", "{{ 'a' | center(1000000000) }}", "{{ range(10 ** 9) }}", "{{ 1 / 0 }}",
    "{{ messages[0].content.missing.deeper }}", "{% for", "{% include 'x' %}", "{% generation %}",
]  # fmt: skip


def test_hostile_or_broken_templates() -> None:
    for source in HOSTILE:
        raises(ValueError, "chat template", render_chat, source, [USER])


def test_without_jinja2_the_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lite.models.text.template_sandbox", raising=False)
    monkeypatch.delattr("lite.models.text.template_sandbox", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    raises(ImportError, r'pip install -e "\.\[llm\]"', lambda: render_chat("x", [USER]))


def test_output_is_limited() -> None:
    with pytest.raises(ValueError, match="longer than 99 characters"):
        render_chat("{% for i in range(100) %}x{% endfor %}", [USER], max_chars=99)
    assert render_chat("xxx", [USER], max_chars=3).text == "xxx"
    raises(ValueError, "at most", lambda: render_chat("x" * (1 << 21), [USER]))


def test_messages_are_left_as_they_were() -> None:
    message = dict(BOT)
    render_chat("{% set _ = messages %}", [message], continue_final_message=False)
    render_chat("{{ messages[0].content }}", [message], continue_final_message=True)
    assert message == BOT


def test_continue_final_message() -> None:
    out = render_chat(BUILT_IN["chatml_format"], [USER, BOT], continue_final_message=True)
    assert out.text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo"
    assert out.text[slice(*out.spans[0])] == "Yo"
    parts = {"role": "assistant", "content": [{"type": "text", "text": "Yo"}, {"type": "image"}]}
    assert render_chat(BUILT_IN["llama"], [parts], continue_final_message=True).text.endswith("\n\nYo")
    raises(ValueError, "does not write the last", render_chat, "x", [BOT], continue_final_message=True)
    raises(ValueError, "at least one message", lambda: render_chat("x", [], continue_final_message=True))
    with pytest.raises(ValueError, match="message with text"):
        render_chat("x", [{"role": "assistant"}], continue_final_message=True)
    with pytest.raises(ValueError, match="exclude each other"):
        render_chat("x", [BOT], continue_final_message=True, add_generation_prompt=True)


def test_fields_without_a_value_are_not_there() -> None:
    source = "{{ messages[0].keys() | list }}"
    turn = {"role": "user", "content": None, "tool_calls": None, "x": 0}
    assert render_chat(source, [turn]).text == "['role', 'x']"
    assert turn["content"] is None
    bare = [USER, {"role": "assistant", "content": None, "tool_calls": [{}]}]
    with pytest.raises(ValueError, match=r"no attribute 'content' \(messages \[1\] have no content"):
        render_chat("{% for m in messages %}{{ m.role + m.content }}{% endfor %}", bare)


def test_parts_of_text_are_a_text_where_a_template_takes_one() -> None:
    parts: list[Any] = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
    chat = [{"role": "user", "content": parts}, BOT, {"role": "user", "content": [*parts, {"type": "image"}]}]
    loop = "{% for m in messages %}{{ m.role[0] }}:CONTENT;{% endfor %}"
    each = "{% for p in m.content %}<{{ p.text }}>{% endfor %}"
    reads = f"{{% if m.content is string %}}{{{{ m.content }}}}{{% else %}}{each}{{% endif %}}"
    for said, expected in (
        ("{{ m.content }}", "u:a b;a:Yo;"),
        ("{{ m.content | trim }}", "u:a b;a:Yo;"),
        ("{{ m.content if m.content is string }}", "u:a b;a:Yo;"),
        ("{{ 'x' + m.content }}", "u:xa b;a:xYo;"),
        (reads, "u:<a ><b>;a:Yo;"),
        ("{{ m.content | tojson }}{{ raise_exception('') if messages | length < 2 }}",
            'u:[{"type": "text", "text": "a "}, {"type": "text", "text": "b"}];a:"Yo";'),
    ):  # fmt: skip
        assert render_chat(loop.replace("CONTENT", said), chat[:2]).text == expected, said
    assert "image" in render_chat(loop.replace("CONTENT", "{{ m.content }}"), chat).text
    open_end = render_chat(loop.replace("CONTENT", "{{ m.content }}"), chat[:1], continue_final_message=True)
    assert open_end.text == "u:a b"
    assert chat[0]["content"] is parts


def test_reasoning_has_every_name_that_templates_know() -> None:
    source = "{{ messages[0].reasoning_content }} {{ messages[0].thinking }}"
    for given, expected in (
        ({"reasoning": "a"}, "a a"),
        ({"thinking": "a"}, "a a"),
        ({"reasoning_content": "a"}, "a a"),
        ({"reasoning_content": "a", "thinking": "b"}, "a b"),
        ({}, " "),
    ):
        assert render_chat(source, [{"role": "assistant", "content": "", **given}]).text == expected


@pytest.mark.parametrize(
    ("source", "warned"),
    [
        ("{{ messages[-1].content }}", ["tools", "documents", "tool_calls"]),
        ("{{ tools | tojson if tools }}{{ messages[-1].tool_calls | list }}", ["documents"]),
        (
            "{% if 'content' not in messages[-1] %}{{ messages[-1].tool_calls }}{% endif %}",
            ["tools", "documents"],
        ),
        (
            "{% if messages[0].role == 'system' %}{{ tools[0].function.name }}{% endif %}",
            ["documents", "tool_calls"],
        ),
        (
            "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}",
            ["tools", "documents", "tool_calls"],
        ),
        ("{{ documents[0].title }}{{ raise_exception('no') if messages | length < 9 }}", []),
    ],
)
def test_what_a_template_drops_is_told(source: str, warned: list[str], recwarn: Any) -> None:
    turns = [USER, {"role": "assistant", "content": "", "tool_calls": [{}]}]
    warn_of_dropped(source, turns, tools=[{}], documents=[{"title": "a", "text": "b"}])
    warn_of_dropped(source, [USER], tools=None, documents=[])
    message = "the chat template does not write {}: the model will not see them"
    assert [str(one.message) for one in recwarn] == [message.format(name) for name in warned]


def test_tools_that_are_dropped(byte_tokenizer: Any) -> None:
    tokenizer = byte_tokenizer(chat_template="{{ messages[0].content }}")
    chat = [{"role": "user", "content": "Hi"}]
    with pytest.warns(UserWarning, match="does not write tools"):
        History.from_chats(chat).apply_chat_template(tokenizer=tokenizer, tools=TOOLS)
    with pytest.warns(UserWarning, match="does not write tools"):
        tokenizer.apply_chat_template(chat, tokenize=False, tools=TOOLS)
    chat += [
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
    ]
    with pytest.warns(UserWarning, match="does not write tool_calls"):
        History.from_chats(chat).apply_chat_template(tokenizer=tokenizer)
    with pytest.warns(UserWarning, match="does not write tool_calls"):
        tokenizer.apply_chat_template(chat, tokenize=False)
    spelt = {
        "role": "assistant",
        "content": '<tool_call>\n{"name": "f"}\n</tool_call>',
        "tool_calls": [{"name": "f"}],
    }
    with warnings.catch_warnings(action="error"):  # the content has it
        History.from_chats([chat[0], spelt]).apply_chat_template(tokenizer=tokenizer)


def test_tools_and_documents_are_dicts() -> None:
    chat = [{"role": "user", "content": "Hi"}]
    with pytest.raises(TypeError, match="messages must be dicts with 'role' and 'content', got 'x' in them"):
        render_chat("{{ messages }}", "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"tools must be JSON schemas .*, got function in them"):
        render_chat("", chat, tools=[lambda x: x])
    raises(TypeError, r"documents must be dicts .*, got str", lambda: render_chat("", chat, documents=["a"]))


def test_variables_of_a_template() -> None:
    cases: list[bool | None] = [True, False, None]
    for thinking in cases:
        options = {} if thinking is None else {"enable_thinking": thinking}
        text = render_chat(THINKING, CONVERSATION, tools=TOOLS, add_generation_prompt=True, **options).text
        assert text.endswith("<think>\n\n</think>\n\n") is (thinking is False), thinking
        assert text.count('"name": "add"') == 2, thinking
        # that of turns before the last question is left out
        assert text.count("<think>") == (thinking is False)
        assert "Adds, é and all." in text, thinking
