"""What graphs of different conventions are given to read rows from their first token on."""

import numpy as np
from helpers.models.real_models import MODELS, open_model

from lite._files.onnx.model import read_model
from lite.models.learning.token_log_probs import row_inputs

ROWS = [np.array([7, 8, 9]), np.array([5])]


def inputs_of(name: str, file: str = "model.onnx") -> dict[str, np.ndarray]:
    spec = open_model(name).spec
    graph = read_model((MODELS / name / file).read_bytes(), MODELS / name).graph
    return row_inputs(spec.prompts or spec, graph.inputs, ROWS)


def test_filler_stands_on_the_right_and_asks_for_no_position_of_its_own() -> None:
    found = inputs_of("optimum-llama")
    np.testing.assert_array_equal(found["input_ids"], [[7, 8, 9], [5, 0, 0]])
    np.testing.assert_array_equal(found["attention_mask"], [[1, 1, 1], [1, 0, 0]])
    np.testing.assert_array_equal(found["position_ids"], [[0, 1, 2], [0, 0, 0]])
    assert found["past_key_values.0.key"].shape == (2, 2, 0, 16)


def test_types_and_sizes_are_those_of_the_graph() -> None:
    half = inputs_of("handmade-slots-half")["past_key_values.1.value"]
    assert (half.dtype, half.shape) == (np.float16, (2, 2, 0, 8))
    assert inputs_of("genai-lfm2")["past.2.conv"].shape == (2, 16, 2)
    static = inputs_of("exporter-llama-static", "prefill.onnx")
    assert static["input.past_key_values.layers.1.cumulative_length"] == 0
    assert "attention_mask" not in static
