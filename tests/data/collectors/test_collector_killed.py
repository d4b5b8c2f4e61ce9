"""Collectors killed at random moments: seconds of it, or as long as LITE_KILL_SECONDS says."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

killed_collectors = pytest.importorskip("helpers.data.killed_collectors", reason="needs the gym extra")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="collectors are forked")
def test_no_frame_is_lost_and_none_doubled(tmp_path):
    seconds = os.environ.get("LITE_KILL_SECONDS", "2")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, killed_collectors.__file__, str(tmp_path), seconds, "1"], capture_output=True,
        text=True, env=env, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "frames acknowledged" in done.stdout
