"""setuptools, told to build in a folder of its own, and what the source distribution is made of.

A `build/` in the tree would keep files that were renamed since, and install them again. What is built is
written anew by `archives`, so that the same sources give the same bytes.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import archives
from setuptools import build_meta as standard
from setuptools.command.egg_info import manifest_maker

# Without a list, tests/test_*.py would be shipped, though not the folders that they need.
manifest_maker.template = str(Path(".build", "manifest.in"))


@contextmanager
def _build_base() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "settings.cfg")
        settings.write_text(f"[build]\nbuild_base = {Path(folder, 'build')}\n", encoding="utf-8")
        before = os.environ.get("DIST_EXTRA_CONFIG")
        os.environ["DIST_EXTRA_CONFIG"] = str(settings)
        try:
            yield
        finally:
            del os.environ["DIST_EXTRA_CONFIG"]
            if before is not None:
                os.environ["DIST_EXTRA_CONFIG"] = before


def build_editable(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    with _build_base():
        name: str = standard.build_editable(wheel_directory, config_settings, metadata_directory)
    return name


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    with _build_base():
        name: str = standard.build_wheel(wheel_directory, config_settings, metadata_directory)
    archives.rewrite_wheel(Path(wheel_directory, name))
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    with _build_base():
        name: str = standard.build_sdist(sdist_directory, config_settings)
    archives.rewrite_sdist(Path(sdist_directory, name))
    return name


get_requires_for_build_wheel = standard.get_requires_for_build_wheel
get_requires_for_build_editable = standard.get_requires_for_build_editable
get_requires_for_build_sdist = standard.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = standard.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = standard.prepare_metadata_for_build_editable
