"""Time alternatives in one process, and write down what came out.

Alternatives take turns round by round, so that whatever else the machine does hits all of them; the
median is reported, and the minimum beside it.
"""

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def measure(alternatives: dict[str, Callable[[], Any]], rounds: int = 15) -> dict[str, dict[str, float]]:
    """Median and minimum in milliseconds of each alternative; the first call of each is not counted."""
    for run in alternatives.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    for _ in range(rounds):
        for name, run in alternatives.items():
            start = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: {"median_ms": float(np.median(ts)), "min_ms": min(ts)} for name, ts in times.items()}


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    import numba

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_before": round(load, 2),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


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
        **more,
    }


def report(name: str, title: str, rows: list[dict[str, Any]], about: dict[str, Any]) -> None:
    """Print the table, and write it to results/`name`.md and results/`name`.json."""
    lines = [
        f"# {title}",
        "",
        ", ".join(f"{key} {value}" for key, value in about.items()) + ".",
        "Medians of interleaved rounds in one process, compiled beforehand; minima in brackets.",
        "",
        "| case | lite | other | | times faster |",
        "|---|--:|--:|---|--:|",
    ]
    for r in rows:
        lines.append(
            f"| {r['case']} | {r['lite_ms']:.3g} ms ({r['lite_min_ms']:.3g}) "
            f"| {r['other_ms']:.3g} ms ({r['other_min_ms']:.3g}) | {r['against']} | {r['ratio']:.3g} |"
        )
    text = "\n".join(lines) + "\n"
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text)
    (RESULTS / f"{name}.json").write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
