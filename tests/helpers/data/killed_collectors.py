"""Collectors that fill a buffer on disk and are killed at random moments, and what is there after that.

Importing this needs gymnasium.
"""

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers import killed
from helpers.data.environments import makers

from lite.data import Collector, LazyMemmapStorage, TensorDictReplayBuffer

LENGTHS = [(3, 5), (4,), (1, 2, 6)]
CAPACITY = 1_000_000


def open_buffer(folder: Path) -> TensorDictReplayBuffer:
    return TensorDictReplayBuffer(
        storage=LazyMemmapStorage(CAPACITY, scratch_dir=folder / "frames", existsok=True)
    )


def live(folder: Path, mode: AutoresetMode, tell: int) -> None:
    """Go on where the last life was killed."""
    buffer, saved = open_buffer(folder), folder / "state.json"
    collector = Collector(SyncVectorEnv(makers(LENGTHS), autoreset_mode=mode), frames_per_batch=24, seed=0)
    if saved.exists():
        collector.load_state_dict(json.loads(saved.read_text()))
    while True:
        batch = collector.next()
        # Before the batch is stored: after a kill in between no id comes twice.
        (folder / "next.json").write_text(json.dumps(collector.state_dict()))
        os.replace(folder / "next.json", saved)
        buffer.extend(batch.reshape(-1))
        os.write(tell, buffer.write_count.to_bytes(8, sys.byteorder))


def one_life(folder: Path, rng: random.Random) -> int:
    """Fork a collector and kill it; gives how many frames it was told are there."""
    mode, life = rng.choice(list(AutoresetMode)), 0.01 + 0.15 * rng.random()
    told = killed.one_life(lambda tell: live(folder, mode, tell), life, 8, ready=False)
    return int.from_bytes(told[-1], sys.byteorder) if told else 0


def check(folder: Path, acknowledged: int) -> int:
    """Everything that was acknowledged is there, and each step once; gives how many frames there are."""
    buffer = open_buffer(folder)
    count = len(buffer)
    assert count >= acknowledged, (count, acknowledged)
    if not count:
        return 0
    td: Any = buffer.storage.get(slice(None))
    assert td.shape[0] == count
    ids, steps = td["collector", "traj_ids"], td["step_count"][:, 0]
    pairs = np.unique(np.stack([ids, steps], -1), axis=0)
    assert len(pairs) == count, "a step is there twice"
    number, episode, inside = td["observation"].T
    np.testing.assert_array_equal(inside, steps)
    np.testing.assert_array_equal(td["next", "observation"][:, 2], steps + 1)
    np.testing.assert_array_equal(td["next", "reward"][:, 0], 10 * episode + steps + 1)
    for i, lengths in enumerate(LENGTHS):
        mine = number == i
        length = np.array(lengths)[episode[mine].astype(int) % len(lengths)]
        np.testing.assert_array_equal(td["next", "done"][mine, 0], steps[mine] + 1 == length)
    # An episode is there from its first step on, without a gap.
    _, firsts, sizes = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    np.testing.assert_array_equal(pairs[firsts, 1], 0)
    np.testing.assert_array_equal(pairs[firsts + sizes - 1, 1], sizes - 1)
    buffer.storage.close()
    return count


def main(folder: str, seconds: str, seed: str) -> None:
    rng, end = random.Random(int(seed)), time.monotonic() + float(seconds)
    lives = acknowledged = count = 0
    while time.monotonic() < end or acknowledged < 500:
        acknowledged = max(acknowledged, one_life(Path(folder), rng))
        count = check(Path(folder), acknowledged)
        lives += 1
    print(f"{lives} kills, {acknowledged} frames acknowledged, {count} there")


if __name__ == "__main__":
    main(*sys.argv[1:])
