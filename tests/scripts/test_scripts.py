"""TorchRL's scripts and tutorials on lite: in a short form, each does to its networks what it is to do."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.watched_training import Training, noted_losses, seed_entropy

FOLDER = Path(__file__).parent
ACTOR, QVALUE = ("loss_actor", "actor_network_params"), ("loss_qvalue", "qvalue_network_params")
CRITIC, VALUE = ("loss_critic", "critic_network_params"), ("loss_value", "value_network_params")
STEPS = {"frames_per_batch": 10, "total_frames": 210, "init_random_frames": 200}
PENDULUM, CARTPOLE = (-200 * 16.3, -200.0), (8.0, 100.0)  # returns of an episode before anything is learnt


@dataclass(frozen=True)
class Short:
    """A short run, and what it is to do.

    Attributes:
        arguments: of `main`.
        returns: the lowest and the highest of an episode.
        episodes: that end, where it is known.
        steps: of each optimiser, in the order in which the script makes them.
        falls: losses of the frames that were met, and the networks whose learning lowers them.
        targets: steps of the updater, and the share that the targets move by, or how many steps are between.
        explores: how much in the end.
        batch: what losses are taken of: all frames, those of the last batch, or what the buffer has.
    """

    arguments: dict[str, Any]
    returns: tuple[float, float]
    steps: tuple[int, ...]
    falls: tuple[tuple[str, str], ...]
    episodes: int | None = None
    targets: tuple[int, float] | None = None
    explores: dict[str, float] = field(default_factory=dict)
    batch: str = "frames"


SHORT = {
    "a2c": Short(
        {"total_frames": 256, "frames_per_batch": 256},  # one batch: the next has advantages of its own
        PENDULUM,
        episodes=1,
        steps=(4, 4),
        falls=(("loss_objective", "actor_network_params"), CRITIC),
        batch="buffer",
    ),
    "crossq": Short(
        {"frames_per_batch": 10, "total_frames": 230, "init_random_frames": 220},
        PENDULUM,
        episodes=1,
        steps=(20,),
        falls=(ACTOR,),  # the values of the next frames, which are no targets, move along with its own
    ),
    "ddpg": Short(
        STEPS,
        PENDULUM,
        episodes=1,
        steps=(20, 20),
        falls=(VALUE, ACTOR),
        targets=(20, 0.005),
        explores={"eps": 1 - 0.9 * 210 / 1_000_000},
    ),
    "discrete_iql": Short(
        STEPS,
        CARTPOLE,
        steps=(20,),
        # of actions as likely as here, the weights of its actor's loss change with both
        falls=(QVALUE, VALUE),
        targets=(20, 10),
    ),
    "discrete_sac": Short(
        {**STEPS, "utd_ratio": 0.5}, CARTPOLE, steps=(10, 10, 10), falls=(QVALUE, ACTOR), targets=(10, 0.005)
    ),
    "dqn_cartpole": Short(
        {"frames_per_batch": 20, "total_frames": 460, "init_random_frames": 440, "num_updates": 30},
        CARTPOLE,
        steps=(60,),
        falls=(("loss", "value_network_params"),),
        targets=(60, 50),
        explores={"eps": 0.05},
    ),
    "dqn_with_rnn": Short(
        {"total_frames": 400, "begin": 350, "utd": 4},
        CARTPOLE,
        steps=(8,),
        falls=(("loss", "value_network_params"),),
        targets=(2, 0.05),
        explores={"eps": 0.2 - 0.1 * 100 / 400},
        batch="last",
    ),
    "mappo_ippo": Short(
        {"total_frames": 600, "frames_per_batch": 600, "max_steps": 20, "epochs": 4, "minibatch_size": 150},
        (-20 * 0.2, 8**0.5),  # each step beside both others, or from one corner to the goal in another
        episodes=1,  # the mean of those of a batch
        steps=(16,),
        falls=(("loss_objective", "actor_network_params"), CRITIC),
        batch="buffer",
    ),
    "ppo_continuous": Short(
        {"total_frames": 256, "frames_per_batch": 256, "epochs": 2},
        PENDULUM,
        episodes=1,
        steps=(8, 8),
        falls=(("loss_objective", "actor_network_params"), CRITIC),
        batch="buffer",
    ),
    "redq": Short(
        {**STEPS, "total_frames": 200},
        PENDULUM,
        episodes=1,
        steps=(10,),
        falls=(QVALUE, ACTOR),
        targets=(10, 0.005),
    ),
    "reinforce": Short(
        {"total_frames": 400, "frames_per_batch": 100},
        CARTPOLE,
        steps=(4,),
        falls=(("loss_actor", "actor_network_params"), ("loss_value", "critic_network_params")),
        batch="last",
    ),
    "sac": Short(
        {**STEPS, "frames_per_batch": 5, "total_frames": 205},
        PENDULUM,
        episodes=1,
        steps=(10, 10, 10),
        falls=(QVALUE, ACTOR),
        targets=(10, 0.005),
    ),
    "td3": Short(
        {**STEPS, "utd_ratio": 0.5},
        PENDULUM,
        episodes=1,
        steps=(5, 10),  # the actor at each second step, after a critic that moves
        falls=(QVALUE,),
        targets=(5, 0.005),
        explores={"sigma": 1.0},
    ),
}
COMPILED = (
    *(
        "a2c", "crossq", "ddpg", "discrete_iql", "discrete_sac", "dqn_cartpole", "mappo_ippo",
        "ppo_continuous",
    ),
    *("redq", "sac", "td3"),
)  # fmt: skip
OFFLINE = {
    "iql": (QVALUE, VALUE, ACTOR),
    "cql": (QVALUE, ACTOR),
    "td3_bc": (QVALUE,),  # its actor follows a critic that moves
}


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))  # redq shares the networks of sac
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, found)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a script to its end, in a folder of its own: its names."""
    monkeypatch.chdir(tmp_path)
    seed_entropy(monkeypatch, 0)
    return lambda name: runpy.run_path(str(FOLDER / f"{name}.py"))


def test_the_page_of_environments(page: Any) -> None:
    names = page("getting_started_envs")
    assert names["transition"]["action"] == names["env"].action_spec.project(names["transition"]["action"])
    np.testing.assert_array_equal(names["data"]["observation"], names["stepped_data"]["next", "observation"])
    np.testing.assert_array_equal(names["rollout"]["next", "truncated"].ravel(), [False] * 9 + [True])


def test_the_page_of_modules(page: Any) -> None:
    names = page("getting_started_modules")
    means, drawn = names["mean_rollout"], names["drawn_rollout"]
    np.testing.assert_array_equal(means["action"], means["loc"])
    assert (drawn["action"] != drawn["loc"]).all()
    greedy, exploring = (names[name]["action"].ravel() for name in ("greedy_rollout", "exploring_rollout"))
    assert np.ptp(exploring) > 1 > np.ptp(greedy)  # random actions are from -2 to 2
    best = names["q_rollout"]["action_value"].argmax(-1)
    np.testing.assert_array_equal(names["q_rollout"]["action"].argmax(-1), best)


@pytest.mark.filterwarnings("ignore:the loss has target parameters")  # the page makes its updater later
def test_the_page_of_optimisation(page: Any) -> None:
    names = page("getting_started_optim")
    before, after = names["loss_vals"].detach(), names["ddpg_loss"](names["rollout"])
    assert (after["pred_value"] != before["pred_value"]).all()
    assert after["loss_actor"] != before["loss_actor"]
    assert (names["actor"](names["rollout"].clone())["action"] != names["rollout"]["action"]).all()
    state = names["ddpg_loss"].state_dict()
    targets = [name for name in state if name.startswith("target_")]
    assert len(targets) == 6  # of the values alone
    for name in targets:
        np.testing.assert_array_equal(state[name], state[name.removeprefix("target_")])


def test_the_page_of_storage(page: Any) -> None:
    names = page("getting_started_storage")
    data, sample = names["data"], names["sample"]
    assert sample.batch_size == (30,)
    row = np.flatnonzero((data["observation"] == sample["observation"][0]).all(-1))[0]
    np.testing.assert_array_equal(data["next", "observation"][row], sample["next", "observation"][0])
    ends = data["next", "done"].ravel()
    np.testing.assert_array_equal(np.diff(data["collector", "traj_ids"]), ends[:-1])


def test_the_page_of_logging(page: Any, tmp_path: Path) -> None:
    page("getting_started_logging")
    (rewards,) = tmp_path.rglob("reward.csv")
    assert rewards.read_text() == "0,1.0\n1,1.0\n2,1.0\n"


def test_the_first_training_loop_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    seed_entropy(monkeypatch, 0)
    script = module("getting_started_training", monkeypatch)
    longest, lengths = script.main(init_rand_steps=300, long_enough=45)
    assert longest > 45
    assert np.mean(lengths[:10]) < 30


@pytest.mark.filterwarnings("ignore:no dimension is called 'time'")  # as TorchRL's does
def test_replay_buffers(page: Any) -> None:
    names = page("replay_buffers")
    sample = names["sample"]
    assert (sample["episode"].reshape(4, 2) == sample["episode"].reshape(4, 2)[:, :1]).all()
    assert (np.diff(sample["steps"].reshape(4, 2)) == 1).all()
    assert names["s"]["pixels_trsf"].shape == (1, 10, 4, 1, 32, 24)


def test_recurrent_sequences(page: Any) -> None:
    names = page("recurrent_sequences")
    data, losses = names["data"], names["losses"]
    begins = np.roll(data["next", "done"], 1)
    begins[0] = True
    np.testing.assert_array_equal(data["is_init"], begins)
    inside = ~begins[1:, 0]  # an episode starts from no state, and goes on from the one before
    np.testing.assert_array_equal(data["rs_h"][1:][inside], data["next", "rs_h"][:-1][inside])
    np.testing.assert_array_equal(data["rs_h"][begins[:, 0]], 0)
    assert np.abs(names["both"][:, : names["frames"]] - names["second"]).max() > 1e-2
    assert losses[-1] < losses[0]


def test_tasks_side_by_side(page: Any) -> None:
    names = page("multi_task")
    for td in (names["rollout"], names["stepped"], names["tdreset"]):
        for row, planet, other, head in zip(
            td.unbind(0), ("earth", "moon"), ("moon", "earth"), names["heads"], strict=True
        ):
            np.testing.assert_array_equal(row[f"observation_{planet}"], row["observation"])
            assert f"observation_{other}" not in row
            hidden = names["policy_common"].module(row["observation"])
            action = head.module(row["observation"], hidden)
            np.testing.assert_allclose(row["action"], action, rtol=1e-5, atol=1e-6)
    assert names["rollout"].batch_size == (2, 5)


def test_trajectories(page: Any) -> None:
    names = page("trajectories")
    data, split = names["data"], names["split_data"]
    lengths = np.bincount(data["collector", "traj_ids"])
    np.testing.assert_array_equal(split["collector", "mask"].sum(-1), lengths)
    assert split.shape == (len(lengths), max(lengths))
    for row, length in enumerate(lengths):
        first = lengths[:row].sum()
        np.testing.assert_array_equal(
            split["observation"][row, :length], data["observation"][first : first + length]
        )
    for episodes in (names["traj_data"], names["traj_data_cat"]):
        assert episodes["next", "done"].sum() == 5
    for sample in (names["sample"], names["sample_async"]):
        after, following = sample["next", "observation"][:-1], sample["observation"][1:]
        assert (after != following).any(-1).sum() <= 1  # two slices
        assert len(sample) >= 16


def marked(names: Iterable[str], *standing_for_all: str) -> list[Any]:
    """The names, of which some stand for all, and the others are a grid."""
    return [pytest.param(one, marks=[] if one in standing_for_all else pytest.mark.grid) for one in names]


@pytest.mark.parametrize("name", marked(SHORT, "dqn_cartpole", "dqn_with_rnn", "mappo_ippo", "sac"))
def test_a_training_script(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script, short = module(name, monkeypatch), SHORT[name]
    training = Training(script, monkeypatch)
    evaluated, met, *_ = script.main(**short.arguments)
    returns = [evaluated, *met]
    assert all(short.returns[0] <= value <= short.returns[1] for value in returns)
    assert short.episodes in (None, len(returns) - 1)
    training.check_steps(*short.steps)
    training.check_all_learnt()
    if short.targets is not None:
        training.check_targets_follow(*short.targets)
    for exploration in training.explorations:
        for amount, value in short.explores.items():
            assert float(getattr(exploration, amount)) == pytest.approx(value)
    assert len(training.explorations) == bool(short.explores)
    batches = {"frames": training.frames, "last": lambda: training.collected[-1]}
    batch = training.buffers[0][:] if short.batch == "buffer" else batches[short.batch]()
    for loss, network in short.falls:
        before, after = training.values(loss, network, batch)
        assert after < before, loss


@pytest.mark.parametrize("name", marked((*COMPILED, *OFFLINE), "dqn_cartpole"))
def test_a_training_script_as_a_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`compile=True` learns the same, to rounding."""
    fewer = {"dqn_cartpole": {"num_updates": 10}, "crossq": {"frames_per_batch": 2, "total_frames": 222}}
    if name in OFFLINE:
        arguments = {"name": name, "gradient_steps": 10, "frames": 256}
    else:
        arguments = {**SHORT[name].arguments, **fewer.get(name, {})}
    found = []
    for compile in (False, True):
        script = module("offline" if name in OFFLINE else name, monkeypatch)
        losses = noted_losses(script, monkeypatch)
        seed_entropy(monkeypatch, 0)
        script.main(**arguments, compile=compile)
        found.append({key: np.array(value) for key, value in losses[0].state_dict().items()})
    plain, stepped = found
    assert plain.keys() == stepped.keys()
    for key, value in plain.items():
        noise = 1e-2 if name == "crossq" else 1e-3  # biases before batch norm have noise for gradients
        assert np.abs(stepped[key] - value).mean() < noise, key


@pytest.mark.depth
def test_a_training_script_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes of random actions have some 20 frames."""
    script = module("reinforce", monkeypatch)
    seed_entropy(monkeypatch, 0)
    _, returns, *_ = script.main(total_frames=5000, frames_per_batch=200)
    assert np.mean(returns[:20]) < 30
    assert np.mean(returns[-10:]) > 45


@pytest.mark.parametrize("loss", marked(OFFLINE, "td3_bc"))
def test_an_offline_script(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = module("offline", monkeypatch)
    training = Training(script, monkeypatch)
    reward, _ = script.main(loss, gradient_steps=10, frames=256)
    assert PENDULUM[0] <= reward <= PENDULUM[1]
    training.check_steps(10)
    training.check_all_learnt()
    training.check_targets_follow(10, 0.005)
    for name, network in OFFLINE[loss]:
        before, after = training.values(name, network, training.buffers[0][:])
        assert after < before, name
