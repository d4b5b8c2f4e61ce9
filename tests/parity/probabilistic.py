"""Cases that are written once and run with lite and tensordict; what comes out, errors too, must be equal."""

from typing import Any

import numpy as np
import tensordict
import torch
from helpers.compared import on_both
from parity.outcomes import assert_agree, outcome
from tensordict import nn as reference
from torchrl.modules import distributions as rl

import lite
from lite import nn
from lite.nn import distributions


class Lib:
    """The names that differ between the two libraries."""

    def __init__(self, lib: Any, tdnn: Any, array: Any, dists: dict[str, Any]) -> None:
        self.TD = lib.TensorDict
        self.nn = tdnn
        self.array = array
        for name, cls in dists.items():
            setattr(self, name, cls)

    def zeros(self, *shape: int) -> Any:
        return self.array(np.zeros(shape))

    def linspace(self, *shape: int) -> Any:
        return self.array(np.linspace(-1, 1, int(np.prod(shape))).reshape(shape))

    def td(self, **entries: Any) -> Any:
        size = entries.pop("batch_size", [])
        entries = {k: self.array(v) if isinstance(v, np.ndarray) else v for k, v in entries.items()}
        return self.TD(entries, batch_size=size)


NAMES = ["Normal", "Independent", "Categorical", "Bernoulli", "Uniform"]
LITE = Lib(
    lite,
    nn,
    lambda a: a,
    {name: getattr(distributions, name) for name in distributions.__all__ if name[0].isupper()},
)
TORCH = Lib(
    tensordict,
    reference,
    torch.from_numpy,
    {name: getattr(torch.distributions, name) for name in NAMES}
    | {
        name: getattr(rl, name)
        for name in ("TanhNormal", "IndependentNormal", "MaskedCategorical", "TanhDelta")
    }
    | {"Delta": reference.distributions.Delta, "OneHotCategorical": reference.OneHotCategorical}
    | {"RLTruncatedNormal": rl.TruncatedNormal, "CompositeDistribution": reference.CompositeDistribution},
)
LITE.RLTruncatedNormal = LITE.TruncatedNormal


LOC = np.linspace(-1, 1, 12).reshape(3, 4)
DISTS: dict[str, tuple[dict[str, np.ndarray], dict[str, Any]]] = {
    "Normal": ({"loc": LOC, "scale": np.exp(LOC)}, {}),
    "IndependentNormal": ({"loc": LOC, "scale": np.exp(LOC)}, {}),
    "TanhNormal": ({"loc": LOC, "scale": np.exp(LOC)}, {}),
    "RLTruncatedNormal": ({"loc": LOC, "scale": np.exp(LOC)}, {}),
    "Delta": ({"param": LOC}, {}),
    "TanhDelta": ({"param": LOC}, {}),
    "Uniform": ({"low": LOC, "high": LOC + 1}, {}),
    "Bernoulli": ({"logits": LOC}, {}),
    "Categorical": ({"logits": LOC}, {}),
    "OneHotCategorical": ({"logits": LOC}, {}),
    "MaskedCategorical": ({"logits": LOC, "mask": LOC < 0.9}, {}),
}


def same(case: Any) -> Any:
    """Run with both; returns what lite gave."""
    ours, theirs = outcome(case, LITE), outcome(case, TORCH)
    assert_agree(ours, theirs)
    return ours


def same_error(case: Any, error: type[Exception]) -> None:
    assert same(case) is error


def chain(lib: Lib, **options: Any) -> list[Any]:
    """Two probabilistic modules, the second given the first's sample."""
    prob, mod = lib.nn.ProbabilisticTensorDictModule, lib.nn.TensorDictModule
    return [
        mod(lambda x: (x, abs(x) + 1), ["obs"], ["loc", "scale"]),
        prob(["loc", "scale"], ["u"], distribution_class=lib.Normal, **options),
        mod(lambda u: (u * 2, abs(u) + 1), ["u"], [("b", "loc"), ("b", "scale")]),
        prob([("b", "loc"), ("b", "scale")], ["v"], distribution_class=lib.Normal, **options),
    ]


def same_values(case: Any) -> None:
    """The same, and no error."""
    assert not isinstance(same(case), type)


compared, compared_values = on_both(same), on_both(same_values)
