"""The end of worker processes whose parent was killed, so that none of them goes on alone."""

from __future__ import annotations

import multiprocessing
import os
import threading

_PAUSE = 1.0  # seconds between two looks


def end_with_parent() -> None:
    """Start a thread that ends this process soon after its parent ends.

    A process that gets SIGKILL tells its children nothing, and a pipe stays open as long as a forked sibling
    has a copy of its other end. As this holds for the children of a worker, too, a worker may have some.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    multiprocessing.current_process().daemon = False  # a daemon is refused children
    number = os.getppid()

    def watch() -> None:
        while parent.is_alive() and os.getppid() == number:
            parent.join(_PAUSE)
        os._exit(1)

    threading.Thread(target=watch, name="lite.end_with_parent", daemon=True).start()
