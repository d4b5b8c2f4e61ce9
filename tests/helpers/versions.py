"""A saved tree in versions that can be told apart, and a writer that stops somewhere."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lite import TensorDict

# Version k has all values k, and shapes, keys and objects that depend on k.
MODEL = """
import sys, numpy as np
from lite import TensorDict, lazy_stack

def tree(k):
    rows = 3 + k % 3
    data = {f"x{i}": np.full((rows, 2), k) for i in range(4)}
    data["n"] = {"deep": {"y": np.full((rows, k % 4), k)}, "s": f"v{k}"}
    data["lazy"] = lazy_stack([TensorDict(q=np.full(i + 1, k)) for i in range(rows)])
    data["r"] = [f"v{k}"] * rows
    if k % 2:
        data["odd"] = np.full((rows, 5), k)
    return TensorDict(data, [rows])
"""


namespace: dict = {}
exec(MODEL, namespace)
tree = namespace["tree"]


def version(path: Path, *added: str) -> int:
    """The version of a saved tree, after checking that nothing of another version is in it."""
    td = TensorDict.load_memmap(path)
    k = int(td["x0"][0, 0])
    expected = tree(k)
    assert td.batch_size == expected.batch_size
    assert list(td.keys()) == [*expected.keys(), *added]
    assert td["n", "s"] == f"v{k}"
    assert td["r"] == expected["r"]
    for key in [key for key in td.keys() if key.startswith(("x", "odd"))] + [("n", "deep", "y")]:  # noqa: SIM118
        np.testing.assert_array_equal(td[key], expected[key])
    for part, other in zip(td["lazy"].tensordicts, expected["lazy"].tensordicts, strict=True):
        np.testing.assert_array_equal(part["q"], other["q"])
    return k


class Killed(BaseException):
    pass


CALLS = ["mkdir", "rename", "replace", "unlink", "rmdir", "open", "write"]


def stopped(patch: pytest.MonkeyPatch, stop: int, action: Callable[[], object]) -> bool:
    """Run until so many changes to the disk are done; tells whether that was all of them."""
    count = 0

    def counted(call):
        def run(*args, **kwargs):
            nonlocal count
            count += 1
            if count > stop:
                raise Killed
            return call(*args, **kwargs)

        return run

    for name in CALLS:
        patch.setattr(os, name, counted(getattr(os, name)))
    patch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
    try:
        action()
    except Killed:
        return False
    return True
