"""A process that writes without pause while others read: `live_writer.py FOLDER CAPACITY COMPRESS SIZE`.

It says "ready" after the first call, and stops when its input ends.
"""

import select
import sys

from helpers.data.numbered_frames import frames

from lite.data import LazyMemmapStorage, ReplayBuffer


def main(folder: str, capacity: int, compress: bool, size: int) -> None:
    storage = LazyMemmapStorage(capacity, scratch_dir=folder, existsok=True, compress_next=compress)
    buffer = ReplayBuffer(storage=storage)
    at = buffer.write_count
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(20):
            buffer.extend(frames(at, at + size))
            at += size
        if at == 20 * size:
            print("ready", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1", int(sys.argv[4]))
