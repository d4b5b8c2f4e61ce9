"""The exported models that come with the tests, and what their own libraries made of prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MODELS = Path(__file__).parents[2] / "models" / "exports"
EXPECTED: dict[str, Any] = {
    name.split("/")[0]: value for name, value in json.loads((MODELS / "expected.json").read_text()).items()
}
