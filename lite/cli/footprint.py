"""`lite footprint`: bytes of an installation on disk and in memory, and the time of first calls.

Times and memory are measured in new processes that run a short program, because the order of imports matters.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import lite
from lite.cli.progress import say
from lite.kernels import backend

OWN = "tensordict-lite"
_MODELS = ["onnxruntime", "tokenizers", "jinja2", "markupsafe"]
# As `pip install --no-deps` installs these.
SMALL = {
    "numpy only": [OWN, "numpy"],
    "edge": [OWN, "numpy", "tensordict-lite-kernels"],
    "edge with language models": [OWN, "numpy", "tensordict-lite-kernels", *_MODELS],
}
# As pip installs these extras, with all that they require in turn.
EXTRAS = {
    "llm-cpu": [OWN, "numpy", "numba", "onnxruntime", "tokenizers", "jinja2"],
    "llm": [OWN, "numpy", "numba", "onnxruntime-gpu", "tokenizers", "jinja2"],
}

_MEMORY = """
import sys
def resident(kind="VmRSS"):
    try:
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith(kind))
    except OSError:  # elsewhere the largest so far is known
        try:
            import resource
        except ImportError:
            return None
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = {}
"""
_IMPORT = """
import json, time
start = time.perf_counter()
import numpy
middle = time.perf_counter()
import lite
print(json.dumps([middle - start, time.perf_counter() - middle]))
"""
_POLICY = """
found["python"] = resident()
import numpy as np
found["import numpy"] = resident()
import lite
found["import lite"] = resident()
from lite import TensorDict, nn
policy = nn.TensorDictModule(nn.MLP(4, 2, num_cells=[64, 64]), in_keys=["observation"], out_keys=["action"])
policy(TensorDict({"observation": np.zeros((1, 4), np.float32)}, batch_size=[1]))
found["a policy step"] = resident()
import json  # which takes memory, too
print(json.dumps(found))
"""
_GENERATION = """
from lite import TensorDict
from lite.models import OnnxWrapper, Text, embedded_model_path
options = {"max_new_tokens": 32, "do_sample": True, "top_p": 0.9}
model = OnnxWrapper(embedded_model_path(), input_mode="text", generate_kwargs=options, num_samples=4)
found["the demo model loaded"] = resident()
prompts = Text(prompt=["What is 12 + 30?", "Sort: 3 1 2"], batch_size=[2])
model(TensorDict(text=prompts, batch_size=[2]))
found["generated"] = resident()
found["at most while generating"] = resident("VmHWM")
import json  # which takes memory, too
print(json.dumps(found))
"""
# Few numbers, so that the time is that of getting the kernel and not of running it.
_KERNELS = {
    "gae": """
ones, ends = np.ones((1, 64), np.float32), np.zeros((1, 64), bool)
call = lambda: kernels.gae(ones, ones, ones, ends, ends, gamma=0.99, lmbda=0.95)
""",
    "sample_tokens": """
logits, seeds = np.zeros((1, 512), np.float32), np.zeros(1, np.uint64)
call = lambda: kernels.sample_tokens(logits, seeds, temperature=0.8, top_p=0.9)
""",
}
_FIRST_CALL = """
import json, time
import numpy as np
from lite import kernels
{}
start = time.perf_counter()
call()
print(json.dumps(time.perf_counter() - start))
"""


def run(args: argparse.Namespace) -> int:
    """Print what the installation that this process runs in takes."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "backend": backend(),
    }
    for part, measure in PARTS.items():
        if args.only is None or part in args.only:
            say(args, part)
            facts[part] = measure(args.repeat)
    if args.json:
        print(json.dumps(facts))
    else:
        _print(facts)
    return 0


# -- what is measured ------------------------------------------------------------------------------


def _installed(repeat: int) -> dict[str, Any]:
    """Bytes of each package by installation; None for what is not installed."""
    sizes = {name: {each: _bytes(each) for each in packages} for name, packages in SMALL.items()}
    for name, packages in EXTRAS.items():
        found = [each for each in packages if _bytes(each) is not None]
        sizes[name] = {each: _bytes(each) for each in [*packages, *_required(found)]}
    return sizes


def _bytes(package: str) -> int | None:
    """Bytes of the files of a package that its installer lists, compiled files included."""
    try:
        files = metadata.distribution(package).files or []
    except metadata.PackageNotFoundError:
        files = None
    paths = [Path(str(file.locate())) for file in files or []]
    if package == OWN and not any(path.match("lite/__init__.py") for path in paths):
        paths = _of_checkout()
    elif files is None:
        return None
    return sum(path.stat().st_size for path in paths if path.is_file())


def _of_checkout() -> list[Path]:
    """The files of the package in a checkout that a wheel would have, and their compiled forms."""
    found: list[Path] = []
    for folder, _, names in os.walk(Path(lite.__file__).parent, followlinks=True):
        place = Path(folder)
        if place.name == "__pycache__":
            kinds: tuple[str, ...] = (f"{sys.implementation.cache_tag}.pyc",)
        elif "assets" in place.parts:
            kinds = (".onnx", ".json", ".jinja", "README.md")
        else:
            kinds = (".py", ".pyi", ".typed", ".c")
        found += [place / name for name in names if name.endswith(kinds)]
    return found


def _required(packages: list[str]) -> list[str]:
    """The installed packages that these require, directly or indirectly."""
    known, waiting = {_canonical(name) for name in packages}, list(packages)
    found: list[str] = []
    while waiting:
        for line in metadata.requires(waiting.pop()) or []:
            requirement, _, marker = line.partition(";")
            name = _canonical(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
            if "extra" not in marker and name not in known and _bytes(name) is not None:
                known.add(name)
                found.append(name)
                waiting.append(name)
    return sorted(found)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _import(repeat: int) -> dict[str, float]:
    """Seconds, medians of processes."""
    taken = [_child(_IMPORT) for _ in range(repeat + 1)][1:]  # the first may compile, and reads from the disk
    return {
        name: statistics.median(t[i] for t in taken) for i, name in enumerate(("numpy", "lite over numpy"))
    }


def _memory(repeat: int) -> dict[str, Any]:
    """Resident bytes of a process that runs a policy, and of one that generates, at each stage."""
    return {"policy": _or_why_not(_MEMORY + _POLICY), "generation": _or_why_not(_MEMORY + _GENERATION)}


def _kernels(repeat: int) -> dict[str, Any]:
    """Seconds of a kernel's first call in a process: in the very first one, and the median of later ones."""
    found: dict[str, Any] = {}
    for name in ("prebuilt", "numba", "numpy"):
        found[name] = {}
        for kernel, arguments in _KERNELS.items():
            with tempfile.TemporaryDirectory() as folder:
                settings = {"LITE_KERNELS": name, "NUMBA_CACHE_DIR": folder}
                program = _FIRST_CALL.format(arguments)
                cold = _or_why_not(program, settings)
                if isinstance(cold, str):
                    found[name] = cold
                    break
                warm = statistics.median(_child(program, settings) for _ in range(repeat))
                found[name][kernel] = {"cold": cold, "warm": warm}
    return found


def _demo(repeat: int) -> Any:
    """Seconds of the whole process of `lite demo`: the very first one, and the median of later ones."""
    with tempfile.TemporaryDirectory() as folder:
        taken = []
        for _ in range(repeat + 1):
            start = time.perf_counter()
            said = _or_why_not(None, {"NUMBA_CACHE_DIR": folder})
            if isinstance(said, str):
                return said
            taken.append(time.perf_counter() - start)
    return {"cold": taken[0], "warm": statistics.median(taken[1:])}


PARTS: dict[str, Callable[[int], Any]] = {
    "installed": _installed, "import": _import, "memory": _memory, "kernels": _kernels, "demo": _demo,
}  # fmt: skip


def _child(program: str | None, settings: dict[str, str] | None = None) -> Any:
    """The JSON that a program, by default the demo, prints in its own process.

    Raises:
        RuntimeError: it failed; the message is the last line that it wrote.
    """
    arguments = ["-m", "lite", "demo", "--json"] if program is None else ["-c", program]
    environment = {**os.environ, **(settings or {})}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout)


def _or_why_not(program: str | None, settings: dict[str, str] | None = None) -> Any:
    """The result of a program, or a text with the reason why it did not run, such as a missing package."""
    try:
        return _child(program, settings)
    except RuntimeError as error:
        return f"not here: {error}"


# -- as text ---------------------------------------------------------------------------------------


def _print(facts: dict[str, Any]) -> None:
    print(f"Python {facts['python']} on {facts['machine']}, kernels by {facts['backend']}")
    for name, sizes in facts.get("installed", {}).items():
        missing = " (without what is not installed)" if None in sizes.values() else ""
        print(f"{name}: {_megabytes(sum(size or 0 for size in sizes.values()))} on disk{missing}")
        for package, size in sizes.items():
            print(f"  {package:<28} {'not installed' if size is None else _megabytes(size)}")
    if "import" in facts:
        print(", ".join(f"import {name}: {_milliseconds(s)}" for name, s in facts["import"].items()))
    for process, stages in facts.get("memory", {}).items():
        print(f"memory, {process}:{_lines(stages, _megabytes)}")
    for name, kernels in facts.get("kernels", {}).items():
        print(f"first call of a kernel, {name}:{_lines(kernels, _cold_and_warm)}")
    if "demo" in facts:
        demo = facts["demo"]
        print(f"lite demo: {demo if isinstance(demo, str) else _cold_and_warm(demo)}")


def _lines(values: Any, form: Callable[[Any], str]) -> str:
    if isinstance(values, str):
        return f" {values}"
    return "".join(f"\n  {name:<28} {'unknown' if x is None else form(x)}" for name, x in values.items())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def _cold_and_warm(seconds: dict[str, float]) -> str:
    return f"{_milliseconds(seconds['cold'])} at first, {_milliseconds(seconds['warm'])} in later processes"
