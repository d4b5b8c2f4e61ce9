"""A folder that torch wrote is opened, learned from and left as it was; `tests/parity` writes it anew."""

from pathlib import Path

import numpy as np
import pytest
from helpers import without_torch


@pytest.mark.processes
def test_learns_without_torch() -> None:
    """Above 100 steps, of poles that stay up for 23 under the recorded actions."""
    from examples.frames_learn import FOLDER

    files = {file: file.read_bytes() for file in FOLDER.rglob("*") if file.is_file()}
    printed = without_torch.run(Path(__file__).with_name("frames_learn.py"))
    words = printed.split()
    recorded, learned = int(words[4]), int(words[9])
    assert recorded == 23, printed
    assert learned > 100, printed
    assert {file: file.read_bytes() for file in FOLDER.rglob("*") if file.is_file()} == files


def test_the_frames_are_episodes() -> None:
    """What follows a step is the next one's observation, except where an episode ends."""
    from examples.frames_learn import FOLDER

    from lite import TensorDict

    frames = TensorDict.load_memmap(FOLDER)
    assert frames.is_memmap()
    assert frames["next", "done"].sum() == 40
    goes_on = ~frames["next", "done"][:-1, 0]
    np.testing.assert_array_equal(
        frames["next", "observation"][:-1][goes_on], frames["observation"][1:][goes_on]
    )
