"""Steps that are joined into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.onnx_nodes import model_of
from helpers.peaks import peak_of

from lite import jit, nn, value_and_grad, vmap
from lite._files.onnx import writer
from lite.kernels.backends.choice import backend
from lite.nn.layers import masked_attention
from lite.nn.layers.large_arrays import LARGE

X, Y = (np.random.default_rng(i).normal(size=(3, LARGE)).astype(np.float32) for i in range(2))


def gate(product: str, last: str, outputs: str = "z") -> Any:
    nodes = [("Sigmoid", "x", "s"), ("Mul", product, "t"), ("Mul", last, "z")]
    written = [writer.node(op, op, a.split(), [b], {}) for op, a, b in nodes]
    return nn.from_onnx(model_of(written, {"x": X, "y": Y}, outputs.split()))


@pytest.mark.parametrize(("product", "last"), [("x s", "t y"), ("s x", "y t")])
def test_gates_are_one_step(product: str, last: str) -> None:
    net = gate(product, last)
    assert len(net._source.program.steps) == 1
    share = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(net(X, Y), X * share * Y, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(net(X[:, :9], Y[:, :9]), (X * share * Y)[:, :9], rtol=1e-4, atol=1e-6)
    by_x, by_y = value_and_grad(lambda pair: (net(*pair) * X).sum())([X, Y])[1]
    np.testing.assert_allclose(by_y, X * X * share, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(by_x, X * Y * share * (1 + X * (1 - share)), rtol=1e-4, atol=1e-5)


@each_case(
    ("product", "last", "outputs"), [("x s", "t y", "z s"), ("x s", "t y", "z t"), ("y s", "t y", "z")]
)
def test_what_somebody_else_reads_stays(product: str, last: str, outputs: str) -> None:
    net = gate(product, last, outputs)
    assert len(net._source.program.steps) == 3


@pytest.mark.compiled
@pytest.mark.skipif(backend() == "numpy", reason="nothing is compiled")
def test_a_gate_is_one_node() -> None:
    net, seen = gate("x s", "t y"), []

    def loss(x: Any) -> Any:
        z = net(x, Y)
        seen.append([node is x.node for node in z.node.vjp.nodes])
        return z.sum()

    value_and_grad(loss)(X)
    assert seen == [[True, False]]


# Steps of what is joined, nodes before the activation, shapes of the weight and of the bias, attributes
LAYERS: dict[str, tuple[int, str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "torch's": (1, "Gemm", (5, 4), (5,), {"transB": 1}),
    "of columns": (1, "Gemm", (4, 5), (5,), {}),
    "square": (1, "Gemm", (4, 4), (4,), {"transB": 1}),
    "one number as bias": (1, "Gemm", (5, 4), (1,), {"transB": 1}),
    "scaled": (2, "Gemm", (5, 4), (5,), {"transB": 1, "alpha": 0.5}),
    "bias behind": (1, "product bias", (4, 5), (5,), {}),
    "bias in front": (1, "bias product", (4, 5), (5,), {}),
    "a bias of more columns": (1, "product bias", (4, 1), (5,), {}),
    "a bias of more dimensions": (1, "product bias", (4, 5), (1, 1, 5), {}),
    "stacked": (1, "product bias", (3, 4, 5), (5,), {}),
    "added to itself": (3, "product product", (4, 5), (5,), {}),
}


@each_case(("name", "function"), [(name, function) for name in LAYERS for function in ("Relu", "Tanh")])
def test_a_layer_is_one_step_with_the_numbers_of_its_nodes(name: str, function: str) -> None:
    steps, how, size, biases, attributes = LAYERS[name]
    rng = np.random.default_rng(0)
    weight, bias, rows = (rng.normal(size=n) for n in (size, biases, (2, 4)))
    nodes = [writer.node("MatMul", "MatMul", ["x", "w"], ["product"], {})]
    nodes += [writer.node("Add", "Add", how.split(), ["t"], {})] if how != "Gemm" else []
    if how == "Gemm":
        nodes = [writer.node("Gemm", "Gemm", ["x", "w", "b"], ["t"], attributes)]
    nodes.append(writer.node(function, function, ["t"], ["y"], {}))

    def formula(x: Any) -> Any:
        product = x @ (weight.T if "transB" in attributes else weight) * attributes.get("alpha", 1)
        total = product + (product if how == "product product" else bias)
        return np.tanh(total) if function == "Tanh" else np.maximum(total, 0)

    weights = {"w": weight, "bias" if how != "Gemm" else "b": bias}
    net = nn.from_onnx(model_of(nodes, {"x": rows}, ["y"], weights), dtype=None)
    assert len(net._source.program.steps) == steps
    for x in (rows, rows[:1], rows[:1]):
        np.testing.assert_allclose(net(x), formula(x), rtol=1e-12)
        np.testing.assert_allclose(jit(net)(x), formula(x), rtol=1e-12)
        by_x, wanted = (value_and_grad(lambda x, f=f: f(x).sum())(x)[1] for f in (net, formula))
        np.testing.assert_allclose(by_x, wanted, rtol=1e-12)


# -- attention ---------------------------------------------------------------------------------------------

N, HEADS, TIMES, WIDTH = 2, 2, 96, 48
QUERY, KEY, VALUE, BACK = (
    np.random.default_rng(i).normal(size=(N, HEADS, TIMES, WIDTH)).astype(np.float32) for i in range(4)
)
TURNED = {"perm": [0, 1, 3, 2]}
LOWEST = np.finfo(np.float32).min
SCORES = N * HEADS * TIMES * TIMES * 4
CAUSAL = np.tril(np.ones((TIMES, TIMES), np.bool_))
PADDED = CAUSAL & (np.arange(TIMES) < np.array([60, TIMES])[:, None])[:, None, None]
START = [("Transpose", "k", "t", TURNED), ("MatMul", "q t", "s")]
SCALED = [*START, ("Mul", "s scale", "a")]
END = [("Softmax", "b", "w", {"axis": -1}), ("MatMul", "w v", "z")]
NO_NUMBERS = [("Softmax", "b", "p"), ("IsNaN", "p", "n"), ("Where", "n zero p", "w"), ("MatMul", "w v", "z")]
MASKED = [*SCALED, ("Add", "a mask", "b"), *END]
CAPPED = [*SCALED, ("Div", "a cap", "c"), ("Tanh", "c", "d"), ("Mul", "d cap", "e")]


def added(shown: Any, low: float) -> Any:
    return np.where(shown, 0, low).astype(np.float32)


class Spelling(NamedTuple):
    """How an exporter writes attention: nodes of q, k, v and constants."""

    nodes: Any
    mask: Any = np.float32(0)
    scale: Any = np.float32(WIDTH**-0.5)
    low: Any = LOWEST
    joins: bool = True


SPELLINGS = {
    "no mask": Spelling([*SCALED, ("Identity", "a", "b"), *END]),
    "half of the scale on each side": Spelling(
        [("Mul", "q scale", "q2"), *START[:1], ("Mul", "t scale", "t2"), ("MatMul", "q2 t2", "b"), *END],
        scale=np.float32(WIDTH**-0.25),
    ),
    "causal, lowest number": Spelling(MASKED, added(CAUSAL, LOWEST)),
    "divided, -inf, padding": Spelling(
        [*START, ("Div", "s scale", "a"), ("Add", "mask a", "b"), *END],
        added(PADDED, -np.inf),
        np.float32([WIDTH**0.5]),
    ),
    "chosen": Spelling([*SCALED, ("Where", "mask a low", "b"), *END], PADDED, low=np.float32(-3e38)),
    "chosen by what is hidden": Spelling([*SCALED, ("Where", "mask low a", "b"), *END], ~PADDED),
    "two masks": Spelling(
        [*SCALED, ("Where", "mask a low", "c"), ("Add", "c more", "b"), *END], CAUSAL, low=np.float32(-1e9)
    ),
    "padding alone": Spelling(MASKED, added(PADDED[:, :, -1:], -np.inf)),
    "queries that see nothing": Spelling(
        [*SCALED, ("Add", "a mask", "b"), *NO_NUMBERS], added(PADDED & (np.arange(TIMES) > 4), -np.inf)
    ),
    "a cast that does nothing": Spelling(
        [*SCALED, ("Cast", "a", "c", {"to": 1}), ("Add", "c mask", "b"), *END], added(CAUSAL, LOWEST)
    ),
    "a soft cap": Spelling([*CAPPED, ("Identity", "e", "b"), *END]),
    "a soft cap, causal": Spelling([*CAPPED, ("Add", "e mask", "b"), *END], added(CAUSAL, LOWEST)),
    "a soft cap, chosen": Spelling([*CAPPED, ("Where", "mask e low", "b"), *END], PADDED),
    "a soft cap and a bias": Spelling(
        [*CAPPED, ("Add", "e mask", "b"), *END], np.where(CAUSAL, -0.5, LOWEST).astype(np.float32)
    ),
    # What is not that, in its nodes
    "another axis": Spelling(
        [*SCALED, ("Softmax", "a", "w", {"axis": 2}), ("MatMul", "w v", "z")], joins=False
    ),
    "scores that are read elsewhere": Spelling(
        [
            *MASKED[:-2], ("Softmax", "b", "w"), ("MatMul", "w v", "y"), ("ReduceSum", "a", "r"),
            ("Add", "y r", "z"),
        ],
        joins=False,
    ),
    "scores as their own mask": Spelling([*SCALED, ("Add", "a a", "b"), *END], joins=False),
    "weights of weights": Spelling(
        [*SCALED, ("Softmax", "a", "w"), ("MatMul", "w w", "y"), ("MatMul", "y v", "z")], joins=False
    ),
    "double precision": Spelling(
        [
            *SCALED, ("Cast", "a", "c", {"to": 11}), ("Softmax", "c", "p"), ("Cast", "p", "w", {"to": 1}),
            END[1],
        ],
        joins=False,
    ),
    # or in its numbers
    "a bias": Spelling(MASKED, np.where(CAUSAL, -0.5, LOWEST).astype(np.float32)),
    "holes": Spelling(MASKED, added(CAUSAL & (np.arange(TIMES) % 7 != 3), -np.inf)),
    "hidden after all": Spelling(MASKED, added(CAUSAL, -5.0)),
    "queries that see nothing, lowest number": Spelling(MASKED, added(np.arange(TIMES)[:, None] > 4, LOWEST)),
    "the least score is the largest": Spelling(MASKED, added(CAUSAL, LOWEST), np.float32(-0.1)),
    "a scale of each head": Spelling(MASKED, added(CAUSAL, LOWEST), np.ones((HEADS, 1, 1), np.float32)),
    "a scaled mask": Spelling(
        [*START, ("Add", "s mask", "a"), ("Mul", "a scale", "b"), *END], added(CAUSAL, np.float32(-1e5))
    ),
    "a cap of a cap": Spelling([*CAPPED, ("Tanh", "e", "b"), *END]),
    "a cap of a mask": Spelling(
        [*SCALED, ("Add", "a mask", "m"), ("Tanh", "m", "d"), ("Mul", "d cap", "b"), *END],
        added(CAUSAL, -1e5),
    ),
    "chosen zeros": Spelling([*SCALED, ("Where", "mask a low", "b"), *END], CAUSAL, low=np.float32(0)),
}  # fmt: skip


def attention(spelling: Spelling, outputs: str = "z") -> Any:
    constants = {
        "mask": np.asarray(spelling.mask),
        "scale": np.asarray(spelling.scale),
        "low": np.asarray(spelling.low),
        "zero": np.zeros((), np.float32),
        "cap": np.float32(0.7),
        "more": added(np.arange(TIMES) < 90, LOWEST),
    }
    nodes = [(*node, {}) if len(node) == 3 else node for node in spelling.nodes]
    read = " ".join(node[1] for node in nodes).split()
    written = [writer.node(op, op, a.split(), [b], more) for op, a, b, more in nodes]
    inputs = {"q": QUERY, "k": KEY, "v": VALUE} | {n: x for n, x in constants.items() if n in read}
    return nn.from_onnx(model_of(written, inputs, outputs.split())), [
        inputs[name] for name in list(inputs)[3:]
    ]


def loss_of(net: Any, constants: Any) -> Callable[[Any], Any]:
    def loss(parts: Any) -> Any:
        out = net(*parts, *constants)
        return ((out[0] if isinstance(out, tuple) else out) * BACK).sum()

    return loss


@each_case("name", SPELLINGS)
def test_attention_is_one_step_with_the_numbers_of_its_nodes(name: str) -> None:
    net, constants = attention(SPELLINGS[name])
    steps = net._source.program.steps
    assert any(step.op == "Attention" for step in steps) == SPELLINGS[name].joins
    alone, _ = attention(SPELLINGS[name], "z w")  # what is given stays a node
    assert not any(step.op == "Attention" for step in alone._source.program.steps)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(
            net(QUERY, KEY, VALUE, *constants), alone(QUERY, KEY, VALUE, *constants)[0], atol=1e-5
        )
        if "nothing" in name:  # of these nodes a gradient is no number
            return
        grads, wanted = (value_and_grad(loss_of(x, constants))([QUERY, KEY, VALUE])[1] for x in (net, alone))
    for found, expected in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())


def test_a_bias_behind_attention_to_weights_is_no_layer() -> None:
    nodes = [
        writer.node(op, op, a.split(), [b], *more or [{}])
        for op, a, b, *more in [*START, ("Softmax", "s", "w", {"axis": -1}), *END[1:]]
    ]
    nodes.append(writer.node("Add", "Add", ["z", "bias"], ["out"], {}))
    weights = {"k": KEY, "v": VALUE, "bias": BACK[0, 0, 0]}
    net = nn.from_onnx(model_of(nodes, {"q": QUERY}, ["out"], weights))
    scores = QUERY @ KEY.swapaxes(-1, -2)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = powers / powers.sum(-1, keepdims=True) @ VALUE + weights["bias"]
    np.testing.assert_allclose(net(QUERY), wanted, atol=1e-4)


def test_attention_in_maps_and_traces_is_its_nodes() -> None:
    net, constants = attention(SPELLINGS["causal, lowest number"])
    wanted = net(QUERY, KEY, VALUE, *constants)
    mapped = vmap(lambda *parts: net(*(x[None] for x in parts), *constants)[0])(QUERY, KEY, VALUE)
    np.testing.assert_allclose(mapped, wanted, atol=1e-5)
    np.testing.assert_allclose(jit(net)(QUERY, KEY, VALUE, *constants), wanted, atol=1e-5)


@pytest.mark.compiled
@pytest.mark.skipif(backend() == "numpy", reason="nothing is compiled")
def test_the_gradient_holds_no_scores() -> None:
    assert peak_of_gradient("causal, lowest number") < 12 * QUERY.nbytes + SCORES / 2


@each_case("name", ["a bias", "a soft cap", "a soft cap, causal"])
def test_the_gradient_of_any_scores_holds_those_of_a_block(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masked_attention, "BLOCK", 1 << 11)
    assert peak_of_gradient(name) < 10 * QUERY.nbytes


def peak_of_gradient(name: str) -> int:
    net, constants = attention(SPELLINGS[name])
    return peak_of(value_and_grad(loss_of(net, constants)), [QUERY, KEY, VALUE])


@pytest.mark.parametrize("choice", ["shown zero low", "hidden low zero"])
def test_attentions_read_their_mask_once_and_not_as_floats(choice: str) -> None:
    """The condition of the mask says all; where another node reads the floats, these are there."""
    nodes: list[Any] = [("Not", "shown", "hidden"), ("Where", choice, "mask")]
    for i, v in enumerate("vz"):
        renamed = {"q": "q" if v == "v" else "z", "k": "k", "v": v, "scale": "scale", "mask": "mask"}
        for op, reads, out, *more in MASKED:
            named = [renamed.get(x, f"{x}{i}") for x in reads.split()]
            nodes.append((op, " ".join(named), "z" if out == "z" and not i else f"{out}{i}", *more))
    constants = {"zero": np.zeros((), np.float32), "low": np.float32([LOWEST]), "scale": np.float32(0.1)}
    inputs = {"q": QUERY, "k": KEY, "v": VALUE, "shown": CAUSAL}

    def net(outputs: str) -> Any:
        written = [writer.node(op, out, a.split(), [out], *more or [{}]) for op, a, out, *more in nodes]
        return nn.from_onnx(model_of(written, inputs, outputs.split(), constants), trainable=False)

    joined, others = net("z1"), net("z1 mask w0 w1")
    ops = [step.op for step in joined._source.program.steps]
    assert (ops.count("Attention"), ops.count("KeyRanges"), ops.count("Where")) == (2, 1, 0)
    given = QUERY, KEY, VALUE, CAUSAL
    found, mask = others(*given)[:2]
    np.testing.assert_array_equal(mask, added(CAUSAL, LOWEST))
    np.testing.assert_allclose(joined(*given), found, atol=1e-5)
    np.testing.assert_allclose(jit(joined)(*given), found, atol=1e-5)
    few = [x[..., :4, :] for x in given[:3]]
    np.testing.assert_allclose(joined(*few, CAUSAL[:4, :4]), others(*few, CAUSAL[:4, :4])[0], atol=1e-5)
    parts = [QUERY, KEY, VALUE]
    grads, wanted = (
        value_and_grad(lambda x, net=net: (net(*x) * BACK).sum())(parts)[1]
        for net in (lambda *x: joined(*x, CAUSAL), lambda *x: others(*x, CAUSAL)[0])
    )
    for got, expected in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-5 * np.abs(expected).max())
