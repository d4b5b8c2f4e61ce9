"""Large arrays that stay are computed in tiles; nothing else changes."""

import json
from typing import Any

import numpy as np
import onnxruntime
import pytest
from helpers.compared import assert_same

import lite
from lite import TensorDict, nn, optim
from lite._transforms.graphs.graph import INT64, Node
from lite._transforms.graphs.trace import Input, Traced
from lite._transforms.graphs.writer import model_bytes
from lite._transforms.jit import joining, tiling
from lite._transforms.jit.tiling import tile

F = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large in these tests has 32 elements."""
    monkeypatch.setattr(tiling, "_LARGE", 32)
    monkeypatch.setattr(tiling, "_TILE", 16)
    monkeypatch.setattr(tiling, "_BATCH", 2)
    monkeypatch.setattr(joining, "_MOST", 8)


def traced(nodes: list[Node], shapes: dict[str, Any], inputs: str, outputs: str, **arrays: Any) -> Traced:
    return Traced(
        tuple(Input(name, shapes[name], F) for name in inputs.split()),
        tuple((name, shapes[name], F) for name in outputs.split()),
        tuple(nodes),
        {name: np.array(value, INT64) for name, value in arrays.items()},
    )


def test_a_layer_learns_in_tiles() -> None:
    shapes = dict.fromkeys(("w", "w1", "by", "y"), (8, 6))
    shapes |= {"x": (None, 6), "g": (None, 8), "gt": (8, None), "rate": ()}
    nodes = [
        Node("Transpose", ("g",), ("gt",), {"perm": [1, 0]}),
        Node("MatMul", ("gt", "x"), ("by",)),
        Node("Mul", ("by", "rate"), ("y",)),
        Node("Sub", ("w", "y"), ("w1",)),
    ]
    graph, tiles = tile(traced(nodes, shapes, "w x g rate", "w1"), {"w": "w1"}, shapes)
    assert {one.name: (one.rows, one.whole) for one in tiles} == {
        "w": ((3, 3, 2), False),
        "w1": ((3, 3, 2), False),
    }
    # The other way round, the tiles are of columns.
    shapes |= {"xt": (6, None), "turned": (6, 8)}
    nodes[:2] = [
        Node("Transpose", ("x",), ("xt",), {"perm": [1, 0]}),
        Node("MatMul", ("xt", "g"), ("turned",)),
        Node("Transpose", ("turned",), ("by",), {"perm": [1, 0]}),
    ]
    turned, others = tile(traced(nodes, shapes, "w x g rate", "w1"), {"w": "w1"}, shapes)
    assert [one.rows for one in others] == [one.rows for one in tiles]
    assert [node.op for node in turned.nodes].count("MatMul") == 3
    # The product is one of tiles, too, of parts of what is small.
    assert [node.op for node in graph.nodes] == [
        "Transpose", "Split", *["MatMul"] * 3, *["Mul"] * 3, *["Sub"] * 3,
    ]  # fmt: skip
    assert [x.name for x in graph.inputs] == [*tiles[-1].parts, "x", "g", "rate"]


def test_a_tile_is_finished_before_the_next_one_begins(tmp_path: Any) -> None:
    shapes = dict.fromkeys(("w", "v", "f", "w1", "v1"), (8, 6)) | {"z": (2,), "s": (2,)}
    nodes = [
        *(Node("Tanh", ("w",), ("f",)), Node("Add", ("v", "f"), ("v1",)), Node("Sub", ("w", "f"), ("w1",))),
        Node("Neg", ("z",), ("s",)),
    ]
    graph, _ = tile(traced(nodes, shapes, "w v z", "w1 v1 s"), {"w": "w1", "v": "v1"}, shapes)
    ends = [node.outputs[0] for node in graph.nodes[-7:]]
    assert ends[0] == "s"
    assert [name[-6:] for name in ends[1:]] == [f"tile_{k}" for k in (2, 2, 1, 1, 0, 0)]
    # onnxruntime runs them from the last to the first, each after what it needs.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(model_bytes(graph), options)
    session.run(None, {x.name: np.ones(x.shape, F) for x in graph.inputs})
    with open(session.end_profiling(), encoding="utf-8") as file:
        events = json.load(file)
    ran = [x["args"]["op_name"] for x in events if x["name"].endswith("_kernel_time")]
    assert [ran[k] for k in range(0, 9, 3)] == ["Tanh"] * 3
    assert [{ran[k], ran[k + 1]} for k in range(1, 9, 3)] == [{"Add", "Sub"}] * 3
    assert ran[9:] == ["Neg"]


def test_what_needs_the_whole_gets_it() -> None:
    shapes = {"w": (8, 6), "w1": (8, 6), "t": (8, 6), "s": (), "u": (6, 8)}
    nodes = [
        Node("Tanh", ("w",), ("t",)),
        Node("ReduceSum", ("t",), ("s",)),
        Node("Sub", ("w", "t"), ("w1",)),
    ]
    nodes.append(Node("Softmax", ("w",), ("u",)))
    graph, tiles = tile(traced(nodes, shapes, "w", "w1 s u"), {"w": "w1"}, shapes)
    assert [node.op for node in graph.nodes if node.op not in ("Tanh", "Sub")] == [
        "Concat",
        "ReduceSum",
        "Softmax",
    ]
    assert {one.name: one.whole for one in tiles} == {"w": True, "w1": False}


def test_what_gives_no_tiles_is_left() -> None:
    shapes = {"w": (8, 6), "w1": (8, 6)}
    for op in ("Softmax", "CumSum"):
        given = traced([Node(op, ("w",), ("w1",))], shapes, "w", "w1")
        assert tile(given, {"w": "w1"}, shapes) == (given, ())


def learning(update: Any, params: TensorDict, *given: Any) -> Any:
    state, losses = optim.Adam(0.01).init(params), []
    for _ in range(4):
        value, params, state = update(params, state, *given)
        losses.append(value)
    return losses, params, state


def test_networks_side_by_side_learn_as_without(tmp_path: Any) -> None:
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 1))
    each = []
    for seed in range(3):
        net.apply(lambda x, seed=seed: x.reset_parameters(seed) if isinstance(x, nn.Linear) else None)
        each.append(TensorDict.from_module(net).data.clone())
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 3)).astype(np.float32), rng.normal(size=(3, 7, 1)).astype(np.float32)
    adam = optim.Adam(0.01)

    def one(params: TensorDict, x: Any) -> Any:
        with params.to_module(net):
            return net(x)

    def update(params: TensorDict, state: TensorDict, x: Any, y: Any) -> Any:
        def loss(params: TensorDict) -> Any:
            return ((lite.vmap(one, (0, None))(params, x) - y) ** 2).mean()

        value, grads = lite.value_and_grad(loss)(params)
        grads, _ = optim.clip_grad_norm(grads, 0.1)
        return value, *adam.update(params, grads, state)

    step = lite.jit(update, donate=("params", "state"), threads=1, providers=["CPUExecutionProvider"])
    got = learning(step, lite.stack(each), x, y)
    assert_same(got, learning(update, lite.stack(each), x, y), rtol=1e-5, atol=1e-5)
    (runner,) = step._kept.values()
    assert runner.tiles
    stack, state = lite.stack(each), adam.init(lite.stack(each))
    file = (
        lite.jit(update, donate=("params", "state"), threads=1)
        .lower(stack, state, x, y)
        .save(tmp_path / "s.onnx")
    )
    assert_same(learning(lite.load_step(file, threads=1), stack, x, y), got)
