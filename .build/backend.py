"""setuptools, told to build in a folder of its own, and what the source distribution is made of.

A `build/` in the tree would keep files that were renamed since, and install them again.
"""

import functools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from setuptools import build_meta as standard
from setuptools.command.egg_info import manifest_maker

P = ParamSpec("P")
R = TypeVar("R")

# Without a list, tests/test_*.py would be shipped, though not the folders that they need.
manifest_maker.template = str(Path(".build", "manifest.in"))


@contextmanager
def _build_base() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "settings.cfg")
        settings.write_text(f"[build]\nbuild_base = {Path(folder, 'build')}\n")
        before = os.environ.get("DIST_EXTRA_CONFIG")
        os.environ["DIST_EXTRA_CONFIG"] = str(settings)
        try:
            yield
        finally:
            del os.environ["DIST_EXTRA_CONFIG"]
            if before is not None:
                os.environ["DIST_EXTRA_CONFIG"] = before


def _elsewhere(hook: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(hook)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with _build_base():
            return hook(*args, **kwargs)

    return call


get_requires_for_build_wheel = standard.get_requires_for_build_wheel
get_requires_for_build_editable = standard.get_requires_for_build_editable
get_requires_for_build_sdist = standard.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = standard.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = standard.prepare_metadata_for_build_editable
build_wheel = _elsewhere(standard.build_wheel)
build_editable = _elsewhere(standard.build_editable)
build_sdist = _elsewhere(standard.build_sdist)
