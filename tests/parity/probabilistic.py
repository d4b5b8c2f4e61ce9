"""Cases that are written once and run with lite and tensordict; what comes out, errors too, must be equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensordict
import torch
from helpers.compared import on_both
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


def plain(value: Any) -> Any:
    """TensorDicts, arrays, tensors, shapes and keys as comparable Python values."""
    if isinstance(value, lite.TensorDict | tensordict.TensorDict):
        keys = sorted(value.keys(True, True), key=str)
        return {"batch_size": tuple(value.batch_size), **{k: plain(value.get(k)) for k in keys}}
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        array = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
        return str(array.dtype), array.shape, array
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(v) for v in value)
    return value


def equal(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            equal(a[key], b[key])
    elif isinstance(a, tuple | list):
        assert type(a) is type(b)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            equal(x, y)
    elif isinstance(a, np.ndarray):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    else:
        assert a == b


def run(case: Any, lib: Lib) -> Any:
    try:
        return plain(case(lib))
    except Exception as err:
        return type(err)


def same(case: Any) -> Any:
    """Run with both; returns what lite gave."""
    ours, theirs = run(case, LITE), run(case, TORCH)
    if isinstance(theirs, type) and theirs is not ours:  # an error: show lite's side
        case(LITE)
    if isinstance(ours, type) and ours is not theirs:
        case(LITE)
    equal(ours, theirs)
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
