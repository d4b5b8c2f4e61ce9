"""Open saved trees: folders (whole, or a part of one) and archives."""

from __future__ import annotations

import os
import time
from typing import Any

from lite._files.commit import COMMIT, outermost
from lite._files.read import Reader
from lite._files.store import Folder
from lite._tree.keys import to_path

_RETRIES = 200


def load(prefix: str, subpath: Any, mode: str, robust: bool, allow_pickle: bool) -> Any:
    """The entry saved at `prefix`; see `TensorDict.load_memmap`."""
    if mode not in ("r", "r+"):
        raise ValueError(f"mode must be 'r' or 'r+', got {mode!r}.")
    if not isinstance(allow_pickle, bool):
        raise TypeError(f"allow_pickle must be a bool, got {allow_pickle!r}.")
    keys = _subpath(subpath)
    if os.path.isfile(prefix):
        from lite._files.archive import Archive

        archive = Archive(prefix, mode == "r+")
        try:
            return _read(Reader(archive, robust, allow_pickle), "", keys, prefix)
        finally:
            archive.close()
    folder = os.path.abspath(prefix)
    top, below = outermost(folder)
    for attempt in range(_RETRIES):
        # Where new files wait in the outermost folder, what is below it belongs to them.
        waiting = below and os.path.isdir(f"{top}/{COMMIT}")
        root, at = (top, below) if waiting else (folder, "")
        store = Folder(root)
        try:
            try:
                out, failure = _read(Reader(store, robust, allow_pickle), at, keys, prefix), None
            except (OSError, ValueError, RuntimeError) as error:
                out, failure = None, error
            begun = below and not waiting and os.path.isdir(f"{top}/{COMMIT}")
            if store.is_current() and not begun:
                if failure is not None:
                    raise failure
                return out
        finally:
            store.close()
        time.sleep(min(0.001 * attempt, 0.02))
    raise RuntimeError(f"{prefix} was replaced each of {_RETRIES} times that it was read.")


def _read(reader: Reader, at: str, keys: tuple[str, ...], prefix: str) -> Any:
    for key in keys:
        at = reader.folder(at, key)
    try:
        return reader.node(at)
    except FileNotFoundError as error:
        if keys:
            raise ValueError(
                f"there is no tensordict under {'/'.join(keys)!r} in {prefix}: {error}"
            ) from error
        raise


def _subpath(subpath: Any) -> tuple[str, ...]:
    if subpath is None:
        return ()
    path = tuple(p for p in subpath.split("/") if p) if isinstance(subpath, str) else to_path(subpath)
    if not path:
        raise ValueError(f"subpath must be a key or a path with '/', got {subpath!r}.")
    return path
