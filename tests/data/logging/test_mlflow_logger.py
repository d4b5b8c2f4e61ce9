"""MLFlowLogger, on a stand-in for mlflow that keeps what it is called with."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.trackers import VIDEO, Calls, installed_mlflow

from lite import TensorDict
from lite.data import MLFlowLogger, get_logger
from lite.data.logging import mlflow_logger

RUN = {"run_id": "one"}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return installed_mlflow(monkeypatch)


def test_what_it_passes_on(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    monkeypatch.setattr(mlflow_logger, "write_video", lambda path, frames, **kw: written.append((frames, kw)))
    logger = MLFlowLogger("run", "sqlite:///a.db", {"t": 1}, video_fps=9)
    assert (logger.id, logger.video_fps) == ("8", 9)
    logger.log_scalar("a", np.float32(1.5), step=3)
    assert logger.log_metrics(TensorDict(b={"c": np.array([2])}), step=4) == {"b/c": 2}
    logger.log_hparams({"lr": 0.1})
    logger.log_video("test/v", VIDEO, step=5)
    logger.log_video("w", VIDEO[:, :, :1], fps=3)
    logger.close()
    logger.close()
    made, *rest = calls.seen[1:]
    assert calls.seen[0] == ("set_tracking_uri", ["sqlite:///a.db"], {})
    assert made[2] == {"name": "run", "artifact_location": None, "tags": {"t": 1}}
    first, second = [args for name, args, _ in rest if name == "log_artifact"]
    assert [(Path(path).name, folder) for path, folder in (first, second)] == [
        ("v_step_0005.mp4", "videos/test"),
        ("w.mp4", "videos"),
    ]
    assert [call for call in rest if call[0] != "log_artifact"] == [
        ("start_run", [], {"experiment_id": "8"}),
        ("log_metric", ["a", 1.5], {"step": 3, **RUN}),
        ("log_metrics", [{"b/c": 2}], {"step": 4, **RUN}),
        ("log_params", [{"lr": 0.1}], RUN),
        ("end_run", [], {}),
    ]
    assert [(frames.shape, words) for frames, words in written] == [
        ((4, 6, 8, 3), {"fps": 9}),
        ((4, 6, 8, 3), {"fps": 3}),
    ]
    assert logger.state_dict()["local"] == {"id": "8", "video_log_counter": 2}


def test_by_name(calls: Calls, tmp_path: Path) -> None:
    logger = get_logger("mlflow", str(tmp_path), "known", mlflow_kwargs={"video_fps": 4})
    assert isinstance(logger, MLFlowLogger)
    assert (logger.id, logger.video_fps, logger.log_dir) == ("7", 4, tmp_path.as_uri())
    assert "create_experiment" not in [name for name, _, _ in calls.seen]
    with pytest.raises(NotImplementedError, match="a run of MLflow cannot go on"):
        get_logger("mlflow", "a", "b", state_dict=logger.state_dict())


def test_errors(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = MLFlowLogger("run", "sqlite:///a.db")
    raises(ValueError, "of 1 or 3 colours", logger.log_video, "v", VIDEO[0])
    raises(NotImplementedError, "logs no histograms", logger.log_histogram, "h", [1.0])
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match="MLFlowLogger needs mlflow: pip install mlflow"):
        MLFlowLogger("run", "sqlite:///a.db")
