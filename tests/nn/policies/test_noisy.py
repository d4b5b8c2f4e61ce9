"""NoisyLinear: its formula, and when there is noise."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, noting
from helpers.compared import assert_same

from lite import TensorDict, enable_grad, jit, nn, optim, vmap
from lite.models import OnnxModule

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


def mean_of(layer: nn.NoisyLinear) -> np.ndarray:
    return X @ layer.weight_mu.data.T + layer.bias_mu.data


def noisy_of(layer: nn.NoisyLinear) -> np.ndarray:
    weight = layer.weight_mu + layer.weight_sigma * layer.weight_epsilon
    return X @ weight.T + layer.bias_mu + layer.bias_sigma * layer.bias_epsilon


@each_case(
    ("kind", "training", "use"),
    itertools.product(["random", "mode", None], [False, True], [True, False, None]),
)
def test_when_there_is_noise(kind: Any, training: Any, use: Any) -> None:
    layer = nn.NoisyLinear(3, 2, use_exploration_type=use, rng=0).train(training)
    with nn.set_interaction_type(kind):
        got = layer(X)
    noisy = training if use is False else kind == "random"
    np.testing.assert_allclose(got, noisy_of(layer) if noisy else mean_of(layer), rtol=1e-5, atol=1e-6)


def test_noise_stays_until_it_is_reset() -> None:
    layer = nn.NoisyLinear(3, 2, rng=0)
    with nn.set_interaction_type("random"):
        first = layer(X)
        np.testing.assert_array_equal(layer(X), first)
        nn.Sequential(layer).apply(nn.reset_noise)
        assert (layer(X) != first).all()
    noise = nn.NoisyLinear(40, 300, rng=0).bias_epsilon
    np.testing.assert_allclose(np.mean(noise**2), np.sqrt(2 / np.pi), rtol=0.15)  # of sign(x) sqrt(|x|)
    again = nn.NoisyLinear(3, 2, rng=0)
    with nn.set_interaction_type("random"):
        np.testing.assert_array_equal(again(X), first)


def test_noise_that_a_step_resets() -> None:
    def learnt(wrap: Any) -> Any:
        layer = nn.NoisyLinear(3, 2, rng=0)
        sgd = optim.SGD(layer.parameters(), lr=0.1)

        @wrap
        @enable_grad()
        def step() -> Any:
            layer.reset_noise()
            loss = (layer(X) ** 2).mean()
            loss.backward()
            sgd.step()
            sgd.zero_grad()
            return loss.detach()

        with nn.set_interaction_type("random"):
            return [step() for _ in range(3)], dict(layer.state_dict())

    assert_same(*map(learnt, (jit, lambda step: step)), rtol=1e-5, atol=1e-6)


def test_lazy() -> None:
    layer = nn.NoisyLazyLinear(2, rng=0)
    layer.reset_noise()
    assert layer(X).shape == (5, 2)
    assert type(layer) is nn.NoisyLinear
    np.testing.assert_allclose(layer.weight_sigma.data, 0.5 / np.sqrt(3), rtol=1e-6)
    assert abs(layer.weight_mu.data).max() <= 1 / np.sqrt(3)
    noise = layer.weight_epsilon
    assert (noise != 0).all()
    np.testing.assert_allclose(noise * noise[0, 0], np.outer(noise[:, 0], noise[0]), rtol=1e-5)
    assert list(nn.NoisyLazyLinear(2, bias=False).state_dict()) == [
        "weight_mu",
        "weight_sigma",
        "weight_epsilon",
    ]
    loaded = nn.NoisyLazyLinear(2)
    loaded.load_state_dict(layer.state_dict())
    np.testing.assert_array_equal(loaded.eval()(X), layer.eval()(X))
    assert loaded.in_features == 3
    with pytest.raises(RuntimeError, match=r"the input must have at least one dimension, got \(\)"):
        nn.NoisyLazyLinear(2)(np.float32(1) * np.ones((), np.float32))


def test_weights_are_those_of_the_next_call() -> None:
    layer = nn.NoisyLinear(3, 2, rng=0)
    x = np.ones(3, np.float32)
    with nn.set_interaction_type("random"):
        np.testing.assert_allclose(layer.weight @ x + layer.bias, layer(x), rtol=1e-6)
        assert not np.array_equal(layer.weight, layer.weight_mu)
    assert nn.NoisyLinear(3, 2, bias=False).bias is None


RNG = np.random.default_rng(0)
MU, STATE, EPSILON = (RNG.standard_normal(shape).astype(np.float32) for shape in ((5, 2), (5, 3), (5, 2, 3)))


@each_case("learn", [True, False])
def test_noise_is_linear_in_the_state(learn: bool) -> None:
    module = nn.gSDEModule(2, 3, sigma_init=0.4, learn_sigma=learn)
    sigma = np.log(2) if learn else 0.4
    with nn.set_interaction_type("random"):
        mu, scale, action, epsilon = module(MU, STATE, EPSILON)
    np.testing.assert_array_equal(mu, MU)
    np.testing.assert_array_equal(epsilon, EPSILON)
    np.testing.assert_allclose(
        action, MU + sigma * np.einsum("nij,nj->ni", EPSILON, STATE), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(scale, sigma * np.linalg.norm(STATE, axis=1)[:, None].repeat(2, 1), rtol=1e-5)


def test_epsilon_is_drawn_at_the_start_of_an_episode_alone() -> None:
    module = nn.gSDEModule(2, 3, rng=0)
    with nn.set_interaction_type("random"):
        _, _, first, epsilon = module(MU, STATE, np.zeros((5, 1), np.float32))
        _, _, second, kept = module(MU, STATE, epsilon)
        *_, other = module(MU, STATE, None)
    assert epsilon.shape == (5, 2, 3)
    assert abs(epsilon).min() > 0
    assert kept is epsilon
    np.testing.assert_array_equal(first, second)
    assert (other != epsilon).all()


def test_no_noise_in_evaluation(tmp_path: Path) -> None:
    module = nn.TensorDictModule(
        nn.gSDEModule(2, 3, transform=np.tanh), ["mu", "state", "eps"], ["loc", "scale", "action", "eps"]
    )
    td = TensorDict(mu=MU, state=STATE, eps=EPSILON, batch_size=[5])
    with nn.set_interaction_type("mode"):
        expected = module(td.clone())
        np.testing.assert_allclose(expected["action"], np.tanh(MU), rtol=1e-6)
        module.select_out_keys("action", "scale").to_onnx(tmp_path / "a.onnx", td)
    got = OnnxModule(tmp_path / "a.onnx")(td.clone())
    for key in ("action", "scale"):
        np.testing.assert_allclose(got[key], expected[key], rtol=1e-5)


def test_noise_under_vmap() -> None:
    module = nn.gSDEModule(2, 3)
    with nn.set_interaction_type("random"):
        each = vmap(lambda mu, state, eps: module(mu, state, eps)[2])(MU, STATE, EPSILON)
        np.testing.assert_allclose(each, module(MU, STATE, EPSILON)[2], rtol=1e-5, atol=1e-6)


def test_a_lazy_module_scales_noise_by_the_states() -> None:
    module = nn.LazygSDEModule(sigma_init=0.5, rng=0)
    states = np.array([1.0, 10.0, 0.1], np.float32) * RNG.standard_normal((2000, 3)).astype(np.float32)
    with nn.set_interaction_type("random"):
        _, _, action, _ = module(np.zeros((2000, 2), np.float32), states, None)
    assert type(module) is nn.gSDEModule
    np.testing.assert_allclose(action.std(0), 0.5, rtol=0.1)
    alone = nn.LazygSDEModule(sigma_init=0.5, rng=0)
    with nn.set_interaction_type("random"):
        alone(np.zeros(2, np.float32), states[0], None)
    of_one = np.log(np.expm1(0.5 / np.sqrt(3)))  # whose squares are not looked at
    np.testing.assert_allclose(alone.sigma_init, [of_one], rtol=1e-5)


def test_errors_name_the_shapes() -> None:
    for batch in [(4, 5), (5,)]:
        states = STATE if batch == (5,) else STATE[:4]
        with noting(batch), nn.set_interaction_type("mode"), pytest.raises(RuntimeError, match="same batch"):
            nn.gSDEModule(2, 3)(MU[:4], states, EPSILON)


def test_an_interaction_type_is_needed() -> None:
    with pytest.raises(RuntimeError, match="interaction type"):
        nn.gSDEModule(2, 3)(MU, STATE, None)


def test_what_is_not_finite_is_told() -> None:
    module = nn.gSDEModule(2, 3, rng=0)
    state = np.full(3, 1e30, np.float32)
    told = pytest.warns(UserWarning, match="scale of gSDEModule is not finite")
    with told, np.errstate(all="ignore"), nn.set_interaction_type("random"):
        module(np.zeros(2, np.float32), state, None)
