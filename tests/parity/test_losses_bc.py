"""BCLoss against torchrl's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity.losses import DTYPES, LITE, compare, default_dtype, deterministic, gaussian, mlp

pytestmark = pytest.mark.filterwarnings("ignore:The name target_actor_network_params")  # of torchrl


def scores(s: Any) -> Any:
    return s.TensorDictModule(mlp(s, 4, 3), ["observation"], ["action"])


def run(network: Any, action: Any, dtype: str = "float64", prepare: Any = None, **options: Any) -> Any:
    rng = np.random.default_rng(2)
    extra = options.pop("extra", {})
    data = {"observation": rng.normal(size=(6, 4)).astype(dtype), "action": action, **extra}
    with default_dtype(dtype):
        return compare("BCLoss", (network,), data, (6,), dtype, prepare, **options)


def vectors(dtype: str = "float64") -> Any:
    return np.tanh(np.random.default_rng(4).normal(size=(6, 2))).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss_function", [None, "l1", "l2", "mse", "smooth_l1"])
@pytest.mark.parametrize("network", [deterministic, gaussian])
def test_vectors(network: Any, loss_function: Any, reduction: str, dtype: str) -> None:
    run(network, vectors(dtype), dtype, loss_function=loss_function, reduction=reduction)


@pytest.mark.parametrize("shape", [(6,), (6, 1)])
@pytest.mark.parametrize("loss_function", [None, "cross_entropy"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_classes(shape: Any, loss_function: Any, reduction: str) -> None:
    run(scores, np.arange(6).reshape(shape) % 3, loss_function=loss_function, reduction=reduction)


def test_functions() -> None:
    run(deterministic, vectors(), loss_function=lambda predicted, expert: (predicted - expert) ** 4)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss_function", [None, "l1"])
@pytest.mark.parametrize("network", [deterministic, gaussian])
def test_padding(network: Any, loss_function: Any, reduction: str) -> None:
    def prepare(side: Any, loss: Any, td: Any) -> None:
        loss.set_keys(pad_mask="is_pad")

    padding = np.array([0, 1, 0, 0, 1, 0], bool)
    run(
        network, vectors(), prepare=prepare, extra={"is_pad": padding}, loss_function=loss_function,
        reduction=reduction,
    )  # fmt: skip


def test_keys() -> None:
    (mine, other), _ = run(deterministic, vectors())
    assert set(mine.state_dict()) == set(other.state_dict())
    assert set(mine.in_keys) == set(other.in_keys)
    assert LITE.losses.BCLoss.__module__ == "lite.nn.losses"
