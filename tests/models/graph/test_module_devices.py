"""OnnxModule: devices and providers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from helpers.recurrent_policy import PATH, expected, inputs

from lite.models import OnnxModule

onnxruntime = pytest.importorskip("onnxruntime")


def test_device_is_the_choice_of_provider(policy: OnnxModule, monkeypatch: pytest.MonkeyPatch) -> None:
    assert policy.device == "cpu"
    assert policy.to("cpu") is policy
    assert policy.cpu() is policy
    assert policy.to(np.float64) is policy
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' or 'cuda:N'"):
        policy.to("meta")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    for move in (lambda: policy.to("cuda"), lambda: policy.cuda(3), lambda: OnnxModule(PATH, device="cuda")):
        with pytest.raises(RuntimeError, match=r"needs a GPU build of onnxruntime.*pip install"):
            move()
    assert policy.device == "cpu"
    assert policy(*inputs(2))[0].shape == (2, 3)


def test_moving_opens_a_session_there(policy: OnnxModule, monkeypatch: pytest.MonkeyPatch) -> None:
    from lite.models.graph import session

    opened = []
    monkeypatch.setattr(session, "open_session", lambda path, **options: opened.append(options) or object())
    before = copy.deepcopy(policy)
    assert policy.cuda(1) is policy
    assert (policy.device, before.device) == ("cuda:1", "cpu")
    assert opened == [{"device": "cuda:1", "num_threads": None, "providers": None}]


def test_providers(session: Any) -> None:
    module = OnnxModule(PATH, providers=["CPUExecutionProvider"])
    observation, hidden = inputs(3)
    np.testing.assert_array_equal(module(observation, hidden)[0], expected(session, observation, hidden)[0])
    with pytest.raises(ValueError, match=r"providers=\['NoSuch'\]: this build of onnxruntime has"):
        OnnxModule(PATH, providers=["NoSuch"])
    with pytest.raises(ValueError, match="contradicts providers"):
        OnnxModule(PATH, device="cuda", providers=["CPUExecutionProvider"])
    with pytest.raises(TypeError, match="providers must be a list"):
        OnnxModule(PATH, providers="CPUExecutionProvider")
