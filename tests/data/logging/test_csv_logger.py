"""CSVLogger."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite.data import CSVLogger
from lite.data.logging import csv_logger


def test_each_number_is_on_disk_at_once(tmp_path: Path) -> None:
    logger = CSVLogger("run", tmp_path)
    logger.log_scalar("train/loss", np.float32(0.5))
    logger.log_scalar("train/loss", 1, step=40)
    logger.log_scalar("train/loss", np.nan)
    file = tmp_path / "run/scalars/train/loss.csv"
    assert file.read_text() == "0,0.5\n40,1.0\n2,nan\n"
    with pytest.raises(TypeError):
        logger.log_scalar("train/loss", [1.0, 2.0])  # type: ignore[arg-type]
    assert len(logger.experiment.scalars["train/loss"]) == 3


def test_a_run_goes_on(tmp_path: Path) -> None:
    logger = CSVLogger("run", tmp_path)
    logger.log_scalar("a", 1.0)
    logger.log_hparams({"lr": 0.1, "env": "CartPole"})
    state = logger.state_dict()
    assert (state["exp_name"], state["log_dir"]) == ("run", str(tmp_path.absolute()))
    logger.close()
    again = CSVLogger("run", tmp_path)
    again.load_state_dict(state)
    again.log_scalar("a", 2.0)
    again.log_hparams({"lr": 0.2})
    assert (tmp_path / "run/scalars/a.csv").read_text() == "0,1.0\n1,2.0\n"
    texts = tmp_path / "run/texts"
    assert (texts / "hparams0.txt").read_text() == "env: CartPole\nlr: 0.1"
    assert (texts / "hparams1.txt").read_text() == "lr: 0.2"
    again.load_state_dict({})
    assert not again.experiment.scalars


def test_a_logger_that_runs_for_weeks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither descriptors nor numbers pile up; a state has them from the files, where they lie there."""
    monkeypatch.setattr(csv_logger, "_OPEN", 3)
    logger = CSVLogger("run", tmp_path)
    for number in range(6):
        logger.log_scalar(f"loss/{number}", number, step=-number)
        logger.log_hparams({"number": number})
    assert list(logger.experiment.files) == ["loss/0", "loss/1", "loss/5"]
    logger.log_scalar("loss/0", 0.25, step=1.5)  # type: ignore[arg-type]
    found = logger.state_dict()["local"]["scalars"]
    assert (found["loss/0"], found["loss/5"]) == ([(0, 0.0), (1.5, 0.25)], [(-5, 5.0)])
    elsewhere = CSVLogger("run", tmp_path / "elsewhere")
    elsewhere.load_state_dict(logger.state_dict())
    elsewhere.log_scalar("loss/0", 3.0)
    np.testing.assert_equal(elsewhere.experiment.scalars["loss/0"], [(0, np.nan), (0, np.nan), (2, 3.0)])


def test_a_line_that_a_full_disk_cut_off_is_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next line behind it would be read as `1,2.52`."""

    def cut(file: Any, content: bytes, path: str) -> None:
        file.write(content[:3])
        raise OSError

    logger = CSVLogger("run", tmp_path)
    with monkeypatch.context() as full:
        full.setattr(csv_logger, "append", cut)
        raises(OSError, "", logger.log_scalar, "a", 2.5, step=1)
    logger.log_scalar("a", 1.5, step=0)
    assert (tmp_path / "run/scalars/a.csv").read_text() == "0,1.5\n"
    file = tmp_path / "run/scalars/a.csv"
    for start in ("0,1.5\n", ""):
        file.write_text(f"{start}1,2.5")
        np.testing.assert_equal(logger.experiment.scalars, {"a": [(0, 1.5 if start else np.nan)]})
        CSVLogger("run", tmp_path).log_scalar("a", 3.5, step=2)
        assert file.read_text() == f"{start}2,3.5\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that takes nothing")
def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    logger = CSVLogger("run", tmp_path)
    file = tmp_path / "run/texts/hparams0.txt"
    file.symlink_to("/dev/full")
    raises(OSError, f"No space left on device: '{file}'", logger.log_hparams, {"lr": 1})


def test_videos(tmp_path: Path) -> None:
    video = np.random.default_rng(0).integers(0, 256, (2, 3, 1, 4, 5), np.uint8)
    logger = CSVLogger("run", tmp_path)
    logger.log_video("test/play", video)
    logger.log_video("test/play", video)
    found = np.fromfile(tmp_path / "run/videos/test/play_1.memmap", np.uint8)
    np.testing.assert_array_equal(found.reshape(video.shape), video)
    raises(ValueError, r"of 1 or 3 colours, got \(3, 1, 4, 5\)", logger.log_video, "test/play", video[0])
    raises(ValueError, "video_format must be one of", CSVLogger, "run", tmp_path, video_format="pt")


@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_moving_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(csv_logger, "write_video", lambda path, frames, **kw: seen.append((path, frames, kw)))
    logger = CSVLogger("run", tmp_path, video_format=kind, video_fps=20)
    video = np.random.default_rng(0).integers(0, 256, (2, 4, 1, 8, 6), np.uint8)
    logger.log_video("a", video, step=9)
    logger.log_video("b/c", video.repeat(3, 2), fps=5, options={"crf": 23})
    (first, frames, words), (second, coloured, others) = seen
    assert (first, words) == (tmp_path / f"run/videos/a_9.{kind}", {"fps": 20})
    assert (second, others) == (tmp_path / f"run/videos/b/c_0.{kind}", {"fps": 5, "options": {"crf": 23}})
    expected = video.reshape(8, 8, 6, 1).repeat(3, -1)
    np.testing.assert_array_equal(frames, expected)
    np.testing.assert_array_equal(coloured, expected)


def test_the_folder_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger = CSVLogger("run", log_dir=tmp_path)
    logger.log_scalar("a", 1.0)
    logger.print_log_dir()
    assert capsys.readouterr().out == f"{tmp_path / 'run' / 'scalars' / 'a.csv'} 6\n"


def test_repr(tmp_path: Path) -> None:
    logger = CSVLogger("run", str(tmp_path))
    assert (
        repr(logger)
        == f"CSVLogger(exp_name=run, experiment=CSVExperiment(log_dir={logger.experiment.log_dir}))"
    )
