"""The handmade graphs among the test models are what their script writes, and so is what they must give."""

import json

import numpy as np
import onnxruntime
import pytest
from helpers.cases import each_case
from helpers.models.handmade_exports import ADAPTERS, NAMES, adapter, adapter_file, expected, graph
from helpers.models.real_models import EXPECTED, MODELS

from lite.models import GenerationConfig, OnnxDecoder, generate


@each_case("name", sorted(NAMES))
def test_the_files_are_what_the_script_writes(name):
    written = graph(NAMES[name]).SerializeToString(deterministic=True)
    assert (MODELS / name / "model.onnx").read_bytes() == written
    assert EXPECTED[name] == json.loads(json.dumps(expected(NAMES[name])))


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_adapters_are_what_the_script_writes(name):
    assert (MODELS / "handmade-lora" / f"{name}.onnx_adapter").read_bytes() == adapter_file(name)
    read = onnxruntime.AdapterFormat.read_adapter(str(MODELS / "handmade-lora" / f"{name}.onnx_adapter"))
    parameters = read.get_parameters()
    assert parameters.keys() == adapter(name).keys()
    for key, value in adapter(name).items():
        np.testing.assert_array_equal(parameters[key].numpy(), value)


def test_last_logits_behind_an_open_size(tmp_path):
    """A gather before the projection would ask for positions that are cut off before it."""
    model = graph(NAMES["handmade-last-logits"])
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
