"""TorchRL's scripts and tutorials on lite: each runs to its end in a short form."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

FOLDER = Path(__file__).parent
PAGES = ("envs", "modules", "optim", "storage", "logging")
STEPS = {"frames_per_batch": 20, "total_frames": 240, "init_random_frames": 220}
SHORT: dict[str, dict[str, Any]] = {
    "a2c": {"total_frames": 128, "frames_per_batch": 128},
    "ddpg": STEPS,
    "discrete_sac": {**STEPS, "utd_ratio": 0.1},
    "dqn_cartpole": {**STEPS, "num_updates": 2},
    "dqn_with_rnn": {"total_frames": 400, "begin": 350, "utd": 1},
    "ppo_continuous": {"total_frames": 128, "frames_per_batch": 128, "epochs": 1},
    "redq": {**STEPS, "total_frames": 220},
    "reinforce": {"total_frames": 100, "frames_per_batch": 100},
    "sac": STEPS,
    "td3": {**STEPS, "utd_ratio": 0.1},
}


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))  # redq shares the networks of sac
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, found)
    spec.loader.exec_module(found)
    return found


@pytest.mark.filterwarnings("ignore:the loss has target parameters")  # the page makes its updater later
@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_getting_started(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(FOLDER / f"getting_started_{page}.py"))
    assert names["env"].rollout(3).batch_size == (3,)


def test_the_first_training_loop_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    script = module("getting_started_training", monkeypatch)
    assert script.main(init_rand_steps=300, long_enough=60) > 60


@pytest.mark.filterwarnings("ignore:no dimension is called 'time'")  # as TorchRL's does
def test_replay_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "pixels_trsf" in runpy.run_path(str(FOLDER / "replay_buffers.py"))["s"]


@pytest.mark.parametrize("name", SHORT)
def test_a_training_script(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = module(name, monkeypatch).main(**SHORT[name])
    assert np.isfinite(found if isinstance(found, int) else found[0])


@pytest.mark.parametrize("loss", ["iql", "cql", "td3_bc"])
def test_an_offline_script(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reward, losses = module("offline", monkeypatch).main(loss, gradient_steps=2, frames=256)
    assert np.isfinite(reward)
    assert all(np.isfinite(x).all() for x in losses.values())
