"""Logger: what all loggers have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from lite import TensorDictBase
from lite._arrays.public import belong_to


class Logger:
    """Base of loggers: what a run logs goes to an experiment, which a subclass makes.

    A subclass defines `_create_experiment` and `log_scalar`, and what else it can log.

    Args:
        exp_name: the name of the experiment.
        log_dir: the folder of all experiments.

    Source:
        torchrl.record.loggers.Logger.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import Logger
        >>> class Printed(Logger):
        ...     def _create_experiment(self):
        ...         return None
        ...
        ...     def log_scalar(self, name, value, step=None):
        ...         print(step, name, value)
        >>> losses = TensorDict(loss=np.array(0.5), test={"reward": np.array([2.0])})
        >>> found = Printed("run", "logs").log_metrics(losses, step=3)
        3 loss 0.5
        3 test/reward 2.0
    """

    def __init__(self, exp_name: str, log_dir: str) -> None:
        self.exp_name = exp_name
        self.log_dir = log_dir
        self._closed = False
        self.experiment: Any = self._create_experiment()

    def _create_experiment(self) -> Any:
        """The object that writes: the library's logger or run."""
        raise NotImplementedError(f"{type(self).__name__} defines no _create_experiment.")

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Log a number.

        Args:
            name: name of the number; "/" groups them.
            value: a number, or an array of one.
            step: when it was; by default counted from 0.
        """
        raise NotImplementedError(f"{type(self).__name__} logs no numbers.")

    def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
        """Log videos.

        Args:
            name: name of the video.
            video: (videos, time, colours, height, width), uint8, of 1 or 3 colours.
            step: as for `log_scalar`.
            **kwargs: options of the experiment's writer.
        """
        raise NotImplementedError(f"{type(self).__name__} logs no videos.")

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Log the settings of a run."""
        raise NotImplementedError(f"{type(self).__name__} logs no settings.")

    def log_histogram(self, name: str, data: Any, **kwargs: Any) -> None:
        """Log how numbers are distributed."""
        raise NotImplementedError(f"{type(self).__name__} logs no histograms.")

    def log_metrics(
        self, metrics: Mapping[str, Any] | TensorDictBase, step: int | None = None, *, keys_sep: str = "/"
    ) -> dict[str, Any]:
        """Log several numbers.

        Args:
            metrics: numbers by name; of a TensorDict all entries.
            step: as for `log_scalar`.
            keys_sep: stands between the parts of nested keys.

        Returns:
            the numbers: those of arrays as Python's, or as lists if there are several.

        Raises:
            TypeError: an entry is more than a number. Those before it are logged.
        """
        found = self._as_numbers(metrics, keys_sep)
        for name, value in found.items():
            self.log_scalar(name, value, step=step)
        return found

    @staticmethod
    def _as_numbers(metrics: Mapping[str, Any] | TensorDictBase, keys_sep: str) -> dict[str, Any]:
        """The entries by name, as numbers or lists."""
        if isinstance(metrics, TensorDictBase):
            metrics = metrics.flatten_keys(keys_sep).to_dict()
        return {name: _as_python(value) for name, value in metrics.items()}

    # -- the end of a run, and its continuation ------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """Whether the logger was not closed."""
        return not self._closed

    def flush(self, timeout: float | None = None) -> None:
        """Write out what waits in memory; `timeout` is torchrl's, for loggers in other processes."""
        flush = getattr(self.experiment, "flush", None)
        if callable(flush):
            flush()

    def close(self, timeout: float | None = None) -> None:
        """Write out what waits in memory, and close files; see `flush`."""
        if self._closed:
            return
        self.flush()
        end = getattr(self.experiment, "finish", None) or getattr(self.experiment, "close", None)
        if callable(end):
            end()
        self._closed = True

    shutdown = close

    def state_dict(self) -> dict[str, Any]:
        """Names and counters, with which a run that goes on logs where it stopped.

        Returns:
            "exp_name", "log_dir" and, if there are counters, "local".
        """
        self.flush()
        state: dict[str, Any] = {"exp_name": self.exp_name, "log_dir": os.path.abspath(self.log_dir)}
        local = self._checkpoint_state()
        return {**state, "local": local} if local else state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over the counters of another logger, or of torchrl's."""
        self._load_checkpoint_state(state_dict.get("local", {}))

    def _checkpoint_state(self) -> dict[str, Any]:
        """The counters."""
        return {}

    def _load_checkpoint_state(self, state_dict: Mapping[str, Any]) -> None:
        """Take over counters."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(experiment={self.experiment!r})"


def require_video(video: Any) -> np.ndarray[Any, Any]:
    """A video as an array; ValueError unless it is (videos, time, colours, height, width)."""
    array = np.asarray(video)
    if array.ndim != 5 or array.shape[2] not in (1, 3):
        raise ValueError(
            f"video must be (videos, time, colours, height, width) of 1 or 3 colours, got {array.shape}."
        )
    return array


def _as_python(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.item() if value.size == 1 else value.tolist()
    return value


belong_to("lite.data", Logger)
