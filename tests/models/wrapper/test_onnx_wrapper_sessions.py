"""Wrappers that run their model several times at once, and with a number of threads."""

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.compared import assert_same
from helpers.models.prompts import Make, text_td
from helpers.models.real_models import EXPECTED, MODELS
from helpers.waiting import LONG

from lite import TensorDict, lazy_stack
from lite.models import OnnxDecoder, OnnxWrapper, Tokens, embedded_model_path
from lite.models.graph import session as sessions_module

PROMPTS = ["What is 2 + 2?", "Copy: sun", "Hello", "Copy: sea sky", "What is 12 + 30?", "Hi", "a", "b c"]
OPTIONS: dict[str, Any] = {
    "input_mode": "text",
    "inplace": False,
    "generate_kwargs": {"max_new_tokens": 6, "do_sample": True, "temperature": 1.5, "seed": 4},
}


def make(**options: Any) -> OnnxWrapper:
    return OnnxWrapper(embedded_model_path(), **{**OPTIONS, **options})


def said(wrapper: OnnxWrapper, prompts: list[str] = PROMPTS) -> tuple[list[Any], list[Any]]:
    out = wrapper(text_td(*prompts))
    log_probs = out.get(("log_probs", "response"), as_list=True)
    return list(out["text", "response"]), [np.asarray(row).tolist() for row in log_probs]


@pytest.mark.depth
def test_results_are_those_of_one_session() -> None:
    one, three = make(), make(sessions=3)
    for options in ({}, {"do_sample": False}):
        want, got = (said_with(w, options) for w in (one, three))
        assert got[0] == want[0]
        assert_same(got[1], want[1], atol=2e-5)
    samples = {"num_samples": 2, "pad_output": True}
    want, got = said(make(**samples)), said(make(sessions=2, **samples))
    assert got[0] == want[0]


def said_with(wrapper: OnnxWrapper, options: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    out = wrapper(text_td(*PROMPTS), **options)
    return list(out["text", "response"]), out.get(("log_probs", "response"), as_list=True)


@pytest.mark.grid
@pytest.mark.parametrize("name", ["exporter-llama-static", "handmade-no-cache"])
def test_every_export_generates_and_scores_on_several_sessions(name: str) -> None:
    cases = EXPECTED[name]["greedy"]
    count = min(len(case["tokens"]) for case in cases)
    kwargs = {"max_new_tokens": count, "do_sample": False}
    policy = OnnxWrapper(MODELS / name, input_mode="tokens", sessions=3, generate_kwargs=kwargs)
    rows = [Tokens(prompt=np.array(case["prompt"])) for case in cases]
    td = policy(TensorDict({"tokens": lazy_stack(rows)}, batch_size=[len(rows)]))
    responses = td.get(("tokens", "response"), as_list=True)
    assert [row.tolist()[:count] for row in responses] == [case["tokens"][:count] for case in cases]
    alone = policy.get_new_version(generate=False, inplace=False, sessions=1)
    spread = policy.get_new_version(generate=False, inplace=False)
    want, got = (w(td).get(("log_probs", "full"), as_list=True) for w in (alone, spread))
    assert_same(got, want, atol=1e-4)


def test_callers_of_different_threads_run_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make(sessions=2)
    want = [said(policy, [prompt])[0][0] for prompt in PROMPTS]
    barrier = threading.Barrier(2, timeout=LONG)
    prefill = OnnxDecoder.prefill_rows

    def met(self: OnnxDecoder, *args: Any) -> Any:
        barrier.wait()  # of two callers; alone, one would wait in vain
        return prefill(self, *args)

    monkeypatch.setattr(OnnxDecoder, "prefill_rows", met)
    with ThreadPoolExecutor(4) as threads:
        got = list(threads.map(lambda prompt: said(policy, [prompt])[0][0], PROMPTS, timeout=LONG))
    assert got == want


def test_versions_and_copies_share_and_pickles_are_opened_again() -> None:
    policy = make(sessions=2)
    want = said(policy)[0]
    judge = policy.get_new_version(generate=False)
    assert judge._calls.pool is policy._calls.pool is copy.deepcopy(policy)._calls.pool
    assert policy.get_new_version(sessions=3)._calls.sessions == 3
    sent = pickle.loads(pickle.dumps(policy))
    assert sent._calls.sessions == 2
    assert sent._calls.pool is not policy._calls.pool
    assert said(sent)[0] == want


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The thread counts that onnxruntime was asked for, apart from trials of attention, which have one."""
    import onnxruntime

    counts: list[int] = []
    real: Callable[..., Any] = onnxruntime.InferenceSession

    def noted(model: Any, options: Any, **kwargs: Any) -> Any:
        counts.append(options.intra_op_num_threads)
        return real(model, options, **kwargs)

    monkeypatch.setattr(onnxruntime, "InferenceSession", noted)
    monkeypatch.setattr("lite.models.decoder.opening.tried", lambda *_: False)
    monkeypatch.setattr("lite.models.decoder.opening.open_session", sessions_module.open_session)
    return counts


@pytest.mark.depth
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 6),
        ({"sessions": 2}, 5),  # two threads of callers, and four beside them
        ({"sessions": 2, "num_threads": 2}, 1),
    ],
)
def test_threads_are_those_asked_for_and_divided(options, expected, opened, monkeypatch):
    for module in ("lite.models.graph.session", "lite.models.wrapper.loading"):
        monkeypatch.setattr(f"{module}.default_threads", lambda: 6)
    make(**options)
    assert opened == [expected]  # one session, whose weights all share


def test_another_number_of_threads_opens_the_model_again(opened: list[int]) -> None:
    policy = make(num_threads=1)
    assert policy.get_new_version(generate=False).get_new_version().model is policy.model
    other = policy.get_new_version(num_threads=2)
    assert other.model is not policy.model
    assert other.get_new_version(generate=False).model is other.model
    assert opened == [1, 2]


def test_numbers_that_make_no_sense(wrap: Make) -> None:
    for sessions in (0, True, 1.5):
        raises(ValueError, "sessions must be an integer of at least 1", make, sessions=sessions)
    for threads in (0, -2):
        for count in (1, 3):
            with pytest.raises(ValueError, match=f"num_threads must be at least 1, got {threads}"):
                make(num_threads=threads, sessions=count)
    raises(ValueError, "num_threads=2 is for a model given as a path", wrap, "text", num_threads=2)
    assert sessions_module.default_threads() >= 1
