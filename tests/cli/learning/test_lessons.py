"""Which tokens of a row learn."""

from argparse import Namespace
from typing import Any

import numpy as np
import pytest
from helpers.models.real_models import MODELS

from lite.cli.learning.lessons import Lesson, dpo_lessons, sft_lesson
from lite.models.batches.opening import OpenModel

ASKED = [{"role": "user", "content": "hi"}]
SAID = [{"role": "assistant", "content": "ho"}]
CHAT = [*ASKED, *SAID, {"role": "user", "content": "and"}, {"role": "assistant", "content": "so"}]
END = "<|im_end|>"
BLOCKS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def model() -> OpenModel:
    return OpenModel(MODELS / "optimum-llama", threads=1)


def options(**given: Any) -> Namespace:
    none: dict[str, Any] = {"completion_only_loss": None, "assistant_only_loss": False}
    return Namespace(**{**none, "raw": False, "system": None, **given})


def pieces(model: OpenModel, lesson: Lesson) -> list[str]:
    """The texts that learn, one for each run of tokens."""
    ends = np.flatnonzero(np.diff(lesson.said.astype(int), prepend=0, append=0))
    return [model.tokenizer.decode(lesson.ids[a:b]) for a, b in ends.reshape(-1, 2)]


def test_a_conversation_learns_whole_or_what_assistants_say(model: OpenModel) -> None:
    row = {"messages": CHAT, "prompt": "not read"}
    ids = model.tokenizer.apply_chat_template(CHAT)["input_ids"]
    whole = sft_lesson(model, row, options())
    np.testing.assert_array_equal(whole.ids, ids)
    np.testing.assert_array_equal(whole.said, np.arange(len(ids)) > 0)  # nothing is before the first
    said = sft_lesson(model, row, options(assistant_only_loss=True))
    np.testing.assert_array_equal(said.ids, ids)
    assert pieces(model, said) == [f"ho{END}", f"so{END}"]
    last = sft_lesson(model, row, options(completion_only_loss=True))
    np.testing.assert_array_equal(last.ids, ids[:-1])  # to the token that ends a turn
    assert pieces(model, last) == [f"so{END}"]
    with pytest.raises(ValueError, match="no token of it would learn"):
        sft_lesson(model, {"messages": ASKED}, options(assistant_only_loss=True))


def test_what_a_template_marks_is_what_assistants_say(model, monkeypatch):
    monkeypatch.setitem(model.tokenizer.chat_templates, "default", BLOCKS)
    lesson = sft_lesson(model, {"messages": CHAT}, options(assistant_only_loss=True))
    assert pieces(model, lesson) == [f"ho{END}", f"so{END}"]


def test_a_completion_is_what_the_template_writes_of_it(model, monkeypatch):
    """As TRL has it, calls of tools and their results included."""
    row = {"messages": ASKED, "response": CHAT[1:]}
    ids = model.tokenizer.apply_chat_template(CHAT)["input_ids"]
    start = len(model.tokenizer.apply_chat_template(ASKED, add_generation_prompt=True)["input_ids"])
    found = sft_lesson(model, row, options())
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_array_equal(found.said, np.arange(len(ids)) >= start)
    said = sft_lesson(model, row, options(assistant_only_loss=True))
    assert pieces(model, said) == [f"ho{END}", f"so{END}"]
    assert sft_lesson(model, row, options(completion_only_loss=False)).said.sum() == len(ids) - 1
    briefly = sft_lesson(model, row, options(system="Be brief."))
    assert briefly.said.sum() == found.said.sum()
    assert len(briefly.ids) > len(ids)
    tools = [{"type": "function", "function": {"name": "add"}}]
    calling = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "add"}}]}
    shown = "{{ tools | tojson if tools }}" + BLOCKS.replace(
        "m.content }}{% endgen", "m.tool_calls }}{% endgen"
    )
    monkeypatch.setitem(model.tokenizer.chat_templates, "default", shown)
    called = sft_lesson(model, {"messages": ASKED, "response": [calling], "tools": tools}, options())
    wanted = model.tokenizer.apply_chat_template([*ASKED, calling], tools=tools)["input_ids"]
    np.testing.assert_array_equal(called.ids, wanted)
    assert pieces(model, called) == [str(calling["tool_calls"]) + f"{END}\n"]


def test_texts_end_with_the_end_of_the_sequence(model: OpenModel) -> None:
    tokenizer, raw = model.tokenizer, options(raw=True)
    plain = [*tokenizer.encode("hello world"), tokenizer.eos_token_id]
    for text in ("hello world", f"hello world{END}"):
        lesson = sft_lesson(model, {"text": text}, options())
        np.testing.assert_array_equal(lesson.ids, plain)
        assert lesson.said.sum() == len(plain) - 1
    pair = {"prompt": "hello", "response": " world"}
    for row in (pair, {**pair, "response": f" world{END}"}):
        answered = sft_lesson(model, row, raw)
        np.testing.assert_array_equal(answered.ids, plain)
        assert pieces(model, answered) == [f" world{END}"]
    short = len(plain) - len(tokenizer.encode("hello"))
    for only, count in ((None, short), (True, short), (False, len(plain) - 1)):
        assert sft_lesson(model, pair, options(raw=True, completion_only_loss=only)).said.sum() == count
    turn = sft_lesson(model, pair, options())
    np.testing.assert_array_equal(
        turn.ids[~turn.said],
        tokenizer.apply_chat_template([{"role": "user", "content": "hello"}], add_generation_prompt=True)[
            "input_ids"
        ],
    )


def test_a_pair_has_two_responses_to_one_prompt(model: OpenModel) -> None:
    other = [{"role": "assistant", "content": "no"}]
    for row in (
        {"prompt": "hi", "chosen": "ho", "rejected": "no"},
        {"prompt": ASKED, "chosen": "ho", "rejected": "no"},
    ):
        chosen, rejected = dpo_lessons(model, row, options())
        assert (pieces(model, chosen), pieces(model, rejected)) == ([f"ho{END}"], [f"no{END}"])
        np.testing.assert_array_equal(chosen.ids[~chosen.said], rejected.ids[~rejected.said])
    for row in (
        {"prompt": ASKED, "chosen": SAID, "rejected": other},
        {"chosen": [*ASKED, *SAID], "rejected": [*ASKED, *other]},
        {"prompt": "hi", "chosen": [*ASKED, *SAID], "rejected": [*ASKED, *other]},
    ):
        pair = dpo_lessons(model, row, options())
        for lesson, said in zip(pair, (SAID, other), strict=True):
            np.testing.assert_array_equal(
                lesson.ids, model.tokenizer.apply_chat_template([*ASKED, *said])["input_ids"]
            )
            assert pieces(model, lesson) == [f"{said[0]['content']}{END}\n"]
    raw = dpo_lessons(model, {"chosen": "it is so", "rejected": "it is no"}, options(raw=True))
    assert [pieces(model, lesson) for lesson in raw] == [[f" so{END}"], [f" no{END}"]]
    cut = {"prompt": "it is s", "chosen": "o", "rejected": "t"}  # " st" is a token
    raw = dpo_lessons(model, cut, options(raw=True))
    assert [pieces(model, lesson) for lesson in raw] == [[f" so{END}"], [f" st{END}"]]
