"""Tokenizers against transformers' on the folders of the exports; templates against torchrl's, too."""

import functools
from pathlib import Path

import numpy as np
import pytest
import transformers
from helpers.cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.models.text.builtin_templates import BUILT_IN
from lite.models.text.template_rendering import render_chat
from lite.models.text.tokenizer import Tokenizer

MODELS = Path(__file__).parents[1] / "models" / "exports"
FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


def different_tokenizers():
    """One of the folders with the same files."""
    found = {}
    for path in sorted(MODELS.glob("*/tokenizer.json")):
        parts = [path.parent / name for name in FILES]
        contents = tuple(part.read_bytes() if part.exists() else b"" for part in parts)
        found.setdefault(contents, path.parent.name)
    return list(found.values())


FOLDERS = different_tokenizers()
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
CHATS = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": TEXT}),
    min_size=1,
    max_size=5,
)
CALL = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["add", "é"]),
        "arguments": st.dictionaries(TEXT, st.integers() | TEXT, max_size=2),
    }
)
# What real models' templates use: namespaces, macros, loop controls, whitespace control, tests, slices.
SOURCES = [
    *BUILT_IN.values(),
    """{%- set ns = namespace(last=0) -%}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor -%}
{{ bos_token }}{% for m in messages[:-1] %}
    {%- if loop.index0 > ns.last %}{% continue %}{% endif %}
    {{- '[' + m['role'] | upper + '] ' + m['content'] | trim }}
{% endfor %}
{% if tools is defined and tools %}{{ tools | tojson(indent=2) }}{% endif %}
{{ (messages | last).content.split('x')[-1] ~ eos_token }}""",
    """{% macro turn(m, open=false) %}
  {% generation %}
    {{- m.content }}
  {% endgeneration %}
{% endmacro %}
{% for m in messages %}{{ turn(m) }}
{%- if not loop.last %}{{ '\\n' }}{% endif %}
{% endfor %}{{ messages | map(attribute='role') | join(',') }}""",
]


@pytest.fixture(scope="module")
def pair():
    path = MODELS / FOLDERS[0]
    return Tokenizer.from_pretrained(path), transformers.AutoTokenizer.from_pretrained(path)


@pytest.mark.parametrize("index", range(len(SOURCES)))
@settings(max_examples=10)
@given(chat=CHATS, prompt=st.booleans())
def test_renders_as_transformers(pair, index, chat, prompt):
    ours, theirs = pair
    options = {"chat_template": SOURCES[index], "add_generation_prompt": prompt, "tokenize": False}
    assert ours.apply_chat_template(chat, **options) == theirs.apply_chat_template(chat, **options)


@pytest.mark.parametrize("folder", FOLDERS)
@settings(max_examples=10)
@given(chat=CHATS, prompt=st.booleans())
def test_own_templates_and_ids(folder, chat, prompt):
    ours = Tokenizer.from_pretrained(MODELS / folder)
    theirs = transformers.AutoTokenizer.from_pretrained(MODELS / folder)
    expected = theirs.apply_chat_template([chat, chat[:1]], add_generation_prompt=prompt)
    got = ours.apply_chat_template([chat, chat[:1]], add_generation_prompt=prompt)
    assert got["input_ids"] == expected["input_ids"]
    assert got["attention_mask"] == expected["attention_mask"]


@pytest.mark.parametrize("name", ["chatml_format", "qwen", "llama", "dialogpt"])
@settings(max_examples=10)
@given(
    chat=st.lists(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant"]), "content": st.text("ab 1\n", max_size=8)}
        ),
        min_size=1,
        max_size=4,
    )
)
def test_assistant_masks_as_transformers(pair, name, chat):
    # ASCII only, and never from the first token on: transformers marks only the first token of a character
    # split over several, and takes an end at token 0 for none.
    ours, theirs = pair
    chat = [{"role": "user", "content": "x"}, *chat]
    options = {"chat_template": BUILT_IN[name], "return_assistant_tokens_mask": True, "return_dict": True}
    expected = theirs.apply_chat_template(chat, **options)
    assert ours.apply_chat_template(chat, **options)["assistant_masks"] == expected["assistant_masks"]


@settings(max_examples=10)
@given(chat=CHATS.filter(lambda chat: chat[-1]["content"].strip() == chat[-1]["content"] != ""))
def test_continue_final_message(pair, chat):
    ours, theirs = pair
    options = {"chat_template": BUILT_IN["chatml_format"], "continue_final_message": True, "tokenize": False}
    assert ours.apply_chat_template(chat, **options) == theirs.apply_chat_template(chat, **options)


@pytest.mark.parametrize("name", BUILT_IN)
@settings(max_examples=10)
@given(chat=CHATS, prompt=st.booleans(), calls=st.none() | st.lists(CALL, min_size=1, max_size=2))
@pytest.mark.filterwarnings("ignore")
def test_built_ins_render_as_torchrl(pair, name, chat, prompt, calls):
    history = pytest.importorskip("torchrl.data.llm.history", reason="needs the parity extra")
    _, theirs = pair
    source = history._CHAT_TEMPLATES[name]
    if calls:
        chat = [
            *chat,
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "content": "4"},
        ]
    expected = theirs.apply_chat_template(
        chat, chat_template=source, add_generation_prompt=prompt, tokenize=False
    )
    got = render_chat(BUILT_IN[name], chat, add_generation_prompt=prompt, **theirs.special_tokens_map)
    assert got.text == expected


SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|pad|>"]
TEXTS = st.lists(st.one_of(st.text(max_size=12), st.sampled_from([*SPECIALS, " ", "\n", "Hello", "12"]))).map(
    "".join
)


@functools.cache
def tokenizers(folder):
    path = MODELS / folder
    return Tokenizer.from_pretrained(path), transformers.AutoTokenizer.from_pretrained(path)


def test_there_are_folders():
    assert len(FOLDERS) >= 5


@each_case("folder", FOLDERS)
def test_special_tokens(folder):
    ours, theirs = tokenizers(folder)
    for name in (
        "bos_token",
        "eos_token",
        "pad_token",
        "unk_token",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.special_tokens_map == theirs.special_tokens_map
    assert ours.chat_template == theirs.chat_template
    assert ours.padding_side == theirs.padding_side
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("folder", FOLDERS)
@settings(max_examples=16)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4), special=st.booleans())
def test_encode_and_decode(folder, texts, special):
    ours, theirs = tokenizers(folder)
    for text in texts:
        ids = theirs.encode(text, add_special_tokens=special)
        assert ours.encode(text, add_special_tokens=special) == ids
        split = theirs.encode(text, add_special_tokens=special, split_special_tokens=True)
        assert ours.encode(text, add_special_tokens=special, split_special_tokens=True) == split
        assert ours.decode(ids) == theirs.decode(ids)
        assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(ids, skip_special_tokens=True)
    split = {"split_special_tokens": True, "add_special_tokens": special}
    assert ours(texts, **split)["input_ids"] == theirs(texts, **split)["input_ids"]
    rows = theirs(texts)["input_ids"]
    assert ours.batch_decode(rows) == theirs.batch_decode(rows)


@pytest.mark.parametrize("folder", FOLDERS)
@settings(max_examples=16)
@given(ids=st.lists(st.integers(0, 511), max_size=20))
def test_decodes_any_ids(folder, ids):
    ours, theirs = tokenizers(folder)
    assert ours.decode(ids) == theirs.decode(ids)
    assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("folder", FOLDERS)
@settings(max_examples=10)
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=4),
    side=st.sampled_from(["left", "right"]),
    padding=st.sampled_from([True, "longest", "max_length"]),
)
def test_padding(folder, texts, side, padding):
    ours, theirs = tokenizers(folder)
    options = {"padding": padding, "padding_side": side}
    if padding == "max_length":
        options |= {"max_length": 16, "truncation": True}
    expected = theirs(texts, **options)
    got = ours(texts, **options)
    for key in ("input_ids", "attention_mask"):
        np.testing.assert_array_equal(got[key], expected[key])
