"""Logger, the base."""

from typing import Any

import numpy as np
from helpers.cases import raises

from lite import TensorDict
from lite.data import Logger


class Ending:
    """An experiment that is flushed and has one method, which ends it."""

    def __init__(self, end: str) -> None:
        self.calls: list[str] = []
        setattr(self, end, lambda: self.calls.append(end))

    def flush(self) -> None:
        self.calls.append("flush")


class Kept(Logger):
    """Keeps what it is given."""

    def _create_experiment(self) -> Any:
        self.seen: list[Any] = []

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        self.seen.append((name, value, step))


def test_numbers_of_nested_entries() -> None:
    logger = Kept("run", "logs")
    td = TensorDict(a=np.array([1.5], np.float32), b={"c": np.int64(3)})
    assert logger.log_metrics(td, 7, keys_sep=".") == {"a": 1.5, "b.c": 3}
    assert logger.seen == [("a", 1.5, 7), ("b.c", 3, 7)]
    assert logger.log_metrics({"x": np.arange(2), "y": "text"}) == {"x": [0, 1], "y": "text"}
    assert [step for *_, step in logger.seen[2:]] == [None, None]


def test_it_ends_once() -> None:
    for end in ("finish", "close"):
        logger, experiment = Kept("run", "logs"), Ending(end)
        logger.experiment = experiment
        assert logger.is_alive
        logger.close()
        logger.shutdown()
        assert (experiment.calls, logger.is_alive) == (["flush", end], False)


def test_what_a_logger_does_not_log() -> None:
    raises(NotImplementedError, "Logger defines no _create_experiment", Logger, "run", "logs")
    logger = Kept("run", "logs")
    for call in (
        lambda: logger.log_video("a", np.zeros(1)),
        lambda: logger.log_hparams({}),
        lambda: logger.log_histogram("a", np.zeros(1)),
        lambda: Logger.log_scalar(logger, "a", 1.0),
    ):
        raises(NotImplementedError, "Kept logs no", call)
    assert "local" not in logger.state_dict()
