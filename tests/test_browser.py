"""lite in a browser: its wheel in Pyodide, in headless Chromium, beside what it does here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.browser import Browser, browser
from helpers.pyodide import pages
from helpers.readme_blocks import blocks

from lite import TensorDict
from lite.data import MultiStep

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[1]
# The runner of READMEs, in a folder like the root of a checkout.
RUN_README = """
import contextlib, io, os, pathlib, sys, tempfile, warnings

for name, text in GIVEN["files"].items():
    path = pathlib.Path("/checkout") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
sys.path.insert(0, "/checkout/tests/helpers")
import readme_blocks

os.chdir(tempfile.mkdtemp())
with contextlib.redirect_stdout(io.StringIO()) as told, warnings.catch_warnings():
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "onnxruntime is not installed")
    readme_blocks._main(GIVEN["readme"])
ANSWER = json.loads(told.getvalue().splitlines()[-1])
"""
# What a browser refuses, refused here.
REFUSE = """
import os, subprocess, sys, threading, time

def refuse(*args, **kwargs):
    raise RuntimeError("a browser has neither threads nor processes")

threading.Thread.start = subprocess.Popen.__init__ = refuse
for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp"):
    delattr(os, name)
lacking = "numba llvmlite onnxruntime tokenizers _multiprocessing _posixshmem"
others = "gymnasium h5py jax onnx safetensors tensordict torch"
sys.modules.update(dict.fromkeys(f"{lacking} {others}".split()))
os.cpu_count = lambda: 1
del os.sched_getaffinity, time.thread_time
import readme_blocks

for readme in sys.argv[1:]:
    readme_blocks._main(readme)
"""


class Page(NamedTuple):
    browser: Browser
    site: Path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The example's page, when it has drawn something; nothing comes from any other machine."""
    pyodide = pages.need_pyodide()
    folder = tmp_path_factory.mktemp("browser")
    with browser(folder) as shown:
        wheel = pages.make_site(folder, pyodide)
        example = (ROOT / "tests" / "examples" / "n_step_returns.html").read_text(encoding="utf-8")
        pages.add_page(wheel.parent, "index.html", example)
        with pages.served(wheel.parent) as address:
            shown.visit(address)
            says = "const says = document.getElementById('status').textContent;"
            said = pages.wait_for(shown, f"{says} return !says.startsWith('Loading') && says")
            assert said.startswith("lite on Python 3."), said
            yield Page(shown, wheel.parent)


def test_what_is_installed_there_needs_no_compiler() -> None:
    """micropip refuses a package if one of its dependencies has no wheel for a browser."""
    required = (ROOT / ".build" / "dependencies.txt").read_text(encoding="utf-8").splitlines()
    everywhere = [name for name in required if not name.endswith("sys_platform != 'emscripten'")]
    assert [name.partition(">")[0] for name in everywhere] == ["numpy"]


READMES = [
    ("README.md", 3, 5), ("lite/README.md", 1, 3), ("lite/guides/tensordicts/what-it-is.md", 1, 3),
    ("lite/guides/tensordicts/porting.md", 2, 7), ("lite/guides/data/replay-buffers.md", 1, 1),
    ("lite/guides/data/specs.md", 1, 4), ("kernels/README.md", 1, 0),
]  # fmt: skip


def check_results(results: list[dict[str, Any]], run: int, values: int) -> None:
    """Blocks that need packages which a browser lacks are skipped, as where these are not installed."""
    assert [result for result in results if "failed" in result] == []
    assert sum("skipped" not in result for result in results) >= run
    assert sum(result["stated"] for result in results) >= values


def test_readme_examples_without_threads_and_processes(tmp_path: Path) -> None:
    """For machines without a browser: CPython, with what WebAssembly lacks taken away."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "helpers")])
    environment = {**os.environ, "PYTHONPATH": paths, "LITE_KERNELS": "numpy"}
    numpy = "ignore:onnxruntime is not installed"  # models run on NumPy there, and say so
    command = [sys.executable, "-W", "error", "-W", numpy, "-c", REFUSE, *(name for name, _, _ in READMES)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = [line for line in done.stdout.splitlines() if line.startswith("[{")]
    for answer, (_, run, values) in zip(answers, READMES, strict=True):
        check_results(json.loads(answer), run, values)


@pytest.mark.parametrize(("readme", "run", "values"), READMES)
def test_readme_examples(page: Page, readme: str, run: int, values: int) -> None:
    names = (readme, "tests/helpers/readme_blocks.py")
    files = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    check_results(pages.run_python(page.browser, RUN_README, files=files, readme=readme), run, values)


def test_the_page_of_the_readme(page: Page) -> None:
    (block,) = (block for block in blocks("lite/guides/tensordicts/browser.md") if block.language == "html")
    listens = "<!doctype html><script>said = []; console.log = (text) => said.push(text)</script>"
    pages.add_page(page.site, "readme.html", listens + block.source)
    page.browser.ask(
        "const frame = document.createElement('iframe');"
        "[frame.id, frame.src] = ['frame', 'readme.html']; document.body.append(frame)"
    )
    said = "document.getElementById('frame').contentWindow.said"
    pages.wait_for(page.browser, f"return ({said} ?? []).some((text) => text.includes('TensorDict('))")
    assert "Array(shape=(2,)" in page.browser.ask(f"return {said}.join(' ')")


def test_slices_are_drawn(page: Page) -> None:
    """Where addresses have 32 bits, NumPy refuses numbers of 64 in some places."""
    program = """
import numpy as np
from lite import TensorDict
from lite.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer

ANSWER = []
done = np.arange(60)[:, None] % 7 == 6
rows = TensorDict({"step": np.arange(60), "next": {"done": done, "terminated": done}}, batch_size=[60])
for options in ({}, {"strict_length": False}, {"span": True}):
    sampler = SliceSampler(slice_len=5, generator=0, **options)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(60), sampler=sampler, batch_size=20)
    buffer.extend(rows)
    ANSWER.append(buffer.sample()["step"].tolist())
"""
    here: dict[str, Any] = {}
    exec(program, here)
    assert pages.run_python(page.browser, program) == here["ANSWER"]


def test_nothing_is_loaded_that_a_browser_lacks(page: Page) -> None:
    program = "import sys, lite.kernels\nANSWER = [lite.kernels.backend(), sorted(sys.modules)]"
    backend, modules = pages.run_python(page.browser, program)
    assert backend == "numpy"
    lacking = {"numba", "llvmlite", "onnxruntime", "multiprocessing.shared_memory", "_multiprocessing"}
    assert not lacking & set(modules)


def shown_returns(browser: Browser) -> Any:
    """The line of the example, in numbers: heights of points over the axis."""
    points = browser.ask("return document.querySelector('.returns').getAttribute('points')")
    return np.array([190 - float(point.split(",")[1]) for point in points.split()])


def test_the_example_draws_returns(page: Page) -> None:
    reward = (np.random.default_rng(7).random((1, 60, 1)) < 0.15).astype(np.float32)
    done = np.zeros((1, 60, 1), bool)
    done[:, [29, 59]] = True
    steps = np.zeros((1, 60, 1), np.float32)
    rollout = TensorDict(
        {"obs": steps, "next": {"obs": steps, "reward": reward, "done": done}}, batch_size=[1, 60]
    )
    for n_steps, gamma in ((5, 0.9), (20, 0.99)):
        page.browser.ask(f"""
            n_steps.value = {n_steps}
            gamma.value = {gamma}
            gamma.oninput()""")
        returns = MultiStep(gamma, n_steps)(rollout)["next", "reward"].ravel()
        np.testing.assert_allclose(
            shown_returns(page.browser), 180 * returns / max(1, returns.max()), atol=1e-4
        )
    assert page.browser.ask("return document.querySelectorAll('.reward').length") == reward.sum()
