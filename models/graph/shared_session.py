"""A session of onnxruntime that copies share, and that opens itself where it cannot be carried along."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lite.models.graph import protobuf
from lite.models.graph.model_config import check_external_files
from lite.models.graph.session import SessionLike, open_session, parse_device

_lock = threading.Lock()
_alive: weakref.WeakValueDictionary[Any, SharedSession] = weakref.WeakValueDictionary()
_abandoned: list[SessionLike] = []  # sessions of a parent process: closing one would wait for its threads


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True)
class SessionOptions:
    """Where and how a graph runs; see `open_session`.

    Attributes:
        device: "cpu", "cuda" or "cuda:N": where outputs of inputs on a GPU stay.
        providers: onnxruntime's providers, if not those of `device`.
        num_threads: threads inside one operator.
    """

    device: str = "cpu"
    providers: tuple[Any, ...] | None = None
    num_threads: int | None = None

    @classmethod
    def from_arguments(
        cls, device: str | None, providers: Sequence[Any] | None, num_threads: int | None
    ) -> SessionOptions:
        """Check the arguments; `providers` tell the device where it is not given."""
        if providers is None:
            parse_device(device or "cpu")
            return cls(device or "cpu", None, num_threads)
        if isinstance(providers, str):
            raise TypeError(f"providers must be a list, got {providers!r}.")
        on_gpu = [entry for entry in providers if _provider_name(entry) == "CUDAExecutionProvider"]
        implied = "cuda" if on_gpu else "cpu"
        for entry in on_gpu:
            if not isinstance(entry, str) and "device_id" in entry[1]:
                implied = f"cuda:{int(entry[1]['device_id'])}"
        if device is not None and parse_device(device) != parse_device(implied):
            raise ValueError(f"device={device!r} contradicts providers={list(providers)!r}.")
        return cls(implied, tuple(providers), num_threads)

    @staticmethod
    def checked_device(device: Any) -> str:
        """The name of a device. Raises ValueError if it is not "cpu", "cuda" or "cuda:N"."""
        name = device if isinstance(device, str) else str(device)
        parse_device(name)
        return name


class SharedSession:
    """The session of one graph with one set of options, opened when it is first asked for.

    A copy is the object itself; what is unpickled, or finds itself in a forked process, opens the file
    again. Several of one process share, as long as the file is the same.

    Args:
        path: the ONNX file.
        options: where it runs.
        session: a session that is open; without one the file is opened when asked for.
    """

    def __init__(self, path: Path, options: SessionOptions, session: SessionLike | None = None) -> None:
        self.path = path
        self.options = options
        self._opened = None if session is None else (os.getpid(), session)

    @classmethod
    def of(cls, path: str | Path, options: SessionOptions) -> SharedSession:
        """The session of a file in this process."""
        path = Path(path).absolute()
        try:
            stat = path.stat()
            version: Any = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        except OSError:
            version = None
        key = (path, repr(options), version)
        with _lock:
            found = _alive.get(key)
            if found is None:
                found = _alive[key] = cls(path, options)
        return found

    def get(self) -> SessionLike:
        """The session of this process.

        Raises:
            FileNotFoundError, ValueError, ImportError, RuntimeError: see `open_session`.
        """
        opened = self._opened
        if opened is not None and opened[0] == os.getpid():
            return opened[1]
        with _lock:
            opened = self._opened
            if opened is None or opened[0] != os.getpid():
                if opened is not None:
                    _abandoned.append(opened[1])
                opened = self._opened = (os.getpid(), self._open())
        return opened[1]

    def _open(self) -> SessionLike:
        if not self.path.is_file():
            beside = sorted(p.name for p in self.path.glob("*.onnx")) if self.path.is_dir() else []
            hint = (
                f"; it is a folder with {', '.join(beside) or 'no .onnx file'}" if self.path.is_dir() else ""
            )
            raise FileNotFoundError(f"model: there is no ONNX file {str(self.path)!r}{hint}.")
        check_external_files(self.path, protobuf.scan(self.path))
        options = self.options
        return open_session(
            self.path, device=options.device, num_threads=options.num_threads, providers=options.providers
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedSession:
        return self

    def __copy__(self) -> SharedSession:
        return self

    def __reduce__(self) -> Any:
        return SharedSession.of, (self.path, self.options)


class GivenSession(SharedSession):
    """A session that was made elsewhere: copies share it, but it cannot be pickled."""

    def __init__(self, session: SessionLike, options: SessionOptions) -> None:
        super().__init__(Path("<session>"), options, session)

    def _open(self) -> SessionLike:
        raise RuntimeError("the session was made in another process: give the path of the graph instead.")

    def __reduce__(self) -> Any:
        raise TypeError("a module of a given session cannot be pickled: give the path of the graph instead.")


def _provider_name(entry: Any) -> str:
    return str(entry if isinstance(entry, str) else entry[0])
