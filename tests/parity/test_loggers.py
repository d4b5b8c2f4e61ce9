"""CSVLogger against torchrl's: the same files, byte for byte, and state dicts both ways."""

import time

import numpy as np
import pytest
import tensordict
import torch
from helpers.trackers import VIDEO, installed_mlflow, installed_wandb
from torchrl import timeit as their_timeit
from torchrl.record import loggers as reference
from torchrl.record.loggers import mlflow as their_mlflow
from torchrl.record.loggers import wandb as their_wandb

import lite.data
from lite import TensorDict
from lite.data import CSVLogger, Logger


def written(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def log(logger, td, array, video):
    for step in (None, None, 30):
        logger.log_scalar("loss", 0.1, step=step)
    logger.log_scalar("train/reward", array(np.float32(0.3)), step=5)
    found = logger.log_metrics(td, step=7)
    logger.log_metrics({"plain": 1, "array": array(np.array([2.5]))})
    logger.log_hparams({"lr": 1e-3, "env": "CartPole-v1", "sizes": [64, 64]})
    logger.log_hparams({"lr": 1e-4})
    for step in (None, None, 9):
        logger.log_video("test/video", video, step=step)
    return found


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_files(tmp_path, dtype):
    entries = {"a": np.array(0.25, np.float32), "b": {"c": np.array([3]), "d": np.array(1e-12)}}
    video = (np.random.default_rng(0).random((1, 4, 3, 8, 8)) * 255).astype(dtype)
    mine = CSVLogger("run", str(tmp_path / "lite"), video_format="memmap")
    theirs = reference.CSVLogger("run", str(tmp_path / "torchrl"), video_format="memmap")
    found = log(mine, TensorDict(entries), np.asarray, video)
    other = tensordict.TensorDict(entries)
    assert found == log(theirs, other, torch.as_tensor, torch.from_numpy(video))
    assert written(tmp_path / "lite") == written(tmp_path / "torchrl")

    states = mine.state_dict(), theirs.state_dict()
    assert states[0]["local"] == states[1]["local"]
    assert set(states[0]) == set(states[1])
    mine.load_state_dict(states[1])
    theirs.load_state_dict(states[0])
    for logger in (mine, theirs):
        logger.log_scalar("loss", 2.0)
        logger.log_hparams({"lr": 1e-5})
        logger.close()
    assert written(tmp_path / "lite") == written(tmp_path / "torchrl")
    assert (mine.is_alive, theirs.is_alive) == (False, False)


def test_names():
    theirs = {name for name in vars(reference.Logger) if not name.startswith("_")}
    in_other_processes = {"client", "service_backend", "start"}
    assert theirs - in_other_processes <= set(dir(Logger))


def test_errors(tmp_path):
    mine = CSVLogger("run", str(tmp_path / "lite"))
    theirs = reference.CSVLogger("run", str(tmp_path / "torchrl"))
    for call in (
        lambda logger: logger.log_histogram("a", [1, 2]),
        lambda logger: logger.log_metrics({"a": [1.0, 2.0]}),
    ):
        kinds = []
        for logger in (mine, theirs):
            with pytest.raises(Exception) as info:
                call(logger)
            kinds.append(info.type)
        assert kinds[0] is kinds[1]


def test_wandb(monkeypatch, tmp_path):
    monkeypatch.setattr(their_wandb, "_has_wandb", True)
    monkeypatch.setattr(their_wandb, "_has_moviepy", True)
    seen, states = [], []
    for library, array in ((lite.data, np.asarray), (reference, torch.as_tensor)):
        calls = installed_wandb(monkeypatch)
        logger = library.WandbLogger(
            "run", save_dir=tmp_path, project="p", log_env_packages=False, tags=["a"]
        )
        logger.log_scalar("train/loss", 1.0)
        logger.log_scalar("train/loss", 2.0, step=7, commit=False)
        logger.log_scalar("loss", 2.0, step=7, override_global_step=True)
        logger.log_metrics({"train/lr": array(np.float32(0.5)), "a/b/c": 1, "reward": array(np.array([2.0]))})
        logger.log_metrics({"step": 50, "reward": 1.0})
        logger.log_metrics({"reward": 1.0}, step=20)
        logger.log_metrics({"reward": 1.0})
        logger.log_video("test/v", array(VIDEO), step=3, fps=9)
        logger.log_histogram("h", array(np.zeros(4)), bins=3)
        logger.log_str("text", "hi")
        logger.log_str("text", "ho", step=5)
        logger.log_hparams({"lr": 0.1})
        states.append(logger.state_dict())
        logger.load_state_dict(logger.state_dict())
        logger.log_scalar("train/loss", 1.0)
        seen.append([call for call in calls.seen if call[0] not in ("define_metric", "Table")])
        defined = [call for call in calls.seen if call[0] == "define_metric"]
        seen.append(sorted(defined, key=str))
    assert seen[0] == seen[2]
    assert seen[1] == seen[3]
    assert states[0] == states[1]


def test_mlflow(monkeypatch):
    monkeypatch.setattr(their_mlflow, "_has_mlflow", True)
    seen, states = [], []
    for library, array in ((lite.data, np.asarray), (reference, torch.as_tensor)):
        calls = installed_mlflow(monkeypatch)
        logger = library.MLFlowLogger("run", "file:///a", {"tag": "x"})
        found = logger.log_metrics({"a": array(np.float32(0.5)), "b": 1}, step=4)
        states.append((logger.state_dict(), found, logger.id))
        seen.append([(name, args, {**kw, "run_id": None}) for name, args, kw in calls.seen])
    assert seen[0] == seen[1]
    assert states[0] == states[1]


def test_times(monkeypatch, capsys):
    monkeypatch.setattr(lite.data.timeit, "_times", {})
    found = []
    for timeit in (lite.data.timeit, their_timeit):
        ticks = iter(range(100))
        for clock in ("time", "perf_counter"):
            monkeypatch.setattr(time, clock, lambda ticks=ticks: float(next(ticks)))
        called = timeit("called")(lambda x: 2 * x)
        with timeit("within") as timer:
            passed = [timer.elapsed(), called(3), called(4)]
        passed += [timeit.todict(), timeit.todict(False, "time"), timeit.print("x"), timeit.print()]
        passed.append(timeit("alone").start().elapsed())
        timeit.printevery(2, 6, erase=True)
        passed.append(timeit.todict())
        timeit.reset()
        found.append(passed)
    assert found[0] == found[1]
