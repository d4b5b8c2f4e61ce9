"""Random draws under `vmap`: dropout, generators, distributions, nested maps."""

from typing import Any

import numpy as np
from helpers.cases import each_case, raises
from helpers.vmap_cases import rows

from lite import nn, vmap


def test_dropout_obeys_randomness() -> None:
    layer = nn.Dropout(0.5, rng=0)
    x = np.ones((3, 64))
    raises(RuntimeError, "random draw", lambda: vmap(layer)(x))
    same = vmap(layer, randomness="same")(x)
    np.testing.assert_array_equal(same, same[[0, 0, 0]])
    assert 0 < (same == 0).mean() < 1
    different = vmap(layer, randomness="different")(x)
    assert (different[0] != different[1]).any()
    assert set(np.unique(different)) == {0, 2}
    np.testing.assert_array_equal(vmap(layer.eval())(x), x)


def test_generators_as_arguments_obey_randomness() -> None:
    def noisy(x: Any, rng: Any) -> Any:
        return rng.normal(x, 0.001, size=x.shape) + rng.random()

    x = np.zeros((4, 3))
    raises(RuntimeError, r"random draw \(normal\)", vmap(noisy, (0, None)), x, np.random.default_rng(0))
    out = vmap(noisy, (0, None), randomness="different")(x + np.arange(4)[:, None], np.random.default_rng(0))
    assert out.shape == (4, 3)
    np.testing.assert_allclose(out - out[:, :1], 0, atol=0.02)
    assert len(set(out[:, 0] - np.arange(4))) == 4
    for draw in (lambda rng: rng.choice(5, 2), lambda rng: rng.standard_exponential(2, np.float32, "inv")):
        picked = vmap(lambda x, rng, draw=draw: draw(rng) + x, (0, None), randomness="different")
        assert picked(np.zeros(8), np.random.default_rng(0)).shape == (8, 2)
    rng, seen = np.random.default_rng(0), []
    vmap(lambda x, rng: seen.append(rng.bit_generator) or x, (0, None), randomness="different")(x, rng)
    assert seen == [rng.bit_generator]
    filled = vmap(lambda x, rng: rng.random(None, float, np.zeros(3)) + x, (0, None), randomness="different")
    raises(TypeError, "random .*takes no out", filled, x, rng)
    same = vmap(lambda x, rng: x + rng.random(), (0, None), randomness="same")
    out = same(np.zeros(3), np.random.default_rng(0))
    np.testing.assert_array_equal(out, np.random.default_rng(0).random())


def test_randomness_of_nested_maps() -> None:
    def draw(x: Any, rng: Any) -> Any:
        return x + rng.random()

    for outer, inner, unique in (
        ("different", "different", 6),
        ("same", "different", 3),
        ("different", "same", 2),
        ("same", "same", 1),
    ):
        fn = vmap(vmap(draw, (0, None), randomness=inner), (0, None), randomness=outer)
        assert len(np.unique(fn(np.zeros((2, 3)), np.random.default_rng(0)))) == unique


@each_case(
    "make",
    [
        lambda x: nn.distributions.TruncatedNormal(x, np.exp(x)),
        lambda x: nn.distributions.OneHotCategorical(logits=x),
        lambda x: nn.distributions.Bernoulli(logits=x),
    ],
)
def test_distributions(make: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5)) * 0.3
    raises(RuntimeError, "random draw", lambda: vmap(lambda v: make(v).sample())(x))
    drawn = vmap(lambda v: make(v).sample((64,), rng=np.random.default_rng(0)), randomness="different")(x)
    assert drawn.shape == (3, *make(x[0]).sample((64,)).shape)
    assert (drawn[0] != drawn[1]).any()
    mapped = vmap(lambda v, d: make(v).log_prob(d))(x, drawn)
    expected = [make(v).log_prob(d) for v, d in zip(x, drawn, strict=True)]
    np.testing.assert_allclose(mapped, expected, rtol=1e-9)


def test_state_is_clean_after_an_error() -> None:
    def fails(v: Any) -> Any:
        raise KeyError("inside")

    raises(KeyError, "inside", lambda: vmap(fails)(rows()))
    layer = nn.Dropout(0.5, rng=0)
    assert layer(np.ones(3)).shape == (3,)
