"""Shared fixtures, which tests run and where, and a Numba cache.

Two tiers: what `pytest` runs by itself shows every behaviour once; the markers of pyproject.toml leave out
the rest, which `pytest --all` runs, too. A test that is named (`file.py::test`) runs in any case.

Numba stamps a cached function with its own file only, so a changed helper in another file would
run stale; keying the cache folder on all kernel sources rules that out.
"""

import atexit
import gc
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from helpers import hanging, kernels_under_test, simulator
from helpers.kernels import switched
from hypothesis.internal.conjecture import providers

_KERNELS = Path(__file__).parents[1] / "kernels"
_SOURCES = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(_KERNELS.rglob("*.py"))))
_CACHE = f"{tempfile.gettempdir()}/lite-numba-{_SOURCES.hexdigest()[:16]}"
if sys.dont_write_bytecode:  # images of containers say so, and each process would compile all sources anew
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    _BYTECODE = os.environ.setdefault("PYTHONPYCACHEPREFIX", str(_KERNELS.parent / ".pytest_cache/bytecode"))
    sys.dont_write_bytecode, sys.pycache_prefix = False, _BYTECODE
# Else what renders has SDL catch SIGTERM, also in processes that are forked later, which then nobody can end.
os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")
# For the workers, which import NumPy later: two threads of OpenBLAS in each waited for the other on two
# cores, and the scripts took 62 seconds of processor time, for 21 with one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # those of torch spin, too: a third of the time beside it
os.environ.setdefault("LITE_NUM_THREADS", "1")  # threads of onnxruntime wait by spinning: 7 s of 90
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # many tests import onnxruntime before lite does

# No test asserts a time, which a busy machine would fail.
hypothesis.settings.register_profile(
    "lite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("lite")
# Else each worker parses all sources for numbers to draw: 7 s in a fresh clone, 1 s later. And what is drawn
# would depend on the modules that other tests have imported.
providers._get_local_constants = lambda: providers._local_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help='run every test, as -m "" does')


def pytest_configure(config: pytest.Config) -> None:
    if config.option.all or any("::" in argument for argument in config.args):
        config.option.markexpr = ""
    _choose_compiler(bool(config.option.markexpr) and not kernels_under_test.ON_DEVICE)
    config.pluginmanager.register(switched)  # for examples, too, which lie outside of this folder
    config.pluginmanager.register(hanging)


def _choose_compiler(fast: bool) -> None:
    """Where kernels are kept and, where not every test runs, how: LLVM's optimisation takes a third of
    the time to compile them. `--all` compiles as users do."""
    if "NUMBA_CACHE_DIR" in os.environ:  # by the user, or by the process that started this worker
        return
    os.environ["NUMBA_CACHE_DIR"] = f"{_CACHE}-unoptimised" if fast else _CACHE
    if fast:
        os.environ.setdefault("NUMBA_OPT", "0")


gc.disable()  # until all tests are known: their objects stay, and would be visited again and again


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)  # 3% of the time of small tests


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    gc.collect()
    gc.freeze()  # pytest collects five times more, which took 4 seconds


# Every second worker collects from the end, and finds compiled what the others have collected by then.
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
if _WORKER:  # after all handlers that tests register: freeing what is left, object by object, took 5 seconds
    atexit.register(os._exit, 0)
_FROM_THE_END = bool(_WORKER) and int(_WORKER.removeprefix("gw")) % 2 == 1


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if _FROM_THE_END and isinstance(collector, pytest.Directory):
        report.result.reverse()
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Files of tests have no examples, which would be searched for in all that they import."""
    found = yield
    return [collector for collector in found if not isinstance(collector, DoctestModule)]


def pytest_report_header() -> str:
    where = "on a GPU" if simulator.gpu_found() else "in Numba's simulator: no GPU was found"
    return f"CUDA kernels: tested {where}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _WORKER:  # all are to have the same order
        items.sort(key=lambda item: str(item.path))
    if kernels_under_test.ON_DEVICE:
        host = [item for item in items if item.get_closest_marker("host_only")]
        config.hook.pytest_deselected(items=host)
        items[:] = [item for item in items if item not in host]


_left_out = 0  # tests that markers leave out; each worker counts the same ones


def pytest_deselected(items: list[pytest.Item]) -> None:
    global _left_out
    _left_out += len(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = _left_out


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    global _left_out
    _left_out = max(_left_out, getattr(node, "workeroutput", {}).get("left_out", 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _left_out and terminalreporter.config.option.markexpr:
        tests = "grids, random programs in depth, killed processes and code for other targets"
        terminalreporter.write_line(f"{_left_out} tests left out ({tests}): `pytest --all` runs them, too")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The tests of a file share a worker; so do all of compiled kernels, all that start Ray, and the
    examples of classes and functions, of which many compile the same kernels."""
    from xdist.scheduler import LoadFileScheduling

    class Places(list[str]):
        """Test ids, which xdist looks up one by one: in a list of 19,000 that took four seconds."""

        def __init__(self, ids: Iterable[str]) -> None:
            super().__init__(ids)
            self._at = {id: at for at, id in enumerate(self)}

        def index(self, id: str, *_: Any) -> int:
            return self._at[id]

    class Scheduling(LoadFileScheduling):
        def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
            super().add_node_collection(node, collection)
            if node in self.registered_collections:
                self.registered_collections[node] = Places(collection)

        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if file.startswith("lite/"):
                return "examples"
            if re.match(r"tests/kernels/(cpu/)?\w+\.py", file):
                return "kernels"  # two workers compiled the same ones at the same time
            return "ray" if re.search(r"_ray[_.]", file) else file

        def schedule(self) -> None:
            super().schedule()  # begins with the files of most tests
            few = [file for file, tests in self.workqueue.items() if len(tests) < 4]
            for file in [*few, "ray", "kernels", "examples"]:  # long ones, for which nobody waits at the end
                if file in self.workqueue:
                    self.workqueue.move_to_end(file, last=False)

    return Scheduling(config, log)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Helper modules are imported by the tests that need them, never collected (for doctests) themselves."""
    inside = Path(__file__).parent in collection_path.parents
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith(("test_", "conftest"))
    return True if inside and helper else None


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def only_new_garbage() -> None:
    """`gc.collect()` looks only at what a test makes; all objects of the process take a fifth of a second."""
    gc.freeze()
