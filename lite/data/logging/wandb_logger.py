"""WandbLogger: runs of Weights & Biases."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

from lite._arrays.public import belong_to
from lite.data.logging.logger import Logger, require_video
from lite.kernels._install import needed


class WandbLogger(Logger):
    """Logs to a run of Weights & Biases, by wandb.

    Steps are counted for each group of names: "train/loss" is drawn over "train/step", which is logged beside
    it, and so parts of a program that log at different paces do not hold each other up.

    Args:
        exp_name: the name of the run.
        offline: write to files alone, which `wandb sync` sends later.
        save_dir: the folder of these files.
        id: id of a run that goes on.
        project: project of the run.
        base_url: URL of the server.
        video_fps: frames per second.
        log_env_packages: add the versions of Python and of what is installed to the run's settings.
        log_dir: the same as `save_dir`.
        kwargs: more for `wandb.init`.

    Raises:
        ImportError: wandb is not installed.
        ValueError: both `save_dir` and `log_dir`.

    Source:
        torchrl.record.loggers.WandbLogger.
    """

    def __init__(
        self,
        exp_name: str,
        offline: bool = False,
        save_dir: str | os.PathLike[str] | None = None,
        id: str | None = None,
        project: str | None = None,
        base_url: str | None = None,
        *,
        video_fps: int = 32,
        log_env_packages: bool = True,
        log_dir: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if save_dir and log_dir:
            raise ValueError("give save_dir or log_dir, not both.")
        self._wandb = needed("wandb", "WandbLogger needs wandb", "pip install wandb")
        folder = os.fspath(save_dir or log_dir or "") or None
        if folder is not None:
            folder = os.path.expanduser(folder)
            os.makedirs(folder, exist_ok=True)
        self.save_dir, self.offline = folder, offline
        self.id, self.project, self.base_url = id, project, base_url
        self.video_fps = video_fps
        self._steps: dict[str, int] = {}  # the last one of each group
        self._known: set[str] = set()  # names whose group wandb was told
        self._options = {
            "name": exp_name,
            "dir": folder,
            "id": id,
            "project": project,
            "resume": "allow",
            **kwargs,
        }
        super().__init__(exp_name, folder or "")
        if log_env_packages:
            self.log_hparams({"env": _versions()})

    def _create_experiment(self) -> Any:
        options = dict(self._options)
        if self.offline:
            options["mode"] = "offline"
        if self.base_url is not None:
            settings = options.get("settings") or {}
            if isinstance(settings, Mapping):
                settings = self._wandb.Settings(**{**settings, "base_url": self.base_url})
            else:
                settings.base_url = self.base_url
            options["settings"] = settings
            if not self.offline:
                self._wandb.login(host=self.base_url, key=getattr(settings, "api_key", None))
        return self._wandb.init(**options)

    # -- what is logged -------------------------------------------------------------------------

    def log_scalar(
        self,
        name: str,
        value: float,
        step: int | None = None,
        commit: bool = True,
        *,
        override_global_step: bool = False,
    ) -> None:
        """Log a number; see `Logger.log_scalar`.

        Args:
            name, value: the number.
            step: step of its group.
            commit: end wandb's row; False lets the next call add to it.
            override_global_step: give wandb its own step, of all groups, instead.
        """
        self._log({name: value}, step, override_global_step, commit=commit)

    def log_metrics(
        self,
        metrics: Any,
        step: int | None = None,
        *,
        keys_sep: str = "/",
        override_global_step: bool = False,
    ) -> dict[str, Any]:
        """Log several numbers as one row; see `Logger.log_metrics` and `log_scalar`."""
        found = self._as_numbers(metrics, keys_sep)
        self._log(found, step, override_global_step)
        return found

    def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
        """Log videos; see `Logger.log_video`.

        Args:
            name, video, step: the video.
            **kwargs: `fps`; `format`, "mp4" by default; `override_global_step`; more for wandb's `log`.

        Raises:
            ValueError: another shape.
            ImportError: moviepy, by which wandb writes videos, is not installed.
        """
        video = require_video(video)
        needed("moviepy", "videos for wandb need moviepy", "pip install 'wandb[media]'")
        fps, kind = kwargs.pop("fps", self.video_fps), kwargs.pop("format", "mp4")
        made = self._wandb.Video(video, fps=fps, format=kind)
        self._log({name: made}, step, kwargs.pop("override_global_step", False), **kwargs)

    def log_histogram(self, name: str, data: Any, **kwargs: Any) -> None:
        """Log how numbers are distributed.

        Args:
            name: name of the numbers.
            data: an array.
            **kwargs: `bins`, how many, 64 by default; `step`; `override_global_step`; more for wandb's `log`.
        """
        step, bins = kwargs.pop("step", None), kwargs.pop("bins", None)
        made = self._wandb.Histogram(data, **({} if bins is None else {"num_bins": bins}))
        self._log({name: made}, step, kwargs.pop("override_global_step", False), **kwargs)

    def log_str(
        self, name: str, value: str, step: int | None = None, *, override_global_step: bool = False
    ) -> None:
        """Log a text; without a step, as a table of one cell."""
        made = value if step is not None else self._wandb.Table(columns=["text"], data=[[value]])
        self._log({name: made}, step, override_global_step)

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Log the settings of a run."""
        self.experiment.config.update(dict(cfg), allow_val_change=True)

    def _log(self, entries: dict[str, Any], step: int | None, whole: bool = False, **kwargs: Any) -> None:
        if whole:
            self.experiment.log(entries, step=step, **kwargs)
            return
        row = dict(entries)
        given = [name for name in row if _step_of(name) == name]
        for name in given:
            self._steps[name] = max(self._steps.get(name, -1), row[name])
        for name in entries:
            group = _step_of(name)
            if group not in row:
                row[group] = self._steps.get(group, -1) + 1 if step is None else step
                self._steps[group] = max(self._steps.get(group, -1), row[group])
        for name in sorted(row, key=lambda name: _step_of(name) != name):  # steps first
            if name not in self._known:
                self._known.add(name)
                group = _step_of(name)
                self.experiment.define_metric(name, **({} if group == name else {"step_metric": group}))
        self.experiment.log(row, **kwargs)

    # -- a run that goes on ---------------------------------------------------------------------

    def _checkpoint_state(self) -> dict[str, Any]:
        steps = {name for name in self._known if _step_of(name) == name}
        return {
            "id": getattr(self.experiment, "id", self.id),
            "step_registry": dict(self._steps),
            "defined_step_metrics": sorted(steps),
            "defined_metrics": sorted(self._known - steps),
        }

    def _load_checkpoint_state(self, state_dict: Mapping[str, Any]) -> None:
        saved, own = state_dict.get("id"), getattr(self.experiment, "id", self.id)
        if saved and own and saved != own:
            raise RuntimeError(
                f"the state is of the run {saved!r}, and this logger has {own!r}: give it id={saved!r}."
            )
        self.id = saved or self.id
        self._steps = dict(state_dict.get("step_registry", {}))
        self._known = {*state_dict.get("defined_step_metrics", ()), *state_dict.get("defined_metrics", ())}


belong_to("lite.data", WandbLogger)


def _step_of(name: str) -> str:
    """The name of the steps of a name's group: that up to the last "/"."""
    return f"{name.rpartition('/')[0]}/step" if "/" in name else "step"


def _versions() -> dict[str, Any]:
    from importlib import metadata  # loads 42 modules

    packages = {found.metadata["Name"]: found.version for found in metadata.distributions()}
    return {
        "python": {"version": sys.version, "executable": sys.executable, "platform": platform.platform()},
        "packages": {name: packages[name] for name in sorted(filter(None, packages))},
    }
