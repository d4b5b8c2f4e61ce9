import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lite.models.text import chat as module
from lite.models.text.builtin_templates import BUILT_IN, add_chat_template
from lite.models.text.chat import (
    blanks_around_content,
    encode_chats,
    encode_messages,
    parser_name,
    render_messages,
)
from lite.models.text.template_rendering import render_chat
from lite.models.text.tokenizer import Tokenizer

Make = Callable[..., Tokenizer]
CHAT = [
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": "a"},
    {"role": "<none>", "content": ""},
    {"role": "user", "content": "é"},
    {"role": "assistant", "content": "zé"},
]
UNTAGGED = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"


def test_placeholder_turns_are_not_rendered() -> None:
    assert "<none>" not in render_messages(CHAT, chat_template_name="chatml_format").text


def test_masked_tokens_decode_to_what_the_assistant_said(byte_tokenizer: Make) -> None:
    for source in (UNTAGGED, *BUILT_IN.values()):
        tokenizer = byte_tokenizer(bos_token="<bos>")
        out = encode_messages(CHAT, tokenizer=tokenizer, chat_template=source, mask=True)
        assert tokenizer.decode(out.ids) == out.text, source
        assert out.ids.dtype == np.int64, source
        assert tokenizer.decode(out.ids[out.assistant_mask]).replace(" ", "") == "azé", source


TRIM = "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}{{ eos_token }}{% endfor %}"
PARTS = "{% for m in messages %}{{ m.content[0].text }}{{ m.content[0].text }}{{ eos_token }}{% endfor %}"


def test_special_tokens_come_from_the_template_and_from_assistants(byte_tokenizer: Make) -> None:
    for source in (UNTAGGED, TRIM, *BUILT_IN.values()):
        tokenizer, said = byte_tokenizer(bos_token="<bos>"), " a<eos><bos> <eos>x0x<eos"
        chat = [
            {"role": role, "content": said} for role in ("system", "user", "assistant", "user", "assistant")
        ]
        plain = [{**turn, "content": turn["content"].replace("<", "[")} for turn in chat]
        options = {"tokenizer": tokenizer, "chat_template": source, "mask": True}
        out, frame = encode_messages(chat, **options), encode_messages(plain, **options)
        assert tokenizer.decode(out.ids) == out.text, source

        def controls(ids: np.ndarray) -> int:
            return int((ids >= 256).sum())

        assert controls(out.ids) == controls(frame.ids) + 2 * (said.count("<eos>") + said.count("<bos>"))
        said_by_assistants = tokenizer.decode(out.ids[out.assistant_mask])
        assert said_by_assistants.replace(" ", "") == 2 * said.replace(" ", ""), source
        as_it_is = encode_messages(chat, **options, split_special_tokens=False)
        np.testing.assert_array_equal(as_it_is.ids, tokenizer.encode(out.text, add_special_tokens=False))


def test_special_tokens_in_parts_and_in_contents_that_change(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer()
    parts = [{"role": "user", "content": [{"type": "text", "text": "<eos>"}]}]
    ids = encode_messages(parts, tokenizer=tokenizer, chat_template=PARTS).ids
    assert np.flatnonzero(ids >= 256).tolist() == [10]
    assert tokenizer.decode(ids) == "<eos>" * 3
    chat = [{"role": "user", "content": "a<eos>"}]
    source = "{{ messages[0].content | length }}{{ messages[0].content }}"
    with pytest.warns(UserWarning, match="names special tokens, and the chat template changes its content"):
        assert (encode_messages(chat, tokenizer=tokenizer, chat_template=source).ids >= 256).any()


def test_parser_inverts_the_own_template(byte_tokenizer: Make) -> None:
    assert parser_name(None) == "chatml_format"
    assert parser_name(None, "falcon") == "falcon"
    assert parser_name(byte_tokenizer(name_or_path="x/Qwen3")) == "qwen"
    for name, source in BUILT_IN.items():
        tokenizer = byte_tokenizer(chat_template=source, bos_token="<bos>", name_or_path="some-llama")
        found = parser_name(tokenizer)
        # chatml_format and qwen share their frame, falcon and deepseek their labels
        same = [{"chatml_format", "qwen"}, {"falcon", "deepseek"}]
        assert found == name or {found, name} in same, name
    assert parser_name(byte_tokenizer(chat_template=UNTAGGED, name_or_path="x/llama")) == "llama"
    assert parser_name(byte_tokenizer(chat_template="{{ raise_exception('no') }}")) == "chatml_format"
    add_chat_template("kappa", BUILT_IN["qwen"], lambda text: [], ["kappafamily"])
    assert parser_name(byte_tokenizer(chat_template=UNTAGGED, name_or_path="kappafamily-1")) == "kappa"


def test_what_is_rendered_to_learn_of_a_template_warns_of_nothing() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        blanks_around_content(chat_template="{{ messages[-1].content }}", tools=[{"name": "add"}])
    assert told == []


def test_nothing_to_encode_and_no_blanks_of_a_template_that_refuses(
    byte_tokenizer: Callable[..., Tokenizer],
) -> None:
    assert encode_chats([], tokenizer=byte_tokenizer()) == []
    assert blanks_around_content(chat_template="{{ raise_exception('no') }}") == ("", "")


# Thoughts are left out once a user follows, as Qwen3's template does.
THOUGHTS = (
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{{ '<' + m.role + '>' }}"
    "{% if m.role == 'assistant' and loop.index0 > ns.last %}"
    "{{ '(' ~ m.reasoning_content | default('') ~ ')' }}{% endif %}"
    "{{ m.content }}{% for c in m.tool_calls %}{{ '<call>' + c.name }}{% endfor %}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
COUNTED = UNTAGGED.replace("m.role }}", "m.role ~ loop.index }}")


def test_turns_alike_are_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the results of rendering each of them."""
    call, thought = {"tool_calls": [{"name": "f", "arguments": {}}]}, {"reasoning_content": "hm"}
    plain = [{"role": role, "content": "a b"} for _ in range(20) for role in ("assistant", "user")]
    tool = {"role": "tool", "content": "4"}
    calling = [
        turn
        for i in range(8)
        for turn in (
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "c", **call, **(thought if i % 3 == 0 else {})},
            *([tool] if i < 7 else []),
            {"role": "assistant", "content": f"{i}", **(thought if i % 2 else {})},
        )
    ]
    counts = []

    def counted(*args: Any, **options: Any) -> Any:
        counts[-1] += 1
        return render_chat(*args, **options)

    monkeypatch.setattr(module, "render_chat", counted)
    for chat, most in ((plain, 9), (calling, 90)):
        for source in (UNTAGGED, THOUGHTS, TRIM, COUNTED, *BUILT_IN.values()):
            options = {"chat_template": source, "spans": True, "probe": True}
            options |= {"eos_token": "<eos>", "bos_token": "<bos>"}
            counts.append(0)
            found = render_messages(chat, **options)
            assert counts[-1] <= most or source == COUNTED, source
            with monkeypatch.context() as patch:
                patch.setattr(module, "content_spans", lambda *args: {})
                counts.append(0)
                assert found == render_messages(chat, **options), source
            assert counts[-1] > 45


def test_what_renders_for_long_is_not_rendered_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SECONDS", -1.0)
    assert render_messages(CHAT, chat_template=UNTAGGED).text == "[user] a[assistant] a[user] é[assistant] zé"
    for source in (UNTAGGED, BUILT_IN["qwen"]):
        with pytest.raises(
            ValueError, match="cannot tell what the assistant wrote: rendering the 4 messages"
        ):
            render_messages(CHAT, chat_template=source, spans=True)
