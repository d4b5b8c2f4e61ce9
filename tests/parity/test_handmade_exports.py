"""The handmade graphs among the test models are what their script writes, and so is what they must give."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.models.handmade_exports import NAMES, expected, graph
from helpers.models.real_models import EXPECTED, MODELS

from lite.models import GenerationConfig, OnnxDecoder, generate

pytest.importorskip("onnx")


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_files_are_what_the_script_writes(name: str) -> None:
    written = graph(NAMES[name]).SerializeToString(deterministic=True)
    assert (MODELS / name / "model.onnx").read_bytes() == written
    assert EXPECTED[name] == json.loads(json.dumps(expected()))


def test_last_logits_behind_an_open_size(tmp_path: Path) -> None:
    """A gather before the projection would ask for positions that are cut off before it."""
    pytest.importorskip("onnxruntime")
    model = graph(True)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "sequence_length"
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    decoder = OnnxDecoder(tmp_path, num_threads=1)
    assert decoder.spec.last_logits_only
    assert decoder.spec.gather is None
    cases = EXPECTED["handmade-last-logits"]["greedy"]
    responses = generate(decoder, [case["prompt"] for case in cases], GenerationConfig(max_new_tokens=12))
    for case, response in zip(cases, responses, strict=True):
        assert response.tokens.tolist() == case["tokens"]
        np.testing.assert_allclose(response.log_probs, case["log_probs"], atol=1e-4)
