"""Batching of wrappers that several threads call."""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import Make, text_td
from helpers.waiting import LONG, until


def queued(wrapper: Any, count: int) -> Callable[[], bool]:
    return lambda: wrapper.get_batching_state()["queue_size"] >= count


def test_two_threads_share_a_run(wrap: Make, scripted_model: Make) -> None:
    model = scripted_model()
    wrapper = wrap("text", model=model, min_batch_size=4, batching_timeout=LONG)
    calls: list[int] = []
    prefill = model.prefill_rows
    model.prefill_rows = lambda rows, prompts: calls.append(len(rows)) or prefill(rows, prompts)
    tds = [text_td("Hi", "Hello"), text_td("Hello", "Hi")]
    with ThreadPoolExecutor(2) as pool:
        outs = list(pool.map(wrapper, tds, timeout=20))
    assert calls == [2]  # each text is read once
    assert [list(out["text", "response"]) for out in outs] == [["ab<eos>", "abcd"], ["abcd", "ab<eos>"]]
    assert outs[0] is tds[0]  # in place, as without batching


@pytest.mark.parametrize(("padded", "generate"), [(True, False), (False, True)])
def test_results_do_not_show_batching(wrap: Make, padded: bool, generate: bool) -> None:
    """Same values and same padding as alone, for draws from a seed too."""
    options: dict[str, Any] = {"generate": generate, "pad_output": padded, "inplace": False}
    if generate:
        options |= {"num_samples": 2, "generate_kwargs": {"temperature": 2.0, "seed": 5}}
    alone, together = wrap("text", **options), wrap("text", min_batch_size=3, **options)
    texts = [("Hi",), ("Hello there", "Hi")]
    tds = [text_td(*t, field="prompt" if generate else "full") for t in texts]
    with ThreadPoolExecutor(2) as pool:
        outs = list(pool.map(together, tds, timeout=20))
    field = "response" if generate else "full"
    for td, out in zip(tds, outs, strict=True):
        expected = alone(td)
        assert out.batch_size == expected.batch_size
        for entry in ("tokens", "log_probs"):
            ours, theirs = out.get((entry, field), as_list=True), expected.get((entry, field), as_list=True)
            for row, other in zip(ours, theirs, strict=True):
                for one, two in zip(row, other, strict=True) if isinstance(row, list) else [(row, other)]:
                    np.testing.assert_array_equal(one, two)


def test_one_element_and_more_dimensions(wrap: Make) -> None:
    plain = text_td("Hello")[0]
    for wrapper in (wrap("text"), wrap("text", batching=True)):
        td = plain.clone()
        out = wrapper(td)
        assert out is td
        assert out.batch_size == ()
        assert (out["text", "prompt"], out["text", "response"]) == ("Hello", "abcd")
    square = text_td("Hi", "Hello").unsqueeze(0)
    assert wrap("text", batching=True)(square)["text", "response"] == [["ab<eos>", "abcd"]]


def test_options_of_a_call_are_its_own(wrap: Make) -> None:
    wrapper = wrap("text", min_batch_size=32, batching_timeout=0.1)  # all callers are queued at once
    with ThreadPoolExecutor(8) as pool:
        lengths = [1, 2, 3, 4] * 2
        outs = list(pool.map(lambda n: wrapper(text_td("Hello"), max_new_tokens=n), lengths, timeout=20))
    assert [np.shape(out["tokens", "response"])[-1] for out in outs] == lengths


def test_a_bad_prompt_is_its_callers_alone(wrap: Make) -> None:
    wrapper = wrap("text", min_batch_size=2, batching_timeout=LONG)
    with ThreadPoolExecutor(2) as pool:
        good = pool.submit(wrapper, text_td("Hi"))
        until(queued(wrapper, 1))
        raises(ValueError, "context", wrapper, text_td("x" * 257))
        assert list(wrapper(text_td("Hello"))["text", "response"]) == ["abcd"]
        assert list(good.result(20)["text", "response"]) == ["ab<eos>"]


def test_state_and_cleanup(wrap: Make) -> None:
    assert wrap("text").batching is False
    assert wrap("text").get_batching_state() == {"batching_enabled": False}
    wrap("text").cleanup_batching(flush=True)
    wrapper = wrap("text", min_batch_size=3, max_batch_size=8, batching_timeout=LONG)
    assert wrapper.batching is True
    initial = {
        "batching_enabled": True, "min_batch_size": 3, "max_batch_size": 8, "queue_size": 0,
        "processing": False, "lock_state": "unlocked", "pending_futures": 0, "timeout": LONG,
    }  # fmt: skip
    assert wrapper.get_batching_state() == initial
    td = text_td("Hi")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wrapper, td)
        until(queued(wrapper, 1))
        wrapper.cleanup_batching()
        raises(CancelledError, "", waiting.result, 20)
        assert wrapper.get_batching_state() == initial
        assert td["text"].response is None
        waiting = pool.submit(wrapper, td)
        until(queued(wrapper, 1))
        wrapper.cleanup_batching(flush=True)
        assert list(waiting.result(20)["text", "response"]) == ["ab<eos>"]


def test_wrappers_of_one_model_take_turns(wrap: Make, scripted_model: Make) -> None:
    model = scripted_model()
    inside: list[int] = []
    plain = model.prefill_rows

    def prefill(rows: Any, prompts: Any) -> Any:
        inside.append(1)
        time.sleep(0.005)
        assert len(inside) == 1
        out = plain(rows, prompts)
        inside.pop()
        return out

    model.prefill_rows = prefill
    wrappers = [wrap("text", model=model), wrap("text", model=model, batching=True)]
    with ThreadPoolExecutor(4) as pool:
        outs = list(pool.map(lambda i: wrappers[i % 2](text_td("Hi")), range(12), timeout=20))
    assert all(list(out["text", "response"]) == ["ab<eos>"] for out in outs)
