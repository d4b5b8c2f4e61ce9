"""The exported models that come with the tests, and what their own libraries made of prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MODELS = Path(__file__).parents[2] / "models" / "exports"
EXPECTED: dict[str, Any] = {
    name.split("/")[0]: value for name, value in json.loads((MODELS / "expected.json").read_text()).items()
}


def tolerance(name: str) -> float:
    """How far logits of a model may be apart that runs of other shapes give."""
    if name == "genai-qwen2-int4":
        return 0.1  # activations are rounded to 8 bits: a last bit may become a step of the rounding
    return {"half": 5e-3, "int8": 0.05, "int4": 0.5}.get(name.rpartition("-")[2], 2e-5)  # so are caches
