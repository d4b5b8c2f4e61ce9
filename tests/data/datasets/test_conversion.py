import os

import numpy as np
import pytest

from lite.data.datasets.conversion import PIECE, converted, steps_at_a_time

LAYOUT = {("a",): ((2,), np.dtype(np.float32)), ("next", "b"): ((), np.dtype(np.bool_))}


def test_the_folder_appears_when_it_is_whole(tmp_path):
    place = tmp_path / "deep" / "out"
    seen = []

    def fill(out):
        seen.append(place.exists())
        out.get("a")[...] = [1, 2]
        out.get(("next", "b"))[1] = True

    td = converted(place, LAYOUT, 3, 100, fill)
    assert seen == [False]
    assert (td.batch_size, td.is_memmap(), td.is_locked) == ((3,), True, True)
    np.testing.assert_array_equal(td["a"], [[1, 2]] * 3)
    np.testing.assert_array_equal(td["next", "b"], [False, True, False])
    assert os.listdir(tmp_path / "deep") == ["out"]


def test_a_failure_leaves_nothing(tmp_path):
    def fill(out):
        raise KeyError("no")

    with pytest.raises(KeyError):
        converted(tmp_path / "out", LAYOUT, 3, 100, fill)
    assert os.listdir(tmp_path) == []


def test_more_than_files_can_hold_is_refused(tmp_path):
    with pytest.raises(ValueError, match="refusing to make 9000000000 bytes of files of 100 bytes"):
        converted(tmp_path / "out", LAYOUT, 10**9, 100, print)
    assert os.listdir(tmp_path) == []


def test_pieces():
    assert steps_at_a_time((2, 4), np.dtype(np.float64)) == PIECE // 64
    assert steps_at_a_time((2**30,), np.dtype(np.float64)) == 1
    assert steps_at_a_time((0,), np.dtype(np.bool_)) == PIECE
