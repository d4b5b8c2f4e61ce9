"""The handmade graphs among the test models are what their script writes, and so is what they must give."""

from __future__ import annotations

import json

import pytest
from helpers.handmade_exports import NAMES, expected, graph
from helpers.real_models import EXPECTED, MODELS

pytest.importorskip("onnx")


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_files_are_what_the_script_writes(name: str) -> None:
    written = graph(NAMES[name]).SerializeToString(deterministic=True)
    assert (MODELS / name / "model.onnx").read_bytes() == written
    assert EXPECTED[name] == json.loads(json.dumps(expected()))
