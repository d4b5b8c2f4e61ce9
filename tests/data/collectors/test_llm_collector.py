"""Responses to prompts with their rewards, from a policy of a few lines."""

import itertools
import pickle
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, TensorDictBase, lazy_stack
from lite.data import LLMCollector


class Echo:
    """Says the ids of its prompt once more, and as many random ones; rows that begin with 0 are cut off."""

    generate = True

    def __init__(self, num_samples: int | None = None) -> None:
        self.num_samples = num_samples
        self.sizes: list[int] = []
        self.collector: Any = None

    def register_collector(self, collector: Any) -> None:
        self.collector = collector

    def input_of(self, prompts: Sequence[Any]) -> TensorDictBase:
        return lazy_stack([TensorDict({"tokens": {"prompt": np.asarray(ids, np.int64)}}) for ids in prompts])

    def __call__(self, td: TensorDictBase, seeds: Any = None) -> TensorDictBase:
        self.sizes.append(len(td))
        prompts = td.get(("tokens", "prompt"), as_list=True)
        n = self.num_samples or 1
        numbers = np.zeros((len(td), n), np.uint64) if seeds is None else np.reshape(seeds, (len(td), n))
        rows = [
            [self.row(prompt, seed) for seed in own] for prompt, own in zip(prompts, numbers, strict=True)
        ]
        if self.num_samples is None:
            return lazy_stack([row[0].update(given) for row, given in zip(rows, td.unbind(0), strict=True)])
        return lazy_stack([lazy_stack(row) for row in rows])

    def row(self, prompt: Any, seed: np.uint64) -> TensorDict:
        drawn = np.random.default_rng(int(seed)).integers(100, 1000, len(prompt))
        response = np.concatenate([prompt, drawn])
        full = np.concatenate([prompt, response])
        return TensorDict(
            {
                "tokens": {"prompt": prompt, "response": response, "full": full},
                "log_probs": {"response": -np.ones(len(response), np.float32)},
                "masks": {"all_attention_mask": np.ones(len(full), bool)},
            }
        )

    def cut_off(self, td: TensorDictBase) -> Any:
        flat = td.reshape(-1).get(("tokens", "response"), as_list=True)
        return np.array([row[0] == 0 for row in flat]).reshape(td.batch_size)


PROMPTS = [[5, 6], [7], [0, 1, 2], [9, 9]]


def first_drawn(td: TensorDictBase) -> Any:
    shape = td.batch_size
    rows = td.reshape(-1).get(("tokens", "response"), as_list=True)
    return np.array([row[len(row) // 2] for row in rows]).reshape(shape)


def drawn(batches: Any) -> list[int]:
    return [int(x) for batch in batches for x in first_drawn(batch).ravel()]


def make(prompts: Any = PROMPTS, **options: Any) -> LLMCollector:
    given = {"dialog_turns_per_batch": 4, "total_dialog_turns": 8, "reward": first_drawn, **options}
    given.setdefault("policy", Echo())
    return LLMCollector(prompts, **given)


def test_a_batch_has_what_trainers_read() -> None:
    collector = make([{"prompt_ids": ids, "answer": f"a{i}", "level": i} for i, ids in enumerate(PROMPTS)])
    first, second = collector
    assert collector.policy.collector is collector
    assert first.batch_size == second.batch_size == (4,)
    assert [row.tolist() for row in first.get(("tokens", "prompt"), as_list=True)] == PROMPTS
    assert first["answer"] == ["a0", "a1", "a2", "a3"]
    np.testing.assert_array_equal(first["level"], range(4))
    end = first["next"]
    for name, dtype in {"reward": np.float32, "done": bool, "terminated": bool, "truncated": bool}.items():
        assert (end[name].shape, end[name].dtype) == ((4, 1), dtype)
    assert end["done"].all()
    assert end["truncated"].ravel().tolist() == [False, False, True, False]
    assert end["terminated"].ravel().tolist() == [True, True, False, True]
    np.testing.assert_array_equal(end["reward"].ravel(), first_drawn(first))
    np.testing.assert_array_equal(first["collector", "traj_ids"], range(4))
    np.testing.assert_array_equal(second["collector", "traj_ids"], range(4, 8))
    assert "policy_version" not in first


def test_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    batches = list(make(progress=True, reward=lambda td: np.arange(4.0)))
    assert len(batches) == 2
    last = capsys.readouterr().err.split("\r")[-1]
    assert last.startswith("8/8 [#")
    assert last.endswith(" responses/s, reward 1.5\n")
    raises(ValueError, "progress needs total_dialog_turns", make, progress=True, total_dialog_turns=-1)


def test_groups() -> None:
    for own, repeats in ((None, 3), (3, None), (3, 1)):
        prompts = [{"prompt_ids": ids, "answer": f"a{i}", "level": i} for i, ids in enumerate(PROMPTS)]
        collector = make(prompts, policy=Echo(own), repeats=repeats, dialog_turns_per_batch=6, seed=1)
        first, _ = collector
        assert first.batch_size == (2, 3)
        assert first["next", "reward"].shape == (2, 3, 1)
        assert len(np.unique(first_drawn(first))) == 6
        assert first["answer"] == [["a0"] * 3, ["a1"] * 3]
        np.testing.assert_array_equal(first["level"], [[0] * 3, [1] * 3])
        np.testing.assert_array_equal(first["collector", "group_ids"], [[0] * 3, [1] * 3])
        np.testing.assert_array_equal(first["collector", "traj_ids"], np.arange(6).reshape(2, 3))
        single = make(
            prompts, policy=Echo(), repeats=3, dialog_turns_per_batch=3, seed=1, total_dialog_turns=6
        )
        assert drawn(single) == drawn([first])


def test_tensordicts_keep_their_other_entries() -> None:
    """As the fields of other prompts, with a policy that gives each several responses, too."""
    prompts = [
        TensorDict({"tokens": {"prompt": np.array(ids)}, "answer": f"a{i}", "at": np.array([i, -i])})
        for i, ids in enumerate(PROMPTS)
    ]
    prompts = [td.set("ragged", np.arange(1 + i)) for i, td in enumerate(prompts)]
    for own in (None, 3):
        batch = make(prompts, policy=Echo(own), dialog_turns_per_batch=6).next()
        assert batch is not None
        shape = (6,) if own is None else (2, 3)
        expected = np.array([0, 1, 2, 3, 0, 1] if own is None else [[0] * 3, [1] * 3])
        assert batch.batch_size == shape
        np.testing.assert_array_equal(batch["answer"], np.char.add("a", expected.astype(str)))
        np.testing.assert_array_equal(batch["at"], np.stack([expected, -expected], -1))


def test_batches_end_with_the_turns_or_the_prompts() -> None:
    assert [len(batch) for batch in make(total_dialog_turns=10)] == [4, 4, 2]
    assert [len(batch) for batch in make(iter(PROMPTS[:3]), total_dialog_turns=-1)] == [3]
    endless = make(total_dialog_turns=-1)
    assert len(list(itertools.islice(endless, 5))) == 5
    collector = make(iter(PROMPTS), total_dialog_turns=4)
    assert collector.next() is not None
    assert collector.next() is None
    raises(StopIteration, "", lambda: make(iter([])).rollout())


def test_draws_do_not_depend_on_the_batch() -> None:
    whole = drawn(make(seed=3, dialog_turns_per_batch=8))
    for size in (1, 3):
        assert drawn(make(seed=3, dialog_turns_per_batch=size)) == whole
    assert drawn(make(seed=4)) != whole
    assert len(set(whole)) == 8


@pytest.mark.parametrize("prompts", [PROMPTS, "iterator"])
def test_it_goes_on_where_it_stopped(prompts: Any) -> None:
    def given() -> Any:
        return iter(PROMPTS * 3) if prompts == "iterator" else prompts

    options = {"seed": 0, "dialog_turns_per_batch": 3, "total_dialog_turns": 12, "track_policy_version": True}
    whole = list(make(given(), **options))
    first = make(given(), **options)
    before = [first.next(), first.next()]
    state = first.state_dict()
    assert state == {"prompts": 6, "turns": 6, "policy_version": 0}
    second = make(given(), **options)
    second.load_state_dict(state)
    assert drawn([*before, *second]) == drawn(whole)
    assert drawn([*before, *pickle.loads(pickle.dumps(first))]) == drawn(whole)
    raises(KeyError, "turns", lambda: second.load_state_dict({"prompts": 1}))


def test_versions_of_the_policy() -> None:
    collector = make(track_policy_version=True, total_dialog_turns=-1)
    versions = [collector.rollout()["policy_version"]]
    collector.increment_version()
    versions.append(collector.rollout()["policy_version"])
    other = Echo()
    collector.update_policy_weights_(other)
    versions.append(collector.rollout()["policy_version"])
    np.testing.assert_array_equal(versions, [[0] * 4, [1] * 4, [2] * 4])
    assert versions[0].dtype == np.int64
    assert other.collector is collector
    assert collector.policy_version == collector.get_policy_version() == 2
    assert make().policy_version is None
    with pytest.raises(ValueError, match="must be a multiple of the 3 responses per prompt"):
        collector.update_policy_weights_(Echo(3))
    raises(TypeError, "a Echo takes no weights", collector.update_policy_weights_, weights={"a": np.ones(2)})
    raises(ValueError, "got several", lambda: collector.update_policy_weights_(other, weights={}))
    assert (collector.policy, collector.policy_version) == (other, 2)


class Buffer:
    def __init__(self) -> None:
        self.batches: list[TensorDictBase] = []

    def extend(self, batch: TensorDictBase) -> None:
        self.batches.append(batch)


def test_a_replay_buffer_is_filled_in_place_of_yielding() -> None:
    buffer = Buffer()
    collector = make(replay_buffer=buffer, repeats=2, seed=0)
    assert list(collector) == [None, None]
    assert [batch.batch_size for batch in buffer.batches] == [(4,), (4,)]
    assert drawn(buffer.batches) == drawn(make(repeats=2, seed=0))
    collector.start()
    collector.async_shutdown()
    assert not pickle.loads(pickle.dumps(collector)).is_running()


def test_a_thread_fills_the_buffer_until_the_end_or_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """Weights that come while responses are written are not those that wrote them."""
    buffer = Buffer()
    collector = make(replay_buffer=buffer, seed=0, track_policy_version=True)
    collector.policy.row = lambda *given: (collector.increment_version(), Echo().row(*given))[1]
    collector.start()
    while collector.is_running():
        pass
    assert drawn(buffer.batches) == drawn(make(seed=0))
    assert [batch["policy_version"].tolist() for batch in buffer.batches] == [[0] * 4, [4] * 4]
    collector.async_shutdown()
    raises(RuntimeError, "replay_buffer", make().start)
    failing = make(replay_buffer=buffer, reward=lambda td: np.zeros(3))
    failing.start()
    raises(ValueError, "reward must give 4 numbers", failing.async_shutdown)
    assert "reward must give 4 numbers" in capsys.readouterr().err


def test_a_start_follows_a_shutdown_that_did_not_wait() -> None:
    buffer, may_end = Buffer(), threading.Event()
    collector = make(replay_buffer=buffer, reward=lambda td: may_end.wait(60) * np.ones(td.numel()))
    collector.start()
    collector.async_shutdown(timeout=0)
    threading.Timer(0.05, may_end.set).start()
    collector.start()
    while collector.is_running():
        pass
    assert len(buffer.batches) == 2


def test_postproc_and_flat_batches() -> None:
    collector = make(repeats=2, flatten_data=True, postproc=lambda td: td.select("next"))
    for batch in collector:
        assert batch is not None
        assert batch.batch_size == (4,)
        assert set(batch.keys()) == {"next"}


def test_prompts_may_be_tensordicts() -> None:
    rows = [TensorDict({"tokens": {"prompt": np.array(ids)}}) for ids in PROMPTS]
    assert drawn(make(rows, seed=0, repeats=2)) == drawn(make(seed=0, repeats=2))
    assert set(rows[0].keys(True, True)) == {("tokens", "prompt")}


def test_after_an_error_the_same_prompts_come_again() -> None:
    calls = itertools.count()

    def failing(td: TensorDictBase) -> Any:
        if next(calls) == 1:
            raise RuntimeError("no")
        return first_drawn(td)

    collector = make(iter(PROMPTS * 3), reward=failing, seed=0, dialog_turns_per_batch=2)
    got = [collector.next()]
    raises(RuntimeError, "no", lambda: collector.next())
    assert collector.state_dict()["turns"] == 2
    got.append(collector.next())
    assert drawn([*got, *collector]) == drawn(make(seed=0, dialog_turns_per_batch=2))


def test_rewards_are_one_number_each() -> None:
    for value in (np.zeros(3), 1.0, ["a"] * 4, np.zeros((4, 2))):
        with pytest.raises(ValueError, match="reward must give 4 numbers, one per response, got"):
            make(reward=lambda td, value=value: value).rollout()
    rewards = np.arange(6.0).reshape(2, 3)
    groups: dict[str, Any] = {"policy": Echo(3), "dialog_turns_per_batch": 6}
    for value in (rewards, rewards[..., None], rewards.ravel(), rewards.reshape(6, 1), rewards.tolist()):
        batch = make(reward=lambda td, value=value: value, **groups).rollout()
        np.testing.assert_array_equal(batch["next", "reward"][..., 0], rewards)
    batch = make(reward=lambda td: 2.0, dialog_turns_per_batch=1).rollout()
    np.testing.assert_array_equal(batch["next", "reward"], [[2]])
    with pytest.raises(ValueError, match=r"of shape \(3, 2\) for a batch of \(2, 3\)"):  # in another order
        make(reward=lambda td: rewards.T, **groups).rollout()


def test_fields_do_not_hide_entries() -> None:
    for name in ("next", "tokens", "collector"):
        with pytest.raises(ValueError, match=f"a field of a prompt cannot be called '{name}'"):
            make([{"prompt_ids": [1], name: 2}]).rollout()


def test_arguments() -> None:
    scores = Echo()
    scores.generate = False
    for options, error, message in (
        ({"policy": None}, TypeError, "one of policy and policy_factory must be given"),
        ({"policy_factory": Echo}, TypeError, "one of policy and policy_factory must be given, and not both"),
        ({"policy": 3}, TypeError, "policy must be callable, got int"),
        ({"policy": scores}, ValueError, "policy must generate responses"),
        ({"repeats": 3}, ValueError, "must be a multiple of the 3 responses per prompt, got 4"),
        ({"repeats": 0}, ValueError, "repeats must be at least 1, got 0"),
        (
            {"dialog_turns_per_batch": 0},
            ValueError,
            "must be a multiple of the 1 responses per prompt, got 0",
        ),
        ({"seed": 0.5}, TypeError, "seed"),
    ):
        raises(error, message, make, **options)
    assert make(policy=None, policy_factory=Echo).rollout().batch_size == (4,)


def test_policies_that_do_not_fit() -> None:
    with pytest.raises(
        TypeError, match="prompts must be TensorDicts with what the policy reads: function has no"
    ):
        make(policy=lambda td: td).rollout()
    rows = [TensorDict({"x": np.zeros(1)})]
    with pytest.raises(ValueError, match=r"must give a TensorDict of batch size \(4,\), got \(1,\)"):
        make(rows, policy=lambda td: td[:1]).rollout()
    with pytest.raises(ValueError, match=r"must give a TensorDict of batch size \(4,\), got int"):
        make(rows, policy=lambda td: 1).rollout()


def test_lengths() -> None:
    assert len(make(dialog_turns_per_batch=2, total_dialog_turns=5)) == 3
    assert len(make(total_dialog_turns=0)) == 0
    raises(TypeError, "has no end", lambda: len(make(total_dialog_turns=-1)))
    assert len(list(make(iter(PROMPTS), total_dialog_turns=-1))) > 0  # ends with the prompts
