"""Bounded rows, kept prefixes and guesses in wrappers: results are those without."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import Make
from helpers.models.real_models import MODELS
from helpers.waiting import LONG

from lite import TensorDict
from lite.models import OnnxDecoder, OnnxWrapper, Tokens

LLAMA = MODELS / "genai-llama-fp32"


def make(**options: Any) -> OnnxWrapper:
    kwargs = {"max_new_tokens": 6, "temperature": 0.8, "seed": 3, **options.pop("generate_kwargs", {})}
    arguments = {"input_mode": "tokens", "inplace": False, "generate_kwargs": kwargs, **options}
    return OnnxWrapper(arguments.pop("model", LLAMA), **arguments)


def td(rows: list[Any]) -> TensorDict:
    from lite import lazy_stack

    prompts = [Tokens(prompt=np.asarray(row), batch_size=[]) for row in rows]
    return TensorDict({"tokens": lazy_stack(prompts, 0)}, batch_size=[len(rows)])


def said(out: Any) -> list[list[int]]:
    return [row.tolist() for row in out.get(("tokens", "response"), as_list=True)]


def prompts(count: int, length: int = 20) -> list[Any]:
    return list(np.random.default_rng(5).integers(3, 500, (count, length)))


def test_bounded_rows() -> None:
    model = OnnxDecoder(LLAMA)
    taken: list[int] = []
    acquire = model.acquire
    model.acquire = lambda count: taken.append(count) or acquire(count)  # type: ignore[method-assign, func-returns-value]
    few = make(model=model, max_rows=3)
    assert said(few(td(prompts(10)))) == said(make()(td(prompts(10))))
    assert taken == [3]


def test_a_conversation_that_grows() -> None:
    with_cache, without = make(prefix_cache=2**22), make()
    chats = prompts(2)
    for turn in range(3):
        ours, theirs = said(with_cache(td(chats))), said(without(td(chats)))
        assert ours == theirs
        assert with_cache.get_prefix_cache_state()["hits"] == 2 * turn
        chats = [np.concatenate([chat, tokens, [9]]) for chat, tokens in zip(chats, ours, strict=True)]
    state = with_cache.get_prefix_cache_state()
    assert (state["rows"], state["misses"]) == (2, 2)
    assert 0 < state["nbytes"] <= 2**22
    assert without.get_prefix_cache_state() == {}
    with_cache.clear_prefix_cache()
    assert with_cache.get_prefix_cache_state()["rows"] == 0
    assert (with_cache.model.lengths == 0).all()


def test_several_sessions_keep_their_own() -> None:
    wrapper = make(prefix_cache=2**22, sessions=2, num_threads=2)
    first = said(wrapper(td(prompts(4))))
    assert said(wrapper(td(prompts(4)))) == first == said(make()(td(prompts(4))))
    assert wrapper.get_prefix_cache_state()["hits"] == 4


def test_an_assistant_and_lookup() -> None:
    plain = said(make()(td(prompts(3))))
    assert said(make(assistant_model=LLAMA)(td(prompts(3)))) == plain
    looking = make(generate_kwargs={"prompt_lookup_num_tokens": 4})
    assert said(looking(td(prompts(3)))) == plain


def test_copies() -> None:
    wrapper = make(prefix_cache=2**20, max_rows=2, assistant_model=LLAMA)
    expected = said(wrapper(td(prompts(3))))
    for other in (copy.deepcopy(wrapper), pickle.loads(pickle.dumps(wrapper)), wrapper.get_new_version()):
        assert other.get_prefix_cache_state()["rows"] == 0
        assert said(other(td(prompts(3)))) == expected
    assert copy.deepcopy(wrapper).assistant_model is wrapper.assistant_model
    judge = wrapper.get_new_version(generate=False)
    assert judge.assistant_model is None
    assert judge.get_prefix_cache_state() == {}


def test_bad_arguments(wrap: Make) -> None:
    raises(ValueError, "max_rows must be at least 1, got 0", make, max_rows=0)
    for size in (-1, True):
        with pytest.raises(ValueError, match="prefix_cache must be a number of bytes of at least 0, got"):
            make(prefix_cache=size)
    raises(TypeError, "decoder must have the interface of lite", wrap, "text", prefix_cache=100)


def test_threads_with_other_options_share_a_run() -> None:
    model = OnnxDecoder(LLAMA)
    taken: list[int] = []
    acquire = model.acquire
    model.acquire = lambda count: taken.append(count) or acquire(count)  # type: ignore[method-assign, func-returns-value]
    wrapper = make(model=model, min_batch_size=4, batching_timeout=LONG, generate_kwargs={"seed": None})
    options: list[dict[str, Any]] = [
        {"max_new_tokens": 3, "do_sample": False, "temperature": 0.0},
        {"temperature": 1.5, "seed": 1},
        {"top_k": 5, "seed": 2, "repetition_penalty": 1.3},
        {"row_options": [{"max_new_tokens": 2}], "seed": 4},
    ]
    rows = prompts(4)
    with ThreadPoolExecutor(4) as pool:
        outs = list(pool.map(lambda i: wrapper(td(rows[i : i + 1]), **options[i]), range(4), timeout=LONG))
    assert taken == [4]
    alone = make(generate_kwargs={"seed": None})
    for i, out in enumerate(outs):
        assert said(out) == said(alone(td(rows[i : i + 1]), **options[i]))


def test_what_may_fail_is_run_apart() -> None:
    """A function of one caller fails: the other's rows are not in its run."""

    def fails(ids: Any, scores: Any) -> Any:
        raise RuntimeError("no scores")

    wrapper = make(batching=True)
    expected = said(make()(td(prompts(2))))
    with ThreadPoolExecutor(4) as pool:
        good = [pool.submit(wrapper, td(prompts(2))) for _ in range(6)]
        bad = [pool.submit(wrapper, td(prompts(2)), logits_processor=fails) for _ in range(6)]
        assert all(said(call.result(LONG)) == expected for call in good)
        for call in bad:
            raises(RuntimeError, "no scores", call.result, LONG)
