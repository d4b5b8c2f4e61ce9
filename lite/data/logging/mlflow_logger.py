"""MLFlowLogger: runs of MLflow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import Any

from lite._arrays.public import belong_to
from lite.data.logging.logger import Logger, require_video
from lite.data.logging.video_files import with_colours_last, write_video
from lite.kernels._install import needed


class MLFlowLogger(Logger):
    """Logs to a run of MLflow, which is started in the experiment of the given name.

    Args:
        exp_name: the name of the experiment, which is made if there is none.
        tracking_uri: where MLflow keeps runs, such as "sqlite:///mlflow.db".
        tags: tags of an experiment that is made.
        artifact_location: where it keeps files; `tracking_uri` if None and that is a folder's.
        video_fps: frames per second.

    Attributes:
        id: id of the experiment.
        experiment: the run.

    Raises:
        ImportError: mlflow is not installed.

    Source:
        torchrl.record.loggers.MLFlowLogger.
    """

    def __init__(
        self,
        exp_name: str,
        tracking_uri: str,
        tags: dict[str, Any] | None = None,
        *,
        artifact_location: str | None = None,
        video_fps: int = 30,
    ) -> None:
        self._mlflow = needed("mlflow", "MLFlowLogger needs mlflow", "pip install mlflow")
        if artifact_location is None and tracking_uri.startswith("file:"):
            artifact_location = tracking_uri
        self._options = {"name": exp_name, "artifact_location": artifact_location, "tags": tags}
        self._mlflow.set_tracking_uri(tracking_uri)
        super().__init__(exp_name, tracking_uri)
        self.video_fps = video_fps
        self.video_log_counter = 0

    def _create_experiment(self) -> Any:
        found = self._mlflow.get_experiment_by_name(self._options["name"])
        made = self._mlflow.create_experiment(**self._options) if found is None else found.experiment_id
        self.id = made
        return self._mlflow.start_run(experiment_id=made)

    @property
    def _run(self) -> dict[str, Any]:
        """Names the run, whichever one is active."""
        return {"run_id": self.experiment.info.run_id}

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Log a number; see `Logger.log_scalar`. Without a step it is of step 0."""
        self._mlflow.log_metric(name, float(value), step=step, **self._run)

    def log_metrics(self, metrics: Any, step: int | None = None, *, keys_sep: str = "/") -> dict[str, Any]:
        """Log several numbers at once; see `Logger.log_metrics`."""
        found = self._as_numbers(metrics, keys_sep)
        self._mlflow.log_metrics(found, step=step, **self._run)
        return found

    def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
        """Log the last of the videos as an mp4, among the run's files; see `Logger.log_video`.

        Args:
            name, video, step: the video.
            **kwargs: as for `CSVExperiment.add_video`.

        Raises:
            ValueError: another shape.
            ImportError: imageio is not installed.
        """
        frames = require_video(video)[-1]
        self.video_log_counter += 1
        file = f"{name}_step_{step:04}.mp4" if step else f"{name}.mp4"
        with TemporaryDirectory() as folder:
            path = os.path.join(folder, file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_video(path, with_colours_last(frames), **{"fps": self.video_fps, **kwargs})
            where = "/".join(["videos", *name.split("/")[:-1]])  # mlflow refuses one that ends in a slash
            self._mlflow.log_artifact(path, where, **self._run)

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Log the settings of a run."""
        self._mlflow.log_params(dict(cfg), **self._run)

    def close(self, timeout: float | None = None) -> None:
        """End the run; see `Logger.close`."""
        if not self._closed:
            active = self._mlflow.active_run()
            if active is not None and active.info.run_id == self._run["run_id"]:
                self._mlflow.end_run()
        super().close(timeout)

    shutdown = close

    def _checkpoint_state(self) -> dict[str, Any]:
        return {"id": self.id, "video_log_counter": self.video_log_counter}

    def _load_checkpoint_state(self, state_dict: Mapping[str, Any]) -> None:
        self.id = state_dict.get("id", self.id)
        self.video_log_counter = state_dict.get("video_log_counter", self.video_log_counter)


belong_to("lite.data", MLFlowLogger)
