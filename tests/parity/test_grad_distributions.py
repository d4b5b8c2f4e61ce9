"""Gradients of log-probs and entropies of every distribution against torch's, by parameters and by values.

In single precision torch loses digits: those are compared with its gradients in double precision. Draws are
compared with central differences of the same draws, as both sides have random numbers of their own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensordict
import torch
from torchrl.modules import distributions as rl

import lite
from lite.nn import distributions as ours

D = torch.distributions
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
RNG = np.random.default_rng(0)
SHAPE = (3, 4)


class Case(NamedTuple):
    """A distribution of both libraries.

    Attributes:
        ours, theirs: make it of parameters, given by keyword.
        params: arrays to differentiate by.
        value: what is scored; None where nothing is.
        entropy: whether both have an entropy.
        exact: the tolerance in double precision, larger where torch has fewer digits.
    """

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    params: dict[str, Any]
    value: Any
    entropy: bool = True
    exact: float = 1e-10


def real(*shape):
    return RNG.uniform(-2, 2, shape or SHAPE)


def positive(*shape):
    return np.exp(RNG.uniform(-1, 1, shape or SHAPE))


def share(*shape):
    return RNG.uniform(0.1, 0.9, shape or SHAPE)


def counts(*shape):
    return RNG.integers(0, 6, shape or SHAPE).astype(float)


def classes():
    return RNG.integers(0, 4, SHAPE[:1])


def one_hot():
    return np.eye(4, dtype=np.int64)[classes()]


def loc_scale():
    return {"loc": real(), "scale": positive()}


def named(name, **options):
    """The class of a name in both libraries."""
    return {
        "ours": lambda **p: getattr(ours, name)(**p, **options),
        "theirs": lambda **p: getattr(D, name)(**p, **options, validate_args=False),
    }


def of_rl(name, **options):
    def theirs(**p):
        dtype = next(iter(p.values())).dtype
        bounds = {k: torch.tensor(v, dtype=dtype) if isinstance(v, float) else v for k, v in options.items()}
        return getattr(rl, name)(**p, **bounds)

    return {"ours": lambda **p: getattr(ours, name)(**p, **options), "theirs": theirs}


def matrices():
    root = RNG.normal(size=(3, 4, 4))
    return root @ root.swapaxes(-1, -2) + np.eye(4)


def mixture(module):
    return lambda logits, loc, scale: module.MixtureSameFamily(
        module.Categorical(logits=logits), module.Normal(loc, scale)
    )


def transformed(module):
    def make(loc, scale):
        maps = [module.TanhTransform(), module.AffineTransform(1.0, 2.0)]
        return module.TransformedDistribution(
            module.Independent(module.Normal(loc, scale), 1),
            maps if module is ours else [D.TanhTransform(), D.AffineTransform(1.0, 2.0)],
        )

    return make


class _WithTransforms:
    """torch's distributions, with its maps beside them."""

    def __getattr__(self, name):
        return getattr(D, name, None) or getattr(D.transforms, name)


THEIRS = _WithTransforms()


def maps(*transforms, base="Normal"):
    def make(module):
        def of(loc, scale):
            given = [getattr(module, name)() for name in transforms]
            return module.TransformedDistribution(getattr(module, base)(loc, scale), given)

        return of

    return {"ours": make(ours), "theirs": make(THEIRS)}


MASK = np.array([[True, True, False, True], [True, False, True, True], [False, True, True, True]])
CASES = {
    "Bernoulli, probs": Case(**named("Bernoulli"), params={"probs": share()}, value=counts() % 2),
    "Bernoulli, logits": Case(**named("Bernoulli"), params={"logits": real()}, value=counts() % 2),
    "Beta": Case(
        **named("Beta"), params={"concentration1": positive(), "concentration0": positive()}, value=share()
    ),
    "Binomial, probs": Case(
        **named("Binomial", total_count=7), params={"probs": share()}, value=counts(), entropy=False
    ),
    "Binomial, logits": Case(
        **named("Binomial", total_count=7), params={"logits": real()}, value=counts(), entropy=False
    ),
    "Categorical, probs": Case(**named("Categorical"), params={"probs": share()}, value=classes()),
    "Categorical, logits": Case(**named("Categorical"), params={"logits": real()}, value=classes()),
    "Cauchy": Case(**named("Cauchy"), params=loc_scale(), value=real()),
    "Chi2": Case(**named("Chi2"), params={"df": positive()}, value=positive()),
    "Dirichlet": Case(
        **named("Dirichlet"), params={"concentration": positive()}, value=RNG.dirichlet(np.ones(4), 3)
    ),
    **{
        f"RelaxedOneHotCategorical, {name}": Case(
            **named("RelaxedOneHotCategorical"),
            params={"temperature": np.array(0.7), name: values},
            value=RNG.dirichlet(np.ones(4), 3),
            entropy=False,
        )
        for name, values in (("probs", share()), ("logits", real()))
    },
    "Exponential": Case(**named("Exponential"), params={"rate": positive()}, value=positive()),
    "Gamma": Case(
        **named("Gamma"), params={"concentration": positive(), "rate": positive()}, value=positive()
    ),
    "Geometric, probs": Case(**named("Geometric"), params={"probs": share()}, value=counts()),
    "Geometric, logits": Case(**named("Geometric"), params={"logits": real()}, value=counts()),
    "Gumbel": Case(**named("Gumbel"), params=loc_scale(), value=real()),
    "HalfNormal": Case(**named("HalfNormal"), params={"scale": positive()}, value=positive()),
    "Independent": Case(
        lambda **p: ours.Independent(ours.Normal(**p), 1),
        lambda **p: D.Independent(D.Normal(**p), 1),
        loc_scale(),
        real(),
    ),
    "IndependentNormal": Case(**of_rl("IndependentNormal"), params=loc_scale(), value=real()),
    "Laplace": Case(**named("Laplace"), params=loc_scale(), value=real()),
    "LogNormal": Case(**named("LogNormal"), params=loc_scale(), value=positive()),
    "MaskedCategorical": Case(
        lambda **p: ours.MaskedCategorical(**p, mask=MASK),
        lambda **p: rl.MaskedCategorical(**p, mask=torch.from_numpy(MASK)),
        {"logits": real()},
        np.array([0, 2, 1]),
    ),
    "MaskedCategorical, indices": Case(
        lambda **p: ours.MaskedCategorical(**p, indices=np.array([0, 2, 3])),
        lambda **p: rl.MaskedCategorical(**p, indices=torch.tensor([0, 2, 3])),
        {"logits": real(4)},
        np.array(2),
    ),
    "MaskedOneHotCategorical": Case(
        lambda **p: ours.MaskedOneHotCategorical(**p, mask=MASK),
        lambda **p: rl.MaskedOneHotCategorical(**p, mask=torch.from_numpy(MASK)),
        {"logits": real()},
        np.eye(4, dtype=np.int64)[[0, 2, 1]],
    ),
    "MixtureSameFamily": Case(
        mixture(ours), mixture(D), {"logits": real(3, 4), "loc": real(), "scale": positive()}, real(3), False
    ),
    "Multinomial, probs": Case(
        **named("Multinomial", total_count=5),
        params={"probs": share()},
        value=RNG.multinomial(5, np.full(4, 0.25), 3).astype(float),
        entropy=False,
    ),
    "Multinomial, logits": Case(
        **named("Multinomial", total_count=5),
        params={"logits": real()},
        value=RNG.multinomial(5, np.full(4, 0.25), 3).astype(float),
        entropy=False,
    ),
    "MultivariateNormal, covariance_matrix": Case(
        **named("MultivariateNormal"), params={"loc": real(), "covariance_matrix": matrices()}, value=real()
    ),
    "MultivariateNormal, scale_tril": Case(
        **named("MultivariateNormal"),
        params={"loc": real(), "scale_tril": np.linalg.cholesky(matrices())},
        value=real(),
    ),
    "NegativeBinomial": Case(
        **named("NegativeBinomial"),
        params={"total_count": positive(), "logits": real()},
        value=counts(),
        entropy=False,
    ),
    "Normal": Case(**named("Normal"), params=loc_scale(), value=real()),
    "OneHotCategorical, probs": Case(
        **of_rl("OneHotCategorical"), params={"probs": share()}, value=one_hot()
    ),
    "OneHotCategorical, logits": Case(
        **of_rl("OneHotCategorical"), params={"logits": real()}, value=one_hot()
    ),
    "OneHotOrdinal": Case(**of_rl("OneHotOrdinal"), params={"scores": real()}, value=one_hot()),
    "Ordinal": Case(**of_rl("Ordinal"), params={"scores": real()}, value=classes()),
    "Pareto": Case(
        **named("Pareto"), params={"scale": positive(), "alpha": positive()}, value=4.5 + positive()
    ),
    "Poisson": Case(**named("Poisson"), params={"rate": positive()}, value=counts(), entropy=False),
    "StudentT": Case(**named("StudentT"), params={"df": positive(), **loc_scale()}, value=real()),
    "TanhNormal": Case(
        **of_rl("TanhNormal"), params=loc_scale(), value=RNG.uniform(-0.9, 0.9, SHAPE), entropy=False
    ),
    "TanhNormal, bounds": Case(
        **of_rl("TanhNormal", low=-2.0, high=5.0), params=loc_scale(), value=real() * 0.9, entropy=False
    ),
    "TanhNormal, tanh_loc": Case(
        **of_rl("TanhNormal", tanh_loc=True, upscale=2.0),
        params=loc_scale(),
        value=RNG.uniform(-0.9, 0.9, SHAPE),
        entropy=False,
    ),
    "TransformedDistribution, tanh": Case(
        transformed(ours), transformed(D), loc_scale(), 1 + RNG.uniform(-1.5, 1.5, SHAPE), False
    ),
    **{
        f"TransformedDistribution, {name}": Case(**maps(name), params=loc_scale(), value=value, entropy=False)
        for name, value in (
            ("ExpTransform", positive()),
            ("SigmoidTransform", share()),
            ("SoftplusTransform", positive()),
        )
    },
    "TruncatedNormal": Case(
        **of_rl("TruncatedNormal"),
        params=loc_scale(),
        value=RNG.uniform(-0.9, 0.9, SHAPE),
        entropy=False,
        exact=1e-8,
    ),
    "Uniform": Case(**named("Uniform"), params={"low": real() - 4, "high": real() + 4}, value=real() * 0.5),
    "VonMises": Case(
        **named("VonMises"),
        params={"loc": real(), "concentration": positive()},
        value=real(),
        entropy=False,
        exact=1e-6,
    ),
    "Weibull": Case(
        **named("Weibull"), params={"scale": positive(), "concentration": positive()}, value=positive()
    ),
}


def weighted(x, seed=1):
    """One number of all, in which each has another weight."""
    weight = np.random.default_rng(seed).standard_normal(tuple(x.shape))
    if isinstance(x, torch.Tensor):
        return (x * torch.from_numpy(weight)).sum()
    return (x * weight.astype(x.dtype)).sum()


# torch's trigamma function has nine digits; tests/arrays/test_special.py has the digits of the one here.
FEWER_DIGITS = {"Beta", "Chi2", "Dirichlet", "Gamma", "StudentT"}


def agree(case, dtype, of_ours, of_theirs, extra):
    """The same gradients of a number of a distribution, by its parameters and by what is scored."""
    params = {key: value.astype(dtype) for key, value in case.params.items()}
    tensors = {
        key: torch.from_numpy(value.astype(np.float64)).requires_grad_() for key, value in params.items()
    }
    floats = extra is not None and not case.ours(**params).support.is_discrete
    given = extra if extra is None or extra.dtype.kind != "f" else extra.astype(dtype)
    scored = None if extra is None else torch.from_numpy(np.asarray(extra).copy())
    if floats:
        scored.requires_grad_()
    loss = of_theirs(case.theirs(**tensors), scored)
    loss.backward()
    argnums = (0, 1) if floats else 0
    value, found = lite.value_and_grad(
        lambda params, given: of_ours(case.ours(**params), given), argnums=argnums
    )(params, given)
    limit = case.exact if dtype == "float64" else 1e-5
    np.testing.assert_allclose(value, loss.item(), rtol=10 * limit, atol=10 * limit)
    by_params, by_value = found if floats else (found, None)
    pairs = [(key, by_params[key], tensors[key].grad) for key in params]
    if floats:
        pairs.append(("value", by_value, scored.grad))
    for key, got, expected in pairs:
        expected = np.zeros(got.shape) if expected is None else expected.numpy()
        assert got.dtype == dtype, key
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(got, expected, rtol=0, atol=limit * scale, err_msg=key)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_log_probs(name, dtype):
    case = CASES[name]
    score = lambda dist, value: weighted(dist.log_prob(value))  # noqa: E731
    agree(case, dtype, score, score, case.value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.entropy])
def test_entropies(name, dtype):
    case = CASES[name]._replace(exact=1e-8) if name in FEWER_DIGITS else CASES[name]
    agree(case, dtype, lambda d, _: weighted(d.entropy()), lambda d, _: weighted(d.entropy()), None)


# Whose draws the reference differentiates by parameters, by methods that are not here.
WITHOUT_SLOPE = {"Beta", "Chi2", "Dirichlet", "Gamma", "StudentT"}


@pytest.mark.parametrize("name", CASES)
def test_draws(name):
    case = CASES[name]

    def draw(params):
        dist = case.ours(**params)
        return weighted(dist.rsample((2,), rng=0)) if dist.has_rsample else dist.sample((2,), rng=0)

    def detached(params):
        found = case.ours(**params).sample((2,), rng=0)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, case.ours(**case.params).sample((2,), rng=0))
        return sum(x.sum() for x in params.values())

    lite.grad(detached)(case.params)
    if not case.ours(**case.params).has_rsample:
        return
    if name in WITHOUT_SLOPE:
        with pytest.raises(NotImplementedError, match="no gradient through draws"):
            lite.grad(draw)(case.params)
        return
    found = lite.grad(draw)(case.params)
    for key, value in case.params.items():
        direction = np.random.default_rng(2).standard_normal(value.shape)
        if key == "scale_tril":
            direction = np.tril(direction)
        if key == "covariance_matrix":
            direction = direction + direction.swapaxes(-1, -2)
        ends = [draw({**case.params, key: value + step * direction}) for step in (1e-6, -1e-6)]
        np.testing.assert_allclose(
            (found[key] * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-6, err_msg=key
        )


@pytest.mark.parametrize("name", ["rsample_and_log_prob", "sample_and_log_prob"])
def test_draws_of_tanh_normal_with_log_probs(name):
    """Both with fixed noise: by parameters, for a weighted sum of both results."""
    params = {"loc": real(), "scale": positive()}
    noise = []

    def ours_loss(params):
        action, log_prob = getattr(ours.TanhNormal(**params), name)(rng=0)
        noise[:] = [getattr(action, "value", action)]
        return weighted(action) + weighted(log_prob, 2)

    got = lite.grad(ours_loss)(params)
    tensors = {key: torch.from_numpy(value).requires_grad_() for key, value in params.items()}
    z = torch.from_numpy(np.arctanh(noise[0]))
    if name.startswith("r"):
        z = tensors["loc"] + tensors["scale"] * ((z - tensors["loc"]) / tensors["scale"]).detach()
    slope = 2 * (np.log(2) - z - torch.nn.functional.softplus(-2 * z))
    log_prob = (D.Normal(**tensors).log_prob(z) - slope).sum(-1)
    (weighted(torch.tanh(z)) + weighted(log_prob, 2)).backward()
    for key, tensor in tensors.items():
        np.testing.assert_allclose(got[key], tensor.grad.numpy(), rtol=1e-7, atol=1e-8, err_msg=key)


def test_composite():
    params = {"move": {"loc": real(), "scale": positive()}, "turn": {"logits": real()}}
    values = {"move": real(), "turn": classes()}
    kinds = {"move": "Normal", "turn": "Categorical"}

    def score(lib, dists, composite, params, values):
        dist = composite(
            lib.TensorDict(params, batch_size=[3]), {key: getattr(dists, kind) for key, kind in kinds.items()}
        )
        found = dist.log_prob(lib.TensorDict(values, batch_size=[3]))
        return sum(weighted(found[key]) for key in ("move_log_prob", "turn_log_prob"))

    got = lite.grad(lambda p: score(lite, ours, ours.CompositeDistribution, p, values))(params)
    tensors = {
        part: {key: torch.from_numpy(value).requires_grad_() for key, value in arrays.items()}
        for part, arrays in params.items()
    }
    score(
        tensordict,
        D,
        tensordict.nn.CompositeDistribution,
        tensors,
        {key: torch.from_numpy(value) for key, value in values.items()},
    ).backward()
    for part, arrays in tensors.items():
        for key, tensor in arrays.items():
            np.testing.assert_allclose(got[part][key], tensor.grad.numpy(), atol=1e-10, err_msg=key)


# Without parameters to learn by their log-probs, or tested above or elsewhere.
NOT_HERE = {
    "CompositeDistribution": "test_composite",
    "Delta": "its log-prob is inf or -inf",
    "Distribution": "the base",
    "LLMMaskedCategorical": "test_llm_masked_categorical",
    "LogProbDistribution": "holds log-probs that are known",
    "TanhDelta": "its log-prob is inf or -inf",
}


def test_llm_masked_categorical():
    logits, mask = real(3, 5, 4), np.ones((3, 5), bool)
    mask[0, :2] = False
    ids = np.where(mask, RNG.integers(0, 4, (3, 5)), -100)
    got = lite.grad(lambda x: weighted(ours.LLMMaskedCategorical(x, mask).log_prob(ids)))(logits)
    tensor = torch.from_numpy(logits).requires_grad_()
    weighted(
        rl.LLMMaskedCategorical(tensor, torch.from_numpy(mask)).log_prob(torch.from_numpy(ids))
    ).backward()
    np.testing.assert_allclose(got, tensor.grad.numpy(), atol=1e-10)


@pytest.mark.parametrize("name", ["Delta", "TanhDelta"])
def test_policies_without_chance(name):
    """The action of a deterministic policy, and drawing it where the reference does."""
    param = real()
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
