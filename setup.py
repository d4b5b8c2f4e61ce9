"""Builds in a folder of its own: what was renamed stays in a `build/` in the tree, and is installed again."""

import tempfile

from setuptools import setup

with tempfile.TemporaryDirectory() as folder:
    setup(options={"build": {"build_base": folder}})
