"""Attention, rotations and caches."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.onnx_nodes import Case, check_all, model_of, module_of, numbers

from lite import nn, value_and_grad
from lite._files.onnx import writer

_TABLES = [numbers(8, 2), numbers(8, 2, seed=1)]
CASES = [
    Case("Attention", [numbers(2, 4, 3, 6), numbers(2, 2, 5, 6, seed=1), numbers(2, 2, 5, 6, seed=2)],
        {"is_causal": 1, "softcap": 2.0}, opset=23),
    Case(
        "GroupQueryAttention",
        [
            *(numbers(2, 3, 16, seed=0), numbers(2, 3, 8, seed=1), numbers(2, 3, 8, seed=2)),
            *(
                np.zeros((2, 2, 0, 4)),
                np.zeros((2, 2, 0, 4)),
                np.array([2, 1], np.int32),
                np.array(3, np.int32),
            ),
            *(np.cos(numbers(8, 2)), np.sin(numbers(8, 2))),
        ],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
        "com.microsoft",
        outputs=3,
        has_values=False,
    ),
    Case("GroupQueryAttention",
        [*(numbers(2, 1, 32), None, None, numbers(2, 2, 5, 4, seed=1), numbers(2, 2, 5, 4, seed=2)),
        *(np.array([3, 5], np.int32), np.array(6, np.int32))], {"num_heads": 4, "kv_num_heads": 2,
        "local_window_size": 3}, "com.microsoft", outputs=3, has_values=False),
    *(
        Case("GroupQueryAttention",
            [numbers(2, 1, n, seed=n).astype(np.float32) for n in (32, 16)]
            + [numbers(2, 1, 16).astype(np.float32), *[np.full((2, 2, 6, bits), 7, kind)] * 2]
            + [np.array([5, 5], np.int32), np.array(6, np.int32), *[None] * 5]
            + [np.full(1, 0.8 if bits == 4 else 0.01, np.float32)] * 2,
            {"num_heads": 4, "kv_num_heads": 2, "kv_cache_bit_width": bits, "k_quant_type": "PER_TENSOR",
            "v_quant_type": "PER_TENSOR"}, "com.microsoft", outputs=3)
        for bits, kind in ((8, np.int8), (4, np.uint8))
    ),
    Case("RotaryEmbedding",
        [numbers(2, 3, 3, 4), np.array([[0, 1, 2], [3, 4, 5]]), numbers(8, 2), numbers(8, 2, seed=1)],
        {"interleaved": 1}, "com.microsoft"),
    Case("RotaryEmbedding", [numbers(2, 3, 12), np.array([1]), *_TABLES], domain="com.microsoft"),
    Case("CausalConvWithState", [numbers(2, 3, 4), numbers(3, 1, 3, seed=1)], {"activation": "silu"},
        outputs=2, opset=27, has_values=False),
]  # fmt: skip
_X, _WEIGHTS = numbers(2, 3, 6), [numbers(6, 20, seed=1), numbers(20, seed=2)]
_QKV = [numbers(2, 3, 8), numbers(2, 5, 8, seed=1), numbers(2, 5, 4, seed=2)]
_PAST = [numbers(2, 2, 3, 4, seed=4), numbers(2, 2, 3, 4, seed=5)]


def _int32(*rows: Any) -> np.ndarray:
    return np.array(rows, np.int32)


# What onnxruntime's tool for transformers writes, with each form of a mask.
CASES += [
    *(
        Case("Attention", [_X, *_WEIGHTS, mask],
            {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4], **more}, "com.microsoft")
        for mask, more in (
            (None, {"scale": 0.3, "unidirectional": 1}),
            (_int32(2, 3), {}),
            (_int32(2, 3, 0, 1), {"mask_filter_value": -1.0}),
            (_int32([1, 0, 1], [0, 1, 1]), {"unidirectional": 1}),
            (_int32(*np.ones((2, 3, 3)) - np.eye(3)), {}),
        )
    ),
    Case("Attention", [_X, numbers(6, 24, seed=1), numbers(24), None, None, numbers(1, 2, 3, 3, seed=4)],
        {"num_heads": 2}, "com.microsoft"),
    Case("Attention", [_X, numbers(6, 24, seed=1), numbers(24), _int32([1, 0, 1, 1, 1], [0, 1, 1, 1, 0]),
        numbers(2, 2, 2, 2, 4, seed=3)], {"num_heads": 2}, "com.microsoft", outputs=2),
    Case("MultiHeadAttention", _QKV, {"num_heads": 2, "scale": 0.3}, "com.microsoft"),
    Case("MultiHeadAttention", [*_QKV, numbers(20, seed=3), _int32([1, 0, 1, 1, 1], [0, 1, 1, 1, 0]),
        numbers(2, 2, 3, 5)], {"num_heads": 2}, "com.microsoft"),
    Case("MultiHeadAttention", [numbers(2, 3, 8), *_PAST], {"num_heads": 2}, "com.microsoft"),
    Case("MultiHeadAttention", [numbers(2, 3, 8), *_PAST, numbers(24)], {"num_heads": 2}, "com.microsoft"),
    Case("MultiHeadAttention", _QKV, {"num_heads": 2, "unidirectional": 1}, "com.microsoft"),
    Case("MultiHeadAttention", [*(numbers(2, 1, 8, seed=i) for i in range(3)), None, None, None, *_PAST],
        {"num_heads": 2}, "com.microsoft", outputs=3),
]  # fmt: skip


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)


def test_queries_keys_and_values_in_one_array() -> None:
    """As onnxruntime's tool writes it for graphics cards: its own CPU kernel does not take it."""
    how = {"num_heads": 2, "scale": 0.3}
    whole = Case("MultiHeadAttention", [numbers(2, 3, 2, 3, 4)], how, "com.microsoft")
    (x,) = whole.inputs
    q, k, v = (x[:, :, :, i].reshape(2, 3, 8) for i in range(3))
    wanted = module_of(whole._replace(inputs=[q, k, v]))(q, k, v)
    np.testing.assert_array_equal(module_of(whole)(x), wanted)
    two = [q, x[:, :, :, 1:]]
    np.testing.assert_array_equal(module_of(whole._replace(inputs=two))(*two), wanted)


def test_a_part_of_each_head_is_turned_by_the_first_columns_of_a_table() -> None:
    """Of tables as wide as whole heads onnxruntime reads other numbers: rows as if they were narrow ones."""
    x, tables, at = numbers(2, 2, 3, 8), [numbers(8, 4, seed=1), numbers(8, 4, seed=2)], np.array([[0, 2, 1]])
    part = Case(
        "RotaryEmbedding", [x, at, *tables], {"rotary_embedding_dim": 4, "num_heads": 2}, "com.microsoft"
    )
    narrow = [x, at, *(table[:, :2] for table in tables)]
    out = module_of(part)(*part.inputs)
    np.testing.assert_array_equal(out, module_of(part._replace(inputs=narrow))(*narrow))
    np.testing.assert_array_equal(out[..., 4:], x[..., 4:])


@pytest.mark.compiled
@each_case("masked", ["none", "causal", "bools", "floats"])
def test_attention_without_scores_is_one_node(masked: str) -> None:
    """Asked for scores, too, the formula computes them."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, heads, 96, 32)).astype(np.float32) for heads in (4, 2, 2))
    shown = np.tril(np.ones((96, 96), np.bool_))
    mask = {"bools": shown, "floats": np.where(shown, 0, -np.inf).astype(np.float32)}.get(masked)
    inputs = {"q": q, "k": k, "v": v} | ({} if mask is None else {"m": mask})
    back = rng.normal(size=q.shape).astype(np.float32)
    results = []
    for outputs in (["y"], ["y", "", "", "s"]):
        node = writer.node("Attention", "a", list(inputs), outputs, {"is_causal": int(masked == "causal")})
        net = nn.from_onnx(model_of([node], inputs, [name for name in outputs if name], opset=23))

        def loss(parts: Any, net: Any = net) -> Any:
            out = net(*parts, *([] if mask is None else [mask]))
            return ((out[0] if isinstance(out, tuple) else out) * back).sum()

        results.append(value_and_grad(loss)([q, k, v]))
    (value, grads), (wanted, expected) = results
    np.testing.assert_allclose(value, wanted, rtol=1e-4)
    for a, b in zip(grads, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5 * np.abs(b).max())


@pytest.mark.compiled
def test_group_queries_in_rows_are_those_of_the_formula() -> None:
    """Asked for keys and values, too, the formula computes them."""
    rng = np.random.default_rng(0)
    tables = {name: rng.normal(size=(140, 8)).astype(np.float32) for name in ("cos", "sin")}
    wide = rng.normal(size=(2, 128, 128)).astype(np.float32)
    back = rng.normal(size=(2, 128, 64)).astype(np.float32)
    parts: dict[str, Any] = dict(zip(("q", "k", "v"), np.split(wide, [64, 96], 2), strict=True))
    past = np.zeros((2, 2, 0, 16), np.float32)
    lengths = {"lengths": np.array([127, 90], np.int32), "total": np.array(128, np.int32)}
    at = {"at": np.arange(3, 131) + np.zeros((2, 1), np.int64)}
    for given, options in (
        (parts, {}),
        (parts, {"local_window_size": 9, "scale": 0.5}),
        (parts | tables, {"do_rotary": 1}),
        (parts | tables | at, {"do_rotary": 1}),
        (parts | tables, {"do_rotary": 1, "rotary_interleaved": 1}),
        (parts, {"softcap": 2.0}),
        ({"q": wide} | tables, {"do_rotary": 1, "local_window_size": 64}),
    ):
        inputs = given | {"past_k": past, "past_v": past} | lengths
        names = ("q", "k", "v", "past_k", "past_v", "lengths", "total", "cos", "sin", "at")
        results = []
        for outputs in (["y"], ["y", "keys", "values"]):
            read = [name if name in inputs else "" for name in names]
            node = writer.node(
                "GroupQueryAttention", "a", read, outputs, {"num_heads": 4, "kv_num_heads": 2, **options},
                domain="com.microsoft",
            )  # fmt: skip
            net = nn.from_onnx(model_of([node], inputs, outputs))

            def loss(learned: Any, net: Any = net, rest: Any = inputs) -> Any:
                out = net(*(learned | {k: v for k, v in rest.items() if k not in learned}).values())
                return ((out[0] if isinstance(out, tuple) else out) * back).sum()

            results.append(value_and_grad(loss)({k: v for k, v in given.items() if k in parts}))
        (value, grads), (wanted, expected) = results
        np.testing.assert_allclose(value, wanted, rtol=1e-4)
        for key, grad in expected.items():
            np.testing.assert_allclose(grads[key], grad, atol=2e-5 * np.abs(grad).max())
