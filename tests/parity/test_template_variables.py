"""Tools, documents, thinking and further variables of chat templates, rendered as transformers does."""

from pathlib import Path

import numpy as np
import pytest
import transformers
from helpers.cases import each_case
from helpers.models.tool_templates import CONVERSATION, THINKING, TOOLS, TOOLS_AND_SYSTEM

from lite import TensorDict
from lite.models import ChatHistory, History, OnnxWrapper, Tokenizer

FOLDER = Path(__file__).parents[1] / "models" / "exports" / "optimum-llama"
TEMPLATES = {"tools": TOOLS_AND_SYSTEM, "thinking": THINKING}
VARIABLES = [
    {}, {"tools": TOOLS}, {"tools": []},
    {"tools": TOOLS[:1], "documents": [{"title": "A", "text": "b"}, {"title": "C", "text": "d"}]},
    {"enable_thinking": False}, {"enable_thinking": True}, {"enable_thinking": False, "tools": TOOLS},
]  # fmt: skip
CHATS = {
    "one turn": CONVERSATION[:1],
    "a call": CONVERSATION[:2],
    "responses": CONVERSATION[:4],
    "an answer": CONVERSATION[:5],
    "all": CONVERSATION,
    "system": [{"role": "system", "content": "Be brief."}, *CONVERSATION],
    "nothing said": [
        CONVERSATION[0],
        {"role": "assistant", "content": None, "tool_calls": CONVERSATION[1]["tool_calls"]},
        *CONVERSATION[2:4],
    ],
    "nothing called": [CONVERSATION[0], {"role": "assistant", "content": "a", "tool_calls": None}],
}


@pytest.fixture(scope="module")
def pair():
    return Tokenizer.from_pretrained(FOLDER), transformers.AutoTokenizer.from_pretrained(FOLDER)


@pytest.mark.filterwarnings("ignore:the chat template does not write documents")
@pytest.mark.parametrize("name", TEMPLATES)
@each_case("chat", CHATS)
@each_case(("variables", "prompt"), [(v, i % 2 == 0) for i, v in enumerate([*VARIABLES, {}])])
def test_renders_as_transformers(pair, name, chat, variables, prompt):
    ours, theirs = pair
    options = {"chat_template": TEMPLATES[name], "add_generation_prompt": prompt, **variables}
    turns = CHATS[chat]
    expected = theirs.apply_chat_template(turns, **options, tokenize=False)
    assert ours.apply_chat_template(turns, **options, tokenize=False) == expected
    ids = theirs.apply_chat_template(turns, **options)["input_ids"]
    assert ours.apply_chat_template(turns, **options)["input_ids"] == ids
    if chat != "nothing said":  # a History has a content in every turn
        history = History.from_chats([turns])
        assert history.apply_chat_template(tokenizer=ours, **options) == [expected]
        (row,) = history.apply_chat_template(tokenizer=ours, tokenize=True, **options)
        assert row.tolist() == [ids]


@each_case("key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_by_any_name(pair, key):
    ours, theirs = pair
    turns = [CONVERSATION[0], {"role": "assistant", "content": "4", key: "two and two"}]
    source = THINKING + "{{ messages[-1].thinking }}"
    expected = theirs.apply_chat_template(turns, chat_template=source, tokenize=False)
    assert "two and two\n</think>" in expected
    assert ours.apply_chat_template(turns, chat_template=source, tokenize=False) == expected


def test_the_template_for_tools(pair):
    _, theirs = pair
    templates = {"default": THINKING, "tool_use": TOOLS_AND_SYSTEM}
    ours = Tokenizer(pair[0].backend, chat_template=templates, name_or_path="x")
    before, theirs.chat_template = theirs.chat_template, templates
    try:
        for tools in (None, TOOLS):
            expected = theirs.apply_chat_template(CONVERSATION, tools=tools, tokenize=False)
            assert ours.apply_chat_template(CONVERSATION, tools=tools, tokenize=False) == expected
            history = History.from_chats(CONVERSATION)
            got = history.apply_chat_template(tokenizer=ours, tools=tools, add_generation_prompt=False)
            assert got == expected
    finally:
        theirs.chat_template = before


@pytest.mark.parametrize("variables", [{"tools": TOOLS[1:]}, {"enable_thinking": False}])
def test_wrappers_pass_them_on(pair, variables):
    _, theirs = pair
    policy = OnnxWrapper(
        FOLDER, chat_template=THINKING, chat_template_kwargs=variables, generate_kwargs={"max_new_tokens": 1}
    )
    turns = [*CONVERSATION[:1], {"role": "assistant", "content": "3.5"}]
    for wrapper, part, chat in (
        (policy, "prompt", turns[:1]),
        (policy.get_new_version(generate=False), "full", turns),
    ):
        history = ChatHistory(**{part: History.from_chats([chat])}, batch_size=[1])
        out = wrapper(TensorDict({"history": history}, batch_size=[1]))
        options = {"chat_template": THINKING, **variables}
        expected = theirs.apply_chat_template(chat, add_generation_prompt=part == "prompt", **options)
        plain = theirs.apply_chat_template(
            chat, add_generation_prompt=part == "prompt", chat_template=THINKING
        )
        assert expected["input_ids"] != plain["input_ids"] or (
            "enable_thinking" in variables and part == "full"
        )
        np.testing.assert_array_equal(out["tokens", part][0], expected["input_ids"])
