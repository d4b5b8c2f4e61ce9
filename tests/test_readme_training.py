"""The program of the guide "Training on the device" is killed at many moments, and loses no bit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.readme_blocks import python_of

pytestmark = pytest.mark.processes

# A child is killed when a method of its has been called so many times; the next one goes on.
_PROGRAM = """
import signal

def killed_after(owner, name, calls):
    method, left = getattr(owner, name), [calls]
    def counted(*args, **kwargs):
        found = method(*args, **kwargs)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    setattr(owner, name, counted)

_, whole = adapt("whole", 4)
for owner, name, calls in (
    (TensorDict, "memmap", 1),                  # the first state is there, and no row
    (TensorDictReplayBuffer, "extend", 1),      # the rows, before anything was learned from them
    (TensorDictReplayBuffer, "sample", 50),     # with the last sample of an episode
    (TensorDictReplayBuffer, "extend", 2),
    (TensorDictReplayBuffer, "sample", 30),     # in the midst of learning
):
    child = os.fork()
    if not child:
        killed_after(owner, name, calls)
        adapt("killed", 4)
        os._exit(0)                             # it should not have come here
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, (name, calls)
kept = TensorDict.load_memmap("killed/state")
assert 0 < kept["number"] < 4, kept["number"]
_, resumed = adapt("killed", 4)
rows = TensorDict.load_memmap("whole/frames"), TensorDict.load_memmap("killed/frames")
for one, other in ((whole, resumed), rows):
    for key in one.keys(True, True):
        np.testing.assert_array_equal(one[key], other[key], err_msg=str(key))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the children that are killed are forked")
def test_nothing_is_lost_whenever_it_is_killed(tmp_path: Path) -> None:
    blocks = [block.source for block in python_of("lite/guides/tensordicts/training-on-the-device.md")]
    (at,) = (number for number, source in enumerate(blocks) if "def adapt(folder, episodes):" in source)
    program = tmp_path / "program.py"
    program.write_text("\n".join([*blocks[at - 1 : at + 1], _PROGRAM]))
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # no threads, which a child would lack
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
