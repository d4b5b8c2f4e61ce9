"""OrnsteinUhlenbeckProcessModule: its formula, and where it restarts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lite import TensorDict, nn
from lite.data import Bounded
from lite.envs import set_exploration_type
from lite.models import OnnxModule

WIDE = Bounded(-100, 100, (1,))


def test_noise_without_chance() -> None:
    module = nn.OrnsteinUhlenbeckProcessModule(WIDE, 0.5, 0.1, theta=0.5, mu=1.0, sigma=0.0, dt=0.1, x0=2.0)
    td = TensorDict(action=np.zeros((2, 1)), batch_size=[2])
    shifts = []
    for step in range(3):
        td["action"] = np.zeros((2, 1))
        td["is_init"] = np.array([[step == 0], [step == 2]])
        shifts.append(module(td)["action"][:, 0].tolist())
    noise = [1.95, 1.9025, 1.857375]  # n + 0.05 (1 - n), from 2
    np.testing.assert_allclose(
        shifts, [[0.5 * n, 0.5 * m] for n, m in zip(noise, [*noise[:2], 1.95], strict=True)]
    )
    np.testing.assert_array_equal(td["_ou_steps"], [3, 1])
    np.testing.assert_allclose(td["_ou_prev_noise"], [[noise[2] - 2], [noise[0] - 2]])


def test_chance() -> None:
    options: dict[str, Any] = {
        "theta": 0.0, "sigma": 0.4, "dt": 0.25, "sigma_min": 0.2, "n_steps_annealing": 1,
    }  # fmt: skip
    module = nn.OrnsteinUhlenbeckProcessModule(WIDE, **options, generator=0)
    td = TensorDict(action=np.zeros((20000, 1)), batch_size=[20000])
    first = module(td)["_ou_prev_noise"]
    second = module(td)["_ou_prev_noise"] - first
    np.testing.assert_allclose([first.std(), second.std()], [0.4 * 0.5, 0.2 * 0.5], rtol=0.03)


def test_errors() -> None:
    module = nn.OrnsteinUhlenbeckProcessModule(None, safe=False)
    td = TensorDict(action=np.zeros((3, 1)), is_init=np.zeros((2, 1), bool), batch_size=[])
    with pytest.raises(ValueError, match=r"'is_init' must have shape \(1,\), got \(2, 1\)"):
        module(td)
    with pytest.raises(RuntimeError, match="spec must be given for safe=True, got None"):
        nn.OrnsteinUhlenbeckProcessModule(None)


def test_without_exploration_actions_are_projected_alone(tmp_path: Path) -> None:
    spec = Bounded(-1.0, 1.0, (2,))
    module = nn.OrnsteinUhlenbeckProcessModule(spec, x0=np.array([3.0, 4.0]))
    np.testing.assert_array_equal(module.state_dict()["ou.x0"], [3, 4])
    assert module.state_dict()["ou._empty_tensor_device"].shape == (0,)  # TorchRL's has it
    td = TensorDict(action=np.array([0.5, 7.0], np.float32))
    with set_exploration_type("deterministic"):
        out = module(td)
    np.testing.assert_array_equal(out["action"], [0.5, 1])
    assert set(out.keys()) == {"action"}
    graph = OnnxModule(module.to_onnx(tmp_path / "actions.onnx", td.unsqueeze(0)))
    td = TensorDict(action=np.array([0.25, 7.0], np.float32))
    np.testing.assert_array_equal(graph(td)["action"], [0.25, 1])
