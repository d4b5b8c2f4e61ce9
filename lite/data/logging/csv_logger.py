"""CSVLogger: a file for each number's history, as torchrl's logger writes them."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from lite._arrays.public import belong_to
from lite._files.commit import append
from lite.data.logging.logger import Logger, require_video
from lite.data.logging.video_files import with_colours_last, write_video

_FORMATS = ("memmap", "mp4", "gif")
_OPEN = 128  # files at once


class CSVExperiment:
    """The files of one experiment: what `CSVLogger` writes to."""

    def __init__(self, log_dir: str, *, video_format: str = "memmap", video_fps: int = 30) -> None:
        self.scalars_counter: defaultdict[str, int] = defaultdict(int)
        self.videos_counter: defaultdict[str, int] = defaultdict(int)
        self.text_counter: defaultdict[str, int] = defaultdict(int)
        self.log_dir = log_dir
        self.video_format = video_format
        self.video_fps = video_fps
        for name in ("scalars", "videos", "texts"):
            os.makedirs(os.path.join(log_dir, name), exist_ok=True)
        self.files: dict[str, FileIO] = {}  # of numbers, by name

    def _place(self, kind: str, name: str) -> Path:
        """The path of a file, whose folder is there: names may have slashes."""
        path = Path(self.log_dir, kind, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def add_scalar(self, name: str, value: float, global_step: int | None = None) -> None:
        """Append the line `step,value` to `scalars/<name>.csv`."""
        step = self.scalars_counter[name] if global_step is None else global_step
        line = f"{step},{float(value)}\n"
        if name not in self.files:
            if len(self.files) == _OPEN:  # the newest goes: names are logged in turn, and the oldest is next
                self.files.popitem()[1].close()
            path = self._place("scalars", f"{name}.csv")
            self.files[name] = FileIO(path, "a")
            _drop_cut_line(path, self.files[name])
        file = self.files[name]
        try:
            append(file, line.encode(), str(file.name))
        except OSError:
            self.files.pop(name).close()  # to be looked at again
            raise
        self.scalars_counter[name] += 1

    @property
    def scalars(self) -> dict[str, list[tuple[float, float]]]:
        """Step and value of each number of the run, from the files; (0, nan) where another folder has it."""
        return {name: self._history(name, count) for name, count in self.scalars_counter.items() if count}

    def _history(self, name: str, count: int) -> list[tuple[float, float]]:
        path = Path(self.log_dir, "scalars", f"{name}.csv")
        lines = path.read_text().split("\n")[:-1] if path.is_file() else []  # without one that was cut off
        pairs = (line.split(",") for line in lines[-count:])
        found = [(int(step) if step.lstrip("-").isdigit() else float(step), float(x)) for step, x in pairs]
        return [(0, math.nan)] * (count - len(found)) + found

    def add_video(self, tag: str, vid_tensor: Any, global_step: int | None = None, **kwargs: Any) -> None:
        """Write `videos/<tag>_<step>`: "memmap", the bytes of the array; "mp4", "gif", one after the other.

        Args:
            tag: the name.
            vid_tensor: as for `Logger.log_video`.
            global_step: the step; counted if None.
            **kwargs: for "mp4" and "gif" `fps`, for "mp4" `video_codec`, and `options` of the codec, a dict.

        Raises:
            TypeError: "mp4" or "gif" of another dtype than uint8.
            ImportError: "mp4" or "gif" without imageio.
        """
        step = self._count(self.videos_counter, tag) if global_step is None else global_step
        video = require_video(vid_tensor)
        path = self._place("videos", f"{tag}_{step}.{self.video_format}")
        if self.video_format == "memmap":
            video.tofile(path)
            return
        frames = video.reshape(-1, *video.shape[2:])
        write_video(path, with_colours_last(frames), **{"fps": self.video_fps, **kwargs})

    def add_text(self, tag: str, text: str, global_step: int | None = None) -> None:
        """Write `texts/<tag><step>.txt`."""
        step = self._count(self.text_counter, tag) if global_step is None else global_step
        path = self._place("texts", f"{tag}{step}.txt")
        with FileIO(path, "w") as file:
            append(file, text.encode(), str(path))

    def _count(self, counter: defaultdict[str, int], name: str) -> int:
        counter[name] += 1
        return counter[name] - 1

    def close(self) -> None:
        """Close all files; what is logged later opens them again."""
        while self.files:
            self.files.popitem()[1].close()

    def __del__(self) -> None:
        if hasattr(self, "files"):
            self.close()

    def __repr__(self) -> str:
        return f"CSVExperiment(log_dir={self.log_dir})"


def _drop_cut_line(path: Path, file: FileIO) -> None:
    """Cut off a line without an end, which a full disk left: the next would make another number of it."""
    with open(path, "rb") as written:
        size = written.seek(0, os.SEEK_END)
        written.seek(max(0, size - 100))  # more than a line has
        last = written.read()
    file.truncate(size - len(last) + last.rfind(b"\n") + 1)


class CSVLogger(Logger):
    """Logs to files that any program reads, as torchrl's logger of this name lays them out.

    `<log_dir>/<exp_name>/` has `scalars/<name>.csv`, a line `step,value` for each number, which is on disk
    when `log_scalar` returns; `texts/hparams<n>.txt`; and `videos/<name>_<step>`. A run that goes on appends.

    Args:
        exp_name: the name of the experiment.
        log_dir: the folder of all experiments, "csv_logs" by default.
        video_format: "memmap", the bytes of an array, whose shape and dtype a reader must know; or "mp4" or
            "gif", by imageio (extra `video`).
        video_fps: frames per second.

    Raises:
        ValueError: another format.

    Source:
        torchrl.record.loggers.CSVLogger.

    Example:
        >>> import os, tempfile
        >>> from lite.data import CSVLogger
        >>> folder = tempfile.mkdtemp()
        >>> logger = CSVLogger("first", log_dir=folder)
        >>> for step in range(2):
        ...     logger.log_scalar("train/reward", step / 2, step=10 * step)
        >>> with open(os.path.join(folder, "first/scalars/train/reward.csv")) as file:
        ...     print(file.read(), end="")
        0,0.0
        10,0.5
    """

    experiment: CSVExperiment

    def __init__(
        self,
        exp_name: str,
        log_dir: str | os.PathLike[str] | None = None,
        video_format: str = "memmap",
        video_fps: int = 30,
    ) -> None:
        if video_format not in _FORMATS:
            raise ValueError(f"video_format must be one of {_FORMATS}, got {video_format!r}.")
        self.video_format = video_format
        self.video_fps = video_fps
        super().__init__(exp_name, "csv_logs" if log_dir is None else os.fspath(log_dir))

    def _create_experiment(self) -> CSVExperiment:
        folder = os.path.join(self.log_dir, self.exp_name)
        return CSVExperiment(folder, video_format=self.video_format, video_fps=self.video_fps)

    def log_scalar(self, name: str, value: float, step: int | None = None) -> None:
        """Log a number; see `Logger.log_scalar`."""
        self.experiment.add_scalar(name, value, global_step=step)

    def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
        """Log videos; see `Logger.log_video`.

        Raises:
            ValueError: another shape.
            TypeError, ImportError: see `CSVExperiment.add_video`.
        """
        self.experiment.add_video(name, require_video(video), global_step=step, **kwargs)

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Write the settings of a run, a line for each."""
        self.experiment.add_text(
            "hparams", "\n".join(f"{key}: {value}" for key, value in sorted(cfg.items()))
        )

    def _checkpoint_state(self) -> dict[str, Any]:
        made = self.experiment
        return {name: dict(getattr(made, name)) for name in ("scalars", "videos_counter", "text_counter")}

    def _load_checkpoint_state(self, state_dict: Mapping[str, Any]) -> None:
        numbers = {name: len(pairs) for name, pairs in state_dict.get("scalars", {}).items()}
        given = {**state_dict, "scalars_counter": numbers}
        for name in ("scalars_counter", "videos_counter", "text_counter"):
            counters = getattr(self.experiment, name)
            counters.clear()
            counters.update(given.get(name, {}))

    def print_log_dir(self) -> None:
        """Print the files of the experiment, each with its size in bytes."""
        for path in sorted(Path(self.experiment.log_dir).rglob("*")):
            if path.is_file():
                print(path, path.stat().st_size)

    def __repr__(self) -> str:
        return f"CSVLogger(exp_name={self.exp_name}, experiment={self.experiment!r})"


belong_to("lite.data", CSVExperiment, CSVLogger)
