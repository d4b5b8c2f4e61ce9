"""Builds in a folder of its own: a `build/` in the tree keeps files that were renamed, and installs them again."""

import tempfile

from setuptools import setup

with tempfile.TemporaryDirectory() as folder:
    setup(options={"build": {"build_base": folder}})
