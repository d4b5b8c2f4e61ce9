"""The `lite` command: the one place that composes lite, lite.kernels and lite.models.

In reading order:

- `commands`: what each command takes, its examples, what is checked at once
- `main`: runs the command that is named, and tells errors in a line
- `demo`, `generate` (with `chat`), `score`, `mismatch`, `info` (with `info_files`), `bench`, `footprint`,
  `warmup`: the commands, imported when they are named
- `options`, `prompts`, `reply`, `text_stream`: flags of generation, what is read, what is printed as it comes
- `model`, `on_ray`: the model of a command; the same work in a Ray cluster
- `progress`: what is said on standard error
- `output_files`, `pages`: pages
"""

from lite.cli.main import main

__all__ = ["main"]
