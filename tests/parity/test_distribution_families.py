"""Every family of distributions against torch's, torchrl's or tensordict's, with the same parameters.

One table: how to make both sides of the same parameters, where values to score come from, and which methods
and properties are compared. tests/nn/distributions/test_distribution_samplers.py compares samplers with the
distribution function.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tensordict.nn import distributions as td_nn
from torchrl.modules import distributions as rl

from lite.nn import distributions as ours

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

D = torch.distributions
PLAIN = ("mean", "mode", "variance", "stddev", "deterministic_sample")


def tensors(kwargs):
    return {k: torch.from_numpy(v.copy()) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}


class Family(NamedTuple):
    ours: Any
    theirs: Any
    kind: str  # what parameters are drawn, and what values
    options: dict[str, Any] = {}  # noqa: RUF012
    properties: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("log_prob",)


def independent(module, base):
    return lambda **kw: module.Independent(getattr(module, base)(**kw), 1)


FAMILIES = {
    "Normal": Family(ours.Normal, D.Normal, "normal", {}, PLAIN[:-1], ("log_prob", "entropy", "cdf", "icdf")),
    "Independent": Family(
        independent(ours, "Normal"),
        independent(D, "Normal"),
        "normal",
        {},
        PLAIN[:-1],
        ("log_prob", "entropy"),
    ),
    "IndependentNormal": Family(
        ours.IndependentNormal, rl.IndependentNormal, "normal", {}, PLAIN, ("log_prob", "entropy")
    ),
    "TanhNormal": Family(ours.TanhNormal, rl.TanhNormal, "tanh", {}, ("deterministic_sample",)),
    "TanhNormal, bounds": Family(
        ours.TanhNormal, rl.TanhNormal, "tanh", {"low": -2.0, "high": 5.0}, ("deterministic_sample",)
    ),
    "TanhNormal, tanh_loc": Family(
        ours.TanhNormal,
        rl.TanhNormal,
        "tanh",
        {"low": 0.0, "high": 3, "tanh_loc": True, "upscale": 2.0},
        ("deterministic_sample",),
    ),
    "TanhNormal, elementwise": Family(
        ours.TanhNormal,
        rl.TanhNormal,
        "tanh",
        {"event_dims": 0},
        ("deterministic_sample",),
        ("log_prob", "cdf"),
    ),
    "TruncatedNormal": Family(
        ours.TruncatedNormal, rl.TruncatedNormal, "truncated", {}, ("mean", "mode", "variance")
    ),
    "TruncatedNormal, bounds": Family(
        ours.TruncatedNormal,
        rl.TruncatedNormal,
        "truncated",
        {"low": -3.0, "high": 0.5, "tanh_loc": True},
        ("mean", "mode", "variance", "deterministic_sample"),
    ),
    "TruncatedNormal, a and b": Family(
        ours.TruncatedNormal,
        td_nn.TruncatedNormal,
        "truncated",
        {"a": -1.0, "b": 1.0},
        ("mean", "variance"),
        ("log_prob", "cdf", "icdf"),
    ),
    "Delta": Family(ours.Delta, td_nn.Delta, "delta", {}, ("mean", "mode", "deterministic_sample")),
    "TanhDelta": Family(ours.TanhDelta, rl.TanhDelta, "delta", {}, ("mode", "deterministic_sample"), ()),
    "TanhDelta, bounds": Family(
        ours.TanhDelta,
        rl.TanhDelta,
        "delta",
        {"low": -1.0, "high": 3.0},
        ("mode", "deterministic_sample"),
        (),
    ),
    "Uniform": Family(
        ours.Uniform, D.Uniform, "uniform", {}, PLAIN[:-1], ("log_prob", "entropy", "cdf", "icdf")
    ),
    "Bernoulli, probs": Family(
        ours.Bernoulli, D.Bernoulli, "coin probs", {}, PLAIN[:-1], ("log_prob", "entropy")
    ),
    "Bernoulli, logits": Family(
        ours.Bernoulli, D.Bernoulli, "coin logits", {}, ("mean", "variance"), ("log_prob", "entropy")
    ),
    "OneHotCategorical, logits": Family(
        ours.OneHotCategorical,
        td_nn.OneHotCategorical,
        "classes logits",
        {},
        ("mode",),
        ("log_prob", "entropy"),
    ),
    "OneHotCategorical, probs": Family(
        ours.OneHotCategorical, rl.OneHotCategorical, "classes probs", {}, ("mode",), ("log_prob", "entropy")
    ),
    "Ordinal": Family(
        ours.Ordinal, rl.Ordinal, "classes scores", {}, ("mode", "probs"), ("log_prob", "entropy")
    ),
    "OneHotOrdinal": Family(
        ours.OneHotOrdinal, rl.OneHotOrdinal, "classes scores", {}, ("mode", "probs"), ("log_prob", "entropy")
    ),
    "OneHotCategorical, torch": Family(
        ours.OneHotCategorical, D.OneHotCategorical, "classes logits", {}, ("mean", "variance"), ("log_prob",)
    ),
}


@st.composite
def problems(draw, kind):
    """Parameters, and values to score."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def uniform(low, high, size=shape):
        return rng.uniform(low, high, size).astype(dtype)

    lead = draw(st.sampled_from([(), (3,)]))
    if kind == "normal":
        return {"loc": uniform(-3, 3), "scale": uniform(0.1, 3)}, uniform(-4, 4, lead + shape)
    if kind == "tanh":
        return {"loc": uniform(-2, 2), "scale": uniform(0.2, 2)}, uniform(-0.95, 0.95, lead + shape)
    if kind == "truncated":
        return {"loc": uniform(-2, 2), "scale": uniform(0.3, 2)}, uniform(-0.99, 0.49, lead + shape)
    if kind == "uniform":
        low = uniform(-3, 3)
        high = low + uniform(0.1, 3)
        return {"low": low, "high": high}, (low + uniform(0.01, 0.99, lead + shape) * (high - low))
    if kind == "delta":
        param = uniform(-2, 2)
        return {"param": param}, np.where(uniform(0, 1, shape[:-1] + (1,)) < 0.5, param, param + dtype(0.1))
    if kind.startswith("coin"):
        name = kind.split()[1]
        params = uniform(0, 1) if name == "probs" else uniform(-8, 8)
        return {name: params}, (uniform(0, 1, lead + shape) < 0.5).astype(dtype)
    name = kind.split()[1]
    shape = (*shape, 4)
    params = uniform(0.01, 1, shape) if name == "probs" else uniform(-8, 8, shape)
    return {name: params}, np.eye(4, dtype=np.int64)[rng.integers(0, 4, lead + shape[:-1])]


def close(got, expected, single):
    """Equal in shape, dtype and value; `single` is the tolerance in float32, 0 in float64."""
    got, expected = np.asarray(got), expected.numpy()
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    rtol, atol = (single, single / 5) if single else (1e-9, 1e-9)
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", FAMILIES)
@given(data=st.data())
@settings(max_examples=25)
def test_family(name, data):
    family = FAMILIES[name]
    params, value = data.draw(problems(family.kind))
    if name == "Ordinal":
        value = value.argmax(-1)
    in_single = next(iter(params.values())).dtype == np.float32
    # the reference takes differences of small probabilities in float32
    single = (5e-3 if family.kind == "truncated" else 1e-4) if in_single else 0
    options = dict(family.options)
    mine = family.ours(**params, **options)
    # bounds given as numbers are kept in float32 there, or not allowed
    numbers = [name for name in ("a", "b", "low", "high") if name in options]
    dtype = torch.float32 if in_single else torch.float64
    options |= {name: torch.tensor(options[name], dtype=dtype) for name in numbers}
    theirs = family.theirs(**tensors(params), **options)
    if "OneHot" not in name:  # the reference leaves the classes out of the event
        assert mine.event_shape == tuple(theirs.event_shape)
    assert mine.batch_shape == tuple(theirs.batch_shape)
    if name not in ("Delta", "TanhDelta", "TanhDelta, bounds"):
        assert mine.has_rsample == theirs.has_rsample
    for prop in family.properties:
        close(getattr(mine, prop), getattr(theirs, prop), single)
    for method in family.methods:
        if method == "entropy":
            close(mine.entropy(), theirs.entropy(), single)
        elif method == "icdf":
            p = np.clip(mine.cdf(value), 0.01, 0.99)
            close(mine.icdf(p), theirs.icdf(torch.from_numpy(np.asarray(p))), single)
        else:
            close(getattr(mine, method)(value), getattr(theirs, method)(torch.from_numpy(value)), single)
    drawn = np.asarray(mine.sample((5, 2), rng=0))
    expected = theirs.sample(torch.Size((5, 2)))
    assert drawn.shape == tuple(expected.shape)
    if family.theirs is not D.OneHotCategorical:  # whose samples are floats, other than tensordict's
        assert drawn.dtype == expected.numpy().dtype


@pytest.mark.parametrize("low", [-1.0, -2.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tanh_normal_at_the_bounds(low, dtype):
    loc, scale = np.zeros((3, 1), dtype), np.ones((3, 1), dtype)
    value = np.array([[low], [1.0], [low / 2]], dtype)
    mine = ours.TanhNormal(loc, scale, low=low, high=1.0).log_prob(value)
    theirs = rl.TanhNormal(torch.from_numpy(loc), torch.from_numpy(scale), low=low, high=1.0)
    np.testing.assert_allclose(mine, theirs.log_prob(torch.from_numpy(value)).numpy(), rtol=5e-3)


def test_mode_of_tanh_normal():
    """Nothing that torchrl finds is more probable, and where it arrives both are the same."""
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=(100, 1)) / 2, rng.uniform(0.1, 2.0, (100, 1))
    mine = ours.TanhNormal(loc, scale, low=-2.0, high=4.0)
    torch.manual_seed(0)
    theirs = rl.TanhNormal(torch.from_numpy(loc), torch.from_numpy(scale), low=-2.0, high=4.0).get_mode()
    difference = mine.log_prob(mine.get_mode()) - mine.log_prob(theirs.numpy())
    assert difference.min() >= 0
    arrived = difference < 1e-3
    assert arrived.sum() > 20
    np.testing.assert_allclose(mine.get_mode()[arrived], theirs.numpy()[arrived], atol=0.05)


def test_truncated_normal_beyond_the_bounds():
    loc, scale = np.zeros((4, 2)), np.ones((4, 2))
    value = np.array([[0.0, 0.0], [1.0, -1.0], [1.5, 0.0], [0.0, -1.01]])
    mine = ours.TruncatedNormal(loc, scale).log_prob(value)
    theirs = rl.TruncatedNormal(torch.from_numpy(loc), torch.from_numpy(scale))
    np.testing.assert_allclose(mine, theirs.log_prob(torch.from_numpy(value)).numpy(), rtol=1e-9)
    np.testing.assert_array_equal(np.isfinite(mine), [True, True, False, False])


@st.composite
def masked(draw):
    rows, classes = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from([(classes,), (rows, classes)]))
    name = draw(st.sampled_from(["logits", "probs"]))
    params = rng.uniform(-5, 5, shape) if name == "logits" else rng.uniform(0.01, 1, shape)
    out = {name: params.astype(draw(st.sampled_from([np.float32, np.float64])))}
    order = np.argsort(rng.random(shape), -1)
    if draw(st.booleans()):
        out["indices"] = np.sort(order[..., : draw(st.integers(1, classes))], -1)
    else:
        out["mask"] = order < draw(st.integers(1, classes))
    return out


@given(masked())
@settings(max_examples=100)
def test_masked_categorical(arguments):
    single = 1e-4 * (arguments.get("logits", arguments.get("probs")).dtype == np.float32)
    mine, theirs = ours.MaskedCategorical(**arguments), rl.MaskedCategorical(**tensors(arguments))
    close(mine.probs, theirs.probs, single)
    close(mine.entropy(), theirs.entropy(), single)
    close(mine.mode, theirs.mode, single)
    assert mine.batch_shape == tuple(theirs.batch_shape)
    for c in range(mine.num_samples):
        value = np.full(mine.batch_shape, c)
        close(mine.log_prob(value), theirs.log_prob(torch.from_numpy(value)).reshape(value.shape), single)
    draws = mine.sample((50,), rng=0)
    assert np.isfinite(mine.log_prob(draws)).all()


@given(masked())
@settings(max_examples=100)
def test_masked_one_hot_categorical(arguments):
    single = 1e-4 * (arguments.get("logits", arguments.get("probs")).dtype == np.float32)
    mine, theirs = ours.MaskedOneHotCategorical(**arguments), rl.MaskedOneHotCategorical(**tensors(arguments))
    close(mine.mode, theirs.mode, single)
    close(mine.entropy(), theirs.entropy(), single)
    for c in range(mine.num_samples):
        value = np.broadcast_to(
            np.eye(mine.num_samples, dtype=np.int64)[c], (*mine.batch_shape, mine.num_samples)
        )
        expected = theirs.log_prob(torch.from_numpy(value.copy())).reshape(mine.batch_shape)
        close(mine.log_prob(value), expected, single)
    draws = mine.sample((50,), rng=0)
    assert draws.shape == (50, *mine.batch_shape, mine.num_samples)
    assert np.isfinite(mine.log_prob(draws)).all()


def test_rand_one_hot():
    """Both draw a class in proportion to the softmax."""
    logits = np.log(np.array([0.1, 0.2, 0.7], np.float32))
    n = 20_000
    mine = ours.rand_one_hot(np.broadcast_to(logits, (n, 3)), rng=0)
    torch.manual_seed(0)
    theirs = td_nn.rand_one_hot(torch.from_numpy(logits).expand(n, 3)).numpy()
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(mine.mean(0), theirs.mean(0), atol=0.02)  # over four standard deviations


@pytest.mark.parametrize(
    ("make", "their_make", "error"),
    [
        (lambda: ours.Normal(0.0, -1.0), lambda: D.Normal(0.0, -1.0, validate_args=True), ValueError),
        (lambda: ours.Uniform(1.0, 1.0), lambda: D.Uniform(1.0, 1.0, validate_args=True), ValueError),
        (lambda: ours.Bernoulli(), lambda: D.Bernoulli(), ValueError),
        (
            lambda: ours.Bernoulli(probs=np.array(2.0)),
            lambda: D.Bernoulli(probs=torch.tensor(2.0), validate_args=True),
            ValueError,
        ),
        (
            lambda: ours.TanhNormal(np.zeros(1), np.ones(1), low=1.0, high=0.0),
            lambda: rl.TanhNormal(torch.zeros(1), torch.ones(1), low=1.0, high=0.0),
            RuntimeError,
        ),
        (
            lambda: ours.TanhDelta(np.zeros(1), low=1.0, high=1.0),
            lambda: rl.TanhDelta(torch.zeros(1), low=1.0, high=1.0),
            ValueError,
        ),
        (
            lambda: ours.TruncatedNormal(np.zeros(1), np.ones(1), low=1.0, high=0.0),
            lambda: rl.TruncatedNormal(torch.zeros(1), torch.ones(1), low=1.0, high=0.0),
            RuntimeError,
        ),
        (
            lambda: ours.TruncatedNormal(np.zeros(1), np.ones(1), a=1.0, b=0.0),
            lambda: td_nn.TruncatedNormal(torch.zeros(1), torch.ones(1), a=torch.ones(1), b=torch.zeros(1)),
            ValueError,
        ),
        (
            lambda: ours.MaskedCategorical(logits=np.zeros(2)),
            lambda: rl.MaskedCategorical(logits=torch.zeros(2)),
            ValueError,
        ),
        (
            lambda: ours.TanhNormal(np.zeros(1), np.ones(1)).mean,
            lambda: rl.TanhNormal(torch.zeros(1), torch.ones(1)).mean,
            NotImplementedError,
        ),
        (
            lambda: ours.TanhNormal(np.zeros(1), np.ones(1)).mode,
            lambda: rl.TanhNormal(torch.zeros(1), torch.ones(1)).mode,
            RuntimeError,
        ),
        (
            lambda: ours.TanhNormal(np.zeros(1), np.ones(1)).entropy(),
            lambda: rl.TanhNormal(torch.zeros(1), torch.ones(1)).entropy(),
            NotImplementedError,
        ),
        (
            lambda: ours.Independent(ours.Normal(0.0, 1.0), 1),
            lambda: D.Independent(D.Normal(0.0, 1.0), 1),
            ValueError,
        ),
    ],
)
def test_errors(make, their_make, error):
    for call in (make, their_make):
        with pytest.raises(error):
            call()
