"""Whole training steps as graphs (`lite.jit`) beside torch, JAX, NumPy by hand, and TorchRL.

`python bench/test_jit.py` runs all, each on as many threads (`--threads`, 1 unless given).

A step is forward, backward and Adam, and of DQN the targets' soft update, too. `--only PATTERN` runs the
cases whose names match. Losses of three steps are compared before the steps are timed.
"""

import os
import re
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

THREADS = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else "1"
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = THREADS  # before NumPy and torch are imported
if THREADS == "1":
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax  # noqa: E402
import jit_losses  # noqa: E402
import jit_memory  # noqa: E402
import jit_networks  # noqa: E402
import torch  # noqa: E402
import torchrl  # noqa: E402
from jit_networks import told  # noqa: E402
from jit_steps import Alternatives  # noqa: E402
from side_by_side import arguments, machine, measure, place, report, rows_of  # noqa: E402

warnings.simplefilter("ignore")
TIMES = 20  # steps in a row, one where it takes long
LONG = 0.005  # seconds

CASES: dict[str, Callable[[int], Alternatives]] = {
    "MLP, Adam, batch 32": lambda n: jit_networks.mlp(32, n),
    "MLP, Adam, batch 256": lambda n: jit_networks.mlp(256, n),
    "64 critics, Adam, batch 64": lambda n: jit_networks.ensemble(64, n),
    "Atari CNN, Adam, batch 32": lambda n: jit_networks.convolutions(32, n),
    "GRU, 32 steps, Adam, batch 32": lambda n: jit_networks.recurrent(32, n),
    "DQN update, batch 64": jit_losses.dqn,
    "PPO update, batch 64": jit_losses.ppo,
    "SAC update, 64 cells, batch 64": lambda n: jit_losses.sac(64, 64, n),
    "SAC update, 256 cells, batch 256": lambda n: jit_losses.sac(256, 256, n),
    "policy(td) of two layers": jit_networks.forward,
}


def _seconds(call: Callable[[], Any]) -> float:
    call()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = arguments(__doc__, rounds=51)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", metavar="PATTERN", help="of the names of cases")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    rows = []
    for case, make in CASES.items():
        if not re.search(asked.only or "", case):
            continue
        calls = make(asked.threads)
        times = TIMES if _seconds(calls["lite"]) < LONG else 1
        rows += told(rows_of(case, measure(calls, asked.rounds, times=times)))
    about = machine(torch, jax, torchrl) | {"threads": asked.threads}
    below = "" if asked.only else jit_memory.table()
    report(place(asked, part=bool(asked.only)), "jit", "Training steps as graphs", rows, about, below)


if __name__ == "__main__":
    main()
