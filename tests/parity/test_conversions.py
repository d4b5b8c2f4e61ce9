"""Conversions of ChatHistory, Text and Tokens against torchrl's, on the tokenizers of the exports.

The reference is compared where it runs: it converts no prompt with a whole conversation to text for two batch
dimensions, and no texts to tokens; and it cannot parse a response that was cut from its conversation.
"""

from pathlib import Path

import numpy as np
import pytest
import tensordict
import torch
import transformers
from helpers.cases import each_case, raises
from torchrl.data import llm as data
from torchrl.modules.llm.policies import common

import lite
from lite import models
from lite.models import Tokenizer

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("lists_as_batches")]


EXPORTS = Path(__file__).parents[1] / "models" / "exports"
FOLDERS = ["genai-qwen2-int4", "optimum-gpt2-nopos", "optimum-llama"]
NAMES = ["chatml_format", "qwen", "llama"]
ASKED = [{"role": "user", "content": "Hello"}]
SHORT = [*ASKED, {"role": "assistant", "content": "Hi there!"}]
LONG = [
    {"role": "system", "content": "You are helpful."},
    {"role": "user", "content": "What is 2+2?"},
    {"role": "assistant", "content": "4."},
]
FIELDS = [
    {"prompt": (ASKED, LONG[:2])},
    {"full": (SHORT, LONG)},
    {"response": (SHORT[1:], LONG[2:])},
    {"prompt": (ASKED, LONG[:2]), "full": (SHORT, LONG)},
    {"prompt": (ASKED, LONG[:2]), "response": (SHORT[1:], LONG[2:]), "full": (SHORT, LONG)},
    {"prompt": (ASKED, LONG[:2]), "response": (SHORT[1:], LONG[2:])},
]
BATCHES = {
    "one": lambda a, b: a,
    "batch of one": lambda a, b: [a],
    "batch": lambda a, b: [a, b],
    "batch of batches": lambda a, b: [[a, b], [b, a]],
}


def size_of(nested):
    size = []
    while isinstance(nested, list) and not isinstance(nested[0], dict):
        size.append(len(nested))
        nested = nested[0]
    return size


def plain(value):
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, torch.Tensor)) else value


def contents(obj):
    found = {name: obj.get(name, None, as_list=True) for name in ("prompt", "response", "full")}
    return {name: plain(value) for name, value in found.items() if value is not None}


@pytest.fixture(scope="module", params=FOLDERS)
def tokenizers(request):
    folder = EXPORTS / request.param
    return Tokenizer.from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(params=list(BATCHES))
def batch(request):
    return str(request.param)


def chat_histories(fields, batch):
    """Ours, and the reference's: rows of different lengths convert in its lazy stacks alone."""
    chats = {name: BATCHES[batch](*pair) for name, pair in fields.items()}
    size = size_of(next(iter(chats.values())))
    histories = {name: models.History.from_chats(chat) for name, chat in chats.items()}
    return models.ChatHistory(**histories, batch_size=size), stacked(chats, size)


def stacked(chats, size):
    if not size:
        return common.ChatHistory(**{name: data.History.from_chats(chat) for name, chat in chats.items()})
    rows = [{name: chat[i] for name, chat in chats.items()} for i in range(size[0])]
    return tensordict.lazy_stack([stacked(row, size[1:]) for row in rows])


@each_case(("fields", "name"), zip(FIELDS, NAMES * 2, strict=True))
def test_from_histories(tokenizers, fields, batch, name):
    ours, theirs = chat_histories(fields, batch)
    for method in ("to_text", "to_tokens"):
        got = getattr(ours, method)(tokenizers[0], chat_template_name=name)
        assert list(got.batch_size) == list(theirs.batch_size)
        if {"prompt", "full"} <= set(fields) and batch in ("one", "batch of batches"):
            with pytest.raises((AttributeError, IndexError, ValueError)):
                getattr(theirs, method)(tokenizers[1], chat_template_name=name)
            continue
        expected = getattr(theirs, method)(tokenizers[1], chat_template_name=name)
        assert contents(got) == contents(expected)
        assert tuple(got.batch_size) == tuple(expected.batch_size)


@each_case("fields", [*FIELDS[:3], FIELDS[5]])
# the reference parses one batch dimension, and takes the characters of a single text for texts
@each_case(("through", "batch"), [("text", "batch"), ("tokens", "batch of one"), ("tokens", "batch")])
def test_to_histories(tokenizers, fields, batch, through):
    name = "chatml_format"
    converted = [
        getattr(chat, f"to_{through}")(tokenizer, name).to_history(tokenizer, name)
        for chat, tokenizer in zip(chat_histories(fields, batch), tokenizers, strict=True)
    ]
    for part in fields:
        ours, theirs = (getattr(history, part) for history in converted)
        for mine, other in zip(ours.unbind(0), theirs.unbind(0), strict=True):
            for column in ("role", "content", "is_complete"):
                assert list(getattr(mine, column)) == list(getattr(other, column))


@pytest.mark.parametrize("skip", [False, True])
def test_tokens_to_text(tokenizers, skip):
    ids = np.array([[1, 40, 50, 2], [60, 70, 1, 80]])
    mine = models.Tokens(prompt=ids, full=ids, padded=False, batch_size=[2])
    other = common.Tokens(prompt=torch.tensor(ids), full=torch.tensor(ids), padded=False, batch_size=[2])
    assert contents(mine.to_text(tokenizers[0], skip)) == contents(other.to_text(tokenizers[1], skip))
    for tokens, tokenizer in ((mine, tokenizers[0]), (other, tokenizers[1])):
        tokens.padded = True
        raises(ValueError, "padded tokens", tokens.to_text, tokenizer)
        raises(ValueError, "padded tokens", tokens.to_history, tokenizer)


@each_case("fields", [["prompt"], ["response"], ["prompt", "response", "full"]])
def test_text_to_tokens(tokenizers, batch, fields):
    texts = BATCHES[batch]("Hi you", "Hello, how are you?")
    size = size_of(texts)
    mine = models.Text(**dict.fromkeys(fields, texts), batch_size=size)

    def stack(texts):
        if isinstance(texts, str):
            return common.Text(**dict.fromkeys(fields, texts))
        return tensordict.lazy_stack([stack(text) for text in texts])

    other = stack(texts)
    for text, tokenizer in ((mine, tokenizers[0]), (other, tokenizers[1])):
        raises(ValueError, "Padding is not yet supported", text.to_tokens, tokenizer, padding=True)
    mine = mine.to_tokens(tokenizers[0])
    if batch == "batch of batches":
        raises(ValueError, "longer than argument 1", other.to_tokens, tokenizers[1])
        return
    other = other.to_tokens(tokenizers[1])
    assert contents(mine) == contents(other)
    assert mine.padded is False
    assert tuple(mine.batch_size) == tuple(other.batch_size)


def test_objects_without_a_batch_that_hold_one(tokenizers):
    def both(call):
        return call(models, models.History, lite, tokenizers[0]), call(
            common, data.History, tensordict, tokenizers[1]
        )

    def one(module, history, _, tokenizer):
        chat = module.ChatHistory(prompt=history.from_chats([ASKED]), full=history.from_chats([SHORT]))
        name = {"chat_template_name": "chatml_format"}
        text, tokens = chat.to_text(tokenizer, **name), chat.to_tokens(tokenizer, **name)
        back = module.Text(full=text.full).to_history(tokenizer, **name).full
        return contents(text), contents(tokens), contents(tokens.to_text(tokenizer)), plain(back.content)

    def stacked(module, history, library, tokenizer):
        both = history.from_chats([SHORT, LONG])
        chat = library.lazy_stack([module.ChatHistory(full=both[i : i + 1]) for i in range(2)])
        text = chat.to_text(tokenizer, chat_template_name="chatml_format")
        tokens = chat.to_tokens(tokenizer, chat_template_name="chatml_format")
        return contents(text), contents(tokens), tuple(text.batch_size), tuple(tokens.batch_size)

    for call in (one, stacked):
        mine, other = both(call)
        assert mine == other


def test_responses_without_their_prompt(tokenizers):
    with pytest.raises(RuntimeError, match="Couldn't get a single item out of text"):
        common.Text(response=["Hi<|im_end|>"], batch_size=[1]).to_history(tokenizers[1], "chatml_format")
    got = models.Text(response=["Hi<|im_end|>"], batch_size=[1]).to_history(tokenizers[0], "chatml_format")
    assert got.response.to_chats() == [[{"role": "assistant", "content": "Hi", "is_complete": True}]]
