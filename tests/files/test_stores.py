"""Where files are read from while others write."""

import os

import numpy as np
from helpers.versions import tree

from lite import TensorDict
from lite._files import commit, stores


def test_readers_of_a_nested_folder_see_no_torn_state(tmp_path, monkeypatch):
    """A writer outside begins to move its files while a nested folder is read by itself."""
    path = tmp_path / "td"
    tree(1).memmap(path)
    tree(2).memmap(tmp_path / "new")
    real, moved = stores.map_leaf, []

    def mapped(*args):
        leaf = real(*args)
        if not moved:
            moved.append(True)
            os.rename(tmp_path / "new", path / commit.COMMIT)
            (path / commit.COMMIT / "n" / "deep" / "y.memmap").replace(path / "n" / "deep" / "y.memmap")
        return leaf

    monkeypatch.setattr(stores, "map_leaf", mapped)
    found = TensorDict.load_memmap(path / "n")
    assert moved
    assert found["s"] == "v2"
    np.testing.assert_array_equal(found["deep", "y"], tree(2)["n", "deep", "y"])
