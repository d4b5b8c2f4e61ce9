"""Programs that fork processes and kill them at random moments, and what they are told before that.

A program is run by itself, so that it forks from a process without threads: `killed_writers.py FOLDER SECONDS
SEED`.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def outcome(program: str, folder: Path) -> str:
    """What a program prints that runs for as long as LITE_KILL_SECONDS says."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    seconds = os.environ.get("LITE_KILL_SECONDS", "2")
    done = subprocess.run(
        [sys.executable, program, str(folder), seconds, "1"], capture_output=True, text=True,
        env=env, timeout=float(seconds) + 600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def one_life(work: Callable[[int], object], life: float, size: int, ready: bool) -> list[bytes]:
    """Fork a process that works until it is killed; gives what it wrote, in parts of `size` bytes.

    A process that says when it is ready lives on from its first part."""
    read, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(read)
            work(tell)
        except BaseException as error:
            os.write(2, f"the work failed: {error!r}\n".encode())
        os._exit(1)
    os.close(tell)
    told = os.read(read, size) if ready else b""
    time.sleep(life)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), status
    while part := os.read(read, 1 << 16):
        told += part
    os.close(read)
    return [told[at : at + size] for at in range(0, len(told) - size + 1, size)]
