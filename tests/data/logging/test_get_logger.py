"""Loggers by name, and names of experiments."""

import re
from pathlib import Path

import pytest

from lite.data import CSVLogger, generate_exp_name, get_logger


def test_a_logger_by_name_goes_on_where_another_stopped(tmp_path: Path) -> None:
    assert get_logger("", "logs", "run") is get_logger(None, "logs", "run") is None
    with pytest.raises(
        NotImplementedError, match=r"one of \['csv', 'mlflow', 'tensorboard', 'wandb'\], got 'paper'"
    ):
        get_logger("paper", "logs", "run")
    first = get_logger("csv", str(tmp_path), "run")
    assert isinstance(first, CSVLogger)
    assert first.video_format == "mp4"
    first.log_scalar("a", 1.0)
    second = get_logger("csv", "elsewhere", "other", state_dict=first.state_dict())
    assert isinstance(second, CSVLogger)
    second.log_scalar("a", 2.0)
    assert (tmp_path / "run/scalars/a.csv").read_text() == "0,1.0\n1,2.0\n"


def test_names() -> None:
    first, second = generate_exp_name("SAC", "test"), generate_exp_name("SAC", "test")
    assert first != second
    assert re.fullmatch(r"SAC_test_[0-9a-f]{8}_\d\d_\d\d_\d\d-\d\d_\d\d_\d\d", first)
