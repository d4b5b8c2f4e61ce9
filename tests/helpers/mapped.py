"""Functions that the workers of `map` run: a worker imports them, so they live on the path, not in a test."""

import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np

from lite import TensorDict


def plus_one(td: Any) -> Any:
    return td + 1


def meet(folder: Path, workers: int = 2) -> None:
    """Wait until so many processes are here, so that each of them gets a piece."""
    (folder / str(os.getpid())).touch()
    end = time.monotonic() + 60
    while len(list(folder.iterdir())) < workers:
        assert time.monotonic() < end, "the other workers did not start"
        time.sleep(0.01)


def pid(folder: Path, td: Any) -> Any:
    meet(folder)
    return TensorDict({"pid": np.full(td.batch_size, os.getpid())}, td.batch_size)


def fail(td: Any) -> Any:
    raise ZeroDivisionError("in a worker")


def die(td: Any) -> Any:
    os._exit(3)


def die_at(row: int, td: Any) -> Any:
    if td["a"][0] == 2 * row:
        os._exit(3)
    return td


def draws(folder: Path, td: Any) -> Any:
    meet(folder)
    return TensorDict({"a": np.random.rand(1), "b": np.array([random.random()])}, [1])  # noqa: NPY002


class Vanishing:
    """Can be sent, but not received."""

    def __call__(self, td: Any) -> Any:
        return td

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> Any:
    raise AttributeError("Can't get attribute 'f' on module '__main__'")
