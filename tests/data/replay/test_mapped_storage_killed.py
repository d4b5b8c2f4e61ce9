"""Writers killed at random moments: seconds of it, or as long as LITE_KILL_SECONDS says."""

import os

import numpy as np
import pytest
from helpers.data import killed_writers
from helpers.killed import outcome

from lite import TensorDict
from lite.data import LazyMemmapStorage, TensorDictReplayBuffer

pytestmark = pytest.mark.processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forked")
def test_no_frame_is_lost_and_none_doubled(tmp_path) -> None:
    assert "calls cut short" in outcome(killed_writers.__file__, tmp_path)


def test_a_table_whose_files_have_not_all_their_places(tmp_path, monkeypatch):
    """As a writer leaves it that is killed while the folder is made."""
    folder = tmp_path / "t"

    def opened() -> TensorDictReplayBuffer:
        return TensorDictReplayBuffer(storage=LazyMemmapStorage(10, scratch_dir=folder, existsok=True))

    first = opened()
    first.extend(TensorDict({"obs": np.ones((3, 2))}, [3]))
    first.storage.close()
    (folder / "%commit").mkdir()
    for name in ("obs.memmap", "meta.json"):
        (folder / name).rename(folder / "%commit" / name)
    monkeypatch.setenv("LITE_FSYNC", "1")
    again = opened()
    assert len(again) == 3
    again.extend(TensorDict({"obs": np.full((4, 2), 2.0)}, [4]))
    assert not (folder / "%commit").exists()
    np.testing.assert_array_equal(opened()[:]["obs"][:, 0], [1, 1, 1, 2, 2, 2, 2])
