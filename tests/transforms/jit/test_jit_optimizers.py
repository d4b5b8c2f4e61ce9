"""Steps of optimisers as graphs: what they learn is that of the plain form."""

from typing import Any

import numpy as np
import pytest
from helpers.compared import assert_same

import lite
from lite import TensorDict, optim

OPTIMIZERS: dict[str, Any] = {
    "adam": lambda: optim.Adam(0.01),
    "amsgrad": lambda: optim.Adam(0.01, amsgrad=True, weight_decay=0.1),
    "maximize": lambda: optim.Adam(0.01, maximize=True),
    "adamw": lambda: optim.AdamW(0.01),
    "schedule": lambda: optim.AdamW(lambda step: 0.1 / (1.0 + step)),
    "sgd": lambda: optim.SGD(0.1, weight_decay=0.01),
    "momentum": lambda: optim.SGD(0.1, momentum=0.9, dampening=0.1),
    "nesterov": lambda: optim.SGD(0.1, momentum=0.9, nesterov=True),
    "rmsprop": lambda: optim.RMSprop(0.01),
    "centered": lambda: optim.RMSprop(0.01, centered=True, momentum=0.9),
}


def quadratic(params: TensorDict, x: Any) -> Any:
    return ((np.tanh(x @ params["w"]) + params["inner", "b"] - 0.5) ** 2).mean()


def first(dtype: Any) -> TensorDict:
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(4, 3)).astype(dtype), np.zeros(3, dtype)
    return TensorDict({"w": w, "inner": {"b": b}, "count": np.array(3)})


@pytest.mark.parametrize(
    ("name", "dtype", "inplace"),
    [
        *((name, np.float64, False) for name in OPTIMIZERS),
        ("adam", np.float32, True),
        ("adam", np.float16, False),
        ("momentum", np.float16, False),
    ],
)
def test_ten_steps(name: str, dtype: Any, inplace: bool) -> None:
    optimizer = OPTIMIZERS[name]()

    def step(params: TensorDict, state: TensorDict, x: Any) -> Any:
        value, grads = lite.value_and_grad(quadratic)(params, x)
        grads, norm = optim.clip_grad_norm(grads, 0.05)
        if inplace:
            optimizer.update_(params, grads, state)
            return value, norm
        return value, norm, *optimizer.update(params, grads, state)

    jitted = lite.jit(step, donate=("params", "state"), threads=1)
    pair = [(step, first(dtype)), (jitted, first(dtype))]
    states = [optimizer.init(params) for _, params in pair]
    rng = np.random.default_rng(1)
    for _ in range(10):
        x = rng.normal(size=(8, 4)).astype(dtype)
        found = []
        for i, (function, params) in enumerate(pair):
            value, norm, *new = function(params, states[i], x)
            if new:
                pair[i], states[i] = (function, new[0]), new[1]
            found.append((value, norm))
        tolerance, least = {2: (3e-2, 3e-2), 4: (1e-4, 1e-4), 8: (1e-10, 1e-12)}[np.dtype(dtype).itemsize]
        assert_same(found[1], found[0], tolerance, least, strict=True)
    assert_same(pair[1][1], pair[0][1], tolerance, least, strict=True)
    assert_same(states[1], states[0], rtol=tolerance, atol=least)
    assert int(states[1]["step"]) == 10
