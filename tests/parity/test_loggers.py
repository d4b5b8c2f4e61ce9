"""CSVLogger against torchrl's: the same files, byte for byte, and state dicts both ways."""

import numpy as np
import pytest
import tensordict
import torch
from torchrl.record import loggers as reference

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
