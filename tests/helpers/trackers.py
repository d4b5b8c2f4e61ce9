"""Stand-ins for wandb and mlflow that keep what they are called with."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest


def plain(value: Any) -> Any:
    """A value that can be compared, with arrays and tensors as their shapes."""
    if hasattr(value, "shape"):
        return ["array", *value.shape]
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value


class Calls:
    """Keeps each call as its name and arguments."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def note(self, name: str, answer: Any = None) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.seen.append((name, plain(args), plain(kwargs)))
            return [name, plain(args), plain(kwargs)] if answer is None else answer

        return call


def installed_wandb(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Have `import wandb` find a stand-in, and moviepy."""
    calls = Calls()
    run = SimpleNamespace(
        id="one", config=SimpleNamespace(update=calls.note("config")), log=calls.note("log"),
        define_metric=calls.note("define_metric"), finish=calls.note("finish"),
    )  # fmt: skip
    module: Any = ModuleType("wandb")
    module.init = calls.note("init", run)
    for name in ("login", "Settings", "Video", "Histogram", "Table"):
        setattr(module, name, calls.note(name))
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setitem(sys.modules, "moviepy", ModuleType("moviepy"))
    return calls


def installed_mlflow(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Have `import mlflow` find a stand-in."""
    calls = Calls()
    run = SimpleNamespace(info=SimpleNamespace(run_id="one"))
    module: Any = ModuleType("mlflow")
    module.get_experiment_by_name = lambda name: (
        SimpleNamespace(experiment_id="7") if name == "known" else None
    )
    module.create_experiment = calls.note("create_experiment", "8")
    module.start_run = calls.note("start_run", run)
    module.active_run = lambda: run
    for name in ("set_tracking_uri", "log_metric", "log_metrics", "log_params", "log_artifact", "end_run"):
        setattr(module, name, calls.note(name))
    module.set_experiment = lambda **kwargs: None
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return calls


VIDEO = np.zeros((1, 4, 3, 6, 8), np.uint8)
