"""Prompts and responses as token ids."""

import json
from typing import Any

import numpy as np
import pytest
from helpers.models.real_models import MODELS
from helpers.models.sentencepiece import sentencepiece

from lite.models import GenerateBatches, ScoreBatches, Tokenizer
from lite.models.batches.opening import OpenModel
from lite.models.batches.rows import around_turn, encoded_prompt, is_messages, row_of


def test_prompts_are_a_turn_of_the_template_unless_raw() -> None:
    tokenizer = Tokenizer.from_pretrained(MODELS / "optimum-llama")
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
    np.testing.assert_array_equal(encoded_prompt(tokenizer, "hello", raw=True).ids, tokenizer.encode("hello"))
    for system, expected in ((None, turns[1:]), ("Be brief.", turns)):
        wanted = encoded_prompt(tokenizer, expected).ids
        np.testing.assert_array_equal(encoded_prompt(tokenizer, "hello", system=system).ids, wanted)
        np.testing.assert_array_equal(encoded_prompt(tokenizer, turns[1:], system=system).ids, wanted)
    tokenizer.chat_templates.clear()
    ids = encoded_prompt(tokenizer, "hello", system="Be brief.").ids
    np.testing.assert_array_equal(ids, tokenizer.encode("Be brief.\nhello"))


def test_the_end_of_a_turn() -> None:
    cases: list[tuple[str, list[str]]] = [
        ("m.role + m.content + '<|im_end|>\n'", ["<|im_end|>"]),
        ("m.content + '\n\n<|pad|><|im_end|><|pad|>'", ["\n", "\n", "<|pad|>", "<|im_end|>"]),
        ("m.content + '<|pad|>x'", ["<|pad|>"]),  # the template's own end, though nothing calls it one
        ("m.content + '\n'", ["<|im_end|>"]),
        ("m.content + m.content", ["<|im_end|>"]),
        ("raise_exception('no')", ["<|im_end|>"]),
    ]
    for turn, expected in cases:
        model = OpenModel(MODELS / "optimum-llama", threads=1)
        tokenizer = model.tokenizer
        tokenizer.chat_templates["default"] = "{% for m in messages %}{{ " + turn + " }}{% endfor %}"
        ids = [i for text in expected for i in tokenizer.encode(text, add_special_tokens=False)]
        assert around_turn(model, [{"role": "user", "content": "a"}])[1] == ids, turn
        tokenizer.chat_templates.clear()
        assert around_turn(model, []) == ("", [tokenizer.eos_token_id]), turn


def test_a_row_is_prompt_and_response() -> None:
    model = OpenModel(MODELS / "optimum-llama", threads=1)
    tokenizer = model.tokenizer
    ids, start = row_of(model, {"prompt": "hello", "response": " world"}, raw=True)
    np.testing.assert_array_equal(
        ids, tokenizer.encode("hello") + tokenizer.encode(" world", add_special_tokens=False)
    )
    assert start == len(tokenizer.encode("hello"))
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    chat, begins = row_of(model, {"messages": turns}, raw=False)
    pair, same = row_of(model, {"messages": None, "prompt": "hi", "response": "ho"}, raw=False)
    np.testing.assert_array_equal(chat, pair)
    assert begins == same
    told = [{"role": "system", "content": "Be brief."}]
    wanted, begins = row_of(model, {"messages": told + turns}, raw=False)
    for record in ({"messages": turns}, {"prompt": "hi", "response": "ho"}):
        row, start = row_of(model, record, raw=False, system="Be brief.")
        np.testing.assert_array_equal(row, wanted)
        assert start == begins > same
    with pytest.raises(ValueError, match="raw takes prompts as they are"):
        row_of(model, {"messages": turns}, raw=True)
    with pytest.raises(ValueError, match="the response has no token to score"):
        row_of(model, {"prompt": "hi", "response": ""}, raw=True)


def test_a_response_has_the_tokens_of_the_whole_text() -> None:
    """SentencePiece puts a space before a text, and a token may hold the end of a prompt."""
    model = OpenModel(MODELS / "optimum-llama", tokenizer=sentencepiece(), threads=1)
    tokenizer = model.tokenizer
    cases = [("no", " und", 2), ("no", "no", 2), ("no ", "und", 2), ("no \n", "no", 4)]
    for prompt, response, wanted in cases:
        ids, start = row_of(model, {"prompt": prompt, "response": response}, raw=True)
        np.testing.assert_array_equal(ids, tokenizer.encode(prompt + response))
        assert start == wanted, (prompt, response)
    ids, start = row_of(
        OpenModel(MODELS / "optimum-llama", threads=1), {"prompt": "t", "response": "he"}, raw=True
    )
    assert (start, len(ids)) == (1, 2)  # "the" is one token, which would have nothing before it
    for blank, end in ((" ", " <eos>"), ("", "\n<eos>"), ("<s>", "<eos>")):
        tokenizer.chat_templates["default"] = (
            "{% for m in messages %}{{ '[' + m.content + ']' if m.role == 'user' else "
            f"{blank!r} + m.content + {end!r} }}}}{{% endfor %}}"
        )
        turns = [{"role": "user", "content": "no <eos>"}, {"role": "assistant", "content": "12 fin"}]
        before = encoded_prompt(tokenizer, turns[:1]).ids
        ids, start = row_of(model, {"messages": turns}, raw=False)
        np.testing.assert_array_equal(ids[:start], before)
        # what is no blank, such as an empty thought, is the model's to write
        said = f"{blank if blank.isspace() else ''}12 fin{end}"
        np.testing.assert_array_equal(ids[start:], tokenizer.encode(f"]{said}")[2:])


CALLS = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "add"}}]},
    {"role": "tool", "content": "3", "tool_call_id": "c"},
    {"role": "assistant", "content": "ho"},
]
TOOLS = [{"type": "function", "function": {"name": "add"}}]


def test_calls_and_tools_reach_the_template() -> None:
    model = OpenModel(MODELS / "optimum-llama", threads=1)
    model.tokenizer.chat_templates["default"] = (
        "{{ tools | tojson if tools }}{% for m in messages %}"
        "{{ m.role ~ m.content ~ m.tool_call_id ~ (m.tool_calls | tojson if m.tool_calls) }}\n\n{% endfor %}"
    )
    wanted = model.tokenizer.apply_chat_template(CALLS[:3], tools=TOOLS)["input_ids"]
    for tools in (TOOLS, json.dumps(TOOLS)):
        row, start = row_of(model, {"messages": CALLS, "tools": tools}, raw=False)
        np.testing.assert_array_equal(row[:start], wanted)
        write = GenerateBatches(
            model.decoder, tokenizer=model.tokenizer, generate_kwargs={"max_new_tokens": 1}
        )
        found = write({"id": [0], "messages": [CALLS[:3]], "tools": [tools]})
        np.testing.assert_array_equal(found["prompt_ids"][0], wanted)
        judge = ScoreBatches(model.decoder, tokenizer=model.tokenizer, token_ids=True)
        found = judge({"messages": [CALLS], "tools": [tools]})
        np.testing.assert_array_equal(found["prompt_ids"][0], wanted)
    with pytest.raises(ValueError, match="tools must be a list of JSON schemas, got 3"):
        row_of(model, {"messages": CALLS, "tools": 3}, raw=False)
    for last in (CALLS[1], {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}):
        with pytest.raises(ValueError, match="messages end with a turn that calls tools, or has parts"):
            row_of(model, {"messages": [CALLS[0], last]}, raw=False)


def test_what_is_no_conversation() -> None:
    cases: list[Any] = [[], "text", None, [{"role": "user"}], [{"role": 1, "content": ""}], ["a"]]
    cases.append([{"role": "assistant", "content": None, "tool_calls": []}])
    cases += [[{"role": "user", "content": parts}] for parts in ([], ["a"], [{"text": "a"}])]
    assert is_messages([{"role": "user", "content": [{"type": "text", "text": "a"}]}])
    for value in cases:
        assert is_messages([{"role": "user", "content": ""}, *CALLS]), value
        assert not is_messages(value), value
