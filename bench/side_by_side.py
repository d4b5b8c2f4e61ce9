"""Time alternatives in one process, and write down what came out.

Alternatives take turns round by round, so that whatever else the machine does hits all of them; the
median is reported, and the minimum beside it. The processor time of all threads is kept too: on a busy
machine its minimum says more than the clock on the wall.

A script's arguments start from `arguments`, and what it found is written by `save`: whole files, to the
folder that `--output` names, or to results/.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

# After a parallel region OpenMP's threads (torch's) spin for a while, on cores that the next one needs.
_PAUSE = 0.01
# A pause leaves processor and caches cold: what takes less than this runs once more before it is timed.
_SHORT = 0.03
# What takes longer in its first call, compiling and all, is known not to be short.
_LONG = 10.0
RESULTS = Path(__file__).resolve().parent / "results"


def arguments(about: str | None, rounds: int, each: str = "rounds of each case") -> argparse.ArgumentParser:
    """A parser of what all scripts take.

    Args:
        about: what the script says of itself.
        rounds: how many there are unless `--rounds` says otherwise.
        each: what they are.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=_positive, default=rounds, metavar="N", help=f"{each} ({rounds})")
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="folder for what is found (bench/results, if all is run)"
    )
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


_positive.__name__ = "int"  # which argparse names for what is no number


def place(asked: argparse.Namespace, part: bool = False) -> Path | None:
    """Where the results go: what is only a part of them is not saved unless a folder is named."""
    return asked.output or (None if part else RESULTS)


def save(folder: Path | None, name: str, text: str | None, found: Any) -> None:
    """Write `name`.md and `name`.json, each whole or not at all; nothing where there is no folder.

    Args:
        folder: made if it is not there.
        name: of the results.
        text: of the first file, which is left out without any.
        found: what JSON holds.
    """
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"md": text, "json": json.dumps(found, indent=1) + "\n"}
    for suffix, content in texts.items():
        if content is not None:
            part = folder / f".{name}.{suffix}.part"
            part.write_text(content, encoding="utf-8")
            part.replace(folder / f"{name}.{suffix}")


def repeated(call: Callable[[], Any], times: int) -> Callable[[], None]:
    """Many calls in a row."""

    def run() -> None:
        for _ in range(times):
            call()

    return run


def measure(
    alternatives: dict[str, Callable[[], Any]], rounds: int = 15, pause: float = _PAUSE, times: int = 1
) -> dict[str, dict[str, float]]:
    """Milliseconds of each alternative, on the wall and of processors; the first calls are not counted.

    `pause` is the time in seconds before each run, after which short ones run once untimed: a processor
    that has been idle runs the first millisecond several times slower. Without threads, 0 will do.
    A run is of so many `times` in a row, and what comes out is of one.
    """
    if times > 1:
        alternatives = {name: repeated(call, times) for name, call in alternatives.items()}
    short = {}
    for name, run in alternatives.items():
        start = time.perf_counter()
        run()
        if time.perf_counter() - start < _LONG:
            start = time.perf_counter()
            run()
        short[name] = time.perf_counter() - start < _SHORT
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in alternatives}
    for _ in range(rounds):
        for name, run in alternatives.items():
            if pause:
                time.sleep(pause)
                if short[name]:
                    run()
            start, start_cpu = time.perf_counter(), time.process_time()
            run()
            found[name].append((time.perf_counter() - start, time.process_time() - start_cpu))
    out = {}
    for name, taken in found.items():
        wall, cpu = 1e3 / times * np.array(taken).T
        out[name] = {
            "median_ms": float(np.median(wall)),
            "min_ms": float(wall.min()),
            "cpu_ms": float(cpu.min()),
        }
    return out


def extra_memory(run: Callable[[], Any]) -> float:
    """Megabytes by which the process grows at its peak while something runs that ran before."""
    status = Path("/proc/self/clear_refs")
    status.write_text("5", encoding="utf-8")  # resets the peak
    before = resident("VmRSS")
    run()
    return round(resident("VmHWM") - before)


def resident(name: str) -> float:
    """A line of what Linux tells of the process, in megabytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def whole_process(*command: str) -> tuple[str, dict[str, float]]:
    """What a program of Python printed in a process of its own, and what that took, imports and all.

    Raises:
        RuntimeError: it did not end well.
    """
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {said}")
    processor, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6
    return said, {"seconds": taken, "processor_seconds": processor, "megabytes": memory}


def machine(*libraries: Any) -> dict[str, Any]:
    """What the numbers depend on, and the day; with the versions of libraries."""
    # A processor's name here replaces the kernels that OpenBLAS chooses: those of Haswell take twice the
    # time of a product where AVX-512 is, and torch's MKL does not read it.
    forced = {key: os.environ[key] for key in ("OPENBLAS_CORETYPE",) if key in os.environ}
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_before": round(load, 2),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": _version("numba"),
        **forced,
        **{library.__name__: library.__version__ for library in libraries},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def heading(title: str, about: dict[str, Any]) -> list[str]:
    """The first lines of a page of results: what wrote it, when, and on what."""
    told = ", ".join(f"{key} {value}" for key, value in about.items())
    return [f"# {title}", "", f"Written by `python bench/{Path(sys.argv[0]).name}`: {told}."]


def row(name: str, against: str, result: dict[str, dict[str, float]], **more: Any) -> dict[str, Any]:
    """One line of the table: `lite` against one other alternative of `result`."""
    lite, other = result["lite"], result[against]
    return {
        "case": name,
        "lite_ms": lite["median_ms"],
        "lite_min_ms": lite["min_ms"],
        "against": against,
        "other_ms": other["median_ms"],
        "other_min_ms": other["min_ms"],
        "ratio": other["median_ms"] / lite["median_ms"],
        "lite_cpu_ms": lite["cpu_ms"],
        "other_cpu_ms": other["cpu_ms"],
        "cpu_ratio": other["cpu_ms"] / lite["cpu_ms"],
        **more,
    }


def rows_of(name: str, result: dict[str, dict[str, float]], **more: Any) -> list[dict[str, Any]]:
    """`row` against each of the others."""
    return [row(name, other, result, **more) for other in result if other != "lite"]


def show(folder: Path | None, name: str, text: str | list[str], found: Any) -> None:
    """Print a text, which may be given by its lines, and `save` it with what was found."""
    if not isinstance(text, str):
        text = "\n".join(text) + "\n"
    print(text)
    save(folder, name, text, found)


def pyplot() -> Any:
    """matplotlib's, which draws to files."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def report(
    folder: Path | None,
    name: str,
    title: str,
    rows: list[dict[str, Any]],
    about: dict[str, Any],
    below: str = "",
    **more: Any,
) -> None:
    """Print the table, and save it.

    Args:
        folder: as for `save`.
        name: of the results.
        title: above the table.
        rows: from `row`.
        about: what they depend on.
        below: text after the table.
        more: what JSON holds besides.
    """
    lines = [
        *heading(title, about),
        "Medians of interleaved rounds in one process, compiled beforehand; minima in brackets.",
        "The last column is the ratio of processor times (minima, all threads), for busy machines.",
        "",
        "| case | lite | other | | times faster | by processor time |",
        "|---|--:|--:|---|--:|--:|",
    ]
    for r in rows:
        lines.append(
            f"| {r['case']} | {r['lite_ms']:.3g} ms ({r['lite_min_ms']:.3g}) "
            f"| {r['other_ms']:.3g} ms ({r['other_min_ms']:.3g}) | {r['against']} | {r['ratio']:.3g} "
            f"| {r['cpu_ratio']:.3g} |"
        )
    show(folder, name, "\n".join(lines) + "\n" + below, {"about": about, "rows": rows, **more})
