"""History against torchrl's: the same conversations rendered, tokenised and parsed."""

from pathlib import Path

import numpy as np
import pytest
import transformers
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torchrl.data import llm as torchrl_llm

from lite.models import History, Tokenizer

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("lists_as_batches")]


FOLDER = Path(__file__).parents[1] / "models" / "exports" / "optimum-gpt2"
NAMES = ["chatml_format", "qwen"]
ROLES = st.sampled_from(["user", "assistant", "system", "tool"])
CONTENT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)
# The reference does not escape names, so that quotes in one break its JSON.
NAME = st.text("abcé_", min_size=1, max_size=5)
ARGUMENTS = st.dictionaries(CONTENT, CONTENT, max_size=2)
CALLS = st.lists(st.fixed_dictionaries({"name": NAME, "arguments": ARGUMENTS}), min_size=1, max_size=2)
MESSAGE = st.fixed_dictionaries({"role": ROLES, "content": CONTENT})
CHAT = st.lists(MESSAGE, min_size=1, max_size=4)
PLAIN = st.lists(
    st.fixed_dictionaries({"role": ROLES, "content": st.text("ab 1", min_size=1, max_size=8)}),
    min_size=1,
    max_size=4,
)
MARKS = ["<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>\n", "<|endoftext|>"]
BLOCKS = ['<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', "<tool_response>\n4\n</tool_response>"]


@pytest.fixture(scope="module")
def pair():
    return Tokenizer.from_pretrained(FOLDER), transformers.AutoTokenizer.from_pretrained(FOLDER)


def turns(history):
    def plain(value):
        return None if value is None else list(value)

    return [
        (turn.role, turn.content, turn.is_complete, plain(turn.tool_calls), plain(turn.tool_responses))
        for turn in history.unbind(0)
    ]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=13)
@given(chats=st.lists(CHAT, min_size=1, max_size=3), prompt=st.booleans())
def test_rendering(pair, name, chats, prompt):
    ours, theirs = pair
    options = {"chat_template_name": name, "add_generation_prompt": prompt}
    batch = torchrl_llm.History.from_chats(chats).apply_chat_template(tokenizer=theirs, **options)
    assert History.from_chats(chats).apply_chat_template(tokenizer=ours, **options) == batch


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10)
@given(chat=CHAT, calls=CALLS, responses=st.none() | st.lists(CONTENT, min_size=1, max_size=2))
def test_rendering_of_tools(pair, name, chat, calls, responses):
    ours, theirs = pair
    tool = {"role": "tool", "content": "4"} | ({"tool_responses": responses} if responses else {})
    chat = [*chat, {"role": "assistant", "content": "ok", "tool_calls": calls}, tool]
    options = {"chat_template_name": name, "add_generation_prompt": True}
    expected = torchrl_llm.History.from_chats(chat).apply_chat_template(tokenizer=theirs, **options)
    assert History.from_chats(chat).apply_chat_template(tokenizer=ours, **options) == expected


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10)
@given(chat=PLAIN)
def test_tokens_and_masks(pair, name, chat):
    assume(any(turn["role"] == "assistant" for turn in chat))
    ours, theirs = pair
    chat = [{"role": "user", "content": "x"}, *chat]
    options = {
        "chat_template_name": name,
        "add_generation_prompt": False,
        "return_assistant_tokens_mask": True,
    }
    expected = torchrl_llm.History.from_chats(chat).apply_chat_template(tokenizer=theirs, **options)
    got = History.from_chats(chat).apply_chat_template(tokenizer=ours, **options)
    for key in ("input_ids", "attention_mask", "assistant_masks"):
        np.testing.assert_array_equal(got[key], expected[key].numpy())
        assert got[key].dtype == np.int64


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=50)
@given(pieces=st.lists(st.sampled_from([*MARKS, *BLOCKS, "Hi", " ", "\n", "é"]), max_size=8))
def test_parsing(pair, name, pieces):
    text = "<|im_start|>user\nHi<|im_end|>\n" + "".join(pieces)
    # The reference lets a turn run on over the next header, or drops it, where an end mark is missing.
    for piece in text.split("<|im_start|>")[1:-1]:
        assume("<|im_end|>" in piece or "<|endoftext|>" in piece)
    expected = torchrl_llm.History.from_text(text, chat_template_name=name)
    assert turns(History.from_text(text, chat_template_name=name)) == turns(expected)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10)
@given(chat=CHAT, other=CHAT)
def test_append_and_extend(pair, name, chat, other):
    ours, theirs = History.from_chats(chat), torchrl_llm.History.from_chats(chat)
    ours.extend(History.from_chats(other))
    theirs.extend(torchrl_llm.History.from_chats(other))
    ours.append(History(**other[0]))
    theirs.append(torchrl_llm.History(**other[0]))
    assert tuple(ours.batch_size) == tuple(theirs.batch_size)
    assert turns(ours) == turns(theirs)
