"""WandbLogger, on a stand-in for wandb that keeps what it is called with."""

import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import raises
from helpers.trackers import VIDEO, Calls, installed_wandb

from lite.data import WandbLogger, get_logger


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return installed_wandb(monkeypatch)


def made(calls: Calls, **words: object) -> WandbLogger:
    logger = WandbLogger("run", log_env_packages=False, **words)  # type: ignore[arg-type]
    calls.seen.clear()
    return logger


def test_how_a_run_starts(calls: Calls, tmp_path: Path) -> None:
    logger = WandbLogger("run", True, tmp_path / "here", project="p", group="g", base_url="https://w")
    settings, (name, _, words), config = calls.seen
    assert settings == ("Settings", [], {"base_url": "https://w"})
    assert (name, words.pop("settings")) == ("init", [*settings])
    assert words == {
        "name": "run", "dir": str(tmp_path / "here"), "id": None, "project": "p", "resume": "allow",
        "group": "g", "mode": "offline",
    }  # fmt: skip
    assert (tmp_path / "here").is_dir()
    assert "numpy" in config[1][0]["env"]["packages"]
    assert (logger.exp_name, logger.log_dir) == ("run", str(tmp_path / "here"))
    logger.close()
    assert calls.seen[-1][0] == "finish"
    calls.seen.clear()
    WandbLogger("run", log_env_packages=False, base_url="https://w")
    assert [name for name, _, _ in calls.seen] == ["Settings", "login", "init"]


def test_steps_of_each_group(calls: Calls) -> None:
    logger = made(calls)
    logger.log_scalar("train/loss", 1.0)
    logger.log_scalar("train/loss", 2.0, step=10, commit=False)
    found = logger.log_metrics({"train/lr": np.float32(0.5), "reward": np.array([3])})
    logger.log_scalar("reward", 4.0, step=99, override_global_step=True)
    logger.log_metrics({"step": 50, "reward": 5})
    logger.log_scalar("reward", 6.0)
    rows = [(args[0], words) for name, args, words in calls.seen if name == "log"]
    assert rows == [
        ({"train/loss": 1.0, "train/step": 0}, {"commit": True}),
        ({"train/loss": 2.0, "train/step": 10}, {"commit": False}),
        ({"train/lr": 0.5, "reward": 3, "train/step": 11, "step": 0}, {}),
        ({"reward": 4.0}, {"step": 99, "commit": True}),
        ({"step": 50, "reward": 5}, {}),
        ({"reward": 6.0, "step": 51}, {"commit": True}),
    ]
    assert found == {"train/lr": 0.5, "reward": 3}
    told = [(args[0], words) for name, args, words in calls.seen if name == "define_metric"]
    assert dict(told) == {
        "train/step": {}, "train/loss": {"step_metric": "train/step"},
        "train/lr": {"step_metric": "train/step"}, "step": {}, "reward": {"step_metric": "step"},
    }  # fmt: skip
    assert len(told) == 5


def test_what_else_is_logged(calls: Calls) -> None:
    logger = made(calls, video_fps=9)
    logger.log_video("test/v", VIDEO, step=3)
    logger.log_histogram("h", np.zeros(5), bins=4, step=1)
    logger.log_str("text", "hi")
    logger.log_str("text", "ho", step=8)
    logger.log_histogram("h", np.zeros(5))
    logger.log_hparams({"lr": 0.1})
    rows = [args[0] for name, args, _ in calls.seen if name == "log"]
    video = ["Video", [["array", *VIDEO.shape]], {"fps": 9, "format": "mp4"}]
    assert rows[0] == {"test/v": video, "test/step": 3}
    assert rows[1] == {"h": ["Histogram", [["array", 5]], {"num_bins": 4}], "step": 1}
    assert rows[2]["text"] == ["Table", [], {"columns": ["text"], "data": [["hi"]]}]
    assert rows[3] == {"text": "ho", "step": 8}
    assert rows[4]["h"] == ["Histogram", [["array", 5]], {}]  # wandb refuses num_bins=None
    assert calls.seen[-1] == ("config", [{"lr": 0.1}], {"allow_val_change": True})


def test_a_run_goes_on(calls: Calls, tmp_path: Path) -> None:
    logger = made(calls, save_dir=tmp_path)
    logger.log_scalar("a", 1.0, step=6)
    state = logger.state_dict()
    assert state["local"] == {
        "id": "one",
        "step_registry": {"step": 6},
        "defined_step_metrics": ["step"],
        "defined_metrics": ["a"],
    }
    again = get_logger("wandb", "x", "y", state_dict=state, wandb_kwargs={"log_env_packages": False})
    assert isinstance(again, WandbLogger)
    start = [words for name, _, words in calls.seen if name == "init"][-1]
    assert (start["id"], start["resume"], start["name"]) == ("one", "must", "run")
    calls.seen.clear()
    again.log_scalar("a", 2.0)
    assert calls.seen == [("log", [{"a": 2.0, "step": 7}], {"commit": True})]
    state["local"]["id"] = "two"
    with pytest.raises(RuntimeError, match="the state is of the run 'two', and this logger has 'one'"):
        again.load_state_dict(state)
    with pytest.raises(ValueError, match="must have the id of wandb's run"):
        get_logger("wandb", "x", "y", state_dict={"exp_name": "run", "log_dir": str(tmp_path)})


def test_errors(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    raises(ValueError, "save_dir or log_dir", lambda: WandbLogger("run", save_dir="a", log_dir="b"))
    logger = made(calls)
    raises(ValueError, "of 1 or 3 colours", lambda: logger.log_video("v", VIDEO[0]))
    monkeypatch.setitem(sys.modules, "moviepy", None)
    raises(ImportError, r"need moviepy: pip install 'wandb\[media\]'", lambda: logger.log_video("v", VIDEO))
    monkeypatch.setitem(sys.modules, "wandb", None)
    raises(ImportError, "WandbLogger needs wandb: pip install wandb", lambda: WandbLogger("run"))
