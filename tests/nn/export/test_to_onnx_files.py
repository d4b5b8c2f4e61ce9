"""The files of an export: external weights, replacing, and what is left when something fails."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from helpers.cases import raises
from helpers.graphs import numbers, open_graph, run_graph

from lite import nn
from lite.models import OnnxModule
from lite.nn._export import to_onnx as files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_weights_beside_the_graph(tmp_path: Path) -> None:
    net, x = nn.MLP(64, 8, num_cells=[64, 64]), numbers(5, 64)
    path = net.to_onnx(tmp_path / "net.onnx", x, external_data=True)
    graph, contract, data = names(tmp_path)[0], *names(tmp_path)[1:]
    found = names(tmp_path)
    np.testing.assert_equal((len(found), graph, "net.onnx.json" in found), (3, "net.onnx", True))
    weights = next(name for name in (contract, data) if name.endswith(".data"))
    np.testing.assert_equal(path.stat().st_size < 4000 < (tmp_path / weights).stat().st_size, True)
    np.testing.assert_allclose(OnnxModule(path)(x), net(x), rtol=1e-5, atol=1e-5)
    written = onnx.load(path, load_external_data=False).graph.initializer
    offsets = [
        int(about.value) for array in written for about in array.external_data if about.key == "offset"
    ]
    assert len(offsets) > 1
    np.testing.assert_array_equal(np.array(offsets) % 4096, 0)  # of pages, which are mapped into memory


def test_beyond_the_limit_of_protobuf_weights_go_out_by_themselves(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LARGEST", 10_000)
    net, x = nn.Linear(64, 64), numbers(5, 64)
    path = net.to_onnx(tmp_path / "net.onnx", x)
    np.testing.assert_equal(len(names(tmp_path)), 3)
    np.testing.assert_allclose(run_graph(open_graph(path), [x])[0], net(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="external_data=False is for weights up to 2 GB, got 16640 bytes"):
        net.to_onnx(tmp_path / "other.onnx", x, external_data=False)
    np.testing.assert_equal(len(names(tmp_path)), 3)


def test_replacing_leaves_nothing_behind(tmp_path: Path) -> None:
    x = numbers(5, 64)
    other = tmp_path / "net.onnx.0123456789abcdef.data.kept"
    other.write_bytes(b"")
    for seed in range(3):
        net = nn.Linear(64, 64, rng=seed)
        path = net.to_onnx(tmp_path / "net.onnx", x, external_data=True)
        np.testing.assert_equal(len(names(tmp_path)), 4)
        np.testing.assert_allclose(OnnxModule(path)(x), net(x), rtol=1e-5, atol=1e-5)
    net.to_onnx(path, x, contract=False)
    np.testing.assert_equal(names(tmp_path), ["net.onnx", other.name])


def test_a_graph_that_is_open_goes_on(tmp_path: Path) -> None:
    x, before, after = numbers(5, 64), nn.Linear(64, 64, rng=0), nn.Linear(64, 64, rng=1)
    old = OnnxModule(before.to_onnx(tmp_path / "net.onnx", x, external_data=True))
    new = OnnxModule(after.to_onnx(tmp_path / "net.onnx", x, external_data=True))
    for graph, net in ((old, before), (new, after)):
        np.testing.assert_allclose(graph(x), net(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_failure_on_the_way_leaves_the_graph_before(failing, tmp_path, monkeypatch):
    x, before = numbers(5, 64), nn.Linear(64, 64, rng=0)
    path = before.to_onnx(tmp_path / "net.onnx", x, external_data=True)
    real, calls = files.new_file, []

    def breaks(target: str) -> Any:
        calls.append(target)
        if len(calls) == failing + 1:
            raise OSError("the disk is full")
        return real(target)

    monkeypatch.setattr(files, "new_file", breaks)
    after = nn.Sequential(nn.Linear(64, 64, rng=1), nn.Linear(64, 32, rng=2))
    raises(OSError, "the disk is full", after.to_onnx, path, x, external_data=True)
    np.testing.assert_equal([name for name in names(tmp_path) if "%" in name], [])
    np.testing.assert_allclose(
        OnnxModule(path)(x), before(x), rtol=1e-5, atol=1e-5
    )  # its weights and contract


def test_strange_arrays(tmp_path: Path) -> None:
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turned", numbers(64, 64).T)
            self.register_buffer("big_endian", numbers(64, 64).astype(">f4"))
            self.register_buffer("number", np.float32(3))

        def forward(self, x: Any) -> Any:
            return x @ self.turned + self.big_endian.astype(np.float32)[0] * self.number

    net, x = Held(), numbers(5, 64)
    for external in (True, False):
        path = net.to_onnx(tmp_path / "net.onnx", x, external_data=external)
        np.testing.assert_allclose(run_graph(open_graph(path), [x])[0], net(x), rtol=1e-4, atol=1e-4)
