"""A graph as a module: names of parameters, inputs, copies, what learns."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.onnx_nodes import model_of

from lite import TensorDict, jit, nn, value_and_grad, vmap
from lite._files.onnx import writer

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def weights(*names: str) -> dict[str, np.ndarray]:
    return {name: np.full((3, 3), i + 1, np.float32) for i, name in enumerate(names)}


def chain(*names: str, **more: np.ndarray) -> bytes:
    """x times each weight in turn; every product is an output, too."""
    values = ["x", *(f"y{i}" for i in range(len(names)))]
    nodes = [
        writer.node("MatMul", "", [before, name], [after], {})
        for before, name, after in zip(values[:-1], names, values[1:], strict=True)
    ]
    return model_of(nodes, {"x": X}, values[1:], {**weights(*names), **more})


NODES = [writer.node("Relu", "", ["x"], ["h"], {}), writer.node("MatMul", "", ["h", "w"], ["y"], {})]


def names_of(net: nn.Module) -> list[str]:
    return sorted(name for name, _ in net.named_parameters())


def test_names_are_split_at_dots() -> None:
    net = nn.from_onnx(chain("layers.0.weight", "layers.1.weight", "head"))
    assert names_of(net) == ["head", "layers.0.weight", "layers.1.weight"]
    assert TensorDict.from_module(net)["layers", "1", "weight"].shape == (3, 3)
    state = {name: 2 * value for name, value in net.state_dict().items()}
    net.load_state_dict(state)
    np.testing.assert_array_equal(net(X)[0], X @ np.full((3, 3), 2, np.float32))


def test_names_that_are_no_path_are_kept_apart() -> None:
    net = nn.from_onnx(chain("a", "a.b", "onnx::MatMul_3", "forward", "..", "/w/x"))
    assert len(names_of(net)) == 6
    assert set(names_of(net)) == {"a.b", "a_", "onnx::MatMul_3", "forward_", "__", "/w/x"}
    np.testing.assert_allclose(net(X)[1], X @ np.ones((3, 3)) @ np.full((3, 3), 2))


def layers(*weights: tuple[str, str]) -> bytes:
    """Layers of x, each with the names of its matrix and bias."""
    nodes = [writer.node("Gemm", "", ["x", w, b], [f"y{i}"], {}) for i, (w, b) in enumerate(weights)]
    arrays = {w: np.eye(3, dtype=np.float32) for w, _ in weights} | {
        b: np.zeros(3, np.float32) for _, b in weights
    }
    return model_of(nodes, {"x": X}, [f"y{i}" for i in range(len(weights))], arrays)


def test_fresh_layers_that_an_exporter_joined_are_told() -> None:
    """What a loop reads several times is its own, as the matrix beside it is."""
    model = layers(("v", "b"), ("w", "b"), ("u", "c"))
    with pytest.warns(UserWarning, match=r"several nodes read b, which learn as one.*optimize=False"):
        nn.from_onnx(model)
    nn.from_onnx(model, trainable=["v", "w"])
    nn.from_onnx(layers(("w", "b"), ("w", "b")))


def test_a_tied_matrix_that_an_exporter_wrote_twice_is_told() -> None:
    nodes = [
        writer.node("Gather", "", ["table", "ids"], ["h"], {}),
        writer.node("MatMul", "", ["h", "head"], ["y"], {}),
    ]
    table = np.arange(12, dtype=np.float32).reshape(4, 3)

    def model(head: Any) -> bytes:
        return model_of(nodes, {"ids": np.zeros(2, np.int64)}, ["y"], {"table": table, "head": head})

    with pytest.warns(UserWarning, match=r"head has the numbers of table.*do_constant_folding=False"):
        nn.from_onnx(model(table.T))
    nn.from_onnx(model(table.T), trainable=["table"])
    nn.from_onnx(model(table.T * 2))
    layers = [writer.node("MatMul", "", [f"h{i}", f"w{i}"], [f"h{i + 1}"], {}) for i in range(9)]
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    same = {f"w{i}": square for i in range(9)}
    with pytest.warns(UserWarning, match=r": w1 has .* of w0, w2 .* of w0, w8 has the numbers of w0\. If"):
        nn.from_onnx(model_of(layers, {"h0": X}, ["h9"], same))
    with pytest.warns(UserWarning, match=r"w8 has the numbers of w0, \.\.\.\. If"):
        nn.from_onnx(
            model_of(
                [*layers, writer.node("MatMul", "", ["h9", "w9"], ["y"], {})],
                {"h0": X},
                ["y"],
                same | {"w9": square},
            )
        )
    other = square + np.float32([[0, 1, 0], [0, 0, 0], [0, 0, 0]])  # the same diagonal
    nn.from_onnx(
        model_of(
            layers[:4],
            {"h0": X},
            ["h4"],
            same | {"w0": square, "w1": other, "w2": other.T[:2], "w3": square * 0},
        )
    )


def test_a_batch_that_a_graph_of_fixed_sizes_folds_is_refused() -> None:
    """Exporters write the size of their example into shapes; of what has none any batch is computed."""
    nodes = [
        writer.node("Reshape", "", ["x", "shape"], ["h"], {}),
        writer.node("ReduceMean", "", ["h"], ["y"], {"keepdims": 0, "axes": [1]}),
        writer.node("Relu", "", ["x"], ["z"], {}),
        writer.node("ReduceSum", "", ["x"], ["sum"], {"axes": [0]}),
        writer.node("Exp", "", ["w"], ["std"], {}),
    ]
    shapes = {"x": [1, 6], "b": ["k"]}
    given = [writer.value(name, np.dtype(np.float32), shape) for name, shape in shapes.items()]
    sizes = {"y": 3, "z": 6, "sum": 6, "std": 2}
    results = [writer.value(name, np.dtype(np.float32), [1, n]) for name, n in sizes.items()]
    kept = [writer.tensor("shape", np.array([1, -1, 3])), writer.tensor("w", np.ones((1, 2), np.float32))]
    model = writer.model(writer.graph("graph", nodes, kept, given, results), 11, ("tests", ""))
    net, rows, b = nn.from_onnx(model), np.ones((2, 6), np.float32), np.ones(1, np.float32)
    assert [y.shape for y in net(rows[:1], b)] == [(1, n) for n in sizes.values()]
    for call in (net, jit(net)):
        raises(ValueError, r"output 'y' has 1 rows for 2 of the inputs.*dynamic batch", call, rows, b)
    others = jit(nn.from_onnx(model, outputs=["z", "sum", "std"]))(rows, b)  # two have no batch
    assert [y.shape for y in others] == [(2, 6), (1, 6), (1, 2)]
    assert net(np.ones((1, 9), np.float32), b)[0].shape == (1, 3)
    with pytest.raises(ValueError, match="cannot reshape") as info:
        net(np.ones((1, 7), np.float32), b)
    assert info.value.__notes__[-1] == "the graph is of the sizes {'x': (1, 6), 'b': ('k',)}"


def test_inputs_by_position_and_name() -> None:
    net = nn.from_onnx(chain("w"))
    np.testing.assert_array_equal(net(x=X), net(X))
    assert net(X.astype(np.float64)).dtype == np.float32
    for args, kwargs, message in (
        ((X, X), {}, "has 1 inputs, x; got 2"),
        ((X,), {"x": X}, "'x' is given twice"),
        ((), {}, "'x' is missing"),
        ((X,), {"z": X}, "no input 'z', but x"),
    ):
        raises(TypeError, message, net, *args, **kwargs)


def test_constants_of_a_graph_without_weights_are_its_weights(tmp_path: Path) -> None:
    """As torch.onnx writes a traced function, which d3rlpy exports."""
    given = {"w": np.full((3, 2), 0.5, np.float32), "b": np.float32([1, 2]), "shape": np.int64([-1, 2])}
    nodes = [writer.node("Constant", "", [], [name], {"value": value}) for name, value in given.items()]
    nodes += [
        writer.node("Constant", "", [], ["two"], {"value": np.float32(2)}),
        writer.node("Gemm", "", ["x", "w", "b"], ["h"], {}),
        writer.node("Reshape", "", ["h", "shape"], ["r"], {}),
        writer.node("Mul", "", ["r", "two"], ["y"], {}),
    ]
    net = nn.from_onnx(model_of(nodes, {"x": X}, ["y"]))
    assert names_of(net) == ["b", "w"]
    np.testing.assert_allclose(net(X), 2 * (X @ given["w"] + given["b"]))
    twin = pickle.loads(pickle.dumps(net))
    twin.w.data[...] = 1
    again = nn.from_onnx(twin.save_onnx(tmp_path / "learnt.onnx"))
    np.testing.assert_allclose(again(X), 2 * (X @ np.ones((3, 2)) + given["b"]))
    named = nn.from_onnx(model_of(nodes[1:], {"x": X}, ["y"], {"w": given["w"]}))
    assert names_of(named) == ["w"]


def test_a_weight_can_be_an_argument() -> None:
    net = nn.from_onnx(chain("w"))
    np.testing.assert_array_equal(net(X, w=np.eye(3, dtype=np.float32)), X)


@each_case(
    ("trainable", "learns"),
    [
        (None, {"a.w", "b.w"}),
        (False, set()),
        (["a.*"], {"a.w"}),
        ("*.w", {"a.w", "b.w"}),
        (lambda name: name.startswith("b"), {"b.w"}),
    ],
)
def test_what_learns(trainable: Any, learns: set[str]) -> None:
    net = nn.from_onnx(chain("a.w", "b.w", unused=np.ones(3, np.float32)), trainable=trainable)
    assert {name for name, p in net.named_parameters() if p.requires_grad} == learns
    assert names_of(net) == ["a.w", "b.w"]  # of the graph's weights those that something reads
    for name, p in net.named_parameters():
        assert p.data.flags.writeable or name not in learns


@each_case("argument, given, message", [
    ("trainable", ["a.*", "unused", "q"], r"no weight is called \['unused', 'q'\]; there is a\.w, b\.w\."),
    ("trainable", "", r"no weight is called \[''\]"),
    ("dtype", np.int32, "dtype must be one of floats, or None"),
])  # fmt: skip
def test_what_no_weight_is_called_is_refused(argument: str, given: Any, message: str) -> None:
    model = chain("a.w", "b.w", unused=np.ones(3, np.float32))
    raises(ValueError, message, nn.from_onnx, model, **{argument: given})
    for wrong in (3, ["a.w", 3], iter([3])):
        raises(TypeError, "trainable must be a bool, .* got 3", nn.from_onnx, model, trainable=wrong)


def test_only_chosen_outputs_are_computed() -> None:
    net = nn.from_onnx(chain("a", "b", "c"), outputs=["y1"])
    assert net.output_names == ("y1",)
    assert names_of(net) == ["a", "b"]
    inner = nn.from_onnx(model_of(NODES, {"x": X}, ["y"], weights("w")), outputs=["h", "w"])
    np.testing.assert_array_equal(inner(X)[0], np.maximum(X, 0))
    assert names_of(inner) == ["w"]
    np.testing.assert_array_equal(inner(X)[1], weights("w")["w"])
    with pytest.raises(ValueError, match=r"outputs has \['z'\]; the graph has \['y0', 'y1', 'y2'\]"):
        nn.from_onnx(chain("a", "b", "c"), outputs=["z"])


def test_copies_and_pickles_learn_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(chain("w"))
    for net in (nn.from_onnx(tmp_path / "net.onnx"), nn.from_onnx(chain("w"))):
        net.w.data[...] = 2
        for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            np.testing.assert_array_equal(twin(X), net(X))
            twin.w.data[...] = 0
            assert (net(X).any(), twin(X).any()) == (True, False)


def recurrent(rows: str | int = "n") -> bytes:
    """Features of x and a state whose batch is its second axis; the last axis has the number 1."""
    nodes = [
        writer.node("Concat", "", ["x", "x"], ["twice"], {"axis": 1}),
        writer.node("MatMul", "", ["twice", "w"], ["y"], {}),
        writer.node("Add", "", ["state", "step"], ["new"], {}),
    ]
    given = [
        writer.value("x", np.dtype(np.float32), [rows, 3]),
        writer.value("state", np.dtype(np.float32), [2, rows, 4]),
    ]
    results = [
        writer.value("y", np.dtype(np.float32), ["n", 3]),
        writer.value("new", np.dtype(np.float32), [2, None, 4]),
    ]
    rng = np.random.default_rng(0)
    kept = {"w": rng.normal(size=(6, 3)).astype(np.float32), "step": np.float32([[[1]], [[2]]])}
    graph = writer.graph("graph", nodes, [writer.tensor(name, x) for name, x in kept.items()], given, results)
    return writer.model(graph, 21, ("tests", ""))


@each_case("rows", ["n", 1])
@each_case("lead", [(), (5,), (2, 3), (3, 1, 2), (0, 2)])
def test_batch_dimensions_in_front_are_the_batch_of_the_graph(rows: str | int, lead: tuple[int, ...]) -> None:
    """As of `OnnxModule`: an environment without a batch, rollouts (environments, time)."""
    keys = {"x": ("agent", "x"), "state": "h"}
    net = nn.from_onnx(recurrent(rows), in_keys=keys, out_keys={"new": ("next", "h")})
    rng = np.random.default_rng(1)
    x, h = (rng.normal(size=(*lead, *own)).astype(np.float32) for own in ((3,), (2, 4)))
    w = net.module.w.data[:3] + net.module.w.data[3:]
    out = net(TensorDict({"agent": {"x": x}, "h": h}, lead))
    np.testing.assert_allclose(out["y"], x @ w, rtol=1e-5)
    np.testing.assert_allclose(out["next", "h"], h + np.float32([[1], [2]]), rtol=1e-6)

    plain = nn.from_onnx(recurrent(rows), outputs=["y"])
    found, grads = value_and_grad(lambda x: (plain(x, None) ** 2).sum())(x)
    np.testing.assert_allclose(found, ((x @ w) ** 2).sum(), rtol=1e-5)
    np.testing.assert_allclose(grads, 2 * (x @ w) @ w.T, rtol=1e-4, atol=1e-5)
    if lead and lead[0]:
        np.testing.assert_allclose(vmap(lambda x: plain(x, None))(x), x @ w, rtol=1e-5)
        np.testing.assert_allclose(jit(lambda x: plain(x, None))(x), x @ w, rtol=1e-5)


def test_a_state_of_one_layer_in_a_graph_of_one_row_has_its_row_second() -> None:
    """As LSTMs of rsl_rl are exported: (1, 1, size), in which the first one is of the layer."""
    nodes = [
        writer.node("Unsqueeze", "", ["x", "first"], ["times"], {}),
        writer.node("Mul", "", ["h", "kept"], ["state"], {}),
        writer.node("RNN", "", ["times", "w", "r", "", "", "state"], ["all", "new"], {"hidden_size": 3}),
    ]
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(1, 3, 3)).astype(np.float32) for name in "wr"}
    held = {"first": np.int64([0]), "kept": np.float32(0.5), **weights}
    sizes = {"x": [1, 3], "h": [1, 1, 3], "new": [1, 1, 3]}
    *given, new = (writer.value(name, np.dtype(np.float32), size) for name, size in sizes.items())
    tensors = [writer.tensor(name, x) for name, x in held.items()]
    graph = writer.model(writer.graph("graph", nodes, tensors, given, [new]), 21, ("tests", ""))
    net = nn.from_onnx(graph, in_keys=["x", "h"], out_keys=["new"])
    for lead in ((), (1,), (3,), (2, 3)):
        x, h = (rng.normal(size=(*lead, *own, 3)).astype(np.float32) for own in ((), (1,)))
        expected = np.tanh(x[..., None, :] @ weights["w"][0].T + h / 2 @ weights["r"][0].T)
        found = net(TensorDict(x=x, h=h, batch_size=lead))["new"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=str(lead))


@each_case("rows", ["n", 1])
@each_case("lead", [(), (3,), (2, 3)])
def test_flags_of_environments_may_have_a_dimension_behind(rows: str | int, lead: tuple[int, ...]) -> None:
    nodes = [
        writer.node("Unsqueeze", "", ["start", "last"], ["column"], {}),
        writer.node("Mul", "", ["x", "column"], ["y"], {}),
    ]
    kinds = {"start": [rows], "x": [rows, 3]}
    given = [writer.value(name, np.dtype(np.float32), sizes) for name, sizes in kinds.items()]
    results = [writer.value("y", np.dtype(np.float32), [rows, 3])]
    graph = writer.graph("graph", nodes, [writer.tensor("last", np.int64([1]))], given, results)
    net = nn.from_onnx(writer.model(graph, 21, ("tests", "")))
    start = np.arange(np.prod(lead, dtype=int)).reshape(lead).astype(np.float32)
    x = np.ones((*lead, 3), np.float32)
    np.testing.assert_array_equal(net(start[..., None], x), x * start[..., None])
    np.testing.assert_array_equal(net(start, x), x * start[..., None])


def test_an_output_without_the_batch_is_named() -> None:
    net = nn.from_onnx(model_of([writer.node("MatMul", "", ["x", "x"], ["y"], {})], {"x": X[0]}, ["y"]))
    np.testing.assert_array_equal(net(X[0]), X[0] @ X[0])
    raises(ValueError, r"output 'y' has shape \(\) for a batch of \(2, 3\), which are 6 rows", lambda: net(X))
