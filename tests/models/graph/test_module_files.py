"""OnnxModule: files that are missing, damaged, hostile, or links."""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.real_models import MODELS
from helpers.recurrent_policy import PATH, expected, inputs

from lite.models import OnnxModule

pytest.importorskip("onnxruntime")


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no ONNX file"):
        OnnxModule(tmp_path / "none.onnx")
    shutil.copy(PATH, tmp_path / "policy.onnx")
    with pytest.raises(FileNotFoundError, match=r"it is a folder with policy\.onnx"):
        OnnxModule(tmp_path)


def test_neither_path_nor_session() -> None:
    with pytest.raises(TypeError, match="model must be a path or a session of onnxruntime, got int"):
        OnnxModule(3)  # type: ignore[arg-type]


def test_symbolic_links_as_download_caches_have_them(tmp_path: Path, session: Any) -> None:
    """The graph and what it needs are links to files of other names elsewhere."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshots" / "1").mkdir(parents=True)
    llama = MODELS / "genai-llama-fp32"
    for name in ("model.onnx", "model.onnx.data"):
        shutil.copy(llama / name, tmp_path / "blobs" / name[::-1])
        (tmp_path / "snapshots" / "1" / name).symlink_to(f"../../blobs/{name[::-1]}")
    linked = tmp_path / "snapshots" / "1" / "model.onnx"
    assert OnnxModule(linked).in_keys == OnnxModule(llama / "model.onnx").in_keys
    (tmp_path / "policy.onnx").symlink_to(PATH)
    observation, hidden = inputs(3)
    action = OnnxModule(tmp_path / "policy.onnx")(observation, hidden)[0]
    np.testing.assert_array_equal(action, expected(session, observation, hidden)[0])
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    (tmp_path / "gone.onnx").symlink_to("nowhere.onnx")
    for name in ("loop.onnx", "gone.onnx"):
        with pytest.raises(FileNotFoundError, match=f"there is no ONNX file .*{name}"):
            OnnxModule(tmp_path / name)
    (tmp_path / "blobs" / "model.onnx.data"[::-1]).unlink()
    with pytest.raises(FileNotFoundError, match=r"external data file 'model\.onnx\.data' is missing"):
        OnnxModule(linked)


@pytest.mark.parametrize("seed", range(3))
def test_files_damaged_anywhere_are_refused_or_run(tmp_path: Path, seed: int) -> None:
    """Cut, with other bytes, with bytes missing: a ValueError that names the file, or a graph that runs."""
    rng, whole = np.random.default_rng(seed), PATH.read_bytes()
    refused = 0
    for i in range(12):
        damaged, at = bytearray(whole), int(rng.integers(len(whole)))
        if i % 3 == 0:
            del damaged[at:]
        elif i % 3 == 1:
            damaged[at : at + 4] = rng.bytes(4)
        else:
            del damaged[at : at + int(rng.integers(1, 200))]
        path = tmp_path / f"{i}.onnx"
        path.write_bytes(damaged)
        try:
            module = OnnxModule(path)
        except ValueError as err:
            refused += 1
            assert f"{i}.onnx" in str(err) or "numeric tensors only" in str(err)  # noqa: PT017
            continue
        with contextlib.suppress(RuntimeError, ValueError, KeyError):
            module(*inputs(2))
    assert refused


def test_without_onnxruntime_the_command_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "policy.onnx"  # a file whose session is not open yet
    shutil.copy(PATH, path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r'pip install -e "\.\[llm\]"'):
        OnnxModule(path)
