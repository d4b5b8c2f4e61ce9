from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import as_lists, nested

from lite import TensorDict, lazy_stack
from lite.models import ChatHistory, History, LogProbs, Masks, Text, Tokenizer, Tokens, add_chat_template
from lite.models.text.builtin_templates import BUILT_IN

Make = Callable[..., Tokenizer]
USER = [{"role": "user", "content": "Hi"}]
CHAT = [*USER, {"role": "assistant", "content": "Yo!"}]
LONG = [{"role": "system", "content": "S"}, *CHAT]


def test_fields_are_optional() -> None:
    cases: list[Any] = [Text, Tokens, Masks, LogProbs, ChatHistory]
    for cls in cases:
        empty = cls()
        for name in cls._fields:
            assert getattr(empty, name) is None, cls
        assert ("x", cls.__name__) not in TensorDict({"x": empty}), cls
        assert list(empty.keys()) == [], cls


def test_ragged_access() -> None:
    tokens = lazy_stack([Tokens(full=np.arange(n), padded=False) for n in (2, 4)])
    assert isinstance(tokens, Tokens)
    assert as_lists(tokens.get("full", as_list=True)) == [[0, 1], [0, 1, 2, 3]]
    padded = tokens.get("full", as_padded_tensor=True, padding_value=9, padding_side="left")
    np.testing.assert_array_equal(padded, [[9, 9, 0, 1], [0, 1, 2, 3]])
    with pytest.raises(RuntimeError, match="as_list"):
        tokens.full  # noqa: B018
    assert tokens.padded is False
    td = TensorDict({"tokens": tokens}, batch_size=[2])
    assert as_lists(td.get(("tokens", "full"), as_list=True)) == [[0, 1], [0, 1, 2, 3]]
    np.testing.assert_array_equal(td[1]["tokens", "full"], [0, 1, 2, 3])
    np.testing.assert_array_equal(td[1]["tokens"].get("full", as_list=True), [0, 1, 2, 3])
    assert ("tokens", "prompt") not in td
    assert td.get("tokens").prompt is None


def test_text_rows() -> None:
    text = Text(prompt=[["a", "b"], ["c", "d"]], batch_size=[2, 2])
    assert text.prompt == [["a", "b"], ["c", "d"]]
    assert text[1, 0].prompt == "c"
    assert text.response is None


def test_chat_history_adds_the_turn_dimension() -> None:
    full = History.from_chats([CHAT, CHAT])
    with pytest.warns(UserWarning, match="prompt has no dimension for turns"):
        chat = ChatHistory(prompt=full[:, 0], batch_size=[2])
    assert chat.prompt.batch_size == (2, 1)
    assert ChatHistory(full=full, batch_size=[2]).full.batch_size == (2, 2)


def test_text_to_tokens(byte_tokenizer: Make) -> None:
    text = Text(prompt=["Hi", "Hello"], response=["a", ""], batch_size=[2])
    raises(ValueError, "Padding is not yet supported", text.to_tokens, byte_tokenizer(), padding=True)
    tokens = text.to_tokens(byte_tokenizer())
    assert as_lists(tokens.get("prompt", as_list=True)) == [[39, 72], [39, 68, 75, 75, 78]]
    assert as_lists(tokens.get("response", as_list=True)) == [[64], []]
    assert tokens.padded is False
    assert tokens.full is None
    assert tokens.to_text(byte_tokenizer()).prompt == ["Hi", "Hello"]


def test_bijection(byte_tokenizer: Make) -> None:
    cases: list[tuple[int, ...]] = [(), (2,), (2, 2)]
    for shape in cases:
        tokenizer = byte_tokenizer(name_or_path="x")
        chat = ChatHistory(
            prompt=History.from_chats(nested(USER, shape)),
            full=History.from_chats(nested(CHAT, shape)),
            batch_size=shape,
        )
        text = chat.to_text(tokenizer)
        tokens = chat.to_tokens(tokenizer)
        assert (text.batch_size, tokens.batch_size) == (shape, shape), shape
        assert tokens.to_text(tokenizer).to_dict() == text.to_dict(), shape
        one = text[(0,) * len(shape)] if shape else text
        assert one.prompt == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", shape
        assert one.response == "Yo!<|im_end|>\n", shape
        assert one.prompt + one.response == one.full, shape
        back = Text(full=text.full, batch_size=shape).to_history(tokenizer)
        assert back.full.to_chats() == chat.full.to_chats(), shape
        assert (
            Tokens(full=tokens.full, batch_size=shape).to_history(tokenizer).full.to_chats()
            == chat.full.to_chats()
        )


def test_conversion_errors(byte_tokenizer: Make) -> None:
    padded = Tokens(full=np.zeros((2, 3), np.int64), padded=True, batch_size=[2])
    for tokens in (padded, lazy_stack([padded[0], padded[1]])):
        raises(ValueError, "padded tokens", tokens.to_text, byte_tokenizer())
    other = ChatHistory(prompt=History.from_chats(LONG), full=History.from_chats(CHAT))
    for convert in (other.to_text, other.to_tokens):
        raises(ValueError, "Full text does not start with prompt text", convert, byte_tokenizer())


ASKED = [{"role": "user", "content": "Hello"}]
SHORT = [*ASKED, {"role": "assistant", "content": "Hi there!"}]
LONGER = [{"role": "system", "content": "Be kind."}, *SHORT, *SHORT]


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
    both = History.from_chats([SHORT, LONGER])
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


def test_ragged_rows_need_a_batch_size(byte_tokenizer: Make) -> None:
    with pytest.raises(ValueError, match=r"full: .* lengths \[1, 2\].*batch_size"):
        Text(full=["a", "bc"]).to_tokens(byte_tokenizer())
    assert as_lists(
        Text(full=["a", "bc"], batch_size=[2]).to_tokens(byte_tokenizer()).get("full", as_list=True)
    ) == [[64], [65, 66]]


# -- a response without its prompt -------------------------------------------------------------


def test_a_response_cut_from_its_conversation_is_an_assistants_turn(byte_tokenizer: Make) -> None:
    for name, shape in list(zip(sorted(BUILT_IN), [(), (2,), (2, 2)] * 2, strict=True)):
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
        assert back.response.batch_size == (*shape, 1), name
        turn = back.response[(0,) * len(shape)][0] if shape else back.response[0]
        assert (turn.role, turn.content, turn.is_complete) == ("assistant", "Hi there!", True), name
        assert back.prompt is back.full is None, name


def test_a_response_rendered_alone_is_not_opened_twice(byte_tokenizer: Make) -> None:
    for name in ("chatml_format", "qwen", "llama", "deepseek"):
        tokenizer = byte_tokenizer(bos_token="<bos>")
        chat = ChatHistory(response=History.from_chats(SHORT[1:]))
        text = chat.to_text(tokenizer, chat_template_name=name)
        for back in (
            text.to_history(tokenizer, name),
            chat.to_tokens(tokenizer, chat_template_name=name).to_history(tokenizer, name),
        ):
            assert back.response[-1].content == "Hi there!", name
            # one built-in template writes a system turn into every conversation
            assert list(back.response.role) == (["system"] if name == "qwen" else []) + ["assistant"], name


def test_a_response_of_several_turns(byte_tokenizer: Make) -> None:
    text = "Hm.<|im_end|>\n<|im_start|>tool\n4<|im_end|>\n<|im_start|>assistant\nFou"
    back = Text(response=text).to_history(byte_tokenizer()).response
    assert list(back.role) == ["assistant", "tool", "assistant"]
    assert list(back.content) == ["Hm.", "4", "Fou"]
    assert list(back.is_complete) == [True, True, False]
    after_a_tool = Text(response="<|im_start|>tool\n4<|im_end|>\n").to_history(byte_tokenizer()).response
    assert list(after_a_tool.role) == ["tool"]


def test_an_empty_response_is_an_open_turn(byte_tokenizer: Make) -> None:
    for name in sorted(BUILT_IN):
        turn = Text(response="").to_history(byte_tokenizer(bos_token="<bos>"), name).response[0]
        assert (turn.role, turn.content, turn.is_complete) == ("assistant", "", False), name


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


def test_specs_have_all_fields() -> None:
    for kind in (ChatHistory, Text, Tokens, Masks, LogProbs):
        assert {*kind.default_spec().keys()} == {*kind.__annotations__}
