"""How a step of learning grows with tokens: seconds and memory, up to 8 x 2048.

`python bench/learning_growth.py` takes LoRA steps (rank 8) on the embedded model, whose attention is spelled
out by its exporter: log-probs of 8 rows, their gradient, AdamW. Each length has a process of its own, so that
a peak of memory is its own; the lengths take turns. One thread, whose processor time another program on the
machine hardly changes. A further step runs under a profiler, which tells attention, whose work grows with
the square of the length, from all else. What its seven products of half of all pairs take at the speed of
NumPy's product of 1024 x 1024 numbers stands beside it. With "memory kept", glibc gives freed memory back
to later arrays and not to the system, which zeroes each page that it hands out again.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LITE_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from side_by_side import arguments, heading, machine, place, pyplot, resident, show  # noqa: E402

ROWS, LENGTHS = 8, (128, 256, 512, 1024, 2048)
# Parts of a run that is computed again in the backward pass, and variables of the process.
VARIANTS: dict[str, tuple[int, dict[str, str]]] = {
    "whole": (0, {}),
    "whole, memory kept": (0, {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}),
    "in 8 parts": (8, {}),
}
ATTENTION = ("cpu/attention.py", "layers/masked_attention.py")  # the kernel, and what its masks say
STEPS = 4  # the first compiles, and is not counted


def child(length: int, parts: int) -> None:
    """Take steps, and print what they took."""
    from lite import optim, value_and_grad
    from lite.models import OnnxDecoder, embedded_model_path
    from lite.models.learning.token_log_probs import token_log_probs_of

    decoder = OnnxDecoder(embedded_model_path())
    assert decoder.config is not None
    model = token_log_probs_of(
        decoder.config, decoder.spec, lora={"rank": 8, "rng": 0}, max_tokens=ROWS * length, checkpoint=parts
    )
    rng = np.random.default_rng(0)
    rows = list(rng.integers(3, decoder.vocab_size, (ROWS, length)))
    params = model.graph.adapter_params().data.clone()
    adam = optim.AdamW(1e-4)
    state = adam.init(params)

    def loss(params: Any) -> Any:
        with params.to_module(model.graph):
            return -model(rows)[0].mean()

    before = resident("VmRSS")
    wall, processor = [], []
    for _ in range(STEPS):
        start, used = time.perf_counter(), time.process_time()
        _, grads = value_and_grad(loss)(params)
        params, state = adam.update(params, grads, state)
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    memory = resident("VmHWM") - before
    profile = cProfile.Profile(time.process_time)
    profile.runcall(value_and_grad(loss), params)
    own = {True: 0.0, False: 0.0}
    stats: Any = pstats.Stats(profile)
    for (file, *_), (_, _, seconds, _, _) in stats.stats.items():
        own["/".join(Path(file).parts[-2:]) in ATTENTION] += seconds
    raw = decoder.config.raw
    pairs = ROWS * length**2 * raw["num_attention_heads"] * raw["num_hidden_layers"] / 2
    taken = {"wall": min(wall[1:]), "cpu": min(processor[1:]), "memory": memory}
    taken |= {"attention": own[True], "rest": own[False], "products": 7 * pairs * raw["head_dim"] / _speed()}
    print(json.dumps(taken))


def _speed() -> float:
    """Multiplications of NumPy's product in a second."""
    size, taken = 1024, []
    x = np.ones((size, size), np.float32)
    for _ in range(20):
        start = time.process_time()
        np.dot(x, x)
        taken.append(time.process_time() - start)
    return float(size**3 / min(taken))


def measured(length: int, parts: int, variables: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", str(length), str(parts)]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(found: dict[str, list[dict[str, float]]], about: dict[str, Any]) -> list[str]:
    lines = [
        *heading("Steps of learning by tokens", about),
        f"LoRA steps on the embedded model, {ROWS} rows. Processor seconds (minima) and megabytes that the",
        "process grows by at its peak; the exponent is that of tokens over the last two lengths.",
        "Attention, whose products are quadratic in the length, and all else are of a step under a profiler.",
        "",
        f"| | {' | '.join(f'{ROWS} x {length}' for length in LENGTHS)} | exponent |",
        f"|---|{'--:|' * (len(LENGTHS) + 1)}",
    ]
    for name, rows in found.items():
        for key, unit in (
            ("cpu", "s"),
            ("attention", "attention, s"),
            ("products", "its products by NumPy, s"),
            ("rest", "all else, s"),
            ("memory", "MB"),
        ):
            values = [row[key] for row in rows]
            exponent = np.log2(values[-1] / values[-2])
            cells = " | ".join(f"{value:.3g}" for value in values)
            lines.append(f"| {name}, {unit} | {cells} | {exponent:.2f} |")
    return [*lines, "", "![growth](learning_growth.svg)"]


def plot(found: dict[str, list[dict[str, float]]], file: Path) -> None:
    plt = pyplot()
    plt.rcParams["svg.fonttype"] = "none"
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    tokens = [ROWS * length for length in LENGTHS]
    for axis, key, title in zip(axes, ("cpu", "memory"), ("processor seconds", "megabytes"), strict=True):
        for name, rows in found.items():
            axis.plot(tokens, [row[key] for row in rows], "o-", label=name)
        axis.set(xlabel="tokens", ylabel=title, xlim=0, ylim=0)
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = arguments(__doc__, 1, "processes of each length")
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(*args.child)
        return
    about = machine()
    found: dict[str, list[dict[str, float]]] = {name: [{}] * len(LENGTHS) for name in VARIANTS}
    for _ in range(args.rounds):
        for i, length in enumerate(LENGTHS):
            for name, variant in VARIANTS.items():
                new, old = measured(length, *variant), found[name][i]
                found[name][i] = {key: min(value, old.get(key, value)) for key, value in new.items()}
                print(name, length, found[name][i], flush=True)
    folder = place(args)
    show(folder, "learning_growth", table(found, about), {"about": about, "lengths": LENGTHS, "rows": found})
    if folder is not None:
        plot(found, folder / "learning_growth.svg")


if __name__ == "__main__":
    main()
