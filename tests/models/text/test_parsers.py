from typing import Any

from helpers.cases import raises

from lite.models.text.builtin_templates import BUILT_IN, add_chat_template
from lite.models.text.parsers import parse_chat
from lite.models.text.template_rendering import render_chat

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "2 + 2?\nPlease."},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": "Sure?"},
    {"role": "assistant", "content": "Yes."},
]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def render(name: str, chat: list[dict[str, Any]], **options: Any) -> str:
    return render_chat(BUILT_IN[name], chat, **SPECIAL, **options).text


def test_parsers_invert_the_templates() -> None:
    for name in BUILT_IN:
        expected = [{**turn, "is_complete": True} for turn in CHAT]
        if name == "dialogpt":  # its format drops the system turn
            expected = expected[1:]
        assert parse_chat(render(name, CHAT), name, eos_token="</s>") == expected, name


def test_a_cut_last_turn_is_incomplete() -> None:
    for name in BUILT_IN:
        text = render(name, CHAT, continue_final_message=True)
        messages = parse_chat(text, name, eos_token="</s>")
        assert messages[-1] == {"role": "assistant", "content": "Yes.", "is_complete": False}, name
        assert all(turn["is_complete"] for turn in messages[:-1]), name


def test_a_generation_prompt_is_no_turn() -> None:
    for name in sorted(set(BUILT_IN) - {"chatml_format"}):
        text = render(name, CHAT[:2], add_generation_prompt=True)
        assert [turn["role"] for turn in parse_chat(text, name, eos_token="</s>")][-1] == "user", name


def test_chatml_keeps_the_open_turn() -> None:
    text = render("chatml_format", CHAT[:2], add_generation_prompt=True)
    assert parse_chat(text, "chatml_format")[-1] == {"role": "assistant", "content": "", "is_complete": False}


def test_tool_turns_survive_the_round_trip() -> None:
    call = {"name": "add", "arguments": {"a": 2, "b": "é"}}
    chat = [
        CHAT[0],
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call, call]},
        {"role": "tool", "content": "4"},
        {"role": "tool", "content": "5"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    text = render("qwen", chat)
    parsed = parse_chat(text, "qwen")
    assert [turn["role"] for turn in parsed] == ["system", "assistant", "tool", "assistant"]
    assert [turn.get("tool_calls") for turn in parsed] == [None, [call, call], None, [call]]
    assert [turn.get("tool_responses") for turn in parsed] == [None, None, ["4", "5"], None]
    assert render("qwen", parsed) == text
    assert parse_chat(render("chatml_format", parsed), "chatml_format") == parsed


def test_what_is_no_call_stays_text() -> None:
    for content in ("{not json", "[1]", '{"name": ' + "1" * 5000 + "}"):
        block = f"<tool_call>\n{content}\n</tool_call>"
        (turn,) = parse_chat(f"<|im_start|>assistant\n{block}<|im_end|>\n", "qwen")
        assert turn == {"role": "assistant", "content": block, "is_complete": True}


def test_nothing_found() -> None:
    for name in sorted(set(BUILT_IN) - {"llama"}):
        raises(RuntimeError, "Couldn't get a single item out of text", parse_chat, "", name)
    raises(RuntimeError, "Couldn't parse Llama format", parse_chat, "text", "llama")


def test_registered_parsers() -> None:
    tagged = "{% generation %}{% endgeneration %}"
    add_chat_template("theta", tagged, inverse_parser=lambda text: [{"role": "user", "content": text}])
    assert parse_chat("Hi", "theta") == [{"role": "user", "content": "Hi"}]
    add_chat_template("iota", tagged)
    raises(NotImplementedError, "no parser for the chat template 'iota'", parse_chat, "Hi", "iota")
