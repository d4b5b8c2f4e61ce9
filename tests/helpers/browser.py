"""Headless Chromium, spoken to in WebDriver's protocol: what a page is after a browser has read it."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Flags without which it needs a screen, a sandbox that containers lack, or asks servers of its own.
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
_SECONDS = 240  # that a script may take, on a machine that is busy with other tests


class Browser:
    """A browser that shows one page at a time."""

    def __init__(self, server: str, folder: Path) -> None:
        self._server, self._folder = server, folder
        options = {"args": [*_FLAGS, f"--user-data-dir={folder / 'profile'}"]}
        timeouts = {"script": 1000 * _SECONDS}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "timeouts": timeouts}}}
        self._session = f"/session/{self._post('/session', wanted)['sessionId']}"

    def open(self, html: str) -> None:
        """Show a page."""
        file = self._folder / "page.html"
        file.write_text(html, encoding="utf-8")
        self.visit(file.as_uri())

    def visit(self, address: str) -> None:
        """Show the page that is there."""
        self._post(f"{self._session}/url", {"url": address})

    def ask(self, script: str) -> Any:
        """What a script in the page returns."""
        return self._post(f"{self._session}/execute/sync", {"script": script, "args": []})

    def close(self) -> None:
        """End the browser."""
        self._call(urllib.request.Request(self._server + self._session, method="DELETE"))

    def _post(self, path: str, content: dict[str, Any]) -> Any:
        data = json.dumps(content).encode()
        return self._call(
            urllib.request.Request(self._server + path, data, {"Content-Type": "application/json"})
        )

    def _call(self, request: urllib.request.Request) -> Any:
        # Not through a proxy of the environment: it runs on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=_SECONDS + 30) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:  # its text says which line of the script, and why
            raise RuntimeError(json.load(error)["value"]["message"]) from error


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser of its own, skipping the test where there is none."""
    driver = shutil.which("chromedriver")
    if driver is None or not (shutil.which("chromium") or shutil.which("google-chrome")):
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            shown = Browser(_ready(f"http://127.0.0.1:{port}"), folder)
            try:
                yield shown
            finally:
                shown.close()
        finally:
            process.terminate()


def _ready(server: str) -> str:
    limit = time.monotonic() + 30
    while True:
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{server}/status"):
                return server
        except OSError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.05)
