"""The recurrent policy as a module, and its session."""

from __future__ import annotations

from typing import Any

import pytest
from recurrent_policy import PATH


@pytest.fixture
def policy() -> Any:
    from lite.models import OnnxModule

    return OnnxModule(PATH)


@pytest.fixture(scope="session")
def session() -> Any:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(PATH, options, providers=["CPUExecutionProvider"])
