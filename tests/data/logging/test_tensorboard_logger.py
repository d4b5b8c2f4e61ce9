"""TensorboardLogger, on a stand-in for tensorboardX that keeps what it is called with."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite.data import TensorboardLogger


class SummaryWriter:
    """tensorboardX's methods with its parameters."""

    def __init__(self, logdir: str) -> None:
        self.logdir = logdir
        self.seen: list[Any] = []

    def add_scalar(self, tag: str, scalar_value: Any, global_step: Any = None) -> None:
        self.seen.append((tag, scalar_value, global_step))

    def add_video(self, tag: str, vid_tensor: Any, global_step: Any = None, fps: int = 4) -> None:
        self.seen.append((tag, vid_tensor.shape, global_step, fps))

    def add_hparams(self, hparam_dict: Any, metric_dict: Any) -> None:
        self.seen.append((hparam_dict, metric_dict))

    def add_histogram(
        self, tag: str, values: Any, global_step: Any = None, bins: Any = "tensorflow", walltime: Any = None
    ) -> None:
        self.seen.append((tag, len(values), global_step, bins, walltime))

    def flush(self) -> None:
        self.seen.append("flush")


@pytest.fixture
def logger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TensorboardLogger:
    module: Any = ModuleType("tensorboardX")
    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    monkeypatch.setitem(sys.modules, "moviepy", ModuleType("moviepy"))
    return TensorboardLogger("run", tmp_path)


def test_what_it_passes_on(logger: TensorboardLogger, tmp_path: Path) -> None:
    logger.log_scalar("a", 1.0, step=3)
    logger.log_video("v", np.zeros((1, 2, 3, 4, 4), np.uint8), step=4, fps=9)
    logger.log_hparams({"lr": 0.1})
    logger.log_histogram("h", np.zeros(5), step=5, bins="auto")
    logger.log_histogram("h", np.zeros(5))
    logger.close()
    assert logger.experiment.seen == [
        ("a", 1.0, 3), ("v", (1, 2, 3, 4, 4), 4, 9), ({"lr": 0.1}, {}), ("h", 5, 5, "auto", None),
        ("h", 5, None, "tensorflow", None), "flush",
    ]  # fmt: skip
    assert logger.experiment.logdir == logger.log_dir == str(tmp_path / "run")
    assert logger.state_dict() == {"exp_name": "run", "log_dir": str(tmp_path)}


def test_errors(logger: TensorboardLogger, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match=r"takes step, bins and walltime, got \['other'\]"):
        logger.log_histogram("h", np.zeros(5), other=1)
    raises(ValueError, "of 1 or 3 colours", logger.log_video, "v", np.zeros((2, 2)))
    monkeypatch.setitem(sys.modules, "moviepy", None)
    with pytest.raises(ImportError, match="videos for TensorBoard need moviepy"):
        logger.log_video("v", np.zeros((1, 2, 3, 4, 4), np.uint8))
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    raises(ImportError, "TensorboardLogger needs tensorboardX: pip install", TensorboardLogger, "run")
