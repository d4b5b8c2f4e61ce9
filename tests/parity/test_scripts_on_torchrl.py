"""Scripts of tests/scripts run on TorchRL's classes, too: what `bench/scripts_learning.py` compares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import bench_files

pytest.importorskip("gymnasium")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torchrl
SCRIPTS = (
    *("a2c", "crossq", "ddpg", "discrete_sac", "dqn_cartpole", "dqn_with_rnn", "offline", "ppo_continuous"),
    *("redq", "reinforce", "sac", "td3"),
)


@pytest.fixture
def on_torchrl(monkeypatch: pytest.MonkeyPatch) -> Any:
    return bench_files.imported("scripts_on_torchrl", monkeypatch)


@pytest.mark.parametrize("name", SCRIPTS)
def test_torchrl_has_the_names_of_a_script(name: str, on_torchrl: Any) -> None:
    module = on_torchrl.script(name, torchrl=True)
    classes = [found for found in vars(module).values() if isinstance(found, type)]
    assert classes
    assert {found.__module__.partition(".")[0] for found in classes} <= {"torch", "torchrl", "tensordict"}
    mine = [
        found for found in vars(on_torchrl.script(name, torchrl=False)).values() if isinstance(found, type)
    ]
    assert {found.__module__.partition(".")[0] for found in mine} == {"lite"}


def test_a_script_runs_on_torchrl(on_torchrl: Any) -> None:
    short = {"total_frames": 60, "frames_per_batch": 20, "init_random_frames": 40, "num_updates": 2}
    reward, returns = on_torchrl.script("dqn_cartpole", torchrl=True).main(**short)
    assert np.isfinite(float(reward))
    assert all(8 <= value <= 500 for value in returns)


def test_changed_lines_are_counted(on_torchrl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_torchrl.changed_lines("a2c", array=True) == 2
    assert on_torchrl.changed_lines("a2c", array=False) == 0
    assert on_torchrl.changed_lines("sac", array=True) == 0
    wrong = on_torchrl.Change("no such line", "")
    monkeypatch.setitem(on_torchrl.CHANGES, "sac", (wrong,))
    with pytest.raises(ValueError, match="no such line"):
        on_torchrl.script("sac", torchrl=True)
