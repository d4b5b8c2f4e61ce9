"""lite in headless Chromium beside CPython here: `LITE_PYODIDE=FOLDER python bench/browser.py`.

`python tests/helpers/pyodide/install.py FOLDER` puts Pyodide there. Every round is a browser with an empty
cache, which gets everything from this machine: what a network adds is in the sizes.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from side_by_side import RESULTS, heading, machine

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.browser import browser  # noqa: E402
from helpers.pyodide import pages  # noqa: E402
from helpers.pyodide.install import VERSION  # noqa: E402

ROUNDS = 3
# Run in both; milliseconds of the first call, and the median of the following ones.
PROGRAM = """
import time
import numpy as np
from lite import TensorDict, nn
from lite.data import MultiStep
ANSWER = {}

def measure(name, call, rounds=30):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        count = 10 if times and times[0] < 100 else 1
        for _ in range(count):
            call()
        times.append(1e3 * (time.perf_counter() - start) / count)
    ANSWER[name] = [times[0], sorted(times[1:])[len(times) // 2 - 1]]

rng = np.random.default_rng(0)
def rollout(*batch):
    obs = rng.normal(size=(2, *batch, 4)).astype(np.float32)
    reward = rng.normal(size=(*batch, 1)).astype(np.float32)
    done = rng.random((*batch, 1)) < 0.05
    td = TensorDict({"obs": obs[0], "next": {"obs": obs[1]}}, batch_size=batch)
    return td.update({"next": {"reward": reward, "done": done}})

few, many, step = rollout(8, 100), rollout(64, 1000), MultiStep(0.99, 3)
measure("`MultiStep` of 8 x 100 steps", lambda: step(few))
measure("`MultiStep` of 64 x 1000 steps", lambda: step(many), rounds=4)
policy = nn.TensorDictModule(nn.MLP(4, 2, num_cells=[64, 64]), ["obs"], ["action"])
measure("a policy of 64 x 64 cells for 8 x 100 steps", lambda: policy(few))
measure("`td + 1`, 4 leaves of 8 x 100 steps", lambda: few.exclude(("next", "done")) + 1)

from lite.models import OnnxWrapper, embedded_model_path
def opened():
    options = {"min_new_tokens": 16, "max_new_tokens": 16, "do_sample": False}
    path, mode = embedded_model_path(), {"input_mode": "text", "runtime": "numpy", "generate": True}
    return OnnxWrapper(path, **mode, generate_kwargs=options)

measure("the embedded model is opened", opened, rounds=2)
chat, prompt = opened(), "<|im_start|>user What is 17 + 25?<|im_end|> <|im_start|>assistant "
asked = TensorDict({"text": {"prompt": [prompt] * 4}}, batch_size=[4])
measure("it writes 16 tokens to 4 prompts", lambda: chat(asked), rounds=2)
"""
SITE = ROOT / ".site"
PAGE = (SITE / "browser" / "cells" / "cartpole.py").read_text(encoding="utf-8")
assert "number == 100" in PAGE
PROGRAM += f"""
import contextlib, io, pathlib, sys, tempfile
sys.path.append(folder := tempfile.mkdtemp())
pathlib.Path(folder, "svg.py").write_text({(SITE / "svg.py").read_text(encoding="utf-8")!r})
learns = {PAGE.replace("number == 100", "number == 5")!r}
begin = time.perf_counter()
with contextlib.redirect_stdout(io.StringIO()):
    exec(learns, {{"__name__": "__main__"}})
ANSWER["PPO of the site's page, 2560 steps of CartPole"] = [1e3 * (time.perf_counter() - begin)]
"""


def in_a_browser(pyodide: Path) -> tuple[dict[str, Any], dict[str, list[float]], dict[str, int]]:
    """Milliseconds until each step of loading is done; times of the program; bytes of what was loaded."""
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as shown:
        wheel = pages.make_site(Path(folder), pyodide)
        example = (ROOT / "tests" / "examples" / "n_step_returns.html").read_text(encoding="utf-8")
        pages.add_page(wheel.parent, "index.html", example)
        with pages.served(wheel.parent) as address:
            shown.visit(address)
            pages.wait_for(shown, "return document.querySelector('.returns') !== null")
            marks = shown.ask("return performance.getEntriesByType('mark').map((m) => [m.name, m.startTime])")
            sizes = dict(
                shown.ask(
                    "return performance.getEntriesByType('resource').map("
                    "(r) => [r.name.split('/').pop(), r.decodedBodySize])"
                )
            )
            times = pages.run_python(shown, PROGRAM)
            sizes["memory"] = shown.ask("return python._module.HEAP8.length")
        with zipfile.ZipFile(wheel) as archive:
            model = [
                entry.compress_size for entry in archive.infolist() if "tiny_chat/assets" in entry.filename
            ]
            sizes["model"] = sum(model)
    steps, before = {}, 0.0
    for name, at in marks:
        steps[name], before = at - before, at
    return steps, times, sizes


def in_cpython(kernels: str) -> dict[str, list[float]]:
    """Times of the program in a process of its own, with one thread, as in a browser."""
    told = subprocess.run(
        [sys.executable, "-c", f"{PROGRAM}\nimport json\nprint(json.dumps(ANSWER))"],
        env={**os.environ, "LITE_KERNELS": kernels, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return json.loads(told)


def middle(values: list[float]) -> str:
    value = statistics.median(values)
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.3g}"


def main() -> None:
    about = machine()
    pyodide = Path(os.environ["LITE_PYODIDE"]).resolve()
    rounds = [in_a_browser(pyodide) for _ in range(ROUNDS)]
    here = {kernels: [in_cpython(kernels) for _ in range(ROUNDS)] for kernels in ("numpy", "numba")}
    sizes = rounds[0][2]
    total = sum(size for name, size in sizes.items() if name not in ("memory", "model", "favicon.ico"))
    lines = [
        *heading("In a browser", {**about, "Pyodide": VERSION, "browser": "headless Chromium"}),
        f"Medians of {ROUNDS} browsers that start empty; everything is loaded from the same machine.",
        "",
        "| until the page has drawn | ms | MB |",
        "|---|--:|--:|",
    ]
    loaded = {
        "Pyodide": sum(sizes[n] for n in sizes if n.startswith(("pyodide", "python_stdlib"))),
        "NumPy and micropip": sum(sizes[n] for n in sizes if n.startswith(("numpy", "micropip"))),
        "lite's wheel": sum(sizes[n] for n in sizes if n.startswith("tensordict_lite")),
    }
    for name in rounds[0][0]:
        size = f"{loaded[name] / 1e6:.1f}" if name in loaded else ""
        lines.append(f"| {name} | {middle([steps[name] for steps, _, _ in rounds])} | {size} |")
    model, memory = sizes["model"] / 1e6, sizes["memory"] / 1e6
    lines += [
        "",
        f"{total / 1e6:.1f} MB before compression; {model:.1f} MB of lite's wheel are its language model.",
        f"The page's Python has {memory:.0f} MB of memory after the calls below. It has drawn before, so",
        "that the kernels of `MultiStep` are imported.",
        "",
        "One thread each; a single number is a first call.",
        "",
        "| ms: first call, later ones | browser | CPython, `LITE_KERNELS=numpy` | CPython, Numba |",
        "|---|--:|--:|--:|",
    ]
    for name in rounds[0][1]:
        cells = [[times[name] for _, times, _ in rounds], *([t[name] for t in here[k]] for k in here)]
        shown = [", ".join(middle(list(times)) for times in zip(*cell, strict=True)) for cell in cells]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    text = "\n".join(lines) + "\n"
    print(text)
    (RESULTS / "browser.md").write_text(text)


if __name__ == "__main__":
    main()
