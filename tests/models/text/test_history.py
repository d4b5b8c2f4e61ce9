from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import LazyStackedTensorDict, TensorDict, lazy_stack, stack
from lite.models import ContentBase, History, Tokenizer, add_chat_template
from lite.models.text.builtin_templates import BUILT_IN

Make = Callable[..., Tokenizer]
A = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
B = [{"role": "system", "content": "S"}, *A]


def text_of(history: History, name: str = "chatml_format", **options: Any) -> Any:
    return history.apply_chat_template(chat_template_name=name, add_generation_prompt=False, **options)


# -- construction ------------------------------------------------------------------------------


def test_from_chats_shapes() -> None:
    one = History.from_chats(A)
    assert (one.batch_size, one.role, one.content) == ((2,), ["user", "assistant"], ["Hi", "Yo"])
    assert (one[0].batch_size, one[0].content, one[0].is_complete) == ((), "Hi", True)
    assert one[0].tool_calls is None
    batch = History.from_chats([A, A, A])
    assert batch.batch_size == (3, 2)
    assert batch[1, 1].content == "Yo"
    assert History.from_chats([[A, A], [A, A]]).batch_size == (2, 2, 2)
    ragged = History.from_chats([A, B])
    assert ragged.batch_size == (2, -1)
    assert ragged.content == [["Hi", "Yo"], ["S", "Hi", "Yo"]]
    assert ragged[1].batch_size == (3,)
    assert History.from_chats([[A, B], [A, B]]).batch_size[:2] == (2, 2)


def test_optional_fields_per_message() -> None:
    call = {"name": "add", "arguments": {"a": 1}}
    chat = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "3", "tool_responses": ["3"], "is_complete": False},
    ]
    history = History.from_chats(chat)
    assert (history[0].tool_calls, history[1].tool_calls) == ([call], None)
    assert history[1].tool_responses == ["3"]
    assert history.is_complete == [True, False]
    assert history.to_chats() == [{**chat[0], "is_complete": True}, chat[1]]
    parts = [{"type": "text", "text": "a"}, {"type": "image"}]
    assert History.from_chats([{"role": "user", "content": parts}])[0].content == parts


def test_messages_of_tools_as_servers_write_them() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    asks = {"role": "assistant", "content": None, "is_complete": True, "tool_calls": [call]}
    tells = {"role": "tool", "content": "3", "is_complete": True, "tool_call_id": "c1", "name": "add"}
    user = {"role": "user", "content": "1 + 2?", "is_complete": True}
    chats: list[Any] = [[asks], [user, asks, tells], [[user, asks], [asks, tells]], [[asks], [user, asks]]]
    for chat in chats:
        assert History.from_chats(chat).to_chats() == chat
    history = History.from_chats([user, {**asks, "refusal": None, "audio": None}])
    assert history.append(History.from_chats([tells])[0])[2].tool_call_id == "c1"
    assert history.extend(History.from_chats([asks])).to_chats() == [user, asks, tells, asks]
    assert history[1].content is None
    ragged = History.from_chats([[user], [user, asks, tells], [asks]])
    assert ragged.tool_calls == [[None], [None, [call], None], [[call]]]
    assert ragged.tool_call_id == [[None], [None, None, "c1"], [None]]
    assert ragged.content == [["1 + 2?"], ["1 + 2?", None, "3"], [None]]
    assert History.default_spec().is_in(history)
    source = (
        "{% for m in messages %}{{ m.role ~ m.tool_call_id ~ m.name ~ (m.content is defined) }} {% endfor %}"
    )
    with pytest.warns(UserWarning, match="does not write tool_calls"):
        text = history.apply_chat_template(chat_template=source)
    assert text == "userTrue assistantFalse toolc1addTrue assistantFalse "


def test_whether_turns_are_complete_is_said_for_each() -> None:
    assert History.from_chats(A).is_complete == [True, True]
    assert History.from_chats([A, A]).is_complete == [[True, True], [True, True]]
    assert History.from_chats([A, B]).is_complete == [[True, True], [True, True, True]]
    assert History.from_chats([{**A[0], "is_complete": False}]).is_complete == [False]
    text = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
    assert History.from_text(text).is_complete == [True, True]
    assert History.from_text([text, text]).get("is_complete") == [[True, True], [True, True]]
    assert History.from_chats(A)[0].is_complete is True
    one = History(role=["user", "user"], content=["a", "b"], batch_size=[2])
    assert one.is_complete is True  # given once for all
    assert one.append(History(role="user", content="c")).is_complete == [True, True, True]


def test_content_parts() -> None:
    text, image = ContentBase(type="text", text="Hi"), ContentBase(type="image", url="u", size=3)
    expected = [{"type": "text", "text": "Hi"}, {"type": "image", "url": "u", "size": 3}]
    assert History(role="user", content=text).to_chats()["content"] == expected[:1]
    assert History(role="user", content=[text, image]).to_chats()["content"] == expected
    history = History.from_chats([{"role": "user", "content": [text, image]}, *A])
    assert history.to_chats()[0]["content"] == expected
    assert "\n\nHi<|eot|>" in text_of(history, "llama")


def test_from_chats_refuses() -> None:
    raises(IndexError, "at least one message", lambda: History.from_chats([]))
    for chats in ([[]], [A, []]):
        raises(IndexError, "a conversation must hold at least one message", History.from_chats, chats)
    raises(AttributeError, "refusal", History.from_chats, [{"role": "user", "content": "a", "refusal": "b"}])
    raises(TypeError, "no content", lambda: History.from_chats([{"role": "user"}]))
    with pytest.raises(TypeError, match="lists of them; got one message"):
        History.from_chats(A[0])  # type: ignore[arg-type]
    for none in (None, 5):
        with pytest.raises(TypeError, match=f"lists of them; got {none}"):
            History.from_chats(none)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the role of a message must be a str, got 5"):
        History.from_chats([{"role": 5, "content": "a"}])
    with pytest.raises(TypeError, match=r"the content of a message must be a str or a list, got 1\.5"):
        History.from_chats([{"role": "user", "content": 1.5}])
    with pytest.raises(TypeError, match="text must be a str or lists of them, got 5"):
        History.from_text(["<|im_start|>user\nHi<|im_end|>", 5])
    raises(TypeError, "got int in it", lambda: History.from_chats([3]))


def test_as_a_tensorclass() -> None:
    rows = stack([History.from_chats(A), History.from_chats(A)])
    assert isinstance(rows, History)
    assert rows.batch_size == (2, 2)
    ragged = lazy_stack([History.from_chats(A), History.from_chats(B)])
    td = TensorDict({"history": {"prompt": ragged}}, batch_size=[2])
    assert isinstance(td["history", "prompt"], History)
    assert td[1]["history", "prompt"].batch_size == (3,)
    for copied in (copy.deepcopy(ragged), pickle.loads(pickle.dumps(ragged)), ragged.clone()):
        assert copied.to_chats() == ragged.to_chats()
    message = History(role="user", content="Hi")
    assert message.unsqueeze(0).batch_size == (1,)
    assert "Hi" in repr(message)


# -- append and extend -------------------------------------------------------------------------


def test_append() -> None:
    history = History.from_chats(A)
    turn = History(role="user", content="More")
    assert history.append(turn) is history
    assert history.content == ["Hi", "Yo", "More"]
    longer = history.append(turn, inplace=False)
    assert (longer.batch_size, history.batch_size) == ((4,), (3,))
    batch = History.from_chats([A, B])
    turns = History(role=["user", "user"], content=["x", "y"], batch_size=[2])
    batch.append(turns)
    assert batch.content == [["Hi", "Yo", "x"], ["S", "Hi", "Yo", "y"]]
    raises(RuntimeError, "unsqueeze", lambda: turn.append(turn))
    raises(RuntimeError, "one less than this one, got 0", lambda: batch.append(turn))
    raises(RuntimeError, "2 and 1 rows", lambda: batch.append(turns[:1]))
    raises(RuntimeError, "dim must be in", lambda: batch.append(turns, dim=2))


def test_extend() -> None:
    batch = History.from_chats([A, A])
    assert batch.extend(History.from_chats([A, A]), inplace=False).batch_size == (4, 2)
    assert batch.extend(History.from_chats([A, A]), inplace=False, dim=-1).batch_size == (2, 4)
    assert batch.extend(History.from_chats([B])) is batch
    assert batch.batch_size == (3, -1)
    one = History.from_chats(A)
    assert one.extend(History.from_chats(B)).content == ["Hi", "Yo", "S", "Hi", "Yo"]
    raises(RuntimeError, "The new history to extend with must have 1 dimensions", lambda: one.extend(batch))


# -- rendering ---------------------------------------------------------------------------------


def test_renders_text_of_any_shape() -> None:
    a, b = (text_of(History.from_chats(chat)) for chat in (A, B))
    assert a == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n"
    assert text_of(History.from_chats([A, B])) == [a, b]
    assert text_of(History.from_chats([[A, A], [A, A]])) == [[a, a], [a, a]]
    assert text_of(History(role="user", content="Hi")) == "<|im_start|>user\nHi<|im_end|>\n"
    prompt = History.from_chats(A[:1]).apply_chat_template(chat_template_name="chatml_format")
    assert prompt.endswith("<|im_start|>assistant\n")
    assert text_of(History.from_chats(A), continue_final_message=True).endswith("\nYo")
    filled = History.from_chats([*A, {"role": "<none>", "content": ""}])
    assert text_of(filled) == a


def test_choice_of_template(byte_tokenizer: Make) -> None:
    history = History.from_chats(A)
    options = {"add_generation_prompt": False, "chat_template": "{{ messages[1].content }}{{ extra }}"}
    assert history.apply_chat_template(**options, extra="!") == "Yo!"
    own = byte_tokenizer(chat_template="{{ eos_token }}")
    assert history.apply_chat_template(tokenizer=own) == "<eos>"
    assert history.apply_chat_template(tokenizer=byte_tokenizer(name_or_path="Qwen")).startswith(
        "<|im_start|>sys"
    )
    raises(KeyError, "nope", lambda: history.apply_chat_template(chat_template_name="nope"))
    raises(RuntimeError, "pass a tokenizer", lambda: history.apply_chat_template())


def test_tokens(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer()
    options = {"tokenizer": tokenizer, "chat_template_name": "chatml_format", "add_generation_prompt": False}
    one, batch = History.from_chats(A), History.from_chats([A, B])
    ids = one.apply_chat_template(**options, tokenize=True)
    assert (ids.shape[0], ids.dtype) == (1, np.int64)
    assert tokenizer.decode(ids[0]) == text_of(one)
    np.testing.assert_array_equal(one.apply_chat_template(**options, return_tensors="np"), ids)
    rows = batch.apply_chat_template(**options, tokenize=True)
    assert [tokenizer.decode(row[0]) for row in rows] == text_of(batch)
    td = one.apply_chat_template(**options, return_assistant_tokens_mask=True)
    assert td.batch_size == ()
    assert tokenizer.decode(td["input_ids"][td["assistant_masks"] == 1]) == "Yo"
    np.testing.assert_array_equal(td["attention_mask"], np.ones(ids.shape[1]))
    lazy = batch.apply_chat_template(**options, return_assistant_tokens_mask=True)
    assert isinstance(lazy, LazyStackedTensorDict)
    np.testing.assert_array_equal(lazy[0]["input_ids"], ids[0])
    dense = batch.apply_chat_template(**options, return_dict=True, tokenize=True, padding=True)
    assert dense["input_ids"].shape == dense["attention_mask"].shape
    assert dense["attention_mask"][0].sum() == ids.shape[1]
    assert (dense["input_ids"][0][dense["attention_mask"][0] == 0] == 259).all()
    message = History(role="user", content="Hi").apply_chat_template(
        **options, return_dict=True, tokenize=True
    )
    assert message.batch_size == (1,)
    cut = one.apply_chat_template(**options, tokenize=True, truncation=True, max_length=3)
    np.testing.assert_array_equal(cut, ids[:, :3])


# -- parsing -----------------------------------------------------------------------------------


def test_from_text_chooses_the_parser(byte_tokenizer: Make) -> None:
    text = "User: a\n\nAssistant: b<eos>"
    tokenizer = byte_tokenizer(name_or_path="x/deepseek-coder")
    assert History.from_text(text, tokenizer=tokenizer).content == ["a", "b"]
    assert History.from_text("<|im_start|>user\na<|im_end|>").content == ["a"]
    add_chat_template(
        "lambda", "{% generation %}{% endgeneration %}", lambda t: [{"role": "user", "content": t}]
    )
    assert History.from_text(["x", "y"], "lambda").content == [["x"], ["y"]]
    raises(RuntimeError, "Couldn't get a single item", lambda: History.from_text("nothing here"))
    raises(NotImplementedError, "no parser", lambda: History.from_text("x", "unknown"))


# As in the template of Qwen2.5: calls come from their own field, results in a user's turn.
QWEN25 = """
{%- for message in messages %}
    {%- if message.role == "user" or message.role == "system" or not message.tool_calls %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
            {{- (tool_call.arguments | tojson) + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
"""


def test_parsed_tool_calls_are_rendered_once() -> None:
    cases = [
        (QWEN25, "", 2),
        (BUILT_IN["qwen"], "I look it up.\n", 1),
        (BUILT_IN["chatml_format"], "Hm.\n", 2),
    ]
    for source, said, count in cases:
        block = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
        content = said + "\n".join([block] * count)
        text = (
            f"<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n{content}"
            "<|im_end|>\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n"
        )
        history = History.from_text(text, "qwen")
        assert history[2].tool_calls == [{"name": "f", "arguments": {"x": 1}}] * count, source
        again = history.apply_chat_template(chat_template=source, add_generation_prompt=False)
        assert again == text, source
        assert History.from_text(again, "qwen").to_chats() == history.to_chats(), source
