"""LSTMModule and GRUModule: keys, states, training and graphs."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from helpers.cases import each_case

from lite import TensorDict, nn
from lite.data import Collector, InitTracker
from lite.models import OnnxModule

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
    with pytest.raises(KeyError, match=r"LSTMModule reads the entries \['recurrent_state_c'\]"):
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
        assert len(json.loads(Path(f"{file}.json").read_text())["states"]) == len(following)
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
