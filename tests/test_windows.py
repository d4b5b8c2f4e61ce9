"""What Windows lacks is not needed: it is taken out of the standard library before lite is imported.

What this cannot show is Windows itself: its file locks, its paths in system calls, its memory maps.
"""

import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import multiprocessing, os, sys
for name in ("fork", "forkpty", "register_at_fork", "sched_getaffinity", "memfd_create", "posix_fallocate",
             "pwrite", "pread", "O_NOFOLLOW", "O_CLOEXEC", "O_DIRECTORY", "getuid", "geteuid", "statvfs"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None  # an import of it raises ImportError

import tempfile
import numpy as np

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    import lite, lite.data, lite.kernels, lite.models, lite.nn, lite.optim
    from lite import TensorDict, lazy_stack

    assert lite.kernels.get_num_threads() >= 1
    td = TensorDict({"a": np.arange(6.0).reshape(3, 2), "n": {"b": np.arange(3)}, "s": ["x", "y", "z"]}, [3])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "td")
        td.memmap(path)
        back = TensorDict.load_memmap(path)
        assert (back["n", "b"] == [0, 1, 2]).all()
        del back
    net = lite.nn.Sequential(lite.nn.Linear(2, 3), lite.nn.Tanh())
    assert net(np.ones((4, 2), np.float32)).shape == (4, 3)
    assert lite.grad(lambda x: np.sum(x * x))(np.ones(2)).tolist() == [2.0, 2.0]
    assert lazy_stack([td, td])["a"].shape == (2, 3, 2)
    values = lite.kernels.reward_to_go(np.ones((2, 3), np.float32), np.zeros((2, 3), bool))
    assert values.tolist() == [[3, 2, 1], [3, 2, 1]]
    print("works")
"""


def test_nothing_that_windows_lacks_is_needed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, program], env=os.environ | {"LITE_KERNELS": "numpy"},
        capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert run.stdout == "works\n", run.stderr
