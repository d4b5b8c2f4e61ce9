"""Spans of what assistants said, in templates that do not mark it."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.models import ChatHistory, History, OnnxWrapper, Tokenizer
from lite.models.text.assistant_spans import AssistantSpansError, around_content, assistant_spans
from lite.models.text.builtin_templates import BUILT_IN
from lite.models.text.chat import encode_chats, render_messages

Make = Callable[..., Tokenizer]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMMED = CHATML.replace("m.content", "m.content | trim")
LINES = CHATML.replace("m.content", "m.content.lstrip('\n')")
# Earlier reasoning is left out, as Qwen3's and DeepSeek's templates do.
THINKING = CHATML.replace("m.content", "m.content.split('</think>')[-1].lstrip('\n')")
CONDITIONAL = (
    "{% for m in messages %}{% if m.content %}{{ m.role ~ ': ' ~ m.content ~ '\n' }}{% else %}"
    "{{ m.role }} said nothing. {% endif %}{% endfor %}"
)
# Turns of Qwen2.5, whose template writes calls from their own field.
CALLING = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role }}{% if m.content %}{{ '\n' + m.content }}{% endif %}"
    "{% for c in m.tool_calls %}{{ '\n<tool_call>\n' + (c | tojson) + '\n</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# An empty thought for all that follows the last user, as Qwen3.5's template writes it.
THOUGHTS = (
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{{ '<' + m.role + '>' }}"
    "{% if m.role == 'assistant' and loop.index0 > ns.last %}{{ '<think></think>' }}{% endif %}"
    "{{ m.content }}{% for c in m.tool_calls %}{{ '<call>' + c.name }}{% endfor %}{{ '<end>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)


def marked(name: str) -> str:
    """A built-in template with the spans its generation blocks give."""
    return BUILT_IN[name]


def unmarked(source: str) -> str:
    """The template without generation blocks."""
    return re.sub(r"\{%(-?)\s*(end)?generation\s*%\}", r"{%\1 if true %}{% endif %}", source)


def said(chat: Any, source: str) -> list[str]:
    out = render_messages(chat, chat_template=source, spans=True)
    return [out.text[start:end] for start, end in out.spans]


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def bot(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


def test_what_the_template_leaves_out() -> None:
    cases: list[tuple[str, str, list[str]]] = [
        (CHATML, " a\n", [" a\n"]), (TRIMMED, " a\n", ["a"]), (TRIMMED, "\n", []),
        (TRIMMED, "\nassistant\n", ["assistant"]), (LINES, "\n\n a \n", [" a \n"]), (LINES, "\n\n", []),
        (THINKING, "<think>\nhm\n</think>\n\na", ["a"]), (THINKING, "<think>a</think>\n\n", []),
        (THINKING, "a", ["a"]), (CONDITIONAL, "a", ["a"]), (CONDITIONAL, "", []),
        ("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", "a", []),
    ]  # fmt: skip
    for source, content, expected in cases:
        assert said([user("a"), bot(content)], source) == expected, source
        assert said([user("a"), bot(content), user("\n"), bot(content)], source) == expected * 2, source
        assert said([user("\n"), bot("x"), bot(content)], source)[1:] == expected or not expected, source


def test_where_no_exact_way_exists_it_is_said() -> None:
    cases = [
        CHATML.replace("m.content", "m.content | upper"),
        CHATML.replace("m.content", "m.content ~ m.content"),
        CHATML.replace("m.content", "('yes!' if m.content == 'yes' else m.content)"),
        "{{ messages | length }}{% for m in messages %}{{ m.content | length }}{% endfor %}",
        "{% for m in messages %}{{ m.content | replace('e', 'ee') | reverse }}{% endfor %}",
    ]
    for source in cases:
        chat = [user("e"), bot("yes")]
        with pytest.raises(
            AssistantSpansError, match=r"the assistant wrote in message 1.*generation %} blocks"
        ):
            render_messages(chat, chat_template=source, spans=True)
        render_messages(chat, chat_template=source)


def test_parts_of_a_content() -> None:
    source = (
        "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% else %}<image>"
        "{% endif %}{% endfor %}{% endif %}{% endfor %}"
    )
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "a"}]
    out = render_messages([user("a"), bot(parts)], chat_template=source, spans=True)
    assert out.text == "[user]a[assistant]a<image>a"
    assert out.spans == ((18, 19), (26, 27))


def test_tool_calls_belong_to_the_assistant() -> None:
    call = {"name": "f", "arguments": {"x": 1}}
    block = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    chat = [user("a"), bot("a", tool_calls=[call]), user("4"), bot("", tool_calls=[call]), bot("a")]
    assert said(chat, CALLING) == [f"a\n{block}", block, "a"]
    # a template that does not write them has nothing to find
    with pytest.warns(UserWarning, match="does not write tool_calls"):
        assert said(chat, CHATML) == ["a", "a"]
    counted = CALLING.replace("m.role }}", "m.role + (messages | length) | string }}")
    assert said(chat, counted) == [f"a\n{block}", block, "a"]


def test_turns_that_are_written_otherwise_once_a_user_follows() -> None:
    """What a tool says is not the assistant's, though nothing tells where the turn behind it begins."""
    calls = {"tool_calls": [{"name": "f"}]}
    chat = [user("a"), bot("", **calls), {"role": "tool", "content": "4"}, bot("b"), user("c"), bot("d")]

    def turns(source: str) -> list[str]:
        out = render_messages(chat, chat_template=source, spans=True)
        return [out.text[begin:stop] for begin, _, stop, _ in out.turns]

    assert said(chat, THOUGHTS) == ["<call>f", "b", "d"]
    assert turns(THOUGHTS) == ["<call>f<end>", "<think></think>d<end>"]
    assert turns(THOUGHTS.replace("<end>", ""))[:1] == ["<call>f"]
    inside = THOUGHTS.replace("'<call>' + c.name", "'<call>' + c.name + messages[2].content")
    inside = inside.replace("messages %}{{ '<'", "messages if m.role != 'tool' %}{{ '<'")
    with pytest.raises(AssistantSpansError, match="message 1"):
        said(chat, inside)


def test_what_stands_between_blocks_is_not_the_assistants(byte_tokenizer: Make) -> None:
    """As in templates of TRL, whose blocks hold the end of the turn, and whose turns go on behind a tool."""
    block = "{% generation %}{{ m.content }}{% for c in m.tool_calls %}{{ '<call>' + c.name }}{% endfor %}"
    source = (
        "{% for m in messages %}{% if m.role == 'tool' %}{{ '<tool>' + m.content }}{% else %}"
        "{{ '<' + m.role + (loop.length | string if loop.index0 == 3 else '') + '>' }}"
        "{% if m.role == 'assistant' %}" + block + "{{ '.' }}{% endgeneration %}{% else %}{{ m.content }}"
        "{% endif %}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
    )
    chat = [user("a"), bot("", tool_calls=[{"name": "f"}]), {"role": "tool", "content": "4"}, bot("b")]
    tokenizer = byte_tokenizer()
    (end,) = tokenizer(".", add_special_tokens=False)["input_ids"]
    for turns in (chat, [*chat, user("c"), bot("d")]):
        row = encode_chats([turns], tokenizer=tokenizer, mask=True, end_ids={end}, chat_template=source)[0]
        marked = tokenizer.decode(row.ids[row.assistant_mask])
        assert marked == "".join(["<call>f.", "b.", "d."][: len(turns) // 2])


def test_around_content() -> None:
    def render(turns: Any, **options: Any) -> str:
        return render_messages(turns, chat_template=CHATML, **options).text

    assert around_content(render, [user("a")])[1] == "<|im_end|>\n"
    with pytest.raises(AssistantSpansError, match="once"):
        around_content(lambda turns, **options: render(turns, **options) * 2, [user("a")])
    assert assistant_spans(render, render([]), []) == ()


PIECES = st.sampled_from(["a", "d", "end", "<|im_end|>", "<|im_start|>", "assistant", "user", "\n", " ", "é"])
CONTENT = st.lists(PIECES, max_size=4).map("".join)
CHAT = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "tool"]), "content": CONTENT}
    ),
    max_size=6,
)


@pytest.mark.grid
@settings(max_examples=15)
@given(chat=CHAT, prompt=st.booleans())
@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_as_the_blocks_of_the_same_template(name: str, chat: Any, prompt: bool) -> None:
    options = {"add_generation_prompt": prompt, "bos_token": "<bos>", "eos_token": "<eos>", "spans": True}
    expected = render_messages(chat, chat_template=marked(name), **options)
    got = render_messages(chat, chat_template=unmarked(marked(name)), **options)
    assert got.text == expected.text
    if name in ("falcon", "deepseek"):  # their blocks begin with the template's blank
        assert got.spans == tuple((a + 1, b) for a, b in expected.spans if b > a + 1)
    else:
        assert got.spans == expected.spans


@settings(max_examples=15)
@given(chat=CHAT)
@pytest.mark.parametrize("source", [CHATML, TRIMMED, LINES])
def test_spans_follow_the_frame(source: str, chat: Any) -> None:
    kept = {CHATML: str, TRIMMED: str.strip, LINES: lambda text: text.lstrip("\n")}[source]
    expected, position = [], 0
    for turn in chat:
        content = kept(turn["content"])
        position += len(f"<|im_start|>{turn['role']}\n")
        if turn["role"] == "assistant" and content:
            expected.append((position, position + len(content)))
        position += len(content) + len("<|im_end|>\n")
    out = render_messages(chat, chat_template=source, spans=True)
    assert len(out.text) == position
    assert out.spans == tuple(expected)


def test_scoring_without_a_mask_that_is_exact(wrap: Callable[..., OnnxWrapper], byte_tokenizer: Make) -> None:
    from lite import TensorDict

    chats = History.from_chats([[user("a"), bot("a")]])
    td = TensorDict({"history": ChatHistory(full=chats, batch_size=[1])}, batch_size=[1])
    twice = wrap(
        "history", generate=False, chat_template="{% for m in messages %}{{ m.content * 2 }}{% endfor %}"
    )
    with pytest.warns(UserWarning, match="no assistant mask is written: cannot tell"):
        out = twice(td.copy())
    assert out["masks"].all_assistant_mask is None
    assert out["log_probs", "full"].shape == (1, 4)
    with pytest.raises(ValueError, match="cannot tell which characters"):
        chats.apply_chat_template(
            tokenizer=byte_tokenizer(),
            chat_template="{{ messages[1].content }}{{ messages[1].content }}",
            return_assistant_tokens_mask=True,
        )
    found = wrap("history", generate=False, chat_template=CHATML)(td.copy())
    assert int(found["masks"].all_assistant_mask.sum()) == 1
