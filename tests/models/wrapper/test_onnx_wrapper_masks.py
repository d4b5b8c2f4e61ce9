"""What assistants have to emit: masks of generation, and of scoring the conversation that it gave."""

from typing import Any

import numpy as np
import pytest
from helpers.models.prompts import rows
from helpers.models.tool_templates import THINKING

from lite import TensorDict, lazy_stack
from lite.models import ChatHistory, History, OnnxDecoder, OnnxWrapper, Text, embedded_model_path
from lite.models.text.builtin_templates import BUILT_IN

LLAMA3 = (
    "<s>{% for m in messages %}{{ '[' + m.role + ']\n\n' + m.content | trim + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[assistant]\n\n' }}{% endif %}"
)
MISTRAL = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}"
)
BLOCKS = (
    "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "<|im_end|>\n{% endgeneration %}{% else %}{{ m.content }}\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
TEMPLATES: dict[str, dict[str, Any]] = {
    "embedded": {},
    "chatml_format": {"chat_template_name": "chatml_format"},
    "qwen": {"chat_template_name": "qwen"},
    "deepseek": {"chat_template_name": "deepseek"},
    "llama": {"chat_template": BUILT_IN["llama"].replace("<|eot|>", "<|im_end|>")},
    "llama 3": {"chat_template": LLAMA3},
    "mistral": {"chat_template": MISTRAL},
    "blocks": {"chat_template": BLOCKS},
}


ANSWERS = ["42", "", "a b\nc", "42<|im_start|>"]
# Every template with one of the answers, the first one with all.
CASES = [(name, ANSWERS[i % 4]) for i, name in enumerate(TEMPLATES)]
CASES += [("embedded", answer) for answer in ANSWERS[1:]]


class Forced:
    """Makes a policy write some ids."""

    def __init__(self, *ids: int) -> None:
        self.ids, self.calls = ids, 0

    def __call__(self, ids: Any, scores: Any) -> None:
        wanted = self.ids[self.calls % len(self.ids)]
        self.calls += 1
        scores[:] = np.where(np.arange(len(scores)) == wanted, scores, -np.inf)


@pytest.fixture(scope="module")
def decoder() -> OnnxDecoder:
    return OnnxDecoder(embedded_model_path(), num_threads=1)


def conversation(*turns: str, complete: bool = True) -> Any:
    roles = ("user", "assistant")
    chat = [{"role": roles[i % 2], "content": text, "is_complete": complete} for i, text in enumerate(turns)]
    return TensorDict(
        {"history": ChatHistory(prompt=History.from_chats([chat]), batch_size=[1])}, batch_size=[1]
    )


def test_reasoning_that_the_template_writes_again(decoder: OnnxDecoder) -> None:
    policy = OnnxWrapper(decoder, tokenizer=embedded_model_path(), chat_template=THINKING)
    check(policy, "<think>\nhm\n</think>\n\n42", ended=True)


@pytest.mark.grid
@pytest.mark.parametrize(("name", "answer"), CASES)
def test_scoring_marks_what_generation_wrote(decoder: OnnxDecoder, name: str, answer: str) -> None:
    policy = OnnxWrapper(decoder, tokenizer=embedded_model_path(), **TEMPLATES[name])
    for ended in (True, False) if answer else (True,):
        check(policy, answer, ended)


def check(policy: OnnxWrapper, answer: str, ended: bool) -> None:
    before, behind = policy._read.blanks_around_content()
    ids = policy.tokenizer.encode(before + answer + behind * ended, add_special_tokens=False)
    ids += [policy.tokenizer.eos_token_id] * ended
    # the turn before is one that was written to its end, and one that was not
    for earlier, close in ((True, policy.tokenizer.eos_token), (False, "")):
        chat = conversation("1 + 1", "2", "3 + 4", complete=earlier)
        out = policy(chat, logits_processor=Forced(*ids), max_new_tokens=len(ids))
        scored = policy.get_new_version(generate=False, inplace=False)(out)
        written, again = (np.array(rows(td, "tokens", "full")[0]) for td in (out, scored))
        said, marked = (np.array(rows(td, "masks", "all_assistant_mask")[0]) for td in (out, scored))
        first = len(written) - len(ids)
        assert said.tolist() == [False] * first + [True] * len(ids)
        np.testing.assert_array_equal(again[: len(written)], written)
        np.testing.assert_array_equal(marked[first : len(written)], said[first:])
        assert not marked[len(written) :].any()  # what the template writes behind it
        own = policy.tokenizer.decode(again[:first][marked[:first]])
        assert own == before + "2" + (behind + close if earlier else "")


def test_ends_that_the_template_does_not_write(decoder: OnnxDecoder) -> None:
    judge = OnnxWrapper(decoder, tokenizer=embedded_model_path(), generate=False, chat_template_name="falcon")
    full = conversation("a", "b")["history"].prompt
    td = TensorDict({"history": ChatHistory(full=full, batch_size=[1])}, batch_size=[1])
    out = judge(td)
    ids, mask = (
        np.array(rows(out, *key)[0]) for key in (("tokens", "full"), ("masks", "all_assistant_mask"))
    )
    assert judge.tokenizer.decode(ids[mask]) == " b"


def test_the_end_of_the_tokenizer_is_one_beside_others(decoder: OnnxDecoder) -> None:
    options: dict[str, Any] = {"generate": False, "generate_kwargs": {"eos_token_id": 5}}
    judge = OnnxWrapper(decoder, tokenizer=embedded_model_path(), **options)
    full = conversation("a", "b")["history"].prompt
    out = judge(TensorDict({"history": ChatHistory(full=full, batch_size=[1])}, batch_size=[1]))
    marked = np.array(rows(out, "masks", "all_assistant_mask")[0])
    assert judge.tokenizer.decode(np.array(rows(out, "tokens", "full")[0])[marked]) == "b<|im_end|>"


def test_rows_of_several_collections_keep_their_masks(decoder: OnnxDecoder) -> None:
    """Each was padded to its own width; scored together, they are padded to the widest."""
    actor = OnnxWrapper(
        decoder, tokenizer=embedded_model_path(), input_mode="text", pad_output=True,
        generate_kwargs={"max_new_tokens": 4},
    )  # fmt: skip
    collected = [
        actor(TensorDict(text=Text(prompt=texts, batch_size=[2]), batch_size=[2])).select("tokens", "masks")
        for texts in (["a", "1 + 1 ="], ["Copy: sun sea", "abc"])
    ]
    together = lazy_stack([td[i] for td in collected for i in range(2)])
    judge = actor.get_new_version(generate=False, input_mode="tokens", pad_output=False)
    out = judge(together.copy())
    for i, td in enumerate(collected[i // 2][i % 2] for i in range(4)):
        real = td["masks"].all_attention_mask
        wanted = td["masks"].all_assistant_mask[real]
        assert 0 < wanted.sum() < len(wanted)
        np.testing.assert_array_equal(out[i]["masks"].all_assistant_mask, wanted)
        np.testing.assert_array_equal(out[i]["tokens"].full, td["tokens"].full[real])
