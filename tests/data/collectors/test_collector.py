import copy
import io
import json
import pickle
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.cases import raises
from helpers.compared import assert_same
from helpers.data.environments import Counting, NativeCounting, Spaces, makers

from lite import TensorDict, enable_grad, nn
from lite.data import Collector, StepCounter
from lite.envs import GymEnv, SerialEnv

KEYS = {
    "observation", "action", "step_count", "done", "terminated", "truncated", ("collector", "traj_ids"),
    *(("next", key) for key in ("observation", "reward", "step_count", "done", "terminated", "truncated")),
}  # fmt: skip


def cartpoles(count=2, **keywords):
    return gymnasium.make_vec("CartPole-v1", count, vectorization_mode="sync", **keywords)


def test_layout():
    (td,) = Collector(cartpoles(3), frames_per_batch=12, total_frames=12)
    assert td.shape == (3, 4)
    assert set(td.keys(True, True)) == KEYS
    dtypes = {key: (td[key].dtype, td[key].shape[2:]) for key in td.keys(True, True)}
    for prefix in ((), ("next",)):
        assert dtypes[(*prefix, "observation") if prefix else "observation"] == (np.float32, (4,))
        assert dtypes[(*prefix, "step_count") if prefix else "step_count"] == (np.int64, (1,))
        for name in ("done", "terminated", "truncated"):
            assert dtypes[(*prefix, name) if prefix else name] == (np.bool_, (1,))
    assert dtypes["action"] == (np.int64, ())
    assert dtypes["next", "reward"] == (np.float32, (1,))
    assert dtypes["collector", "traj_ids"] == (np.int64, ())
    for key in td.keys(True, True):
        assert td[key].flags.c_contiguous
        assert td[key].flags.writeable


def test_frames_per_batch_is_rounded_up():
    for asked, given in ((8, 8), (7, 8), (1, 4)):
        collector = Collector(cartpoles(4), frames_per_batch=asked, total_frames=17)
        assert (collector.frames_per_batch, collector.requested_frames_per_batch) == (given // 4, given)
        frames = [td.numel() for td in collector]
        assert set(frames) == {given}
        assert sum(frames) >= 17 > sum(frames) - given
        assert list(collector) == []
        assert collector.next() is None
        assert collector.closed
        assert collector.env.closed


def test_without_an_end():
    collector = Collector(cartpoles(), frames_per_batch=4)
    for _, td in zip(range(5), collector, strict=False):
        assert td.shape == (2, 2)
    assert collector.stats()["frames"] == 20
    assert "completed" not in collector.stats()
    collector.shutdown()
    collector.shutdown()
    raises(RuntimeError, "was shut down", lambda: collector.next())


def test_values_are_collected_where_gradients_are_recorded():
    def run():
        policy = nn.TensorDictModule(nn.Linear(4, 2, rng=0), ["observation"], ["logits"])
        act = nn.TensorDictModule(lambda x: np.argmax(x, -1), ["logits"], ["action"])
        policy = nn.TensorDictSequential(policy, act)
        return list(Collector(cartpoles(), policy, frames_per_batch=8, total_frames=16, seed=0))

    plain = run()
    with enable_grad():
        recorded = run()
    for ours, other in zip(recorded, plain, strict=True):
        assert_same(ours, other)


def test_a_batch_is_good_until_the_next_but_one():
    def run(**keywords):
        env = SyncVectorEnv(makers())
        return Collector(env, frames_per_batch=20, total_frames=80, seed=0, **keywords)

    copies = list(run(copy=True))
    data = iter(run())
    first = next(data)
    second = next(data)
    assert_same(first, copies[0])
    first["extra"] = np.zeros(first.shape)  # leaves no trace
    first["done"][:] = True
    third = next(data)
    assert_same(second, copies[1])
    assert_same(third, copies[2])
    assert np.shares_memory(first["observation"], third["observation"])
    assert not np.shares_memory(first["observation"], second["observation"])


def test_as_many_batches_as_the_frames_take():
    for total, batches in ((0, 0), (1, 1), (6, 1), (7, 2)):
        assert len(list(Collector(cartpoles(3), frames_per_batch=6, total_frames=total))) == batches


def test_seeds():
    runs = [
        list(Collector(cartpoles(), frames_per_batch=40, total_frames=120, seed=seed, copy=True))
        for seed in (5, 5, 6)
    ]
    for one, two in zip(*runs[:2], strict=True):
        assert_same(one, two)
    assert (runs[0][0]["observation"] != runs[2][0]["observation"]).any()
    # An environment has the seed after the one before it.
    np.testing.assert_array_equal(runs[0][0]["observation"][1, 0], runs[2][0]["observation"][0, 0])
    collector = Collector(cartpoles(3), frames_per_batch=6)
    assert collector.set_seed(5) == 7
    assert collector.set_seed(5, static_seed=True) == 5
    first = collector.next()["observation"][:, 0]
    np.testing.assert_array_equal(first, np.broadcast_to(first[:1], (3, 4)))


def test_vectors_that_step_as_one_take_a_seed():
    def run():
        env = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point")
        return Collector(env, frames_per_batch=300, total_frames=300, seed=3)

    one, two = run().next(), run().next()
    assert_same(one, two)
    mask = one["collector", "mask"]
    assert not mask.all()
    done = one["next", "terminated"][..., 0]
    np.testing.assert_array_equal(mask[:, 1:], ~done[:, :-1])
    assert (np.abs(one["observation"][:, 2:][~mask[:, 1:-1]]) < 0.06).all()


def test_random_frames_come_first():
    calls = []

    def policy(td):
        calls.append(td.shape)
        return td.update({"action": np.ones(2, np.int64), "log_prob": np.full((2, 1), -1.0)})

    collector = Collector(
        cartpoles(), policy, frames_per_batch=10, total_frames=40, init_random_frames=15, copy=True, seed=1
    )
    parts = list(collector)
    assert len(calls) == 1 + 10
    for part in parts[:2]:
        assert 0 < part["action"].sum() < 10
        assert (part["log_prob"] == 0).all()
    for part in parts[2:]:
        assert (part["action"] == 1).all()
        assert (part["log_prob"] == -1).all()


def test_random_frames_forget_what_was_written_to_batches():
    def policy(td):
        return td.update({"action": np.ones(2, np.int64), "log_prob": np.full((2, 1), -1.0)})

    for part in Collector(cartpoles(), policy, frames_per_batch=10, total_frames=40, init_random_frames=40):
        assert (part["log_prob"] == 0).all()
        part["log_prob"][...] = 7


def test_the_states_of_a_recurrent_policy_hold_still_in_random_frames():
    def policy(td):
        memory = td.get("memory", np.zeros((2, 1)))
        return td.update({"action": np.zeros(2, np.int64), ("next", "memory"): memory + 1})

    collector = Collector(
        SyncVectorEnv(makers([(100,), (3,)])), policy, frames_per_batch=10, total_frames=20,
        init_random_frames=10, copy=True,
    )  # fmt: skip
    first, second = collector
    assert (first["memory"] == 0).all()
    np.testing.assert_array_equal(second["memory"][0, :, 0], np.arange(5))


def test_modules_as_policies():
    net = nn.Linear(4, 3, rng=0)
    module = nn.TensorDictModule(lambda x: net(x).argmax(-1), ["observation"], ["action"])
    collector = Collector(cartpoles(), module, frames_per_batch=6)
    td = collector.next()
    np.testing.assert_array_equal(td["action"], net(td["observation"]).argmax(-1))

    pendulum = gymnasium.make_vec("Pendulum-v1", 2, vectorization_mode="sync")
    net = nn.Sequential(nn.Linear(3, 1, rng=0), nn.Tanh())
    td = Collector(pendulum, net, frames_per_batch=6).next()
    np.testing.assert_allclose(td["action"], net(td["observation"]), rtol=1e-6, atol=1e-6)


def test_exploration():
    from lite.nn.distributions import Categorical

    policy = nn.ProbabilisticTensorDictSequential(
        nn.TensorDictModule(lambda x: np.zeros((*x.shape[:-1], 2)) + [0, 1], ["observation"], ["logits"]),
        nn.ProbabilisticTensorDictModule(
            ["logits"], ["action"], distribution_class=Categorical, return_log_prob=True, generator=0
        ),
    )
    td = Collector(cartpoles(), policy, frames_per_batch=100).next()
    assert 20 < td["action"].sum() < 99
    assert td["action_log_prob"].shape == (2, 50)
    td = Collector(cartpoles(), policy, frames_per_batch=100, exploration_type="mode").next()
    assert (td["action"] == 1).all()


def test_weights_of_a_policy_without_keys_have_its_names():
    """So have those that a `MultiCollector` sends to its processes."""
    policy, other = (nn.Sequential(nn.Linear(3, 1, rng=seed), nn.Tanh()) for seed in range(2))
    collector = Collector(gymnasium.make("Pendulum-v1"), policy, frames_per_batch=4)
    for source in (other, TensorDict.from_module(other), TensorDict.from_module(other).data.to_dict()):
        policy[0].weight.data[...] = 0
        collector.update_policy_weights_(source)
        np.testing.assert_array_equal(policy[0].weight.data, other[0].weight.data)


def test_weights_are_copied():
    policy = nn.Sequential(nn.Linear(3, 1, rng=0), nn.Tanh())
    other = nn.Sequential(nn.Linear(3, 1, rng=1), nn.Tanh())
    env = gymnasium.make("Pendulum-v1")
    collector = Collector(
        env, nn.TensorDictModule(policy, ["observation"], ["action"]), frames_per_batch=4, seed=0,
        track_policy_version=True,
    )  # fmt: skip
    array = policy[0].weight.data
    first = collector.next().clone()
    assert (first["policy_version"] == 0).all()
    collector.update_policy_weights_(nn.TensorDictModule(other, ["observation"], ["action"]))
    assert policy[0].weight.data is array
    np.testing.assert_array_equal(array, other[0].weight.data)
    td = collector.next()
    np.testing.assert_allclose(td["action"], other(td["observation"]), rtol=1e-5)
    assert (td["policy_version"] == 1).all()
    assert td["policy_version"].shape == (4,)
    weights = TensorDict.from_module(collector.policy).data.clone() * 0
    collector.update_policy_weights_(weights)
    np.testing.assert_array_equal(array, 0)
    collector.update_policy_weights_(
        {key: np.full_like(x, 2) for key, x in collector.policy.state_dict().items()}
    )
    np.testing.assert_array_equal(array, 2)
    collector.update_policy_weights_(weights=(weights + 1).to_dict())
    np.testing.assert_array_equal(array, 1)
    collector.update_policy_weights_()
    collector.update_policy_weights_(policy=collector.policy)
    assert collector.policy_version == collector.stats()["policy_version"] == 6
    raises(ValueError, "give one of", lambda: collector.update_policy_weights_(weights, weights=weights))
    with pytest.raises(TypeError, match="weights must be a Module, a TensorDict or a dict, got int"):
        collector.update_policy_weights_(3)
    update, kept = collector.update_policy_weights_, array.copy()
    raises(KeyError, r"they lack .*'bias'\)\] and have \['other'\]", update, TensorDict(other=1))
    raises(
        KeyError, r"they lack \[\('module', '0', 'bias'\)\]", update, weights.exclude(("module", "0", "bias"))
    )
    one = (weights + 7).apply(lambda x: x[..., :1])  # would fill the rows
    raises(ValueError, r"'weight'\) has the shape \(1, 1\), in the policy \(1, 3\)", update, one)
    np.testing.assert_array_equal(array, kept)
    with pytest.raises(TypeError, match="the policy must be a Module"):
        Collector(env, frames_per_batch=4).update_policy_weights_(weights)
    assert collector.policy_version == 6


def test_hooks_and_what_comes_after_collecting():
    calls = []

    class Policy:
        def register_collector(self, collector):
            calls.append(("register", collector))

        def __call__(self, td):
            return td.set("action", np.zeros(4, np.int64))

    class Buffer:
        def extend(self, td):
            calls.append(("extend", td))

    def postproc(td):
        calls.append(("postproc", td.shape))
        return td.reshape(-1)

    collector = Collector(
        SyncVectorEnv(makers()), Policy(), frames_per_batch=20, total_frames=40, postproc=postproc,
        pre_collect_hook=lambda: calls.append(("before", None)),
        post_collect_hook=lambda td: calls.append(("after", td.shape)), replay_buffer=Buffer(),
    )  # fmt: skip
    assert calls == [("register", collector)]
    assert list(collector) == [None, None]
    assert [name for name, _ in calls[1:]] == ["before", "postproc", "after", "extend"] * 2
    assert calls[2] == ("postproc", (4, 5))
    assert calls[3] == ("after", (20,))
    assert calls[4][1].shape == (20,)
    assert not np.shares_memory(calls[4][1]["observation"], calls[8][1]["observation"])


def test_split_trajectories_of_marked_steps():
    env = NativeCounting(AutoresetMode.NEXT_STEP, [(4,), (4,)])
    (split,) = Collector(env, frames_per_batch=20, total_frames=16, split_trajs=True)
    # Four steps, one that restarts, four steps, and one that does.
    assert split.shape == (4, 4)
    np.testing.assert_array_equal(split["step_count"][..., 0], np.broadcast_to(np.arange(4), (4, 4)))
    np.testing.assert_array_equal(split["collector", "traj_ids"][:, 0], [0, 2, 1, 3])


def test_new_episodes_at_each_batch():
    collector = Collector(
        SyncVectorEnv(makers()), frames_per_batch=20, total_frames=60, reset_at_each_iter=True,
        set_truncated=True, copy=True,
    )  # fmt: skip
    parts = list(collector)
    for part in parts:
        assert (part["step_count"][:, 0] == 0).all()
        assert part["next", "truncated"][:, -1].all()
        assert part["next", "done"][:, -1].all()
        assert not part["next", "done"][3, :-1].any()
    assert len({part["collector", "traj_ids"][3, 0] for part in parts}) == 3


def test_without_ids():
    td = Collector(SyncVectorEnv(makers()), frames_per_batch=20, track_traj_ids=False).next()
    assert "collector" not in td


def test_statistics():
    collector = Collector(SyncVectorEnv(makers([(4,), (2, 6)])), frames_per_batch=20, total_frames=80)
    assert collector.stats() == {
        "frames": 0, "batches": 0, "requested_frames_per_batch": 20, "policy_version": 0,
        "total_frames": 80, "completed": False, "episodes": 0,
    }  # fmt: skip
    for _ in collector:
        pass
    stats = collector.stats()
    # 40 steps of each: episodes of 4; and of 2 and 6 in turn.
    assert (stats["frames"], stats["batches"], stats["completed"], stats["episodes"]) == (80, 4, True, 20)
    assert stats["episode_length_mean"] == 4.0
    returns = [40 * e + 10 for e in range(10)] + [
        10 * e * n + n * (n + 1) / 2 for e in range(10) for n in [(2, 6)[e % 2]]
    ]
    assert stats["episode_reward_mean"] == pytest.approx(np.mean(returns))


def test_resuming():
    policy = nn.Sequential(nn.Linear(3, 1, rng=0), nn.Tanh())

    def run(seed):
        env = gymnasium.make_vec("Pendulum-v1", 2, vectorization_mode="sync", max_episode_steps=7)
        module = nn.TensorDictModule(policy, ["observation"], ["action"])
        return Collector(env, module, frames_per_batch=20, total_frames=100, seed=seed, copy=True)

    collector = run(3)
    data = iter(collector)
    before = [next(data) for _ in range(3)]
    state = collector.state_dict()
    text = json.dumps({name: value for name, value in state.items() if name != "policy_state_dict"})
    state = json.loads(text) | {
        "policy_state_dict": {k: v.copy() for k, v in state["policy_state_dict"].items()}
    }
    runs = []
    for _ in range(2):
        policy[0].weight.data[...] = 0
        other = run(None)
        other.load_state_dict(state)
        assert policy[0].weight.data.any()
        assert other.stats() == collector.stats()
        runs.append(list(other))
    assert [td.numel() for td in runs[0]] == [20, 20]
    for one, two in zip(*runs, strict=True):
        assert_same(one, two)
    rest = runs[0]
    assert rest[0]["collector", "traj_ids"].min() > before[-1]["collector", "traj_ids"].max()
    assert (rest[0]["step_count"][:, 0] == 0).all()
    starts = np.concatenate([td["observation"][:, 0] for td in (before[0], rest[0])])
    assert len(np.unique(starts, axis=0)) == 4  # other episodes than at first
    raises(KeyError, "frames", lambda: run(3).load_state_dict({}))
    weight = policy[0].weight.data
    kept = weight.copy()
    for part, expected in ((state, kept), ({k: v for k, v in state.items() if k != "policy_state_dict"}, 0)):
        weight[...] = 0
        run(3).load_state_dict(part, strict=False)
        np.testing.assert_array_equal(weight, expected)


def test_the_bar(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    collector = Collector(cartpoles(), frames_per_batch=100, total_frames=300, progress=True)
    assert len(list(collector)) == 3
    last = stream.getvalue().split("\r")[-1]
    assert last.startswith("300/300 [#")
    mean = collector.stats()["episode_reward_mean"]
    assert last.rstrip().endswith(f" frames/s, reward {mean:.4g}")  # spaces hide a longer line
    with pytest.raises(ValueError, match="progress needs total_frames"):
        Collector(cartpoles(), frames_per_batch=10, progress=True)


def test_as_a_context():
    with Collector(cartpoles(), frames_per_batch=10) as collector:
        td = collector.next()
    assert collector.env.closed
    assert np.isfinite(td["observation"]).all()
    with Collector(cartpoles(), frames_per_batch=10) as collector:
        collector.shutdown(close_env=False)
    assert not collector.env.closed


def test_arguments():
    for options, kind, message in (
        ({"create_env_fn": 3}, TypeError, "create_env_fn must be an environment or make one, got int"),
        ({"policy": 3}, TypeError, "policy must be callable or None, got int"),
        ({"frames_per_batch": 0}, ValueError, "frames_per_batch must be at least 1, got 0"),
        ({"frames_per_batch": 2.5}, TypeError, "frames_per_batch must be an integer"),
        ({"total_frames": 2.5}, TypeError, "total_frames must be an"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
        ({"timeout": 0}, ValueError, "timeout must be above 0"),
        ({"transforms": [3]}, TypeError, "must be StepTransforms, got int"),
        ({"max_frames_per_traj": 3, "transforms": [StepCounter()]}, ValueError,
            "give max_frames_per_traj or a StepCounter"),
        ({"create_env_fn": NativeCounting(AutoresetMode.NEXT_STEP), "max_frames_per_traj": 3}, ValueError,
            "max_frames_per_traj needs environments that restart one by one"),
    ):  # fmt: skip
        raises(kind, message, Collector, **{"create_env_fn": Counting(), "frames_per_batch": 2} | options)


def test_an_infinite_action_space_cannot_be_drawn_from():
    env = Spaces(gymnasium.spaces.Discrete(2), gymnasium.spaces.Box(0, np.inf, (2,)))
    raises(ValueError, "rand needs finite bounds", lambda: Collector(env, frames_per_batch=2).next())


def test_gymnasium_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r'Collector needs gymnasium: pip install -e "\.\[gym\]" in a chec'):
        Collector(type("Env", (), {"step": None}), frames_per_batch=1)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"]
)
def test_a_copy_goes_on_by_itself(copied):
    collector = Collector(GymEnv("CartPole-v1"), frames_per_batch=50, total_frames=150, seed=0)
    collector.next()
    other = copied(collector)
    assert collector.env.collector is collector
    assert other.env.collector is other
    for _ in range(2):
        a, b = collector.next(), other.next()
        assert a["next", "done"].any()
        assert_same(a, b)


def test_names_that_begin_with_an_underscore_are_the_policys_alone():
    seen = []

    def policy(td):
        td["_count"] = td.get("_count", np.zeros(2, np.int64)) + 1
        td["agents"] = TensorDict({"_hidden": td["_count"] * 1.0, "shown": td["_count"] * 2}, [2])
        seen.append(td["_count"].tolist())
        return td.set("action", np.zeros(2, np.int64))

    env = SerialEnv(2, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True))
    added = []
    collector = Collector(
        env, policy, frames_per_batch=6, total_frames=12, seed=0,
        postproc=lambda td: added.append("_count" in td) or td.set("_of_the_batch", td["action"]),
    )  # fmt: skip
    for td in collector:
        names = {part for key in td.keys(True, True) for part in (key if isinstance(key, tuple) else (key,))}
        assert "shown" in names
        assert not any(name.startswith("_") for name in names)
    assert seen == [[n, n] for n in range(1, 7)]  # from batch to batch
    assert added == [True, True]
