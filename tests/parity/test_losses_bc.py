"""BCLoss and RNDLoss against torchrl's."""

import numpy as np
import pytest
from helpers.cases import each_case
from parity.losses import LITE, compare, default_dtype, deterministic, gaussian, mlp

pytestmark = pytest.mark.filterwarnings("ignore:The name target_actor_network_params")  # of torchrl


def scores(s):
    return s.TensorDictModule(mlp(s, 4, 3), ["observation"], ["action"])


def run(network, action, dtype="float64", prepare=None, **options):
    rng = np.random.default_rng(2)
    extra = options.pop("extra", {})
    data = {"observation": rng.normal(size=(6, 4)).astype(dtype), "action": action, **extra}
    with default_dtype(dtype):
        return compare("BCLoss", (network,), data, (6,), dtype, prepare, **options)


def vectors(dtype="float64"):
    return np.tanh(np.random.default_rng(4).normal(size=(6, 2))).astype(dtype)


@each_case(
    ("loss_function", "reduction", "dtype"),
    [
        (None, "mean", "float32"), (None, "none", "float64"), ("l1", "sum", "float64"),
        ("l2", "none", "float32"), ("mse", "mean", "float64"), ("smooth_l1", "sum", "float32"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("network", [deterministic, gaussian])
def test_vectors(network, loss_function, reduction, dtype):
    run(network, vectors(dtype), dtype, loss_function=loss_function, reduction=reduction)


@each_case("shape", [(6,), (6, 1)])
@each_case(("loss_function", "reduction"), [(None, "none"), ("cross_entropy", "mean")])
def test_classes(shape, loss_function, reduction):
    run(scores, np.arange(6).reshape(shape) % 3, loss_function=loss_function, reduction=reduction)


def test_functions():
    run(deterministic, vectors(), loss_function=lambda predicted, expert: (predicted - expert) ** 4)


@each_case(("loss_function", "reduction"), [(None, "mean"), ("l1", "sum"), (None, "none")])
@each_case("network", [deterministic, gaussian])
def test_padding(network, loss_function, reduction):
    def prepare(side, loss, td):
        loss.set_keys(pad_mask="is_pad")

    padding = np.array([0, 1, 0, 0, 1, 0], bool)
    run(
        network, vectors(), prepare=prepare, extra={"is_pad": padding}, loss_function=loss_function,
        reduction=reduction,
    )  # fmt: skip


def test_keys():
    (mine, other), _ = run(deterministic, vectors())
    assert set(mine.state_dict()) == set(other.state_dict())
    assert set(mine.in_keys) == set(other.in_keys)
    assert LITE.losses.BCLoss.__module__ == "lite.nn.losses"


@each_case("kind", ["float32", "float64", "uint8"])
@each_case("reduction", ["mean", "sum", "none"])
def test_newness_of_observations(reduction, kind):
    observation = (4 * np.random.default_rng(0).random((6, 4))).astype(kind)
    options = {"reduction": reduction, "update_fraction": 1.0}
    networks = [lambda s: mlp(s, 4, 3)] * 2
    (mine, other), _ = compare(
        "RNDLoss", networks, {("next", "observation"): observation}, (6,), "float32", **options
    )
    assert set(mine.state_dict()) == set(other.state_dict())
