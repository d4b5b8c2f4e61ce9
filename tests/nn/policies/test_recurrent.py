"""LSTMModule and GRUModule: keys, states, training and graphs."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from helpers.cases import each_case
from helpers.compared import assert_same

from lite import TensorDict, jacrev, jit, nn, value_and_grad
from lite.data import Collector, InitTracker
from lite.models import OnnxModule
from lite.nn import recurrent_mode, set_recurrent_mode
from lite.nn.policies.recurrent import run_sequences, run_steps

MODULES = {"LSTMModule": nn.LSTMModule, "GRUModule": nn.GRUModule}


def made(name: str, **options: Any) -> Any:
    return MODULES[name](3, 4, in_key="x", out_key="y", rng=0, **options)


def steps(*batch: int, seed: int = 0) -> TensorDict:
    rng = np.random.default_rng(seed)
    entries = {
        "x": rng.standard_normal((*batch, 3)).astype(np.float32),
        "is_init": np.zeros((*batch, 1), bool),
    }
    return TensorDict(entries, batch)


@each_case("name", MODULES)
def test_steps_are_sequences(name: str) -> None:
    module, td = made(name), steps(2, 5)
    td["is_init"][:, 0] = True
    td["is_init"][1, 3] = True
    with nn.set_recurrent_mode(True):
        whole = module(td.copy())
    state = TensorDict(batch_size=[2])
    for t in range(5):
        now = module(td[:, t].copy().update(state))
        np.testing.assert_allclose(now["y"], whole["y"][:, t], rtol=1e-5, atol=1e-6)
        state = now["next"]
    for key in module.out_keys[1:]:
        np.testing.assert_allclose(now[key], whole[key][:, -1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "batch"), [("GRUModule", (2,)), ("LSTMModule", (2, 5))])
def test_graph(name: str, batch: tuple[int, ...], tmp_path: Path) -> None:
    module, td = made(name, num_layers=2, default_recurrent_mode=len(batch) > 1), steps(*batch)
    td["is_init"][0, -1] = True
    for key in module.in_keys[1:-1]:
        td[key] = np.random.default_rng(1).standard_normal((*batch, 2, 4)).astype(np.float32)
    graph = OnnxModule(module.to_onnx(tmp_path / "module.onnx", td.copy()))
    assert graph.in_keys == module.in_keys
    assert graph.out_keys == module.out_keys
    got, expected = graph(td.copy()), module(td.copy())
    for key in module.out_keys:
        np.testing.assert_allclose(got[key], expected[key], rtol=1e-5, atol=1e-6)


def test_in_a_collector() -> None:
    module = nn.GRUModule(4, 8, in_key="observation", out_key="h", rng=0)
    actor = nn.QValueActor(nn.Linear(8, 2, rng=0), in_keys=["h"], action_space="categorical")
    with Collector(
        lambda: gymnasium.make("CartPole-v1"),
        nn.TensorDictSequential(module, actor),
        frames_per_batch=40,
        total_frames=40,
        transforms=[InitTracker()],
    ) as collector:
        (data,) = list(collector)
    assert data["is_init"].sum() > 1
    with nn.set_recurrent_mode(True):
        again = module(data.copy())
    np.testing.assert_allclose(again["h"], data["h"], rtol=1e-4, atol=1e-5)


def test_keys_and_errors() -> None:
    module = nn.GRUModule(3, 4, in_keys=["x", ("s", "h")], out_keys=["y", ("next", "s", "h")])
    assert module.in_keys == ["x", ("s", "h"), "is_init"]
    with pytest.raises(
        KeyError, match=r"LSTMModule reads the entries \['recurrent_state_c'\].*Tracker\(\) .*'is_init'"
    ):
        made("LSTMModule")(steps(2).set("recurrent_state_h", np.zeros((2, 1, 4))))
    with pytest.raises(ValueError, match=r"'is_init' must have shape \(2, 1\), got \(2, 2\)"):
        made("GRUModule")(steps(2).set("is_init", np.zeros((2, 2), bool)))
    with pytest.raises(RuntimeError, match=r"in recurrent mode 'x' must be \(\*batch, time, size\)"):
        made("GRUModule", default_recurrent_mode=True)(steps())
    with pytest.raises(ValueError, match=r"in_keys of a LSTMModule .* and 2 state\(s\), and 'is_init', got"):
        nn.LSTMModule(3, 4, in_keys=["x", "h"], out_key="y")
    with pytest.raises(ValueError, match=r"out_keys of a LSTMModule must be a value and 2 state\(s\), got"):
        nn.LSTMModule(3, 4, in_key="x", out_keys=["y"])


def test_there_is_one_layer() -> None:
    for module in (nn.LSTMModule(2, 3, in_key="x", out_key="y"), nn.GRUModule(2, 3, in_key="x", out_key="y")):
        assert module.make_python_based() is module.make_cudnn_based() is module


@pytest.mark.parametrize("kind", [nn.LSTMModule, nn.GRUModule])
def test_a_graph_of_steps_has_the_states_that_its_example_and_its_keys_leave_out(kind, tmp_path):
    """Else it would be a policy without a memory, which nothing says."""
    module = kind(3, 4, in_key="x", out_key="hidden")
    policy = nn.TensorDictSequential(module, nn.TensorDictModule(nn.Linear(4, 2), ["hidden"], ["action"]))
    td = TensorDict(x=np.ones((2, 3), np.float32), is_init=np.zeros((2, 1), bool), batch_size=[2])
    following = [("next", key) for key in module.in_keys[1:-1]]
    for example in (td, policy(td.copy()).update(policy(td.copy())["next"])):
        file = policy.select_out_keys("action").to_onnx(tmp_path / "policy.onnx", example)
        graph = OnnxModule(file)
        assert set(graph.in_keys) == {"x", "is_init", *module.in_keys[1:-1]}
        assert graph.out_keys == ["action", *following]
        assert len(json.loads(Path(f"{file}.json").read_text(encoding="utf-8"))["states"]) == len(following)
        policy.reset_out_keys()
    with nn.set_recurrent_mode(True):  # a sequence begins with zeros
        file = policy.to_onnx(tmp_path / "sequence.onnx", td.expand(1, 2).clone())
    assert OnnxModule(file).in_keys == ["x", "is_init"]


@each_case("kind", ["LSTM", "GRU"])
def test_a_layer_takes_the_place_of_its_sizes(kind: str) -> None:
    keys = {"in_key": "x", "out_key": "y"}
    module, layer = getattr(nn, f"{kind}Module"), getattr(nn, kind)(3, 2, batch_first=True)
    assert layer in [*module(**keys, **{kind.lower(): layer}).modules()]
    with pytest.raises(ValueError, match=f"{kind.lower()} takes the place of input_size and hidden_size"):
        module(3, 2, **keys, **{kind.lower(): layer})


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


@each_case(
    ("mode", "expected"),
    [(True, True), (False, False), (None, None), ("recurrent", True), ("sequential", False)],
)
def test_modes(mode: bool | str | None, expected: bool | None) -> None:
    with set_recurrent_mode(True), set_recurrent_mode(mode):
        assert recurrent_mode() is expected
    assert recurrent_mode() is None


def test_decorator_and_errors() -> None:
    assert set_recurrent_mode("recurrent")(recurrent_mode)() is True
    for wrong in ("both", 3):
        with pytest.raises(ValueError, match="mode must be a bool, None, 'recurrent' or 'sequential', got"):
            set_recurrent_mode(wrong)  # type: ignore[arg-type]
