"""Inputs and outputs of a step in NumPy's memory."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite._transforms.graphs.trace import Input, trace
from lite._transforms.graphs.writer import model_bytes
from lite.models.graph.session import open_session
from lite.models.graph.step_session import open_step


def model(name: str = "x") -> bytes:
    def run(graph: Any, arrays: Any) -> dict[str, Any]:
        return {"y": arrays[0] * 2, "total": arrays[0].sum(), "z": arrays[0] - 1}

    return model_bytes(trace(run, [Input(name, ("n",), np.dtype(np.float32))]))


def test_bound_memory_is_read_and_written() -> None:
    binding = open_step(model(), {"threads": 1}).binding()
    x, y, total = np.ones(3, np.float32), np.zeros(3, np.float32), np.zeros((), np.float32)
    binding.bind_input("x", x)
    binding.bind_output("y", y)
    binding.bind_new_output("z")
    binding.bind_output("total", total)
    for value in (1.0, 4.0):
        x[:] = value
        binding.run()
        np.testing.assert_array_equal(y, np.full(3, 2 * value))
        assert total == 3 * value
        np.testing.assert_array_equal(binding.new_outputs(["z"])["z"], np.full(3, value - 1))


def test_factors_of_products_keep_their_digits() -> None:
    def run(graph: Any, arrays: Any) -> dict[str, Any]:
        return {"y": np.matmul(*arrays) * 0.1}

    double = np.dtype(np.float64)
    content = model_bytes(trace(run, [Input("a", (2, 2), double), Input("b", (2, 2), double)]))
    binding = open_step(content, {"threads": 1}).binding()
    a, y = np.full((2, 2), 0.3), np.zeros((2, 2))
    binding.bind_input("a", a)
    binding.bind_input("b", a)
    binding.bind_output("y", y)
    binding.run()
    np.testing.assert_allclose(y, a @ a * 0.1, rtol=1e-15)


def test_threads_of_steps_do_not_wait_in_loops() -> None:
    options = open_step(model(), {"threads": 2}).session.get_session_options()
    assert options.intra_op_num_threads == 2
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_loading_takes_time_linear_in_the_operators() -> None:
    options = open_step(model(), {"threads": 1}).session.get_session_options()
    assert (options.enable_mem_pattern, options.enable_mem_reuse) == (True, False)


@pytest.mark.skipif(os.name != "posix", reason="other systems keep the folder of a process")
def test_a_service_whose_folder_was_replaced_traces_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "release").mkdir()
    monkeypatch.chdir(tmp_path / "release")
    (tmp_path / "release").rmdir()
    assert open_step(model(), {"threads": 1}).session.get_inputs()[0].name == "x"
    # That of an array outside of the file has this name, too.
    session = open_session(tmp_path / "release" / "model.onnx", content=model("location"))
    assert session.get_inputs()[0].name == "location"


def test_options() -> None:
    raises(ValueError, "num_threads must be at least 1", open_step, model(), {"threads": 0})
    with pytest.raises(ValueError, match="this build of onnxruntime has"):
        open_step(model(), {"providers": ["NoSuchExecutionProvider"]})
    raises(ValueError, r"protobuf|not an ONNX", open_step, b"no model", {})
