"""Scoring on Ray: two actors of one processor beside one, and beside the same class in plain processes.

    python bench/data_ray.py [MODEL] [--rows N] [--rounds N] [--output DIR]

MODEL is the folder of an exported model, by default the embedded one. A run scores rows of 256 tokens through
`ray.data.Dataset.map_batches`. Actors take seconds to start and load the model, once for each job: the rate
is that of the time in which all of them work, from when the last has begun to when the first runs out. Two
plain processes beside one show how much two processors of this machine can do more than one, without Ray.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import ray
import ray.data
from side_by_side import arguments, heading, machine, place, show

from lite.models import OnnxDecoder, ScoreBatches, embedded_model_path

LENGTH, BATCH = 256, 32


class Timed(ScoreBatches):
    """Says of each row when its batch was begun and done, and by whom."""

    def __call__(self, batch: Any) -> dict[str, Any]:
        begun = time.time()
        count = len(super().__call__(batch)["id"])
        stamps = {"begun": begun, "done": time.time(), "by": os.getpid()}
        return {name: np.full(count, value) for name, value in stamps.items()}


def table(rows: int, vocabulary: int) -> list[dict[str, Any]]:
    ids = np.random.default_rng(0).integers(3, vocabulary, (rows, LENGTH))
    return [
        {"id": i, "prompt_ids": row[:16].tolist(), "response_ids": row[16:].tolist()}
        for i, row in enumerate(ids)
    ]


def on_ray(model: str, rows: list[dict[str, Any]], actors: int) -> float:
    """Rows per second of so many actors."""
    data = ray.data.from_items(rows, override_num_blocks=-(-len(rows) // BATCH)).map_batches(
        Timed,
        fn_constructor_kwargs={"model": model, "max_rows": 8},
        compute=ray.data.ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=2),
        batch_size=BATCH,
        num_cpus=1,
    )
    found = data.to_pandas()
    batches = found.groupby(["by", "begun", "done"]).size().reset_index(name="rows")
    start, end = batches.groupby("by").begun.min().max(), batches.groupby("by").done.max().min()
    shared = batches.done.clip(upper=end) - batches.begun.clip(lower=start)
    part = shared.clip(lower=0) / (batches.done - batches.begun)  # of a batch, in the time that counts
    return float((part * batches.rows).sum() / (end - start))


def here(model: str, rows: list[dict[str, Any]]) -> float:
    """Rows per second of the class in the process that calls this, with one thread."""
    judge = ScoreBatches(model, threads=1, max_rows=8)
    batches = [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)]
    columns = [{name: [row[name] for row in batch] for name in batch[0]} for batch in batches]
    judge(columns[0])
    start = time.perf_counter()
    for batch in columns[1:]:
        judge(batch)
    return (len(rows) - BATCH) / (time.perf_counter() - start)


def processes(model: str, rows: list[dict[str, Any]], count: int) -> float:
    """Rows per second of so many processes together, each of which scores its share."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        return sum(pool.map(here, [model] * count, [rows[i::count] for i in range(count)]))


def measure(model: str | None, rows: int, rounds: int) -> list[dict[str, Any]]:
    """Milliseconds of a row, side by side: medians of rounds in turn."""
    folder = str(model or embedded_model_path())
    given = table(rows, OnnxDecoder(folder, num_threads=1).vocab_size)
    ways: dict[str, Callable[[], float]] = {
        "two actors": lambda: on_ray(folder, given, 2),
        "one actor": lambda: on_ray(folder, given, 1),
        "two processes": lambda: processes(folder, given, 2),
        "one process": lambda: processes(folder, given, 1),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            rates[name].append(run())
    times = {name: 1e3 / statistics.median(values) for name, values in rates.items()}
    pairs = [("two actors", "one actor"), ("two processes", "one process"), ("one actor", "one process")]
    return [
        {
            "case": ours,
            "ms": times[ours],
            "against": theirs,
            "other_ms": times[theirs],
            "ratio": times[theirs] / times[ours],
        }
        for ours, theirs in pairs
    ]


def main() -> None:
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--rows", type=int, default=2000)
    asked = parser.parse_args()
    name = Path(asked.model).name if asked.model else "the embedded model"
    about = {**machine(ray), "model": name, "rows": asked.rows}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = measure(asked.model, asked.rows, asked.rounds)
    ray.shutdown()
    lines = [
        *heading("Scoring on Ray", about),
        f"Medians of a row of {LENGTH} tokens, while all actors or processes work.",
        "",
        "| who | ms | beside | ms | times faster |",
        "|---|--:|---|--:|--:|",
        *(
            f"| {r['case']} | {r['ms']:.3g} | {r['against']} | {r['other_ms']:.3g} | {r['ratio']:.2f} |"
            for r in rows
        ),
    ]
    show(place(asked), "ray", lines, {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
