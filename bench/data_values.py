"""Value estimators as modules, beside torchrl's: what a call costs, network and all.

`python bench/test_data.py --only values_given values_of_a_network groups retrace_beside_a_loop`
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ["RL_WARNINGS"] = "0"  # torchrl's, of dimensions without a name, in each call

import numpy as np
import tensordict
import torch
from side_by_side import measure, row
from torchrl.objectives import value as torchrl

import lite.data as data
from lite import TensorDict, nn
from lite.kernels import retrace

Row = dict[str, Any]
FACTORS: dict[str, dict[str, float]] = {
    "TD0Estimator": {},
    "TD1Estimator": {},
    "TDLambdaEstimator": {"lmbda": 0.95},
    "GAE": {"lmbda": 0.95},
}
FEATURES = 8


def rollout(shape: tuple[int, int]) -> TensorDict:
    rng = np.random.default_rng(0)
    done = rng.random((*shape, 1)) < 0.02

    def floats(*more: int) -> Any:
        return rng.normal(size=(*shape, *more)).astype(np.float32)

    return TensorDict(
        {
            "obs": floats(FEATURES),
            "state_value": floats(1),
            "next": {
                "obs": floats(FEATURES),
                "state_value": floats(1),
                "reward": floats(1),
                "done": done,
                "terminated": done & (rng.random((*shape, 1)) < 0.5),
            },
        },
        batch_size=shape,
    )


def networks() -> tuple[Any, Any]:
    """The same value network of 64 hidden units, for each side."""
    theirs = torch.nn.Sequential(torch.nn.Linear(FEATURES, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    ours = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 1))
    ours.load_state_dict({key: tensor.numpy() for key, tensor in theirs.state_dict().items()})
    keys = ["obs"], ["state_value"]
    return nn.TensorDictModule(ours, *keys), tensordict.nn.TensorDictModule(theirs, *keys)


def beside(name: str, ours: Any, theirs: Any, td: TensorDict, rounds: int) -> Row:
    torch_td = td.clone().to_torch()
    with torch.no_grad():
        np.testing.assert_allclose(
            ours(td)["advantage"], theirs(torch_td)["advantage"].numpy(), rtol=1e-3, atol=1e-3
        )
        times = measure({"lite": lambda: ours(td), "torchrl": lambda: theirs(torch_td)}, rounds)
    return row(name, "torchrl", times)


def values_given(rounds: int = 15) -> Iterator[Row]:
    """Estimators of values that are there."""
    for shape in ((8, 16), (64, 1000)):
        for name, factors in FACTORS.items():
            pair = (
                getattr(side, name)(gamma=0.99, value_network=None, **factors) for side in (data, torchrl)
            )
            yield beside(f"{name} {shape[0]}x{shape[1]}", *pair, rollout(shape), rounds)


def values_of_a_network(rounds: int = 15) -> Iterator[Row]:
    """Estimators that call a value network, on observations and next ones in two calls, and in one."""
    for shape in ((8, 16), (64, 1000)):
        for shifted in (False, True):
            ours, theirs = networks()
            options = {
                "gamma": 0.99,
                "lmbda": 0.95,
                "shifted": shifted,
                "shifted_budget": 64 if shifted else 1,
            }
            pair = data.GAE(value_network=ours, **options), torchrl.GAE(value_network=theirs, **options)
            name = f"GAE of a network {shape[0]}x{shape[1]}{', shifted' if shifted else ''}"
            yield beside(name, *pair, rollout(shape), rounds)


def groups(rounds: int = 15) -> Iterator[Row]:
    """Group advantages of 512 prompts with 16 responses each, beside torchrl's standardization by group."""
    from torchrl.objectives.value.advantages import _standardize_by_group

    rng = np.random.default_rng(0)
    reward, ids = rng.normal(size=8192).astype(np.float32), np.repeat(np.arange(512), 16)
    torch_reward, torch_ids = torch.from_numpy(reward), torch.from_numpy(ids)
    times = measure(
        {
            "lite": lambda: data.group_advantages(reward, ids),
            "torchrl": lambda: _standardize_by_group(torch_reward, torch_ids, eps=1e-6),
        },
        rounds,
    )
    yield row("group_advantages 512x16", "torchrl", times)


def retrace_beside_a_loop(rounds: int = 15) -> Iterator[Row]:
    """lite.kernels.retrace beside a loop over time in NumPy, which takes all sequences at once."""
    rng = np.random.default_rng(0)
    for shape in ((64, 1000), (1024, 128)):
        log_pi, log_mu, reward, value, following = rng.normal(size=(5, *shape)).astype(np.float32)
        done = rng.random(shape) < 0.02
        arrays = log_pi, log_mu, reward, value, following, done

        def loop(arrays: Any = arrays) -> Any:
            log_pi, log_mu, reward, value, following, done = arrays
            weight = np.exp(np.minimum(log_pi - log_mu, 0.0))
            target, ahead = np.empty_like(value), np.zeros(len(value), value.dtype)
            for t in reversed(range(value.shape[1])):
                alive = ~done[:, t]
                error = reward[:, t] + 0.99 * alive * following[:, t] - value[:, t]
                excess = error + 0.99 * alive * ahead
                target[:, t] = value[:, t] + excess
                ahead = weight[:, t] * excess
            return target

        def ours(arrays: Any = arrays) -> Any:
            return retrace(*arrays, gamma=0.99).value_target

        np.testing.assert_allclose(ours(), loop(), rtol=1e-3, atol=1e-3)
        times = measure({"lite": ours, "NumPy loop over time": loop}, rounds)
        yield row(f"retrace {shape[0]}x{shape[1]}", "NumPy loop over time", times)


CASES = {
    function.__name__: function
    for function in (values_given, values_of_a_network, groups, retrace_beside_a_loop)
}
