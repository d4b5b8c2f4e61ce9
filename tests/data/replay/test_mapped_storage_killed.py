"""Writers killed at random moments: seconds of it, or as long as LITE_KILL_SECONDS says."""

import os
import subprocess
import sys

import pytest
from helpers.data import killed_writers


@pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forked")
def test_no_frame_is_lost_and_none_doubled(tmp_path) -> None:
    seconds = os.environ.get("LITE_KILL_SECONDS", "4")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, killed_writers.__file__, str(tmp_path), seconds, "1"],
        capture_output=True,
        text=True,
        env=env,
        timeout=float(seconds) + 600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "calls cut short" in done.stdout
