"""Gradients of log-probs and entropies of every distribution against torch's, by parameters and by values.

In single precision torch loses digits: those are compared with its gradients in double precision. Draws are
compared with central differences of the same draws, as both sides have random numbers of their own.
"""

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case
from parity.distribution_cases import (
    OTHERS,
    TORCH,
    Case,
    between,
    classes,
    each,
    last,
    loc_and_scale,
    logits,
    positive,
    real,
    shares,
    tensors,
)
from torchrl.modules import distributions as rl

import lite
from lite.nn import distributions as ours

D = torch.distributions
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
RNG = np.random.default_rng(0)
SHAPE = (3, 2)
MASK = np.array([[1, 0, 1, 1], [1, 1, 1, 0], [0, 1, 1, 1]], bool)[:, None].repeat(2, 1)


def masked(name, values):
    return Case(
        lambda **p: getattr(ours, name)(**p, mask=MASK),
        lambda **p: getattr(rl, name)(**p, mask=torch.from_numpy(MASK)),
        each(logits=last(logits)),
        values,
    )


def mixture(module):
    return lambda logits, loc, scale: module.MixtureSameFamily(
        module.Categorical(logits=logits), module.Normal(loc, scale)
    )


def transformed(*names, values):
    """Normal numbers under transforms, which torch has beside its distributions."""

    def make(module, transforms):
        return lambda loc, scale: module.TransformedDistribution(
            module.Independent(module.Normal(loc, scale), 1), [getattr(transforms, name)() for name in names]
        )

    params = lambda r, s: loc_and_scale(r, (*s, 4))  # noqa: E731
    return Case(make(ours, ours), make(D, D.transforms), params, last(values))


def without(names):
    return {name: case for name, case in (TORCH | OTHERS).items() if not name.startswith(names)}


# The derivatives of the last are not those of its draws.
LEFT_OUT = (
    "Delta", "TanhDelta", "MultivariateNormal, precision", "OneHotCategorical, torch", "OneHotCategoricalS",
)  # fmt: skip
CASES = without(LEFT_OUT) | {
    "MaskedCategorical": masked("MaskedCategorical", lambda r, s: MASK.argmax(-1)),
    "MaskedCategorical, indices": Case(lambda **p: ours.MaskedCategorical(**p,
        indices=np.array([0, 2, 3])), lambda **p: rl.MaskedCategorical(**p,
        indices=torch.tensor([0, 2, 3])), lambda r, s: {"logits": logits(r, (4,))}, lambda r,
        s: np.array(2)),
    "MaskedOneHotCategorical": masked("MaskedOneHotCategorical", lambda r,
        s: np.eye(4, dtype=np.int64)[MASK.argmax(-1)]),
    "MixtureSameFamily": Case(mixture(ours), mixture(D),
        each(logits=last(logits), loc=last(real), scale=last(positive)), real),
    "TransformedDistribution, tanh": transformed("TanhTransform", values=between(-0.9, 0.9)),
    "TransformedDistribution, exp": transformed("ExpTransform", values=positive),
    "TransformedDistribution, sigmoid": transformed("SigmoidTransform", values=shares),
    "TransformedDistribution, softplus": transformed("SoftplusTransform", values=positive),
}  # fmt: skip
# Without an entropy in one of the libraries, or without its gradient.
NO_ENTROPY = (
    *("Binomial", "Masked", "Mixture", "Multinomial", "NegativeBinomial", "Poisson", "Relaxed", "Tanh"),
    *("Transformed", "Truncated", "VonMises"),
)
# torch has fewer digits of these.
EXACT = {"VonMises": 1e-6, "TruncatedNormal": 1e-8}


def problem(name):
    """What makes it of parameters to differentiate by, of either library; these, and values."""
    case, rng = CASES[name], np.random.default_rng(0)
    params = case.params(rng, SHAPE)
    fixed = {k: params.pop(k) for k in ["total_count"] if k in params and not name.startswith("Negative")}
    given = {k: tensors({k: v})[k] for k, v in fixed.items()}
    makers = lambda **p: case.ours(**p, **fixed), lambda **p: case.theirs(**p, **given)
    return *makers, params, np.asarray(case.values(rng, SHAPE))


def weighted(x, seed=1):
    """One number of all, in which each has another weight."""
    weight = np.random.default_rng(seed).standard_normal(tuple(x.shape))
    if isinstance(x, torch.Tensor):
        return (x * torch.from_numpy(weight)).sum()
    return (x * weight.astype(x.dtype)).sum()


# torch's trigamma function has nine digits; tests/arrays/test_special.py has the digits of the one here.
FEWER_DIGITS = {"Beta", "Chi2", "Dirichlet", "Gamma", "StudentT"}


def agree(name, dtype, number, scored, limit):
    """The same gradients of a number of a distribution, by its parameters and by what is scored."""
    make, theirs, params, value = problem(name)
    params = {key: np.asarray(value, dtype) for key, value in params.items()}
    there = {key: tensor.requires_grad_() for key, tensor in tensors(params, np.float64).items()}
    floats = scored and not make(**params).support.is_discrete
    other = torch.from_numpy(value.astype(dtype).astype(np.float64) if floats else value.copy())
    loss = number(theirs(**there), other.requires_grad_(floats))
    loss.backward()
    given = value.astype(dtype) if value.dtype.kind == "f" else value
    argnums = (0, 1) if floats else 0
    got, found = lite.value_and_grad(lambda params, given: number(make(**params), given), argnums)(
        params, given
    )
    limit = limit if dtype == "float64" else 1e-5
    np.testing.assert_allclose(got, loss.item(), rtol=10 * limit, atol=10 * limit)
    by_params, by_value = found if floats else (found, None)
    pairs = [(key, by_params[key], there[key].grad) for key in params]
    for key, got, expected in [*pairs, *([("value", by_value, other.grad)] if floats else [])]:
        expected = np.zeros(got.shape) if expected is None else expected.numpy()
        assert got.dtype == dtype, key
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(got, expected, rtol=0, atol=limit * scale, err_msg=key)


@each_case("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_log_probs(name, dtype):
    limit = EXACT.get(name.split(",")[0], 1e-10)
    agree(name, dtype, lambda dist, value: weighted(dist.log_prob(value)), True, limit)


@each_case("name", [name for name in CASES if not name.startswith(NO_ENTROPY)])
def test_entropies(name):
    limit = 1e-8 if name in FEWER_DIGITS else 1e-10
    agree(name, "float64", lambda dist, _: weighted(dist.entropy()), False, limit)


@each_case("name", CASES)
def test_draws(name):
    make, _, params, _ = problem(name)

    def draw(params):
        dist = make(**params)
        return weighted(dist.rsample((2,), rng=0)) if dist.has_rsample else dist.sample((2,), rng=0)

    def detached(given):
        found = make(**given).sample((2,), rng=0)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, make(**params).sample((2,), rng=0))
        return sum(x.sum() for x in given.values())

    lite.grad(detached)(params)
    if not make(**params).has_rsample:
        return
    if name in FEWER_DIGITS:  # the reference differentiates them by methods that are not here
        with pytest.raises(NotImplementedError, match="no gradient through draws"):
            lite.grad(draw)(params)
        return
    found = lite.grad(draw)(params)
    for key, value in params.items():
        direction = np.random.default_rng(2).standard_normal(value.shape)
        if key == "scale_tril":
            direction = np.tril(direction)
        if key == "covariance_matrix":
            direction = direction + direction.swapaxes(-1, -2)
        ends = [draw({**params, key: value + step * direction}) for step in (1e-6, -1e-6)]
        np.testing.assert_allclose(
            (found[key] * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-6, err_msg=key
        )


@pytest.mark.parametrize("name", ["rsample_and_log_prob", "sample_and_log_prob"])
def test_draws_of_tanh_normal_with_log_probs(name):
    """Both with fixed noise: by parameters, for a weighted sum of both results."""
    params = loc_and_scale(RNG, (3, 4))
    noise = []

    def ours_loss(params):
        action, log_prob = getattr(ours.TanhNormal(**params), name)(rng=0)
        noise[:] = [getattr(action, "value", action)]
        return weighted(action) + weighted(log_prob, 2)

    got = lite.grad(ours_loss)(params)
    there = {key: tensor.requires_grad_() for key, tensor in tensors(params).items()}
    z = torch.from_numpy(np.arctanh(noise[0]))
    if name.startswith("r"):
        z = there["loc"] + there["scale"] * ((z - there["loc"]) / there["scale"]).detach()
    slope = 2 * (np.log(2) - z - torch.nn.functional.softplus(-2 * z))
    log_prob = (D.Normal(**there).log_prob(z) - slope).sum(-1)
    (weighted(torch.tanh(z)) + weighted(log_prob, 2)).backward()
    for key, tensor in there.items():
        np.testing.assert_allclose(got[key], tensor.grad.numpy(), rtol=1e-7, atol=1e-8, err_msg=key)


def test_composite():
    params = {"move": loc_and_scale(RNG, (3, 4)), "turn": {"logits": real(RNG, (3, 4))}}
    values = {"move": real(RNG, (3, 4)), "turn": classes(RNG, (3,))}
    kinds = {"move": "Normal", "turn": "Categorical"}

    def score(lib, dists, composite, params, values):
        dist = composite(
            lib.TensorDict(params, batch_size=[3]), {key: getattr(dists, kind) for key, kind in kinds.items()}
        )
        found = dist.log_prob(lib.TensorDict(values, batch_size=[3]))
        return sum(weighted(found[key]) for key in ("move_log_prob", "turn_log_prob"))

    got = lite.grad(lambda p: score(lite, ours, ours.CompositeDistribution, p, values))(params)
    there = {
        part: {key: torch.from_numpy(value).requires_grad_() for key, value in arrays.items()}
        for part, arrays in params.items()
    }
    score(
        tensordict, D, tensordict.nn.CompositeDistribution, there,
        {key: torch.from_numpy(value) for key, value in values.items()},
    ).backward()  # fmt: skip
    for part, arrays in there.items():
        for key, tensor in arrays.items():
            np.testing.assert_allclose(got[part][key], tensor.grad.numpy(), atol=1e-10, err_msg=key)


# Without parameters to learn by their log-probs, or tested above or elsewhere.
NOT_HERE = {
    "CompositeDistribution": "test_composite",
    "Delta": "its log-prob is inf or -inf",
    "Distribution": "the base",
    "LLMMaskedCategorical": "test_llm_masked_categorical",
    "LogProbDistribution": "holds log-probs that are known",
    "OneHotCategoricalStraightThrough": "a OneHotCategorical, whose draws have the derivatives of its mean",
    "TanhDelta": "its log-prob is inf or -inf",
}


def test_llm_masked_categorical():
    scores, mask = real(RNG, (3, 5, 4)), np.ones((3, 5), bool)
    mask[0, :2] = False
    ids = np.where(mask, RNG.integers(0, 4, (3, 5)), -100)
    got = lite.grad(lambda x: weighted(ours.LLMMaskedCategorical(x, mask).log_prob(ids)))(scores)
    tensor = torch.from_numpy(scores).requires_grad_()
    weighted(
        rl.LLMMaskedCategorical(tensor, torch.from_numpy(mask)).log_prob(torch.from_numpy(ids))
    ).backward()
    np.testing.assert_allclose(got, tensor.grad.numpy(), atol=1e-10)


@pytest.mark.parametrize("name", ["Delta", "TanhDelta"])
def test_policies_without_chance(name):
    """The action of a deterministic policy, and drawing it where the reference does."""
    param = real(RNG, (3, 4))
    for draw in (lambda d: d.deterministic_sample, lambda d: d.rsample(*(() if name == "Delta" else ((),)))):
        got = lite.grad(lambda x, draw=draw: weighted(draw(getattr(ours, name)(x))))(param)
        tensor = torch.from_numpy(param).requires_grad_()
        weighted(getattr(rl, name)(tensor).deterministic_sample).backward()
        np.testing.assert_allclose(got, tensor.grad.numpy(), atol=1e-10)


def test_every_distribution_is_here():
    classes = {
        name
        for name in ours.__all__
        if isinstance(getattr(ours, name), type) and issubclass(getattr(ours, name), ours.Distribution)
    }
    assert classes - {name.partition(",")[0] for name in CASES} == set(NOT_HERE)
