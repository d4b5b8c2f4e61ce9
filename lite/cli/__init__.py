"""The `lite` command: the one place that composes lite, lite.kernels and lite.models.

`main` parses the arguments and imports the file of the command alone: `demo`, `generate`, `score`,
`mismatch`, `info` or `warmup`. `model` loads a model folder for them.
"""

from lite.cli.main import main

__all__ = ["main"]
