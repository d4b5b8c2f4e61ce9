"""OnnxModule and the contract beside its graph."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.graphs import numbers
from helpers.recurrent_policy import PATH

from lite import TensorDict, nn
from lite.models import OnnxModule


def of_policy(**entries: Any) -> dict[str, Any]:
    """A contract of the graph that torch exported, with nested keys."""
    tensors = {
        "inputs": [{"name": "observation", "key": ["agent", "obs"], "shape": ["batch", 4],
            "dtype": "float32"}, {"name": "hidden", "key": ["agent", "h"], "shape": [2, "batch", 16],
            "dtype": "float32"}],
        "outputs": [{"name": "action", "key": ["action"], "shape": ["batch", 3], "dtype": "float32"},
            {"name": "value", "key": ["v"], "shape": ["batch", 1], "dtype": "float32"},
            {"name": "new_hidden", "key": ["next", "h"], "shape": [2, "batch", 16], "dtype": "float32"}],
    }  # fmt: skip
    top = {"format": "lite-onnx-contract", "version": 1, "batch": "batch"}
    return {**top, **tensors, **entries}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(PATH, tmp_path / "policy.onnx")
    return tmp_path


def write(folder: Path, content: dict[str, Any]) -> None:
    (folder / "policy.onnx.json").write_text(json.dumps(content))


def test_keys_that_are_given_win(folder: Path) -> None:
    write(folder, of_policy())
    graph = OnnxModule(folder / "policy.onnx", in_keys={"hidden": "h"}, out_keys=["a", "_", "n"])
    np.testing.assert_equal((graph.in_keys, graph.out_keys), ([("agent", "obs"), "h"], ["a", "_", "n"]))


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"inputs": []}, r"the inputs are \[\], those of the graph \['observation', 'hidden'\]"),
    ({"format": "x"}, "must have the format"),
    ({"outputs": [{**of_policy()["outputs"][0], "dtype": "float64"}, *of_policy()["outputs"][1:]]},
        r"'action' is float64\['batch', 3\], in the graph float32"),
    ({"outputs": [{**of_policy()["outputs"][0], "shape": ["batch", 4]}, *of_policy()["outputs"][1:]]},
        r"'action' is float32\['batch', 4\], in the graph"),
    ({"outputs": [{**of_policy()["outputs"][0], "shape": [3]}, *of_policy()["outputs"][1:]]},
        r"'action' is float32\[3\], in the graph"),
]  # fmt: skip


def test_a_contract_of_another_graph_is_refused(folder: Path) -> None:
    for entries, message in OTHERS:
        write(folder, of_policy(**entries))
        with pytest.raises(ValueError, match=message) as caught:
            OnnxModule(folder / "policy.onnx")
        np.testing.assert_equal("policy.onnx.json" in str(caught.value), True, err_msg=str(entries))


def test_a_session_has_no_contract(folder: Path) -> None:
    write(folder, of_policy())
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "policy.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_equal(OnnxModule(session).in_keys, ["observation", "hidden"])


def test_changed_contracts_of_exports_are_refused(tmp_path: Path) -> None:
    net = nn.TensorDictModule(nn.Linear(4, 3), [("a", "b")], ["y"])
    path = net.to_onnx(tmp_path / "net.onnx", TensorDict({("a", "b"): numbers(5, 4)}, [5]))
    np.testing.assert_equal(OnnxModule(path).in_keys, [("a", "b")])
    beside = tmp_path / "net.onnx.json"
    beside.write_text(beside.read_text().replace('"y"', '"z"'))
    with pytest.raises(ValueError, match="export both again, or remove it"):
        OnnxModule(path)
    beside.unlink()
    np.testing.assert_equal(OnnxModule(path).in_keys, ["a.b"])


def test_an_output_without_a_batch(tmp_path: Path) -> None:

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(numbers(3))

        def forward(self, x: Any) -> Any:
            return x * self.scale, self.scale * 2, x.mean(0)

    net = Net()
    graph = OnnxModule(net.to_onnx(tmp_path / "net.onnx", numbers(5, 3)))
    x = numbers(4, 3)
    for got, want in zip(graph(x), net(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, strict=True)


def test_modules_are_pickled(tmp_path: Path) -> None:
    import pickle

    net = nn.TensorDictModule(nn.Linear(4, 3), [("a", "b")], ["y"])
    path = net.to_onnx(tmp_path / "net.onnx", TensorDict({("a", "b"): numbers(5, 4)}, [5]))
    again = pickle.loads(pickle.dumps(OnnxModule(path)))
    np.testing.assert_equal(again.in_keys, [("a", "b")])
