"""The output folder of `lite learn`: the state after the last step, and a line of numbers for each step."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from lite import NonTensorData, TensorDict
from lite._files.commit import append, make_folder, waiting_for_disk
from lite.cli.output_files import check_run
from lite.data.replay.ring_file import WriterLock

_STATE, _STEPS = "state.tdz", "steps.jsonl"
MODEL = "model"  # the folder of the model that was learnt, or that takes the adapter
_OWN = (_STATE, _STEPS, MODEL, WriterLock.file_name)


class RunState(NamedTuple):
    """The state of a run after a step.

    Attributes:
        steps: how many are done.
        params: the parameters.
        optimizer: the optimiser's state.
    """

    steps: int
    params: Any
    optimizer: Any


class Folder:
    """The output folder of a run.

    The state is one file that is replaced as a whole after each step, and waits for the disk, so a kill or a
    power failure takes at most the current step. The line of a step is written before its state; `records`
    removes a line without a state. The folder is locked for other runs from `read`, or the first line in a
    new folder, until `close`.

    Args:
        path: the folder, which the first `write` or `append` creates.
        run: options and files (with their "sha256") that the results of the run depend on.

    Raises:
        NotADirectoryError: `path` exists and is not a folder.
    """

    def __init__(self, path: str, run: Mapping[str, Any]) -> None:
        self.path, self.run = Path(path), run
        self._lock: WriterLock | None = None
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"--output {path} is not a folder")

    def close(self) -> None:
        """Unlock the folder."""
        if self._lock is not None:
            self._lock.close()

    def _lock_others_out(self) -> None:
        """Lock the folder until `close`. Raises ValueError if another run has locked it."""
        if self._lock is None:
            try:
                self._lock = WriterLock(str(self.path))
            except RuntimeError:
                raise ValueError(f"--output {self.path}: another `lite learn` writes there now") from None

    def read(self) -> RunState | None:
        """The state after the last step; None if there is none yet.

        Raises:
            ValueError: the folder holds other files, or the state of a run with other options or files (the
                message names the difference), or another run has locked it.
        """
        file = self.path / _STATE
        if not file.exists():
            if self.path.is_dir() and any(not child.name.startswith(_OWN) for child in self.path.iterdir()):
                raise ValueError(f"--output {self.path} holds other files: give a new or empty folder")
            return None
        try:
            found = TensorDict.load_memmap(file)
            run, steps = json.loads(found["run"]), int(found["steps"])
            params, optimizer = found["params"].clone(), found["optimizer"].clone()
        except (KeyError, TypeError, RuntimeError, ValueError, AttributeError) as error:
            raise ValueError(f"{file} is not what `lite learn` wrote: {error}") from None
        check_run(str(self.path), run, self.run, "folder")
        self._lock_others_out()
        return RunState(steps, params, optimizer)

    def is_saved(self) -> bool:
        """Whether the model that a run writes at its end is not older than the state."""
        graphs = self._graphs()
        state = (self.path / _STATE).stat().st_mtime_ns
        return bool(graphs) and all(graph.stat().st_mtime_ns >= state for graph in graphs)

    def _graphs(self) -> list[Path]:
        return list((self.path / MODEL).glob("*.onnx"))

    def write(self, run_state: RunState) -> None:
        """Replace the state. A model that is there becomes older than any, wherever the clock stands."""
        for graph in self._graphs():
            os.utime(graph, (0, 0))
        state = TensorDict(
            params=run_state.params,
            optimizer=run_state.optimizer,
            steps=run_state.steps,
            run=NonTensorData(json.dumps(self.run)),
        )
        with waiting_for_disk():
            make_folder(str(self.path.absolute()))
            state.memmap(self.path / _STATE)

    def records(self, steps: int) -> list[dict[str, Any]]:
        """The lines of the state before learning and of each step so far; those of later steps are removed.

        Raises:
            ValueError: lines are missing.
        """
        file = self.path / _STEPS
        lines = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
        kept = lines[: steps + 1]
        try:
            found = [json.loads(line) for line in kept]
            whole = [record["step"] for record in found] == list(range(steps + 1))
        except (ValueError, RecursionError, TypeError, KeyError):
            whole = False
        if not whole:
            raise ValueError(f"{file} does not have the lines of {steps} steps: give another --output")
        if len(lines) > len(kept):
            os.truncate(file, len(b"".join(kept)))  # at once: a kill leaves the lines that have a state
        return found

    def append(self, record: Mapping[str, Any]) -> None:
        """Add the line of a step; that of step 0 truncates the file.

        Raises:
            ValueError: another run writes to the folder, or has written there since `read` found nothing.
        """
        with waiting_for_disk():
            make_folder(str(self.path.absolute()))
        self._lock_others_out()
        if not record["step"] and (self.path / _STATE).exists():
            raise ValueError(f"--output {self.path}: another `lite learn` has written there meanwhile")
        with waiting_for_disk(), FileIO(self.path / _STEPS, "a" if record["step"] else "w") as sink:
            append(sink, f"{json.dumps(record)}\n".encode(), str(self.path / _STEPS))
