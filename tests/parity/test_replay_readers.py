"""A process of lite writes; this one reads the same pages with torch, and with JAX."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import tensordict
import torch
from helpers.data import live_writer
from helpers.data.numbered_frames import EPISODE

from lite.data import LazyMemmapStorage, ReplayBuffer

CAPACITY = 2000


@pytest.fixture
def folder(tmp_path):
    """A folder that another process writes to without pause."""
    where = tmp_path / "frames"
    code = [sys.executable, live_writer.__file__, str(where), str(CAPACITY), "0", "16"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == b"ready\n"
        yield where
        writer.stdin.close()
        assert writer.wait(30) == 0


class Words:
    """The file that says where the ring stands, as `ring_file` describes it for other programs."""

    def __init__(self, folder):
        self._words = np.memmap(folder / "%ring", "<i8", "r")
        assert self._words[:2].tobytes() == b"literbuf\1\0\0\0\0\0\0\0"

    def state(self):
        """Elements filled, the row written next, rows written ever."""
        while True:
            sequence = int(self._words[64])
            at = 128 + 64 * (sequence % 2)
            length, cursor, _, total = (int(word) for word in self._words[at : at + 4])
            if self._words[64] == sequence:
                return length, cursor, total

    def touched(self, state, index):
        """Whether a row was written since."""
        _, cursor, total = state
        return bool((((index - cursor) % CAPACITY) < int(self._words[256]) - total).any())


def right(step, obs, after):
    end = step % EPISODE == EPISODE - 1
    return bool((obs == step[:, None]).all() and (after[:, 0] == np.where(end, -step, step + 1)).all())


def test_torch(folder):
    table = tensordict.TensorDict.load_memmap(folder)
    words, rng = Words(folder), torch.Generator().manual_seed(0)
    pages = table["obs"].untyped_storage().data_ptr()
    kept, newest, end = 0, set(), time.monotonic() + 30
    while (kept <= 20 or len(newest) <= 5) and time.monotonic() < end:
        state = words.state()
        index = torch.randint(0, state[0], (32,), generator=rng)
        batch = table[index]
        if not words.touched(state, index.numpy()):
            kept += 1
            newest.add(int(batch["step"].max()))
            assert right(*(x.numpy() for x in (batch["step"], batch["obs"], batch["next", "obs"])))
    assert kept > 20
    assert len(newest) > 5
    assert table["obs"].untyped_storage().data_ptr() == pages


def test_jax(folder):
    jax = pytest.importorskip("jax")
    storage = LazyMemmapStorage(CAPACITY, scratch_dir=folder, existsok=True)
    buffer = ReplayBuffer(storage=storage, batch_size=32, generator=0)

    @jax.jit
    def wrong(step, obs):
        return (obs != step[:, None]).any()

    for _ in range(15):
        batch = buffer.sample()
        arrays = (jax.numpy.from_dlpack(batch[key]) for key in ("step", "obs"))
        assert not wrong(*arrays)
