"""The recurrent policy as a module, and its session; decoders of real exports and their prompts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from real_models import EXPECTED, MODELS
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


@pytest.fixture(params=sorted(EXPECTED))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def decoder(name: str) -> Any:
    from lite.models import OnnxDecoder

    return OnnxDecoder(MODELS / name, num_threads=1)


@pytest.fixture
def prompts(name: str) -> list[NDArray[np.int64]]:
    return [np.array(case["prompt"]) for case in EXPECTED[name]["greedy"]]
