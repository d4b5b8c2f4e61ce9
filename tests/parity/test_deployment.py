"""From a checkpoint of TorchRL to a controller: the code of lite/data/README, run on a policy of torchrl."""

import numpy as np
import pytest
import torch
from helpers.readme_blocks import blocks
from tensordict import TensorDict as TheirTensorDict
from tensordict import nn as tnn
from torchrl import envs, modules

from lite import TensorDict

pytestmark = pytest.mark.filterwarnings("ignore")  # of torchrl


def trained() -> tuple[envs.TransformedEnv, modules.ProbabilisticActor]:
    """A policy of torchrl that has parameters of its own, and an environment whose statistics have run."""
    env = envs.TransformedEnv(
        envs.GymEnv("Pendulum-v1"), envs.Compose(envs.DoubleToFloat(), envs.VecNorm(in_keys=["observation"]))
    )
    net = torch.nn.Sequential(
        modules.MLP(in_features=3, out_features=2, num_cells=[64, 64]), tnn.NormalParamExtractor()
    )
    policy = modules.ProbabilisticActor(
        tnn.TensorDictModule(net, ["observation"], ["loc", "scale"]),
        ["loc", "scale"],
        spec=env.action_spec,
        distribution_class=modules.TanhNormal,
        distribution_kwargs={"low": -2.0, "high": 2.0},
    )
    env.set_seed(0)
    env.rollout(60, policy, break_when_any_done=False)
    return env, policy


def test_a_checkpoint_of_torchrl_becomes_a_controller(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env, policy = trained()
    torch.save({"policy": policy.state_dict(), "transform": env.transform.state_dict()}, "checkpoint.pt")
    desk, machine = (
        block.source for block in blocks("lite/guides/data/transforms.md") if block.language == "py"
    )
    exec(desk, {})
    names: dict[str, object] = {}
    exec(machine, names)
    norm = env.transform[1]
    norm.freeze()
    raw = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32) * [1, 1, 5]
    raw = raw.astype(np.float32)
    with tnn.set_interaction_type("deterministic"), torch.no_grad():
        expected = policy(norm(TheirTensorDict({"observation": torch.from_numpy(raw)}, [20])))["action"]
    controller = names["controller"]
    for row in range(20):
        td = TensorDict({"observation": raw[row : row + 1]}, [1])
        np.testing.assert_allclose(controller(td)["action"], expected[row : row + 1], rtol=1e-4, atol=1e-5)  # type: ignore[operator]
    assert np.ptp(expected.numpy()) > 0.1
