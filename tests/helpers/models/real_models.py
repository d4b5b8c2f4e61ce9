"""The exported models that come with the tests, and what their own libraries made of prompts."""

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.tiers import standing_for_all

from lite.models import OnnxDecoder

MODELS = Path(__file__).parents[2] / "models" / "exports"
EXPECTED: dict[str, Any] = {
    name.split("/")[0]: value for name, value in json.loads((MODELS / "expected.json").read_text()).items()
}
# One export of each convention.
STANDING = [
    "optimum-llama", "exporter-llama-static", "genai-lfm2", "handmade-slots-int8", "handmade-no-cache",
]  # fmt: skip
each_export = pytest.mark.parametrize(
    "name", standing_for_all([*STANDING, *sorted(EXPECTED.keys() - set(STANDING))], len(STANDING))
)


@functools.cache
def _opened(name: str) -> OnnxDecoder:
    return OnnxDecoder(MODELS / name, num_threads=1)


def open_model(name: str) -> OnnxDecoder:
    """A decoder of an export with rows of its own; its session is opened once."""
    return _opened(name).sibling()


def folder_of_two(folder: Path) -> Path:
    """A folder with two graphs: `model.onnx`, which takes adapters, and `model_int4.onnx`."""
    for file in (MODELS / "handmade-lora").iterdir():
        if file.suffix != ".onnx_adapter":
            shutil.copy(file, folder)
    shutil.copy(MODELS / "handmade-slots-int4" / "model.onnx", folder / "model_int4.onnx")
    return folder


def tolerance(name: str) -> float:
    """How far logits of a model may be apart that runs of other shapes give."""
    if name == "genai-qwen2-int4":
        return 0.1  # activations are rounded to 8 bits: a last bit may become a step of the rounding
    return {"half": 5e-3, "int8": 0.05, "int4": 0.5}.get(name.rpartition("-")[2], 2e-5)  # so are caches


def assert_same_response(model: str, ours: Any, theirs: Any) -> None:
    """The tokens and log-probs of two responses to one prompt are equal, to rounding.

    Some exports round activations, or keys and values: where runs are put together in another way, the last
    bit of a sum now and then becomes a step of the rounding, and a token another one. It is compared up to
    there.
    """
    rounds = tolerance(model) > 1e-4
    if rounds:
        count = min(len(ours.tokens), len(theirs.tokens))
        same = int(np.cumprod(ours.tokens[:count] == theirs.tokens[:count]).sum())
        assert same or not count, "not even the first token is the same"
    else:
        np.testing.assert_array_equal(ours.tokens, theirs.tokens)
        assert ours.finish_reason == theirs.finish_reason
        same = len(theirs.tokens)
    np.testing.assert_allclose(
        ours.log_probs[:same], theirs.log_probs[:same], atol=max(1e-4, tolerance(model)), rtol=0
    )
