"""Convolutions in graphs are operators, and so are their derivatives."""

from typing import Any

import numpy as np
import pytest
from helpers.compared import assert_same

import lite
from lite import TensorDict, nn

LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "plain": (lambda: nn.Conv2d(2, 3, 3, rng=0), (2, 6, 7)),
    "steps that leave a rest": (lambda: nn.Conv2d(2, 3, 3, stride=(2, 3), rng=0), (2, 8, 10)),
    "wide and padded": (lambda: nn.Conv2d(2, 3, (2, 3), padding=(1, 2), dilation=(2, 1), rng=0), (2, 6, 7)),
    "same": (lambda: nn.Conv2d(2, 3, (2, 4), padding="same", rng=0), (2, 6, 7)),
    "groups": (lambda: nn.Conv2d(4, 6, 3, groups=2, stride=2, padding=1, rng=0), (4, 6, 7)),
    "depthwise": (lambda: nn.Conv1d(3, 6, 3, groups=3, bias=False, rng=0), (3, 9)),
    "many channels": (lambda: nn.Conv2d(16, 3, (3, 2), stride=(1, 2), padding=(2, 1), rng=0), (16, 5, 6)),
    "many and apart": (lambda: nn.Conv2d(16, 3, 2, dilation=(2, 1), stride=2, rng=0), (16, 6, 7)),
    "one dimension": (lambda: nn.Conv1d(2, 3, 4, stride=3, padding=1, rng=0), (2, 12)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_derivatives(name: str) -> None:
    make, shape = LAYERS[name]
    layer = make()
    rng = np.random.default_rng(1)

    def both(params: TensorDict, x: Any) -> Any:
        def loss(params: TensorDict, x: Any) -> Any:
            with params.to_module(layer):
                return (np.sin(layer(x)) ** 2).sum()

        return lite.value_and_grad(loss, argnums=(0, 1))(params, x)

    params = TensorDict.from_module(layer).data
    step = lite.jit(both, threads=1)
    for count in (4, 3):
        x = rng.normal(size=(count, *shape)).astype(np.float32)
        value, (by_params, by_x) = both(params, x)
        got, (of_params, of_x) = step(params, x)
        np.testing.assert_allclose(got, value, rtol=1e-5)
        np.testing.assert_allclose(of_x, by_x, rtol=1e-4, atol=1e-5)
        assert_same(of_params, by_params, rtol=1e-4, atol=1e-4)
    operators = step.graph(params, x).operators
    assert (operators["Conv"], operators["ConvTranspose"]) == (1 if shape[0] == 16 else 2, 1)
    assert len(step._kept) == 1
    none, (by_params, by_x) = step(params, x[:0])  # onnxruntime would not end with no channels
    assert (none, by_x.shape) == (0, (0, *shape))
    assert not any(np.any(slope) for slope in by_params.values(True, True))


def test_modules_of_exports_and_steps_are_the_same_operator() -> None:
    layer = nn.Conv2d(2, 3, 3, padding=1, rng=0)
    x = np.random.default_rng(0).normal(size=(2, 5, 5)).astype(np.float32)
    step = lite.jit(lambda x: layer(x), threads=1)
    np.testing.assert_allclose(step(x), layer(x), rtol=1e-5, atol=1e-6)
    assert step.graph(x).operators["Conv"] == 1


def test_jacobians_go_the_long_way() -> None:
    layer = nn.Conv1d(1, 2, 2, rng=0)
    x = np.random.default_rng(0).normal(size=(1, 1, 4)).astype(np.float32)
    jacobian = lite.jacrev(lambda x: layer(x))
    np.testing.assert_allclose(lite.jit(jacobian, threads=1)(x), jacobian(x), rtol=1e-5, atol=1e-6)
