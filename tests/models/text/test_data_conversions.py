"""Conversions of fields that have dimensions of their own, and of responses without their prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.models.prompts import as_lists, nested

from lite import lazy_stack
from lite.models import ChatHistory, History, Text, Tokenizer, add_chat_template
from lite.models.text.builtin_templates import BUILT_IN

Make = Callable[..., Tokenizer]
ASKED = [{"role": "user", "content": "Hello"}]
SHORT = [*ASKED, {"role": "assistant", "content": "Hi there!"}]
LONG = [{"role": "system", "content": "Be kind."}, *SHORT, *SHORT]


# -- a batch in an object that has none of its own ---------------------------------------------


def test_a_batch_in_a_history_without_one(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer()
    chat = ChatHistory(prompt=History.from_chats([ASKED]), full=History.from_chats([SHORT]))
    text, tokens = chat.to_text(tokenizer), chat.to_tokens(tokenizer)
    assert (text.batch_size, tokens.batch_size) == ((), ())
    assert text.full == ["<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi there!<|im_end|>\n"]
    assert text.response == ["Hi there!<|im_end|>\n"]
    assert tokens.full.shape == (1, len(text.full[0]))
    np.testing.assert_array_equal(tokens.full[0], tokenizer.encode(text.full[0]))
    np.testing.assert_array_equal(tokens.response[0], tokenizer.encode(text.response[0]))
    assert tokens.padded is False
    assert list(tokens.to_text(tokenizer).full) == list(text.full)
    for back in (text.to_history(tokenizer), tokens.to_history(tokenizer)):
        assert back.full.batch_size == (1, 2)
        assert back.full.content == [["Hello", "Hi there!"]]


def test_a_stack_of_such_histories(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer()
    both = History.from_chats([SHORT, LONG])
    stack = lazy_stack([ChatHistory(full=both[i : i + 1]) for i in range(2)])
    text, tokens = stack.to_text(tokenizer), stack.to_tokens(tokenizer)
    assert (text.batch_size, tokens.batch_size) == ((2,), (2,))
    assert [row[0].count("<|im_start|>") for row in text.full] == [2, 5]
    rows = tokens.get("full", as_list=True)
    assert [row.shape for row in rows] == [(1, len(row[0])) for row in text.full]
    assert [list(row) for row in tokens.to_text(tokenizer).full] == [list(row) for row in text.full]
    assert text.to_history(tokenizer).batch_size == (2,)
    nested = lazy_stack([stack, stack])
    assert nested.to_tokens(tokenizer).batch_size == nested.to_text(tokenizer).batch_size == (2, 2)


def test_texts_in_an_object_without_a_batch(byte_tokenizer: Make) -> None:
    tokens = Text(prompt=["Hi"], response=["abc"]).to_tokens(byte_tokenizer())
    assert tokens.batch_size == ()
    assert as_lists(tokens.prompt) == [[39, 72]]
    assert list(tokens.to_text(byte_tokenizer()).response) == ["abc"]


def test_ragged_rows_need_a_batch_size(byte_tokenizer: Make) -> None:
    with pytest.raises(ValueError, match=r"full: .* lengths \[1, 2\].*batch_size"):
        Text(full=["a", "bc"]).to_tokens(byte_tokenizer())
    assert as_lists(
        Text(full=["a", "bc"], batch_size=[2]).to_tokens(byte_tokenizer()).get("full", as_list=True)
    ) == [
        [64],
        [65, 66],
    ]


# -- a response without its prompt -------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(BUILT_IN))
@pytest.mark.parametrize("shape", [(), (2,), (2, 2)])
def test_a_response_cut_from_its_conversation_is_an_assistants_turn(
    byte_tokenizer: Make, name: str, shape: tuple[int, ...]
) -> None:
    tokenizer = byte_tokenizer(bos_token="<bos>")
    chat = ChatHistory(
        prompt=History.from_chats(nested(ASKED, shape)),
        full=History.from_chats(nested(SHORT, shape)),
        batch_size=shape,
    )
    if name == "dialogpt":  # its generation prompt is no part of the whole conversation
        response = nested("Hi there!<eos>", shape)
    else:
        response = chat.to_text(tokenizer, chat_template_name=name).response
    back = Text(response=response, batch_size=shape).to_history(tokenizer, name)
    assert back.response.batch_size == (*shape, 1)
    turn = back.response[(0,) * len(shape)][0] if shape else back.response[0]
    assert (turn.role, turn.content, turn.is_complete) == ("assistant", "Hi there!", True)
    assert back.prompt is back.full is None


@pytest.mark.parametrize("name", ["chatml_format", "qwen", "llama", "deepseek"])
def test_a_response_rendered_alone_is_not_opened_twice(byte_tokenizer: Make, name: str) -> None:
    tokenizer = byte_tokenizer(bos_token="<bos>")
    chat = ChatHistory(response=History.from_chats(SHORT[1:]))
    text = chat.to_text(tokenizer, chat_template_name=name)
    for back in (
        text.to_history(tokenizer, name),
        chat.to_tokens(tokenizer, chat_template_name=name).to_history(tokenizer, name),
    ):
        assert back.response[-1].content == "Hi there!"
        # one built-in template writes a system turn into every conversation
        assert list(back.response.role) == (["system"] if name == "qwen" else []) + ["assistant"]


def test_a_response_of_several_turns(byte_tokenizer: Make) -> None:
    text = "Hm.<|im_end|>\n<|im_start|>tool\n4<|im_end|>\n<|im_start|>assistant\nFou"
    back = Text(response=text).to_history(byte_tokenizer()).response
    assert list(back.role) == ["assistant", "tool", "assistant"]
    assert list(back.content) == ["Hm.", "4", "Fou"]
    assert list(back.is_complete) == [True, True, False]
    after_a_tool = Text(response="<|im_start|>tool\n4<|im_end|>\n").to_history(byte_tokenizer()).response
    assert list(after_a_tool.role) == ["tool"]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_an_empty_response_is_an_open_turn(byte_tokenizer: Make, name: str) -> None:
    turn = Text(response="").to_history(byte_tokenizer(bos_token="<bos>"), name).response[0]
    assert (turn.role, turn.content, turn.is_complete) == ("assistant", "", False)


def test_a_response_in_a_registered_format(byte_tokenizer: Make) -> None:
    turn = "[{{ m.role }}] {% generation %}{{ m.content }}{% endgeneration %};"
    source = f"{{% for m in messages %}}{turn}{{% endfor %}}"

    def parse(text: str) -> list[dict[str, Any]]:
        pieces = [piece.partition("] ") for piece in text.replace("[", ";[").split(";") if piece.strip()]
        return [{"role": head.strip(" ["), "content": said} for head, _, said in pieces]

    add_chat_template("square", source + "{% if add_generation_prompt %}[assistant] {% endif %}", parse)
    found = Text(response="Yo;").to_history(byte_tokenizer(), "square").response[0]
    assert (found.role, found.content) == ("assistant", "Yo")


def test_prompts_and_whole_conversations_still_have_to_parse(byte_tokenizer: Make) -> None:
    for name in ("prompt", "full"):
        with pytest.raises(RuntimeError, match="Couldn't get a single item out of text"):
            Text(**{name: "Yo"}).to_history(byte_tokenizer())
