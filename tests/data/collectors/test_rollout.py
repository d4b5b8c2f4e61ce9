"""What is in a batch, against trajectories that are known beforehand."""

import functools
import itertools
import os

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from helpers.cases import raises
from helpers.data.environments import LENGTHS, Counting, Faulty, NativeCounting, Spaces, makers, transitions
from hypothesis import given, settings
from hypothesis import strategies as st

from lite import TensorDict, TensorDictBase
from lite.data import Collector, EnvError, RewardSum
from lite.envs import GymWrapper

MODES = list(AutoresetMode)


def batches(env, policy=None, *, frames_per_batch=20, total_frames=200, **keywords):
    collector = Collector(
        env, policy, frames_per_batch=frames_per_batch, total_frames=total_frames, copy=True, **keywords
    )
    return list(collector)


def joined(parts):
    return TensorDict.cat(parts, -1)


def assert_row(row: TensorDictBase, number: int, lengths, frames: int) -> None:
    """A row is what the environment does."""
    truth = transitions(number, lengths, frames)
    np.testing.assert_array_equal(row["observation"], truth["observation"])
    np.testing.assert_array_equal(row["next", "observation"], truth["next_observation"])
    np.testing.assert_array_equal(row["step_count"], truth["step_count"])
    np.testing.assert_array_equal(row["next", "step_count"], truth["step_count"] + 1)
    for name in ("reward", "terminated", "truncated"):
        np.testing.assert_array_equal(row["next", name], truth[name])
    np.testing.assert_array_equal(row["next", "done"], truth["terminated"] | truth["truncated"])
    for name in ("done", "terminated", "truncated"):
        assert not row[name].any()
    # Ids change exactly where episodes do.
    ids = row["collector", "traj_ids"]
    np.testing.assert_array_equal(np.diff(ids) != 0, np.diff(truth["episode"]) != 0)
    assert (ids >= 0).all()


def assert_ids(td: TensorDictBase, mask=None) -> None:
    """Each id belongs to one episode of one environment, and none is left out."""
    ids, obs = td["collector", "traj_ids"], td["observation"]
    if mask is not None:
        ids, obs = ids[mask], obs[mask]
    pairs = {(i, *o) for i, o in zip(ids.ravel(), obs[..., :2].reshape(-1, 2).tolist(), strict=True)}
    assert sorted(i for i, *_ in pairs) == list(range(len(pairs)))


@pytest.mark.parametrize(
    ("kind", "frames_per_batch", "mode"),
    [
        *(("sync", 4, mode) for mode in MODES),
        ("sync without copies", 20, AutoresetMode.SAME_STEP),
        ("wrapped", 200, AutoresetMode.NEXT_STEP),
        ("async", 20, AutoresetMode.SAME_STEP),
        ("async without shared memory", 200, AutoresetMode.DISABLED),
    ],
)
def test_every_mode_gives_what_the_environments_do(kind, frames_per_batch, mode):
    make = AsyncVectorEnv if kind.startswith("async") else SyncVectorEnv
    extra = {"context": "fork"} if kind.startswith("async") and hasattr(os, "fork") else {}
    if kind == "async without shared memory":
        extra["shared_memory"] = False
    env = make(makers(), autoreset_mode=mode, copy=kind != "sync without copies", **extra)
    if kind == "wrapped":
        env = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    td = joined(batches(env, frames_per_batch=frames_per_batch))
    assert td.shape == (4, 50)
    assert td.names == [None, "time"]
    for i, lengths in enumerate(LENGTHS):
        assert_row(td[i], i, lengths, 50)
    assert_ids(td)
    assert ("collector", "mask") not in td.keys(True)
    assert env.closed


def test_an_environment_alone():
    for wrapper in (lambda env: env, gymnasium.wrappers.Autoreset):
        td = joined(batches(wrapper(Counting(5, (3, 1, 4))), frames_per_batch=7, total_frames=49))
        assert td.shape == (49,)
        assert td.names == ["time"]
        assert_row(td, 5, (3, 1, 4), 49)
        assert_ids(td)


def test_steps_that_only_start_anew_are_marked():
    td = joined(batches(NativeCounting(AutoresetMode.NEXT_STEP), transforms=[RewardSum()]))
    mask = td["collector", "mask"]
    for i, lengths in enumerate(LENGTHS):
        row = td[i][mask[i]]
        assert_row(row, i, lengths, row.shape[0])
        ended = td["next", "done"][i, :, 0] & mask[i]
        # The step after an end, and no other, is marked.
        np.testing.assert_array_equal(mask[i, 1:], ~ended[:-1])
        first = slice(min(3, lengths[0]))
        sums = np.cumsum(row["next", "reward"][first, 0])
        np.testing.assert_array_equal(row["next", "episode_reward"][first, 0], sums)
    assert_ids(td, mask)
    rest = td[~mask]
    assert rest.shape[0] > 20
    assert (rest["collector", "traj_ids"] == -1).all()
    assert rest["next", "truncated"].all()
    assert rest["next", "done"].all()
    assert not rest["next", "terminated"].any()
    # Only steps that were made count.
    assert mask.sum() >= 200 > mask[:, :-5].sum()


def test_vectors_that_refuse_to_start_some_anew():
    env = gymnasium.wrappers.vector.NormalizeObservation(SyncVectorEnv(makers()))
    (td,) = batches(env, frames_per_batch=200, total_frames=1)
    mask = td["collector", "mask"]
    for i, lengths in enumerate(LENGTHS):
        row = td[i][mask[i]]
        np.testing.assert_array_equal(row["step_count"], transitions(i, lengths, row.shape[0])["step_count"])
    assert not mask.all()


SPACES = {
    "box": (spaces.Box(-1, 1, (2, 3)), spaces.Box(-2, 2, (2,), np.float32)),
    "double": (spaces.Box(-1, 1, (2,), np.float64), spaces.Box(-2, 2, (), np.float32)),
    "bytes": (spaces.Box(0, 255, (4, 4, 3), np.uint8), spaces.MultiDiscrete([2, 5])),
    "discrete": (spaces.Discrete(7), spaces.Discrete(5, start=-2)),
    "multi": (spaces.MultiDiscrete([3, 4]), spaces.MultiBinary(3)),
    "binary": (spaces.MultiBinary([2, 2]), spaces.MultiDiscrete([[2, 3], [4, 5]])),
    "dict": (spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Dict({"c": spaces.Box(-1, 1, (2,))})}),
        spaces.Dict({"go": spaces.Discrete(3), "turn": spaces.Box(-1, 1, (2,))})),
    "tuple": (spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,)))),
        spaces.Tuple((spaces.Discrete(3), spaces.Dict({"x": spaces.MultiBinary(2)})))),
}  # fmt: skip


def test_spaces():
    for name, mode in (*zip(SPACES, itertools.cycle([None, *MODES])), ("dict", None), ("tuple", None)):
        observation, action = SPACES[name]
        make = functools.partial(Spaces, observation, action)
        env = make() if mode is None else SyncVectorEnv([make] * 3, autoreset_mode=mode)
        alone = env if mode is None else env.envs[1]
        collector = Collector(env, frames_per_batch=36, total_frames=36, seed=0)
        (td,) = collector
        lead = (36,) if mode is None else (3, 12)
        assert td.shape == lead
        td = td if mode is None else td[1]
        for i, taken in enumerate(alone.taken):
            frame = td[i]
            parts = [(("action",), taken)]
            while parts:
                path, value = parts.pop()
                if isinstance(value, (dict, tuple)):
                    items = value.items() if isinstance(value, dict) else enumerate(value)
                    parts += [((*path, str(key)), part) for key, part in items]
                else:
                    np.testing.assert_array_equal(frame[path].reshape(np.shape(value)), value)
        same = ~td["next", "done"][:-1, 0]
        for key, spec in collector.observation_spec.items(True, True):
            here, after = td[key], td["next", key] if isinstance(key, str) else td["next", *key]
            assert here.dtype == after.dtype == spec.dtype
            np.testing.assert_array_equal(here[1:][same], after[:-1][same])
            assert (here != 0).any()


class Net:
    """A policy that writes as many other things as policies do."""

    def __init__(self, inplace: bool) -> None:
        self.inplace, self.calls = inplace, 0

    def __call__(self, td):
        self.calls += 1
        out = td if self.inplace else TensorDict(batch_size=td.batch_size)
        out["action"] = (td["observation"][..., 2] % 2).astype(np.int32)
        out["log_prob"] = -td["observation"][..., 2]
        out["dist", "loc"] = td["observation"] * 2
        out["next", "memory"] = td.get("memory", np.zeros((*td.batch_size, 1), np.float32)) + 1
        return out


def test_what_the_policy_writes():
    for inplace in (True, False):
        for alone in (True, False):
            env = Counting(0, (3,)) if alone else SyncVectorEnv(makers())
            parts = batches(env, Net(inplace))
            td = joined(parts)
            np.testing.assert_array_equal(td["action"], td["observation"][..., 2] % 2)
            np.testing.assert_array_equal(td["log_prob"], -td["observation"][..., 2])
            np.testing.assert_array_equal(td["dist", "loc"], td["observation"] * 2)
            np.testing.assert_array_equal(td["memory"], td["step_count"])
            np.testing.assert_array_equal(td["next", "memory"], td["step_count"] + 1)
            assert td["action"].dtype == np.int64
            assert td["log_prob"].dtype == np.float32


class Bytes(Counting):
    """Its space has bytes, what it gives is int64."""

    def __init__(self) -> None:
        super().__init__(0, (2,))
        self.observation_space = spaces.Box(0, 255, (3,), np.uint8)

    def observe(self) -> np.ndarray:
        return super().observe().astype(np.int64)


def test_starts_of_episodes_in_the_dtypes_of_entries():
    """What an environment gives, and 0 for a flag that the policy hands on."""

    def policy(td):
        return td.update({"action": np.zeros((), np.int64), "next": {"acted": np.ones(1, bool)}})

    (plain,) = batches(Bytes(), policy, frames_per_batch=5, total_frames=5)
    (wrapped,) = batches(GymWrapper(Bytes()), frames_per_batch=5, total_frames=5)
    for td in (plain, wrapped):
        assert td["observation"].dtype == np.uint8
        np.testing.assert_array_equal(td["observation"][:, 2], [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(plain["acted"][:, 0], [0, 1, 0, 1, 0])


def test_what_the_policy_writes_over():
    def policy(td):
        td["observation"] = td["observation"][..., :2] / 2  # as a normalization would
        return td.set("action", np.zeros(4, np.int64))

    td = joined(batches(SyncVectorEnv(makers()), policy))
    for i, lengths in enumerate(LENGTHS):
        truth = transitions(i, lengths, 50)
        np.testing.assert_array_equal(td["observation"][i], truth["observation"][:, :2] / 2)
        np.testing.assert_array_equal(td["next", "observation"][i], truth["next_observation"])


def test_random_frames_have_what_the_policy_would_write_over():
    def policy(td):
        td["observation"] = td["observation"] * 2
        return td.set("action", np.zeros(4, np.int64))

    td = joined(batches(SyncVectorEnv(makers()), policy, init_random_frames=40))
    for i, lengths in enumerate(LENGTHS):
        truth = transitions(i, lengths, 50)["observation"]
        np.testing.assert_array_equal(td["observation"][i, :10], truth[:10])
        np.testing.assert_array_equal(td["observation"][i, 10:], 2 * truth[10:])

    def narrow(td):
        td["observation"] = td["observation"][..., :2]
        return td.set("action", np.zeros(4, np.int64))

    with pytest.raises(ValueError, match="another shape, which random frames cannot have"):
        batches(SyncVectorEnv(makers()), narrow, init_random_frames=40)


def test_a_policy_that_changes_its_input_in_place():
    def policy(td):
        td["observation"][...] = 77
        return td.set("action", np.zeros(4, np.int64))

    td = joined(batches(SyncVectorEnv(makers()), policy))
    for i, lengths in enumerate(LENGTHS):
        assert_row(td[i], i, lengths, 50)


def test_the_policy_gets_one_tensordict_with_the_same_arrays():
    seen = []

    def policy(td):
        seen.append((id(td), id(td["observation"]), td.batch_size))
        return td.set("action", np.zeros(4, np.int64))

    batches(SyncVectorEnv(makers()), policy)
    assert len(seen) == 50
    assert len(set(seen)) == 1
    assert seen[0][2] == (4,)


LENGTH_LISTS = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), min_size=1, max_size=4)


@pytest.mark.depth
@settings(max_examples=30)
@given(LENGTH_LISTS, st.integers(1, 9), st.sampled_from([*MODES, None]), st.sampled_from([None, 1, 2, 4]))
def test_any_episodes_in_batches_of_any_size(lists, time, mode, most):
    """None is a vector of NEXT_STEP that starts nothing again when asked."""
    if mode is None:
        env, most = NativeCounting(AutoresetMode.NEXT_STEP, lists), None
    else:
        env = SyncVectorEnv(makers(lists), autoreset_mode=mode)
    frames = time * len(lists)
    collector = Collector(
        env, frames_per_batch=frames, total_frames=30 * len(lists), max_frames_per_traj=most, copy=True
    )
    td = joined(list(collector))
    for i, lengths in enumerate(lists):
        row = td[i] if mode is not None else td[i][td["collector", "mask"][i]]
        if most is None:
            assert_row(row, i, lengths, row.shape[0])
        else:
            truth = transitions(i, [min(most, length) for length in lengths], row.shape[0])
            np.testing.assert_array_equal(row["observation"], truth["observation"])
            np.testing.assert_array_equal(row["next", "observation"], truth["next_observation"])
            np.testing.assert_array_equal(row["step_count"], truth["step_count"])
            np.testing.assert_array_equal(row["next", "done"], truth["terminated"] | truth["truncated"])
            assert row["next", "truncated"][truth["step_count"] == most - 1].all()
    assert collector.stats()["frames"] == sum(
        row.shape[0] if mode is not None else row["collector", "mask"].sum() for row in td.unbind(0)
    )
    assert (
        collector.stats()["episodes"]
        == (td["next", "done"][..., 0] & (td["collector", "traj_ids"] >= 0)).sum()
    )


def acting(value):
    return lambda td: td.set("action", value)


def writing(key, value):
    return lambda td: td.set("action", np.zeros(4, np.int64)).set(key, value)


def test_policies_that_do_not_fit():
    for policy, kind, message in (
        (acting(np.zeros((4, 1), np.int64)), ValueError, r"must give 'action' of shape \(4,\), got \(4, 1\)"),
        (acting(np.zeros(4)), TypeError, "must give 'action' of dtype int64, got float64"),
        (lambda td: td, KeyError, r"policy must write 'action' at each step, got \['observation'"),
        (lambda td: None, TypeError, "policy must return a TensorDict, got NoneType"),
        (lambda td: np.zeros(4, np.int64), TypeError, "policy must return a TensorDict, got ndarray"),
        (writing(("next", "reward"), np.zeros((4, 1))), ValueError, r"must not write \('next', 'reward'\)"),
        (writing("done", np.zeros((4, 1))), ValueError, r"must not write \('done',\)"),
        (writing("text", "hello"), TypeError, "must write arrays, got NonTensorData"),
        (
            writing(("next", "step_count"), np.zeros((4, 1))),
            ValueError,
            r"must not write \('next', 'step_count'\)",
        ),
    ):
        collector = Collector(SyncVectorEnv(makers()), policy, frames_per_batch=8)
        raises(kind, message, collector.next)


def test_a_policy_whose_shapes_change():
    calls = []

    def policy(td):
        calls.append(1)
        size = 3 if len(calls) > 2 else 2
        return td.update({"action": np.zeros(4, np.int64), "loc": np.zeros((4, size))})

    collector = Collector(SyncVectorEnv(makers()), policy, frames_per_batch=40)
    raises(ValueError, r"must give 'loc' of shape \(4, 2\), got \(4, 3\)", lambda: collector.next())
    assert collector.partial_batch.shape == (4, 2)


# -- failures ---------------------------------------------------------------------------------------


def faulty(fault, number=2, at=8, count=4, **keywords):
    makes = makers([(3, 5)] * count)
    makes[number] = functools.partial(Faulty, number, fault, at, (100,))
    return SyncVectorEnv(makes, **keywords)


def test_failures_name_environment_and_step_and_lose_no_frame():
    for fault, mode in (
        *(("raise", mode) for mode in MODES),
        *zip(("nan", "nan reward", "shape"), MODES, strict=True),
    ):
        collector = Collector(faulty(fault, autoreset_mode=mode), frames_per_batch=20)
        data = iter(collector)
        first = next(data)
        before = first.clone()
        with pytest.raises(EnvError) as caught:
            next(data)
        error = caught.value
        assert (error.index, error.step) == (2, 7)
        assert str(error).startswith("environment 2 failed at step 7: ")
        assert error.frames.shape == (4, 2)
        assert collector.partial_batch is error.frames
        whole = TensorDict.cat([first, error.frames], -1)
        for i in (0, 1, 3):
            assert_row(whole[i], i, (3, 5), 7)
        assert_row(whole[2], 2, (100,), 7)
        for key in before.keys(True, True):
            np.testing.assert_array_equal(first[key], before[key])
        # Going on is starting new episodes.
        following = collector.next()
        assert collector.partial_batch is None
        assert (following["step_count"][:, 0] == 0).all()
        assert (following["collector", "traj_ids"][:, 0] > whole["collector", "traj_ids"].max()).all()


def test_nan_can_be_let_pass():
    (td,) = batches(faulty("nan"), frames_per_batch=80, total_frames=80, allow_nan=True)
    assert np.isnan(td["next", "observation"][2, 7, 1])
    assert np.isnan(td["next", "observation"]).sum() == 1

    class Blind(Counting):
        def observe(self):
            return np.full(3, np.nan, np.float32)

    (td,) = batches(SyncVectorEnv([Blind, Counting]), frames_per_batch=80, total_frames=80, allow_nan=True)
    assert np.isnan(td["observation"][0]).all()
    assert not np.isnan(td["observation"][1]).any()
    with pytest.raises(EnvError, match="environment 0 failed at step 0: gave an observation of NaN"):
        batches(SyncVectorEnv([Blind, Counting]))


def test_nan_at_the_start_of_an_episode():
    class Broken(Counting):
        def reset(self, **keywords):
            obs, info = super().reset(**keywords)
            return obs * (np.nan if self.episode == 1 else 1), info

    for mode in MODES:
        collector = Collector(SyncVectorEnv([Counting, Broken], autoreset_mode=mode), frames_per_batch=40)
        with pytest.raises(EnvError, match="gave an observation of NaN") as caught:
            collector.next()
        assert caught.value.index == 1
        # The step that ended the episode was made; with SAME_STEP it is what failed.
        assert caught.value.frames.shape == (2, 3 if mode == AutoresetMode.SAME_STEP else 4)


def test_a_reset_that_fails():
    class Unready(Counting):
        def reset(self, **keywords):
            raise OSError("no current")

    collector = Collector(SyncVectorEnv([Counting, Unready]), frames_per_batch=8)
    with pytest.raises(
        EnvError, match="environment 1 failed at step 0: reset raised OSError: no current"
    ) as caught:
        collector.next()
    assert caught.value.frames is None
    assert isinstance(caught.value.__cause__, OSError)


def test_hanging():
    Faulty.released.clear()
    collector = Collector(faulty("hang"), frames_per_batch=40, timeout=0.1)
    with pytest.raises(
        EnvError, match=r"environment 2 failed at step 7: step gave no answer within 0\.1 sec"
    ) as caught:
        collector.next()
    assert caught.value.frames.shape == (4, 7)
    raises(EnvError, "given up has not returned", lambda: collector.next())
    Faulty.released.set()
    collector.shutdown()


def test_interrupts_lose_no_frame():
    calls = []

    def policy(td):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return td.set("action", np.zeros(4, np.int64))

    collector = Collector(SyncVectorEnv(makers()), policy, frames_per_batch=40)
    raises(KeyboardInterrupt, "", lambda: collector.next())
    for i, lengths in enumerate(LENGTHS):
        assert_row(collector.partial_batch[i], i, lengths, 3)
    assert (collector.next()["step_count"][:, 0] == 0).all()
