"""The CUDA kernels: time on the GPU, bytes moved, share of the card's own copy bandwidth, torch beside them.

    python bench/cuda_kernels.py [--only PATTERN] [--rounds N]

Needs a GPU. (`--toy` takes small arrays, also in Numba's simulator, where times mean nothing.)

Times are those between two events on the GPU, medians over rounds. Python is kept out of them: all rounds
are queued behind a kernel that sleeps. Calls that read something back wait for the GPU and cannot be queued;
theirs contain their launches, and are marked. Before each round 256 MB are written, so that no input is left
in a cache. Bytes are those a call cannot do without: each input read once, each result written once.

The jobs are in cuda_jobs.py, the clock in cuda_clock.py. (The file is not called cuda.py: scripts beside it
would find it in place of NVIDIA's package of that name.)
"""

import re
from typing import Any

from cuda_clock import Bench
from cuda_jobs import JOBS, torch_on_gpu
from side_by_side import arguments, heading, machine, place, show


def measure(bench: Bench, pattern: str, rounds: int) -> list[dict[str, Any]]:
    """A line for each job whose name `pattern` is found in."""
    bandwidth = bench.copy_bandwidth(rounds)
    rows: list[dict[str, Any]] = [{"case": "copy", "bytes_per_second": bandwidth}]
    for name, make in JOBS.items():
        if not re.search(pattern, name):
            continue
        job = make(bench)
        taken = bench.milliseconds(job.lite, rounds, job.waits)
        theirs = bench.milliseconds(job.torch, max(3, rounds // 3)) if job.torch else None
        speed = 1e3 * job.bytes / taken
        rows.append(
            {"case": name, "bytes": job.bytes, "ms": taken, "bytes_per_second": speed,
             "share_of_copy": speed / bandwidth, "torch_ms": theirs, "waits": job.waits}
        )  # fmt: skip
    return rows


def table(rows: list[dict[str, Any]], about: dict[str, Any]) -> list[str]:
    lines = [
        *heading("CUDA kernels", about),
        f"The driver copies {rows[0]['bytes_per_second'] / 1e9:.0f} GB/s, reads and writes counted.",
        "Medians between events on the GPU, caches cold; with * the launch is part of it.",
        "",
        "| case | MB | ms | GB/s | of a copy | torch ms | times faster |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for r in rows[1:]:
        theirs = (
            ("", "") if r["torch_ms"] is None else (f"{r['torch_ms']:.3g}", f"{r['torch_ms'] / r['ms']:.3g}")
        )
        lines.append(
            f"| {r['case']}{'*' if r['waits'] else ''} | {r['bytes'] / 1e6:.1f} | {r['ms']:.3g} "
            f"| {r['bytes_per_second'] / 1e9:.0f} | {r['share_of_copy']:.0%} | {theirs[0]} | {theirs[1]} |"
        )
    return lines


def main() -> None:
    parser = arguments(__doc__, rounds=30)
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="a regular expression to be found in names"
    )
    parser.add_argument("--toy", action="store_true", help="small arrays, to see that it runs")
    options = parser.parse_args()
    from numba import config, cuda

    if not cuda.is_available():
        raise SystemExit("no GPU was found: needed are one by NVIDIA, its driver, and Numba with NVVM")
    if config.ENABLE_CUDASIM and not options.toy:
        raise SystemExit("NUMBA_ENABLE_CUDASIM is set: times in the simulator mean nothing (--toy runs it)")
    bench = Bench(options.toy)
    rows = measure(bench, options.only, options.rounds)
    if bench.simulated:
        print("ran in the simulator, where times mean nothing:", *(r["case"] for r in rows), sep="\n  ")
        return
    name = cuda.get_current_device().name
    peers = [torch_on_gpu()] if torch_on_gpu() else []
    about = {"gpu": name if isinstance(name, str) else name.decode()} | machine(*peers)
    show(place(options, part=options.toy), "cuda_kernels", table(rows, about), {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
