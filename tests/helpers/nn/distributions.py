"""Every distribution, made of the same parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite import TensorDict
from lite.nn import distributions as d

Make = Callable[[dict[str, Any]], Any]
BATCH = (3, 2)


def parameters(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "loc": rng.normal(size=(*BATCH, 4)),
        "scale": rng.random((*BATCH, 4)) + 0.2,
        "probs": rng.random((*BATCH, 4)),
        "logits": rng.normal(size=(*BATCH, 4)),
        "mask": rng.random((*BATCH, 4)) < 0.5,
        "seen": np.array([[True, False], [True, True], [False, True]]),
    }


def _admitting(p: dict[str, Any]) -> Any:
    mask = p["mask"].copy()
    mask[..., 1] = True
    return mask


def _covariances(scale: Any) -> Any:
    return scale[..., None] * scale[..., None, :] * scale.dtype.type(0.3) + np.eye(4, dtype=scale.dtype)


# how each is made of parameters (*batch, 4)
MAKE: dict[str, Make] = {
    "Bernoulli": lambda p: d.Bernoulli(probs=p["probs"]),
    "Categorical": lambda p: d.Categorical(logits=p["logits"]),
    "CompositeDistribution": lambda p: d.CompositeDistribution(
        TensorDict(
            {"x": {k: p[k] for k in ("loc", "scale")}, "y": {"probs": p["probs"]}}, p["loc"].shape[:-1]
        ),
        {"x": d.IndependentNormal, "y": d.Categorical},
    ),
    "Delta": lambda p: d.Delta(p["loc"]),
    "Independent": lambda p: d.Independent(d.Uniform(p["loc"], p["loc"] + p["scale"]), 1),
    "IndependentNormal": lambda p: d.IndependentNormal(p["loc"], p["scale"]),
    "LLMMaskedCategorical": lambda p: d.LLMMaskedCategorical(p["logits"], p["seen"]),
    "LogProbDistribution": lambda p: d.LogProbDistribution(p["loc"], p["mask"]),
    "MaskedCategorical": lambda p: d.MaskedCategorical(p["logits"], mask=_admitting(p)),
    "MaskedOneHotCategorical": lambda p: d.MaskedOneHotCategorical(
        probs=p["probs"], indices=np.array([0, 3])
    ),
    "Normal": lambda p: d.Normal(p["loc"], p["scale"]),
    "OneHotCategorical": lambda p: d.OneHotCategorical(probs=p["probs"]),
    "OneHotCategoricalStraightThrough": lambda p: d.OneHotCategoricalStraightThrough(p["probs"]),
    "OneHotOrdinal": lambda p: d.OneHotOrdinal(p["logits"]),
    "Ordinal": lambda p: d.Ordinal(p["logits"]),
    "TanhDelta": lambda p: d.TanhDelta(p["loc"], high=2.0),
    "TanhNormal": lambda p: d.TanhNormal(p["loc"], p["scale"], low=-2.0),
    "TruncatedNormal": lambda p: d.TruncatedNormal(p["loc"], p["scale"]),
    "Uniform": lambda p: d.Uniform(p["loc"], p["loc"] + p["scale"]),
    "Beta": lambda p: d.Beta(p["scale"], p["probs"] + 0.1),
    "Binomial": lambda p: d.Binomial(7, logits=p["logits"]),
    "Cauchy": lambda p: d.Cauchy(p["loc"], p["scale"]),
    "Chi2": lambda p: d.Chi2(p["scale"]),
    "Dirichlet": lambda p: d.Dirichlet(p["scale"]),
    "Exponential": lambda p: d.Exponential(p["scale"]),
    "Gamma": lambda p: d.Gamma(p["scale"], p["probs"] + 0.1),
    "Geometric": lambda p: d.Geometric(probs=p["probs"]),
    "Gumbel": lambda p: d.Gumbel(p["loc"], p["scale"]),
    "HalfNormal": lambda p: d.HalfNormal(p["scale"]),
    "Laplace": lambda p: d.Laplace(p["loc"], p["scale"]),
    "LogNormal": lambda p: d.LogNormal(p["loc"], p["scale"]),
    "MixtureSameFamily": lambda p: d.MixtureSameFamily(
        d.Categorical(probs=p["probs"]), d.Normal(p["loc"], p["scale"])
    ),
    "Multinomial": lambda p: d.Multinomial(5, probs=p["probs"]),
    "MultivariateNormal": lambda p: d.MultivariateNormal(p["loc"], _covariances(p["scale"])),
    "NegativeBinomial": lambda p: d.NegativeBinomial(p["scale"], probs=p["probs"]),
    "Pareto": lambda p: d.Pareto(p["scale"], p["probs"] + 0.1),
    "Poisson": lambda p: d.Poisson(p["scale"]),
    "RelaxedOneHotCategorical": lambda p: d.RelaxedOneHotCategorical(p["scale"][..., 0], logits=p["logits"]),
    "StudentT": lambda p: d.StudentT(p["scale"], p["loc"], p["probs"] + 0.1),
    "TransformedDistribution": lambda p: d.TransformedDistribution(
        d.Independent(d.Normal(p["loc"], p["scale"]), 1),
        [d.SafeTanhTransform(), d.AffineTransform(p["loc"], p["scale"])],
    ),
    "VonMises": lambda p: d.VonMises(p["loc"], p["scale"]),
    "Weibull": lambda p: d.Weibull(p["scale"], p["probs"] + 0.1),
}
