"""Writers that are killed at random moments, and what their folder holds after that.

Everything in a frame follows from its number, so that what a folder should hold follows from how many
frames it has taken.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import sys
import time
from typing import NamedTuple

import numpy as np
from helpers import killed
from helpers.data.numbered_frames import frames

from lite.data import LazyMemmapStorage, MultiStep, MultiStepTransform, TensorDictReplayBuffer

GAMMA = 0.9


class Case(NamedTuple):
    """What is written, and how: `steps` of 0 are plain frames."""

    capacity: int
    steps: int
    compress: bool
    largest: int


CASES = [
    Case(64, 0, False, 9), Case(64, 0, True, 9), Case(100, 3, False, 7), Case(50, 0, False, 70),
    Case(50, 0, True, 70), Case(1000, 2, False, 1), Case(37, 0, True, 1),
]  # fmt: skip


def open_buffer(folder: str, case: Case) -> TensorDictReplayBuffer:
    storage = LazyMemmapStorage(case.capacity, scratch_dir=folder, existsok=True, compress_next=case.compress)
    transform = MultiStepTransform(case.steps, GAMMA) if case.steps else None
    return TensorDictReplayBuffer(storage=storage, transform=transform, generator=0)


def taken(buffer: TensorDictReplayBuffer, case: Case) -> int:
    """How many frames a buffer has taken, those that are withheld included."""
    withheld = buffer.transform.withheld
    return buffer.write_count + (0 if withheld is None else withheld["0"].shape[-1])


def check(folder: str, case: Case, acknowledged: int, sent: int) -> int:
    """Open the folder as after a restart, and compare all of it; gives how many frames it has taken."""
    buffer = open_buffer(folder, case)
    buffer.storage.wait(buffer.storage.deadline() - 10 + 0.01) if len(buffer) else None
    count = taken(buffer, case)
    assert acknowledged <= count <= sent, (acknowledged, count, sent)
    stored = buffer.write_count
    assert len(buffer) == min(stored, case.capacity)
    if case.steps:
        assert stored == max(0, count - case.steps)
    if not stored:
        return count
    everything = frames(0, count)
    if case.steps:
        everything = MultiStep(GAMMA, case.steps)(everything)
    first = stored - len(buffer)
    expected = everything[first:stored]
    # The buffer is read by a process that has to undo what the last writer began.
    buffer.storage._become_writer()
    rows = np.arange(first, stored) % case.capacity
    got = buffer.storage.get(slice(None))[rows]
    for key in expected.keys(True, True):
        a, b = np.ascontiguousarray(expected[key]), np.ascontiguousarray(got[key])
        assert a.dtype == b.dtype, key
        wrong = np.flatnonzero([x.tobytes() != y.tobytes() for x, y in zip(a, b, strict=True)])
        assert not wrong.size, f"{case}: {key} of frames {wrong + first}, {stored} of {count} stored"
    assert buffer.storage._position.cursor == stored % case.capacity
    withheld = buffer.transform.withheld
    if withheld is not None:
        for key, value in withheld["0"].items(True, True):
            np.testing.assert_array_equal(value, frames(stored, count)[key])
    buffer.storage.close()
    return count


def write(folder: str, case: Case, rng: random.Random, tell: int) -> None:
    buffer = open_buffer(folder, case)
    at = taken(buffer, case)
    while True:
        size = rng.randint(1, case.largest)
        os.write(tell, struct.pack("<cq", b"s", at + size))
        buffer.extend(frames(at, at + size))
        at += size
        os.write(tell, struct.pack("<cq", b"a", at))


def one_life(folder: str, case: Case, rng: random.Random) -> tuple[int, int]:
    """Fork a writer and kill it; gives how many frames it was told are there, and how many it has sent."""
    own, life = random.Random(rng.random()), rng.choice([0.002, 0.01, 0.03, 0.2]) * rng.random()
    acknowledged = sent = 0
    for part in killed.one_life(lambda tell: write(folder, case, own, tell), life, 9, ready=True):
        kind, number = struct.unpack("<cq", part)
        sent, acknowledged = (number, acknowledged) if kind == b"s" else (sent, number)
    return acknowledged, sent


def main(root: str, seconds: float, seed: int) -> None:
    rng = random.Random(seed)
    counts = [0] * len(CASES)
    lives = frames_written = torn = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end or frames_written < 1000:
        n = lives % len(CASES)
        folder = f"{root}/{n}"
        acknowledged, sent = one_life(folder, CASES[n], rng)
        before = counts[n]
        counts[n] = check(folder, CASES[n], max(acknowledged, before), max(sent, before))
        lives, frames_written = lives + 1, frames_written + counts[n] - before
        torn += counts[n] < sent
        if counts[n] > 20_000:  # so that whole streams stay quick to compare
            shutil.rmtree(folder)
            counts[n] = 0
    print(f"{lives} lives, {frames_written} frames, {torn} calls cut short")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
