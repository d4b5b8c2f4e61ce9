"""Pages that run lite in headless Chromium: what they need, served from this machine alone."""

from __future__ import annotations

import functools
import http.server
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.browser import Browser
from helpers.building import build, copy_of_the_checkout
from helpers.pyodide.install import CDN


def need_pyodide() -> Path:
    """The folder with Pyodide's files, skipping the test where there is none."""
    folder = os.environ.get("LITE_PYODIDE")
    if not folder:
        pytest.skip(
            "needs Pyodide: `python tests/helpers/pyodide/install.py FOLDER`, "
            "and LITE_PYODIDE=FOLDER in the environment"
        )
    if not list(Path(folder).glob("numpy-*.whl")) or not (Path(folder) / "pyodide.mjs").is_file():
        raise FileNotFoundError(f"LITE_PYODIDE={folder} lacks pyodide.mjs or NumPy's wheel")
    return Path(folder).resolve()


def make_site(folder: Path, pyodide: Path) -> Path:
    """A folder for pages: lite's wheel, and Pyodide in `pyodide/`. Gives the wheel."""
    wheel = build("wheel", copy_of_the_checkout(folder / "source"), folder / "site")
    (wheel.parent / "pyodide").symlink_to(pyodide, target_is_directory=True)
    return wheel


def add_page(site: Path, name: str, html: str) -> None:
    """A page that takes Pyodide from the site and not from where everybody else does."""
    assert html.count(CDN) == 1, f"{name} must name {CDN} once"
    (site / name).write_text(html.replace(CDN, "./pyodide/"), encoding="utf-8")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of a server of the folder."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def wait_for(browser: Browser, script: str, seconds: float = 120.0) -> Any:
    """What the script gives once that is true."""
    limit = time.monotonic() + seconds
    while not (answer := browser.ask(script)):
        assert time.monotonic() < limit, f"not after {seconds} s: {script}"
        time.sleep(0.1)
    return answer


def run_python(browser: Browser, program: str, **values: Any) -> Any:
    """Run a program in the page's Python: it finds `values` in `GIVEN` and leaves its answer in `ANSWER`."""
    source = f"import json\nGIVEN = json.loads({json.dumps(values)!r})\n{program}\njson.dumps(ANSWER)"
    call = f"python.runPython({json.dumps(source)}, {{globals: python.toPy({{}})}})"
    return json.loads(browser.ask(f"return {call}"))
