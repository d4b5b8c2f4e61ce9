"""A language model run by NumPy beside onnxruntime: `python bench/numpy_runtime.py`.

The embedded model writes 32 tokens and scores 128, with 1 row and with 16, on one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LITE_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from side_by_side import arguments, machine, measure, place, report, row  # noqa: E402

from lite.models import GenerationConfig, OnnxDecoder, embedded_model_path, generate, score  # noqa: E402

RUNTIMES = {"lite": "numpy", "onnxruntime": "onnxruntime"}


def cases() -> dict[str, dict[str, Callable[[], Any]]]:
    """Alternatives by name; the first one is NumPy."""
    decoders = {
        name: OnnxDecoder(embedded_model_path(), runtime=runtime, num_threads=1)
        for name, runtime in RUNTIMES.items()
    }
    config = GenerationConfig(max_new_tokens=32, do_sample=False)
    rng, found = np.random.default_rng(0), {}
    for count in (1, 16):
        prompts = list(rng.integers(3, 600, (count, 16)))
        texts = list(rng.integers(3, 600, (count, 128)))
        found[f"32 tokens written, rows: {count}"] = {
            name: partial(generate, decoder, prompts, config) for name, decoder in decoders.items()
        }
        found[f"128 tokens scored, rows: {count}"] = {
            name: partial(score, decoder, texts) for name, decoder in decoders.items()
        }
    return found


def main() -> None:
    asked = arguments(__doc__, rounds=11).parse_args()
    about = machine(onnxruntime) | {"threads": 1}
    rows = [row(name, "onnxruntime", measure(runs, asked.rounds)) for name, runs in cases().items()]
    report(place(asked), "numpy_runtime", "A language model on NumPy", rows, about)


if __name__ == "__main__":
    main()
