"""Scripts that use Ray, each in a Python of its own, bounded in time and with nothing left behind.

Ray warns, prints and starts processes of its own: a test's process has none of that. A script prints a list
or an object as JSON, in one line. It may use `start` for a cluster of one machine; the environment says the
rest.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUIET = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1", "RAY_TRAIN_V2_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0",
}  # fmt: skip
_START = """
import logging, os, sys
import ray, ray.data
ray.init(num_cpus={cpus}, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
         object_store_memory=80 * 2**20)
"""
_QUIET_DATA = """
import logging
import ray.data
logging.getLogger("ray.data").setLevel(logging.ERROR)
ray.data.DataContext.get_current().enable_progress_bars = False
"""


def need_ray() -> None:
    pytest.importorskip("ray", reason="needs the ray extra: pip install -e '.[ray]'")


def start(cpus: int = 2) -> str:
    """The first lines of a script on a cluster of one machine."""
    return _START.format(cpus=cpus) + _QUIET_DATA


def run(script: str, *arguments: Any, seconds: float = 240.0) -> Any:
    """What a script prints last; `sys.argv[1]` is a folder of its own, the arguments come after it.

    Raises:
        AssertionError: it failed, took longer, or a process of Ray's is left.
    """
    status, out, errors = _run(script, arguments, seconds)
    if status and "The current node timed out during startup" in errors:
        # Ray gives a node 30 seconds, whatever else a machine does.
        status, out, errors = _run(script, arguments, seconds)
    assert status == 0, f"{out}\n{errors}"
    told = [line for line in out.splitlines() if line.startswith(("[[", '{"', "[{"))]  # Ray may say more
    return json.loads(told[-1])


def _run(script: str, arguments: tuple[Any, ...], seconds: float) -> tuple[int, str, str]:
    """The exit status of a script, and what it printed."""
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # short: Ray has sockets in there
    environment = {
        **os.environ,
        **QUIET,
        "RAY_TMPDIR": folder,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }
    environment.pop("RAY_ADDRESS", None)
    command = [sys.executable, "-c", script, folder, *map(str, arguments)]
    job = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, errors = job.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        out, errors = job.communicate()
        raise AssertionError(f"the script took over {seconds} seconds\n{out}\n{errors}") from None
    finally:
        left = _left_behind(folder)
        shutil.rmtree(folder, ignore_errors=True)
    assert job.returncode or left == [], f"processes were left behind: {left}"
    return job.returncode, out, errors


def _left_behind(folder: str, seconds: float = 20.0) -> list[str]:
    """Command lines of the session's processes that did not end by themselves; they are killed."""
    end = time.monotonic() + seconds
    while (found := _processes(folder)) and time.monotonic() < end:
        time.sleep(0.2)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return list(found.values())


def _processes(folder: str) -> dict[int, str]:
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environment = (path / "environ").read_bytes()
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"RAY_TMPDIR={folder}".encode() in environment.split(b"\0") and command:
            found[int(path.name)] = command
    return found
