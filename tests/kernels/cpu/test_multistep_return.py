"""Windows as the compiled code sums them: short sequences together, long ones in pieces."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("numba")

PASSES = """
import numpy as np
from lite.kernels import multistep_return
from lite.kernels.cpu import multistep_return as cpu

sums, sizes = cpu._sums, []
cpu._sums = lambda reward, *more: sizes.append(reward.size) or sums(reward, *more)
rng = np.random.default_rng(0)
for shape in ((1024, 4), (1, 9000)):
    sizes.clear()
    reward, done = rng.normal(size=shape), rng.random(shape) < 0.1
    multistep_return(reward, done, gamma=0.9, n_steps=3)
    print(len(sizes), max(sizes), sum(sizes))
"""


def test_short_sequences_are_one_line_and_long_ones_come_in_pieces():
    """What is called once for each row of 32 steps takes longer than their sums."""
    run = subprocess.run(
        [sys.executable, "-c", PASSES],
        env=os.environ | {"LITE_KERNELS": "numpy"}, capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    (short, short_most, short_all), (long, long_most, _) = (
        map(int, line.split()) for line in run.stdout.splitlines()
    )
    assert short_all == 4096  # no step is worked on twice
    assert short == 4096 // short_most <= 4
    assert long == -(-9000 // (long_most - 3)) > 1


def test_memory_is_enough_for_a_piece_and_its_last_windows():
    from lite.kernels.cpu import multistep_return as cpu

    assert cpu.work_memory(128, 3).size >= 3 * 128
    assert cpu.work_memory(10**6, 3).size < 10**4
    assert cpu.work_memory(10**6, 5000).size >= 3 * 9 * 5000
    for n_steps in (256, 257, 3000):  # where the longer of two pieces begins to count
        reward, done = np.ones(30_000, np.float32), np.zeros(30_000, bool)
        args = [
            np.empty(reward.size, kind) for kind in (np.float32, np.int64, np.int64, np.float32, np.bool_)
        ]
        memory = cpu.work_memory(reward.size, n_steps)
        cpu.sequences(reward, done, reward.size, n_steps, np.ones(n_steps + 1), *args, memory, 0, 1)
        np.testing.assert_array_equal(args[0], np.minimum(n_steps, np.arange(30_000, 0, -1)))


def test_no_product_fuses_with_a_sum():
    """Fused, the last bits depended on a window's place in the batch: on some processors chunks of a stream
    gave other numbers than the whole of it."""
    from lite.kernels import multistep_return

    reward = np.random.default_rng(0).normal(size=41)
    out = multistep_return(reward, np.zeros(41, bool), gamma=0.9, n_steps=3)
    np.testing.assert_array_equal(out.reward[:-2], reward[:-2] + 0.9 * (reward[1:-1] + 0.9 * reward[2:]))
