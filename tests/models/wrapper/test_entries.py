"""Calls of a wrapper with the entry that it reads, in place of a TensorDict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import HELLO, HI, MODES, Make, prompts, rows, token_td

from lite import TensorDict, lazy_stack
from lite.models import ChatHistory, History, LogProbs, Masks, Text, Tokens
from lite.nn.settings import _set_dispatch_td_nn_modules

CHATS = [[{"role": "user", "content": text}] for text in ("Hi", "Hello")]
CLASSES = {"text": Text, "masks": Masks, "tokens": Tokens, "log_probs": LogProbs, "history": ChatHistory}


def entries(mode: str) -> list[Any]:
    """The same two prompts in every form."""
    if mode == "history":
        history = History.from_chats(CHATS)
        return [history, ChatHistory(prompt=history, batch_size=[2])]
    if mode == "text":
        texts = ["Hi", "Hello"]
        return [texts, np.array(texts), Text(prompt=texts, batch_size=[2])]
    ragged = lazy_stack([Tokens(prompt=np.array(row)) for row in (HI, HELLO)])
    return [[HI, HELLO], [np.array(HI), np.array(HELLO)], (HI, HELLO), ragged]


@pytest.mark.parametrize(("mode", "padded"), list(zip(MODES, (True, False, True), strict=True)))
def test_a_call_with_the_entry(wrap: Make, mode: str, padded: bool) -> None:
    policy = wrap(mode, pad_output=padded)
    expected = policy(prompts(mode))
    for given in entries(mode):
        for out in (policy(given), policy(**{f"{mode}_prompt": given})):
            assert isinstance(out, tuple)
            assert [type(value) for value in out] == [CLASSES[key] for key in policy.out_keys]
            got = TensorDict(dict(zip(policy.out_keys, out, strict=True)), batch_size=[2])
            for key in (("tokens", "full"), ("log_probs", "response"), ("masks", "all_attention_mask")):
                assert rows(got, *key) == rows(expected, *key)
            if mode != "tokens":
                assert got["text", "response"] == expected["text", "response"]


def test_batches_of_any_shape(wrap: Make) -> None:
    cases: list[tuple[int, ...]] = [(), (1, 2)]
    for mode in MODES:
        for shape in cases:
            one = {"history": CHATS[0], "text": "Hi", "tokens": HI}[mode]
            other = {"history": CHATS[1], "text": "Hello", "tokens": HELLO}[mode]
            given: Any = [[one, other]] if shape else one
            if mode == "history":
                given = History.from_chats(given)
            policy = wrap(mode)
            for value in policy(given):
                assert value.batch_size == shape, shape
            expected = rows(policy(prompts(mode)), "tokens", "response")
            tokens = policy.select_out_keys("tokens")(given)
            assert (tokens[0, 1] if shape else tokens).response.tolist() == expected[1 if shape else 0]


def test_an_array_is_padded_and_its_last_dimension_is_the_rows(wrap: Make) -> None:
    out = wrap("tokens").select_out_keys("tokens")(np.array([[259, 259, *HI], HELLO[:4]]))
    assert [row.tolist() for row in out.get("prompt", as_list=True)] == [HI, HELLO[:4]]


def test_one_value_or_several_and_options(wrap: Make) -> None:
    policy = wrap("text").select_out_keys("text")
    text = policy(["Hi"], max_new_tokens=1)
    assert isinstance(text, Text)
    assert text.response == ["a"]
    samples = wrap("text", num_samples=3, generate_kwargs={"seed": 0}).select_out_keys("tokens")(
        ["Hi", "Hello"]
    )
    assert samples.batch_size == (2, 3)


def test_scores_and_logits(wrap: Make) -> None:
    judge = wrap("text", generate=False, inplace=False)
    *_, log_probs = judge(["Hi", "Hello"])
    assert [len(row) for row in log_probs.get("full", as_list=True)] == [2, 5]
    *_, logits = wrap("text", generate=False, pad_output=True)(["Hi", "Hello"], logits_only=True)
    assert logits.shape == (2, 5, 260)


def test_hooks_see_a_tensordict(wrap: Make) -> None:
    policy, seen = wrap("text"), []
    policy.register_forward_hook(lambda module, args, out: seen.append((args[0], out)))
    policy(["Hi"])
    ((given, out),) = seen
    assert given is out
    assert given["text", "response"] == ["ab<eos>"]


def test_a_top_level_key(wrap: Make) -> None:
    policy = wrap("tokens", input_key="ids").select_out_keys("tokens")
    for out in (policy([HI, HELLO]), policy(ids=[HI, HELLO])):
        assert [row.tolist() for row in out.get("response", as_list=True)] == [
            [64, 65, 256],
            [64, 65, 66, 67],
        ]


def test_other_arguments_are_errors(wrap: Make) -> None:
    policy = wrap("text")
    with pytest.raises(RuntimeError, match="Duplicated argument in args and kwargs: 'text_prompt'"):
        policy(["Hi"], text_prompt=["Hi"])
    raises(TypeError, "tensordict", policy)
    raises(TypeError, "Expected a TensorDict", lambda: policy(3))
    raises(TypeError, "", lambda: policy(["Hi"], ["Hello"]))
    td = token_td(HI)
    with pytest.raises(ValueError, match="Expected"):  # a TensorDict is always taken for what holds the entry
        policy(td)
    with _set_dispatch_td_nn_modules(False), pytest.raises(TypeError, match="Expected a TensorDict"):
        policy(["Hi"])
