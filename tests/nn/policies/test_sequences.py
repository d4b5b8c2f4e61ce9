"""Recurrent layers over sequences against a loop over their steps."""

from typing import Any

import numpy as np
import pytest
from helpers.compared import assert_same

from lite import TensorDict, jacrev, jit, nn, value_and_grad
from lite.nn.policies.sequences import run_sequences, run_steps

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 7, 2))
STARTS = np.zeros((3, 7), bool)
STARTS[0, 3] = STARTS[0, 4] = STARTS[1, 4] = STARTS[2, 0] = STARTS[2, 6] = True
LAYERS = {
    "GRU": lambda: nn.GRU(2, 4, 2, batch_first=True, dtype="float64", rng=0),
    "LSTM": lambda: nn.LSTM(2, 4, batch_first=True, dtype="float64", rng=0),
    "projected": lambda: nn.LSTM(2, 4, 2, batch_first=True, proj_size=3, dtype="float64", rng=0),
}


def states_of(layer: Any, *lead: int) -> tuple[Any, ...]:
    sizes = (layer.proj_size or layer.hidden_size, layer.hidden_size)[: len(layer._states)]
    return tuple(RNG.standard_normal((*lead, layer.num_layers, size)) for size in sizes)


def loop(layer: Any, x: Any, states: Any, starts: Any) -> tuple[Any, Any]:
    kept = [np.zeros_like(h) for h in states_of(layer, 3, 7)]
    outputs = np.zeros((3, 7, kept[0].shape[-1]))
    for row in range(3):
        now = None
        for t in range(7):
            if t == 0 or starts[row, t]:
                now = None if states is None else tuple(h[row : row + 1, t] for h in states)
            out, now = run_steps(layer, x[row : row + 1, t], now, np.zeros(1, bool))
            outputs[row, t] = out[0]
            if t == 6 or starts[row, t + 1]:
                for array, h in zip(kept, now, strict=True):
                    array[row, t] = h[0]
    return outputs, kept


def test_two_directions() -> None:
    layer = nn.GRU(2, 4, batch_first=True, bidirectional=True, dtype="float64")
    assert run_sequences(layer, X, None, STARTS & False)[0].shape == (3, 7, 8)
    with pytest.raises(NotImplementedError, match="a bidirectional layer reads episodes from both ends"):
        run_sequences(layer, X, None, STARTS)


@pytest.mark.parametrize(("name", "given"), [("GRU", False), ("LSTM", False), ("projected", True)])
def test_a_graph_to_which_the_beginnings_are_inputs(name: str, given: bool) -> None:
    layer = LAYERS[name]()
    states = states_of(layer, 3, 7) if given else ()

    def run(params: TensorDict, x: Any, starts: Any, states: Any) -> Any:
        def loss(params: TensorDict, x: Any, states: Any) -> Any:
            with params.to_module(layer):
                out, last = run_sequences(layer, x, states or None, starts)
            return (out * np.cos(out)).sum() + sum((k * h * h).sum() for k, h in enumerate(last, 2))

        return value_and_grad(loss, argnums=(0, 1, 2) if states else (0, 1))(params, x, states)

    params, step = TensorDict.from_module(layer).data, jit(run)
    for starts in (STARTS, ~STARTS):
        want, (by_params, *by_others) = run(params, X, starts, states)
        got, (of_params, *of_others) = step(params, X, starts, states)
        np.testing.assert_allclose(got, want)
        assert_same(of_params.values(), by_params.values(), atol=1e-12)
        of_x, *of_states = of_others
        by_x, *by_states = by_others
        np.testing.assert_allclose(of_x, by_x, atol=1e-12)
        for mine, other in zip(*(sum(found, ()) for found in (of_states, by_states)), strict=True):
            np.testing.assert_allclose(mine, other, atol=1e-12)
    assert len(step._kept) == 1


@pytest.mark.depth
def test_jacobians_of_a_graph_with_beginnings() -> None:
    layer = LAYERS["LSTM"]()
    inputs, starts = X[:2, 3:5], STARTS[:2, 2:4]
    states = states_of(layer, 2, 2)

    def jacobian(x: Any, starts: Any, h: Any, c: Any) -> Any:
        return jacrev(lambda x, h: run_sequences(layer, x, (h, c), starts)[0][:, -1], argnums=(0, 1))(x, h)

    want = jacobian(inputs, starts, *states)
    assert_same(jit(jacobian)(inputs, starts, *states), want, atol=1e-12)


def test_two_directions_in_a_graph() -> None:
    layer = nn.GRU(2, 4, batch_first=True, bidirectional=True, dtype="float64")
    with pytest.raises(NotImplementedError, match="a bidirectional layer reads episodes from both ends"):
        jit(lambda starts: run_sequences(layer, X, None, starts)[0])(STARTS)
