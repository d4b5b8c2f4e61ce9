"""Command line: the one place that composes lite, lite.kernels and lite.models."""

from lite.cli.main import main

__all__ = ["main"]
