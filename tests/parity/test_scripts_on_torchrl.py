"""Scripts of tests/scripts run on TorchRL's classes, too: what `bench/scripts_learning.py` compares."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensordict
import torch
from helpers import bench_files
from helpers.cases import each_case
from torchrl.data.replay_buffers.samplers import prioritized

from lite import TensorDict
from lite.envs import Resize

pytestmark = pytest.mark.filterwarnings("ignore")  # of torchrl
# The loss, its own arguments, and how often a batch is gone through.
LOCKSTEP: dict[str, tuple[Any, ...]] = {
    "a2c": ("A2CLoss", {}, 1),
    "ppo_continuous": ("ClipPPOLoss", {"clip_epsilon": 0.2, "normalize_advantage": True}, 2),
}
SCRIPTS = (
    "a2c", "crossq", "ddpg", "discrete_iql", "discrete_sac", "dqn_cartpole", "dqn_with_rnn",
    "getting_started_training", "mappo_ippo", "offline", "ppo_continuous", "redq", "reinforce", "sac", "td3",
)  # fmt: skip
PAGES = (
    *("getting_started_envs", "getting_started_logging", "getting_started_modules", "getting_started_optim"),
    *("getting_started_storage", "multi_task", "recurrent_sequences", "replay_buffers", "trajectories"),
)
SHORT: dict[str, dict[str, Any]] = {
    "discrete_iql": {"total_frames": 60, "frames_per_batch": 10, "init_random_frames": 60},
    "dqn_cartpole": {"total_frames": 60, "frames_per_batch": 20, "init_random_frames": 40, "num_updates": 2},
    "mappo_ippo": {
        "total_frames": 60, "frames_per_batch": 60, "max_steps": 10, "epochs": 1, "minibatch_size": 30,
    },
}  # fmt: skip


@pytest.fixture
def on_torchrl(monkeypatch: pytest.MonkeyPatch) -> Any:
    return bench_files.imported("scripts_on_torchrl", monkeypatch)


@each_case("name", SCRIPTS)
def test_torchrl_has_the_names_of_a_script(name: str, on_torchrl: Any) -> None:
    module = on_torchrl.script(name, torchrl=True)
    classes = [found for found in vars(module).values() if isinstance(found, type)]
    assert classes
    assert {found.__module__.partition(".")[0] for found in classes} <= {
        name, "torch", "torchrl", "tensordict",
    }  # fmt: skip
    mine = [
        found for found in vars(on_torchrl.script(name, torchrl=False)).values() if isinstance(found, type)
    ]
    assert {found.__module__.partition(".")[0] for found in mine} - {name} == {"lite"}


@each_case("name", SHORT)
def test_a_script_runs_on_torchrl(name: str, on_torchrl: Any) -> None:
    reward, returns = on_torchrl.script(name, torchrl=True).main(**SHORT[name])
    assert np.isfinite(float(reward))
    lowest, highest = (-2, 2) if name == "mappo_ippo" else (8, 500)
    assert all(lowest <= value <= highest for value in returns)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_on_torchrl(name, on_torchrl, tmp_path, monkeypatch):
    """It asserts what it says."""
    for tree in ("SumSegmentTreeFp32", "SumSegmentTreeFp64", "MinSegmentTreeFp32", "MinSegmentTreeFp64"):
        monkeypatch.setattr(prioritized, tree, getattr(prioritized, tree))  # is put back after the test
    monkeypatch.chdir(tmp_path)
    names = vars(on_torchrl.script(name, torchrl=True))
    modules = {type(found).__module__.partition(".")[0] for found in names.values()}
    assert "torchrl" in modules
    assert "lite" not in modules


def test_a_resize_without_torchvision(on_torchrl: Any) -> None:
    theirs = on_torchrl._resize()(w=7, h=5, in_keys=["pixels"])
    pixels = torch.rand(2, 3, 1, 3, 10, 14)
    found = theirs(tensordict.TensorDict(pixels=pixels))["pixels"]
    assert found.shape == (2, 3, 1, 3, 7, 5)
    np.testing.assert_allclose(found, Resize(7, 5)(TensorDict(pixels=pixels.numpy()))["pixels"], atol=1e-6)


@pytest.mark.parametrize("name", LOCKSTEP)
def test_in_lockstep(name: str, on_torchrl: Any) -> None:
    """From the same networks, seeds, actions and order of samples: frames, losses and what is learnt.

    The seed is given before the collector: TorchRL's resets the environment when it is made, so that a later
    seed is that of its second episode.
    """
    frames, sides = 64, {}
    for side in ("torchrl", "lite"):
        script = on_torchrl.script(name, torchrl=side == "torchrl")
        module = SimpleNamespace(**(script.learn.__globals__ | vars(script)))
        env = module.make_env()
        env.set_seed(0)
        sides[side] = module, env, *module.make_models(env)
    (theirs, their_env, their_actor, their_critic) = sides["torchrl"]
    (ours, our_env, our_actor, our_critic) = sides["lite"]
    for there, here in ((their_actor, our_actor), (their_critic, our_critic)):
        here.load_state_dict({name: value.numpy().copy() for name, value in there.state_dict().items()})
    drawn: list[Any] = []

    def acting(td: Any) -> Any:
        action = drawn[0].pop(0)
        log_prob = our_actor.get_dist(td).log_prob(action)
        return our_actor(td).set("action", action).set("action_log_prob", log_prob)

    collectors = [
        module.Collector(env, policy, frames_per_batch=frames, total_frames=2 * frames)
        for module, env, policy in ((theirs, their_env, their_actor), (ours, our_env, acting))
    ]
    learners = [_learner(*side, *LOCKSTEP[name]) for side in sides.values()]
    rng = np.random.default_rng(0)
    for their_batch, _ in zip(collectors[0], range(2), strict=True):
        drawn[:] = [list(their_batch["action"].numpy())]
        our_batch = collectors[1].next()
        order = rng.permutation(frames).reshape(2, -1)
        losses = [
            learn(batch, order) for learn, batch in zip(learners, (their_batch, our_batch), strict=True)
        ]
        for key in ("observation", "loc", ("next", "episode_reward"), ("next", "step_count")):
            np.testing.assert_allclose(our_batch[key], their_batch[key].numpy(), atol=1e-4, err_msg=str(key))
        np.testing.assert_allclose(*losses, rtol=1e-4, atol=1e-5)  # PPO's objective is close to 0
    for name, value in our_actor.state_dict().items():
        np.testing.assert_allclose(value, their_actor.state_dict()[name].numpy(), atol=1e-5, err_msg=name)
    greedy = []
    for module, env, actor, _ in sides.values():
        with module.set_exploration_type(module.ExplorationType.DETERMINISTIC):
            greedy.append(np.asarray(env.rollout(50, actor)["next", "reward"]))
    np.testing.assert_allclose(*greedy, rtol=1e-3, atol=1e-3)


def _learner(
    module: Any, env: Any, actor: Any, critic: Any, loss_class: str, own: dict[str, Any], epochs: int
) -> Any:
    """What learns from a batch as the script does, in a given order; it gives the losses."""
    advantages = module.GAE(gamma=0.9, lmbda=0.95, value_network=critic, average_gae=False)
    words = {"loss_critic_type": "l2", "entropy_coeff": 0.0, "critic_coeff": 0.25, **own}
    loss_module = getattr(module, loss_class)(actor_network=actor, critic_network=critic, **words)
    optimisers = [module.Adam(network.parameters(), lr=3e-4) for network in (actor, critic)]

    @module.lite.enable_grad()
    def learn(batch: Any, order: Any) -> list[float]:
        found = []
        for index in [*order] * epochs:
            data = advantages(batch).reshape(-1)
            loss = loss_module(data[index])
            (loss["loss_objective"] + loss["loss_critic"]).backward()
            module.clip_grad_norm_(actor.parameters(), max_norm=0.5)
            for optimiser in optimisers:
                optimiser.step()
                optimiser.zero_grad()
            found += [float(loss["loss_objective"].detach()), float(loss["loss_critic"].detach())]
        return found

    return learn


def test_changed_lines_are_counted(on_torchrl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_torchrl.changed_lines("a2c", array=True) == 2
    assert on_torchrl.changed_lines("a2c", array=False) == 0
    assert on_torchrl.changed_lines("sac", array=True) == 0
    wrong = on_torchrl.Change("no such line", "")
    monkeypatch.setitem(on_torchrl.CHANGES, "sac", (wrong,))
    with pytest.raises(ValueError, match="no such line"):
        on_torchrl.script("sac", torchrl=True)
