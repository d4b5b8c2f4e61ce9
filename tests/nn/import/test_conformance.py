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
    r"qlinearconv": "activations of 8 bits",
    r"gridsample_bicubic.*": "no exporter of a policy writes it",
    r"(attention|einsum|celu).*_?(bf16|bfloat16).*": "bfloat16 is computed in float32, as `dtype` says",
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

    before = len(node._NodeTestCases)
    for module in pkgutil.walk_packages(node.__path__, f"{node.__name__}."):
        if (module.name.rpartition(".")[2] in POOLS) == pools:
            importlib.import_module(module.name)
    for case in node._NodeTestCases[before:]:
        # the same by functions of other operators, which have cases of their own
        if "_expanded" in case.name:
            continue
        try:
            net = nn.from_onnx(case.model.SerializeToString(), dtype=None)
            for pair in case.data_sets:
                inputs, outputs = (
                    [onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x for x in side]
                    for side in pair
                )
                found = net(*inputs)
                for a, b in zip(found if isinstance(found, tuple) else (found,), outputs, strict=True):
                    _close(a, b, case)
        except Exception as error:
            yield case.name.removeprefix("test_"), f"{type(error).__name__}: {error}"


def test_all_but_those_with_a_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failing = dict(_failing(pools=False))
    listed = {name for name in failing for pattern in NOT_RUN if re.fullmatch(pattern, name)}
    if not onnx.__version__.startswith(VERSION):  # another version has other operators
        failing = {name: text for name, text in failing.items() if "there is no rule" not in text}
    assert {name: text for name, text in failing.items() if name not in listed} == {}
    if not onnx.__version__.startswith(VERSION):
        return
    unused = [p for p in NOT_RUN if not any(re.fullmatch(p, name) for name in failing)]
    assert unused == []
    assert len(failing) <= 146


@pytest.mark.grid
def test_pools() -> None:
    assert dict(_failing(pools=True)) == {}
