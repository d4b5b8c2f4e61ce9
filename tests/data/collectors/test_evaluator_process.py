"""Evaluations in a process: what a thread gives, weights, and what goes wrong there."""

import functools
import time
from typing import Any

import pytest
from helpers.drawn_env import DrawnEnv
from helpers.evaluated import Sleeping, policy, policy_of
from helpers.waiting import children

from lite.data import Evaluator
from lite.data.collectors.evaluator_process import EvaluatorProcess, _needs_argument
from lite.envs import RandomPolicy

OPTIONS = {"num_trajectories": 2, "frames_per_batch": 4}


def without_speed(result: Any) -> Any:
    return {name: value for name, value in result.items() if name != "eval/fps"}


def test_a_process_gives_what_a_thread_gives() -> None:
    of_others = children()
    process = Evaluator(DrawnEnv, policy_factory=policy, **OPTIONS, backend="process")
    thread = Evaluator(DrawnEnv, policy(), **OPTIONS)
    assert without_speed(process.evaluate()) == without_speed(thread.evaluate())
    better = policy(1.0)
    assert process.trigger_eval(better, step=7)
    found = process.wait(60)
    assert without_speed(found) == without_speed(thread.evaluate(better, step=7))
    assert process.env is None  # it is there
    process.shutdown()
    assert children() <= of_others


@pytest.mark.processes
def test_what_makes_the_policy() -> None:
    spec = DrawnEnv().action_spec
    for factory in (functools.partial(RandomPolicy, spec), policy_of):
        evaluator = Evaluator(DrawnEnv, policy_factory=factory, **OPTIONS, backend="process")
        assert evaluator.evaluate()["eval/num_episodes"] == 2
        evaluator.shutdown()


@pytest.mark.processes
def test_what_goes_wrong_in_a_process_is_told_here() -> None:
    evaluator = Evaluator(DrawnEnv, policy(), **OPTIONS, backend="process")
    with pytest.raises(RuntimeError, match="the evaluation failed: ArithmeticError: a negative action"):
        evaluator.evaluate(policy(-1.0))
    assert evaluator.evaluate(policy(1.0))["eval/num_episodes"] == 2  # it goes on
    evaluator.trigger_eval(policy(-2.0))
    with pytest.raises(RuntimeError, match="its process ended with exit code 3"):
        evaluator.wait(60)
    assert evaluator.evaluate(policy(1.0))["eval/num_episodes"] == 2  # in another process
    evaluator.shutdown()


def test_a_result_after_an_interrupted_one_is_of_its_own_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = Evaluator(DrawnEnv, policy(), **OPTIONS, backend="process")
    wanted = evaluator.evaluate(policy(2.0))["eval/reward"]

    def interrupted(_: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EvaluatorProcess, "answered", interrupted)
        with pytest.raises(KeyboardInterrupt):
            evaluator.evaluate(policy(1.0))
    assert evaluator.evaluate(policy(2.0))["eval/reward"] == pytest.approx(wanted)
    evaluator.shutdown()


@pytest.mark.processes
def test_a_process_that_takes_too_long_is_killed() -> None:
    of_others = children()
    evaluator = Evaluator(Sleeping, policy(), **OPTIONS, backend="process")
    evaluator.trigger_eval()
    while not evaluator._process:
        time.sleep(0.01)
    evaluator.shutdown(timeout=0.2)
    assert children() <= of_others


def test_factories_that_need_the_environment() -> None:
    for factory, needs in (
        (lambda: None, False),
        (lambda env: None, True),
        (lambda env=None: None, False),
        (lambda *envs, **options: None, False),
        (lambda *, env: None, False),
    ):
        assert _needs_argument(factory) is needs
