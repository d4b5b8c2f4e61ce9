"""TensorboardLogger: files that TensorBoard shows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lite._arrays.public import belong_to
from lite.data.logging.logger import Logger, require_video
from lite.kernels._install import install, needed


class TensorboardLogger(Logger):
    """Logs to files that TensorBoard shows, by tensorboardX (extra `logging`), which writes as torch's does.

    Args:
        exp_name: the name of the experiment.
        log_dir: the folder of all experiments. The attribute is that of the experiment, in it.

    Raises:
        ImportError: tensorboardX is not installed.

    Source:
        torchrl.record.loggers.TensorboardLogger.
    """

    def __init__(self, exp_name: str, log_dir: str | os.PathLike[str] = "tb_logs") -> None:
        super().__init__(exp_name, os.fspath(log_dir))
        self.log_dir = os.path.join(self.log_dir, self.exp_name)

    def _create_experiment(self) -> Any:
        package = needed("tensorboardX", "TensorboardLogger needs tensorboardX", install("logging"))
        return package.SummaryWriter(logdir=os.path.join(self.log_dir, self.exp_name))

    def state_dict(self) -> dict[str, Any]:
        """As `Logger.state_dict`; "log_dir" is the folder of all experiments, as `get_logger` takes it."""
        return {**super().state_dict(), "log_dir": os.path.dirname(os.path.abspath(self.log_dir))}

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Log a number; see `Logger.log_scalar`."""
        self.experiment.add_scalar(name, value, global_step=step)

    def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
        """Log videos; see `Logger.log_video`.

        Raises:
            ValueError: another shape.
            ImportError: moviepy is not installed.
        """
        # Without it tensorboardX writes nothing, and only prints so.
        needed("moviepy", "videos for TensorBoard need moviepy", "pip install moviepy")
        self.experiment.add_video(name, require_video(video), global_step=step, **kwargs)

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Log the settings of a run."""
        self.experiment.add_hparams(dict(cfg), metric_dict={})

    def log_histogram(self, name: str, data: Any, **kwargs: Any) -> None:
        """Log how numbers are distributed.

        Args:
            name: name of the numbers.
            data: an array.
            **kwargs: `bins`, a name such as "auto" or "fd"; `step`; `walltime`, seconds.

        Raises:
            TypeError: another argument.
        """
        step, bins = kwargs.pop("step", None), kwargs.pop("bins", "tensorflow")
        walltime = kwargs.pop("walltime", None)
        if kwargs:
            raise TypeError(f"log_histogram takes step, bins and walltime, got {sorted(kwargs)}.")
        self.experiment.add_histogram(name, data, global_step=step, bins=bins, walltime=walltime)


belong_to("lite.data", TensorboardLogger)
