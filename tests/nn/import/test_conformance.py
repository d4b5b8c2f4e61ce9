"""The cases that the ONNX project has for its operators: each one passes, or is listed with its reason."""

import importlib
import pkgutil
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from lite import nn

VERSION = "1.23."  # of the onnx package that the list is of
# Patterns of names, and why lite.nn.from_onnx does not run them.
NOT_RUN = {
    r"ai_onnx_ml_(label_encoder|tree_ensemble).*": "trees and tables of classical models",
    r"(string|strnormalizer|regex|tfidf).*": "texts: tokenizers are elsewhere",
    r"image_decoder.*": "files of pictures are decoded before a network",
    r"(nonmaxsuppression|roialign|.*deform_conv).*": "detection of objects: no policy has them",
    r"(dft|stft|melweight|hann|hamming|blackman).*": "spectra of sound",
    r"flexattention.*": "graphs in the place of a softmax: a preview of ONNX",
    r"(adam|adagrad|momentum|nesterov).*": "optimisers: lite.optim",
    r"(bernoulli|training_dropout).*": "draws: a graph has no generator",
    r"cast(like)?_.*_to_(U?INT[24]|FLOAT4|FLOAT8).*": "numbers of 2 to 8 bits are read, not made",
    r"cast_e8m0_FLOAT(16)?_to.*": "numbers of 2 to 8 bits are read, not made",
    r"quantizelinear_(u?int[24]|e4m3fn|e5m2|float4e2m1)": "numbers of 2 to 8 bits are read, not made",
    r"resize_downsample_scales_.*_align_corners": "corners of the whole size, as onnxruntime and torch have",
    r"gridsample_bicubic.*": "no exporter of a policy writes it",
    r"(attention|einsum|celu).*_?(bf16|bfloat16).*": "bfloat16 is computed in float32, as `dtype` says",
}

# And of cases without one attribute or input, where what the package computes is not what its text says.
NOT_COMPARED = {
    r"attention_.*softcap without qk_matmul_output_mode": "its scores have the cap, where 0 means without",
    r"attention_local_window_gqa_rank4_mask without qk_matmul_output_mode": "the same",
    r"attention_local_window_ext_cache_rank2_mask without left_window_size": "a mask of one row",
    r"center_crop_pad_crop_axes_hwc without axes": "two sizes of three axes",
    r"loop13_seq without input 2": "no list to begin with",
}

POOLS = ("averagepool", "lppool", "maxpool")  # whose results the package computes in ten seconds


def _close(found: Any, wanted: Any, case: Any) -> None:
    if isinstance(wanted, list):
        assert isinstance(found, list)
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            _close(a, b, case)
        return
    if wanted is None:
        assert found is None
        return
    a, b = np.asarray(found), np.asarray(wanted)
    assert a.shape == b.shape
    if b.dtype.name not in ("int4", "uint4", "int2", "uint2"):  # held in 8 bits
        assert a.dtype == b.dtype
    if b.dtype.kind == "O":
        np.testing.assert_array_equal(a, b)
        return
    half = b.dtype.itemsize < 4  # the reference rounds after each step, lite once
    wide = (np.float32,) if b.dtype.kind == "V" else (b.dtype,)
    rtol, atol = (1e-2, 2e-2) if half else (max(case.rtol, 1e-3), max(case.atol, 1e-5))
    np.testing.assert_allclose(a.astype(*wide), b.astype(*wide), rtol=rtol, atol=atol)


def _failing(pools: bool) -> Iterator[tuple[str, str]]:
    from onnx.backend.test.case import node

    before, seen = len(node._NodeTestCases), set[Any]()
    for module in pkgutil.walk_packages(node.__path__, f"{node.__name__}."):
        if (module.name.rpartition(".")[2] in POOLS) == pools:
            importlib.import_module(module.name)
    for case in node._NodeTestCases[before:]:
        # the same by functions of other operators, which have cases of their own
        if "_expanded" in case.name:
            continue
        what, name = "", case.name.removeprefix("test_")
        try:
            pairs = [[[_array(x) for x in side] for side in pair] for pair in case.data_sets]
            for inputs, outputs in pairs:
                _compare(case.model, inputs, outputs, case)
            variants = [] if pools else _variants(case.model, *pairs[0], seen)
            for what, model, inputs, outputs in variants:  # noqa: B007
                _compare(model, inputs, outputs, case)
        except Exception as error:
            yield f"{name}{what}", f"{type(error).__name__}: {error}"


def _array(x: Any) -> Any:
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def _compare(model: Any, inputs: list[Any], outputs: list[Any], case: Any) -> None:
    found = nn.from_onnx(model.SerializeToString(), dtype=None)(*inputs)
    for a, b in zip(found if isinstance(found, tuple) else (found,), outputs, strict=True):
        _close(a, b, case)


def _variants(
    model: Any, inputs: list[Any], outputs: list[Any], seen: set[Any]
) -> Iterator[tuple[str, Any, list[Any], list[Any]]]:
    """A graph of one node with its axis counted from the other end, and without each thing it may lack.

    Of those that lack something, what the package's evaluator gives is wanted; some it refuses.
    """
    node = model.graph.node[0]
    if len(model.graph.node) > 1:
        return
    kind = (node.op_type, *sorted(a.name for a in node.attribute), *(getattr(x, "ndim", -1) for x in inputs))
    for i, attribute in enumerate(node.attribute):
        if attribute.name == "axis" and node.op_type != "OneHot":  # whose axis is one of the result
            other = _copied(model)
            other.graph.node[0].attribute[i].i += np.ndim(inputs[0]) * (1 if attribute.i < 0 else -1)
            yield " with the other axis", other, inputs, outputs
        other = _copied(model)
        del other.graph.node[0].attribute[i]
        yield from _evaluated(f" without {attribute.name}", other, inputs, kind, seen)
    version = max(o.version for o in model.opset_import if o.domain == node.domain)
    needed = onnx.defs.get_schema(node.op_type, version, node.domain).min_input
    count = len(node.input)
    for i in range(needed, count):
        for end in {i + 1, count}:  # one, and all behind it
            other, names = _copied(model), node.input[i:end]
            other.graph.node[0].input[i:end] = [""] * len(names) if end < count else []
            places = [j for j, value in enumerate(model.graph.input) if value.name in names]
            for j in reversed(places):
                del other.graph.input[j]
            rest = [x for j, x in enumerate(inputs) if j not in places]
            yield from _evaluated(
                f" without input {i}" + f" to {end}" * (end > i + 1), other, rest, kind, seen
            )


def _copied(model: Any) -> Any:
    other = type(model)()
    other.CopyFrom(model)
    return other


def _evaluated(
    what: str, model: Any, inputs: list[Any], kind: tuple[Any, ...], seen: set[Any]
) -> Iterator[tuple[str, Any, list[Any], list[Any]]]:
    if (what, kind) not in seen:
        seen.add((what, kind))
        feeds = dict(zip((value.name for value in model.graph.input), inputs, strict=True))
        try:
            outputs = ReferenceEvaluator(model).run(None, feeds)
        except Exception:
            return
        yield what, model, inputs, outputs


def test_all_but_those_with_a_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failing = dict(_failing(pools=False))
    listed = {name for name in failing for pattern in NOT_RUN if re.fullmatch(pattern, name)}
    if not onnx.__version__.startswith(VERSION):  # another version has other operators
        failing = {name: text for name, text in failing.items() if "there is no rule" not in text}
    listed |= {name for name in failing for pattern in NOT_COMPARED if re.fullmatch(pattern, name)}
    assert {name: text for name, text in failing.items() if name not in listed} == {}
    if not onnx.__version__.startswith(VERSION):
        return
    unused = [p for p in NOT_RUN if not any(re.fullmatch(p, name) for name in failing)]
    assert unused == []
    assert len([name for name in failing if " with" not in name]) <= 147


@pytest.mark.grid
def test_pools() -> None:
    assert dict(_failing(pools=True)) == {}
