"""Modules with parameters and inputs of JAX: the layers' own code, compiled and differentiated by JAX."""

import os
from typing import Any

import numpy as np
import pytest
from helpers.layer_cases import CASES, Case

from lite import TensorDict, nn, register_pytree
from lite._arrays.namespace import NamespaceArray
from lite.nn import TensorDictModule, TensorDictSequential

# What is compiled runs once: without LLVM's optimisations the layers take two thirds of the time.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)
jax = pytest.importorskip("jax", reason="pip install jax")
jnp = jax.numpy


@pytest.fixture(autouse=True, scope="module")
def registered() -> None:
    register_pytree("jax")


def flat(out: Any) -> list[Any]:
    return list(jax.tree.leaves(out))


# One of each family: the others are made of the same functions.
FAMILIES = {
    *("NoisyLinear 3", "Bilinear", "Embedding with max_norm", "LayerNorm", "BatchNorm1d with averages"),
    *("GELU", "LogSoftmax", "Conv1d by groups", "Conv2d", "MaxPool2d with positions", "AvgPool2d"),
    *("AdaptiveAvgPool2d", "GRUCell", "RNN", "LSTM with a projection", "MultiheadAttention with more keys"),
    *("TransformerDecoderLayer", "DdpgCnnQNet 10"),
}
CHOSEN = [case for case in CASES if case.title in FAMILIES]


@pytest.mark.parametrize("case", CHOSEN, ids=[case.title for case in CHOSEN])
def test_layers_under_jit_and_grad(case: Case) -> None:
    net = case.make(nn).eval()
    options = case.call_options()
    want = flat(net(*case.arrays(), **options))
    params = TensorDict.from_module(net).apply(jnp.asarray)
    args = jax.tree.map(jnp.asarray, case.arrays())

    floats = TensorDict().update({key: x for key, x in params.items(True, True) if x.dtype.kind == "f"})

    def loss(floats: Any, *args: Any) -> Any:
        with params.clone().update(floats).to_module(net):
            out = flat(net(*args, **options))
        return sum((found.astype(np.float32) ** 2).sum() for found in out), out

    gradient, out = jax.jit(jax.grad(loss, has_aux=True))(floats, *args)
    for found, expected in zip(out, want, strict=True):
        assert isinstance(found, jax.Array)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    for derivative, param in zip(flat(gradient), flat(floats), strict=True):
        assert derivative.shape == param.shape
        assert np.isfinite(derivative).all()


def test_gradients_are_those_of_differences() -> None:
    net = nn.Sequential(nn.Linear(3, 4, rng=0), nn.Tanh(), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 1, rng=1))
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    params = TensorDict.from_module(net).apply(jnp.asarray)

    def loss(params: Any) -> Any:
        with params.to_module(net):
            return (net(x) ** 2).mean()  # an input of NumPy does as well

    gradient = jax.jit(jax.grad(loss))(params)
    assert gradient["0", "weight"].shape == (4, 3)
    for key in (("0", "weight"), ("2", "bias"), ("4", "weight")):
        array, at, step = params[key], (0,) * params[key].ndim, 1e-2
        sides = [loss(params.clone().set(key, array.at[at].add(change))) for change in (step, -step)]
        np.testing.assert_allclose(
            gradient[key][at], (sides[0] - sides[1]) / (2 * step), rtol=5e-2, atol=1e-3
        )


def test_parameters_of_numpy_and_inputs_of_jax() -> None:
    net = nn.MLP(3, 2, num_cells=[4])
    x = jnp.ones((5, 3))
    for out in (net(x), jax.jit(net)(x), jax.vmap(net)(x)):
        assert isinstance(out, jax.Array)
        np.testing.assert_allclose(out, net(np.ones((5, 3), np.float32)), rtol=1e-5, atol=1e-6)
    assert type(net(np.ones((5, 3), np.float32))) is np.ndarray


def test_a_training_loop_in_one_scan() -> None:
    net = TensorDictSequential(
        TensorDictModule(nn.Linear(2, 8, rng=0), ["x"], ["h"]),
        TensorDictModule(jnp.tanh, ["h"], ["h"]),
        TensorDictModule(nn.Linear(8, 1, rng=1), ["h"], ["y"]),
    )
    x = np.random.default_rng(0).standard_normal((64, 2)).astype(np.float32)
    data = TensorDict({"x": x, "target": x.sum(-1, keepdims=True)}, [64])

    def loss(params: Any, data: Any) -> Any:
        with params.to_module(net):
            out = net(data)
        return ((out["y"] - out["target"]) ** 2).mean()

    def step(params: Any, _: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, data.copy())
        return params - gradient * 0.1, value

    before = TensorDict.from_module(net).apply(jnp.asarray)
    after, losses = jax.jit(lambda params: jax.lax.scan(step, params, None, 30))(before)
    assert losses[-1] < losses[0] / 4
    assert set(data.keys()) == {"x", "target"}
    after.to("cpu").to_module(net)  # for good, as arrays of NumPy
    assert type(net[0].module.weight.data) is np.ndarray
    np.testing.assert_allclose(loss(after, data.copy()), losses[-1], rtol=0.1)


def test_statistics_of_training_come_back_in_the_parameters() -> None:
    norm = nn.BatchNorm1d(3)
    x = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)

    @jax.jit
    def step(params: Any, x: Any) -> Any:
        with params.to_module(norm):
            out = norm(x)
        return out, params

    params = TensorDict.from_module(norm).apply(jnp.asarray)
    out, params = step(params, x)
    np.testing.assert_array_equal(norm.running_mean, np.zeros(3))
    np.testing.assert_allclose(out, norm(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(params["running_mean"], norm.running_mean, rtol=1e-5)
    assert int(params["num_batches_tracked"]) == int(norm.num_batches_tracked) == 1


class Counting(nn.Module):
    """A layer whose buffer is assigned."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", np.zeros(3, np.float32))

    def forward(self, x: Any) -> Any:
        self.total = self.total + x.sum(0)
        return x


def test_a_buffer_that_is_assigned_comes_back_in_the_parameters() -> None:
    layer, x = Counting(), np.ones((8, 3), np.float32)

    @jax.jit
    def step(params: Any, x: Any) -> Any:
        with params.to_module(layer):
            layer(x)
        return params

    params = step(step(TensorDict.from_module(layer).apply(jnp.asarray), x), x)
    np.testing.assert_array_equal(params["total"], [16, 16, 16])
    np.testing.assert_array_equal(layer.total, np.zeros(3))


class Scaled(nn.Module):
    """What a user writes: functions of NumPy, layers, nested values, and JAX where it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(np.full(3, 2, np.float32))
        self.layer = nn.Linear(3, 3, rng=0)
        self.seen: list[type] = []

    def forward(self, pair: Any, shift: Any = 0) -> Any:
        x, _ = pair
        self.seen.append(type(x))
        y = np.cos(self.layer(x) * self.scale) + shift
        return y, [jnp.asarray(y) * 2]


def test_modules_of_users() -> None:
    net = Scaled()
    x = np.ones((2, 3), np.float32)
    want, (doubled,) = net((x, None), shift=x)
    params = TensorDict.from_module(net).apply(jnp.asarray)

    def run(params: Any, x: Any) -> Any:
        with params.to_module(net):
            return net((x, None), shift=x)

    out, (double,) = jax.jit(run)(params, x)
    assert isinstance(out, jax.Array)
    np.testing.assert_allclose(out, want, rtol=1e-5)
    np.testing.assert_allclose(double, doubled, rtol=1e-5)
    assert net.seen == [np.ndarray, NamespaceArray]
    handle = net.register_forward_hook(lambda module, args, output: output[0])
    assert isinstance(run(params, jnp.asarray(x)), jax.Array)
    handle.remove()


def test_the_module_has_its_own_parameters_again() -> None:
    net = nn.Linear(3, 2, rng=0)
    own = net.weight
    params = TensorDict.from_module(net).apply(lambda p: jnp.asarray(p) * 0)
    with pytest.raises(RuntimeError, match="in_features"), params.to_module(net):
        net(jnp.ones((5, 4)))
    assert net.weight is own
    with params.to_module(net):
        assert not net(jnp.ones(3)).any()
        net.weight = nn.Parameter(net.weight.data + 1)  # which the source gets
    assert net.weight is own
    assert isinstance(params["weight"], jax.Array)
    np.testing.assert_array_equal(params["weight"], np.ones((2, 3)))


def test_parameters_are_trees_of_their_arrays() -> None:
    params = TensorDict.from_module(nn.Linear(3, 2, rng=0))
    leaves, structure = jax.tree.flatten(params)
    assert all(type(leaf) is np.ndarray for leaf in leaves)
    assert jax.tree.structure(params.apply(jnp.asarray)) == structure


def test_ids_that_are_traced_are_looked_up_unchecked() -> None:
    table = nn.Embedding(4, 3, rng=0)
    ids = np.array([1, 3])
    np.testing.assert_array_equal(jax.jit(table)(ids), table(ids))
    with pytest.raises(IndexError, match="input must be from 0 to 3, got 7"):
        table(jnp.array([7]))


class _Reading(nn.Module):
    """Makes an array of NumPy of its input, as distributions do."""

    def forward(self, observation: Any) -> Any:
        return np.asarray(getattr(observation, "leaf", observation)).sum(-1, keepdims=True)


def test_losses_and_estimators_say_that_they_compute_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    from lite.data import GAE
    from lite.nn.losses import BCLoss

    monkeypatch.setenv("RL_WARNINGS", "False")
    batch = TensorDict({"observation": np.ones((3, 2)), "action": np.ones((3, 1))}, [3])
    loss = BCLoss(TensorDictModule(_Reading(), ["observation"], ["action"]))
    with pytest.raises(TypeError, match=r"BCLoss computes with NumPy.*lite.value_and_grad"):
        jax.grad(lambda x: loss(batch.set("observation", x))["loss_bc"])(jnp.ones((3, 2)))
    ends = np.zeros((3, 1), bool)
    following = {"state_value": np.ones((3, 1)), "reward": np.ones((3, 1)), "done": ends, "terminated": ends}
    steps = TensorDict({"state_value": np.ones((3, 1)), "next": following}, [3])
    with pytest.raises(TypeError, match=r"outside of jax.jit and jax.grad: td.to\('cpu'\), or np.asarray"):
        GAE(gamma=0.9, lmbda=0.9, value_network=None)(steps.apply(jnp.asarray))


def test_what_a_loss_holds_fixed_is_fixed_for_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    from lite import value_and_grad
    from lite.nn.losses import TD3BCLoss

    monkeypatch.setenv("RL_WARNINGS", "False")
    numbers = np.random.default_rng(0).normal(size=(9, 6, 3)).astype(np.float32)
    ends = np.zeros((6, 1), bool)
    following = {"observation": numbers[0], "reward": numbers[1, :, :1], "done": ends, "terminated": ends}
    batch = TensorDict({"observation": numbers[2], "action": np.tanh(numbers[3]), "next": following}, [6])

    def result(take: Any, convert: Any) -> Any:
        actor = TensorDictModule(nn.MLP(3, 3, num_cells=[8], rng=0), ["observation"], ["action"])
        critic = nn.ValueOperator(nn.MLP(6, 1, num_cells=[8], rng=1), in_keys=["observation", "action"])
        loss = TD3BCLoss(actor, critic, bounds=(-1, 1), generator=0)
        params = TensorDict.from_module(loss).data.select("actor_network_params", "qvalue_network_params")

        def total(params: Any) -> Any:
            with params.to_module(loss):
                out = loss(batch.copy())
            return out["loss_actor"] + out["loss_qvalue"]

        return take(total)(params.apply(convert))

    value, grads = result(jax.value_and_grad, jnp.asarray)
    wanted, theirs = result(value_and_grad, np.asarray)
    np.testing.assert_allclose(value, wanted, rtol=1e-5)
    for key, grad in theirs.items(True, True):
        np.testing.assert_allclose(grads[key], grad, atol=1e-5, err_msg=str(key))
