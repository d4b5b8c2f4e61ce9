"""How a step of learning grows with tokens: seconds and memory, up to 8 x 2048.

    python bench/learning_growth.py [DIR]    # DIR: of bench/llm_models.py, for SmolLM2-135M's shape, too

It takes LoRA steps (rank 8): log-probs of 8 rows, their gradient, AdamW. The embedded model's attention is
spelled out by its exporter, the larger one's is an operator beside q, k and v of one matrix. Each length has
a process of its own, so that a peak of memory is its own; the lengths take turns. One thread, whose processor
time another program on the machine hardly changes: where there are several, those that wait for others count.
A step under a profiler tells attention, whose work grows with the square of the length, from all else. What
its products of half of all pairs take at the speed of NumPy's product of 1024 x 1024 numbers stands beside
it: two of them forward, five backward, and two for parts that are computed again in the backward pass. With
"memory given back", glibc gives freed memory to the system as it does for other programs than those that
learn, and the system zeroes each page that it hands out again.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import math
import os
import pstats
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LITE_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from side_by_side import arguments, heading, machine, place, pyplot, resident, show  # noqa: E402

ROWS, LENGTHS = 8, (128, 256, 512, 1024, 2048)


class Variant(NamedTuple):
    """What is measured.

    Attributes:
        model: "embedded", or "135M" for SmolLM2-135M's shape.
        parts: parts of a run that is computed again in the backward pass.
        steps: how many are timed, of which the fastest counts; 0 for that under the profiler, of few calls.
        variables: variables of the process.
    """

    model: str
    parts: int
    steps: int
    variables: dict[str, str]


VARIANTS = {
    "whole": Variant("embedded", 0, 3, {}),
    "whole, memory given back": Variant("embedded", 0, 3, {"MALLOC_ARENA_MAX": "16"}),
    "in 8 parts": Variant("embedded", 8, 3, {}),
    "135M in 30 parts": Variant("135M", 30, 0, {}),
}
ATTENTION = ("cpu/attention.py", "layers/masked_attention.py")  # the kernel, and what its masks say


def child(name: str, length: int, folder: Path | None) -> None:
    """Take steps, and print what they took."""
    from lite import optim, value_and_grad
    from lite.models import OnnxDecoder, embedded_model_path
    from lite.models.learning.token_log_probs import token_log_probs_of

    variant = VARIANTS[name]
    path = embedded_model_path() if folder is None else folder / "genai-fp32"
    decoder = OnnxDecoder(path)
    config, spec, vocabulary = decoder.config, decoder.spec, decoder.vocab_size
    assert config is not None
    del decoder  # with its own copy of the weights
    lora: dict[str, Any] = {"rank": 8, "rng": 0} | ({} if folder is None else {"targets": ["*qkv_proj"]})
    model = token_log_probs_of(config, spec, lora=lora, max_tokens=ROWS * length, checkpoint=variant.parts)
    rng = np.random.default_rng(0)
    params = model.graph.adapter_params().data.clone()
    adam = optim.AdamW(1e-4)
    state = adam.init(params)

    def step(rows: list[Any]) -> None:
        nonlocal params, state

        def loss(params: Any) -> Any:
            with params.to_module(model.graph):
                return -model(rows)[0].mean()

        _, grads = value_and_grad(loss)(params)
        params, state = adam.update(params, grads, state)

    step(list(rng.integers(3, vocabulary, (2, 64))))  # compiles
    rows = list(rng.integers(3, vocabulary, (ROWS, length)))
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of steps, not of opening the model
    before = resident("VmRSS")
    profile, taken = cProfile.Profile(time.process_time), []
    for number in range(variant.steps + 1):
        start = time.process_time()
        if number < variant.steps:
            step(rows)
        else:
            profile.runcall(step, rows)
        taken.append(time.process_time() - start)
    memory = resident("VmHWM") - before
    own = {True: 0.0, False: 0.0}
    stats: Any = pstats.Stats(profile)
    for (file, *_), (_, _, seconds, _, _) in stats.stats.items():
        own["/".join(Path(file).parts[-2:]) in ATTENTION] += seconds
    raw = config.raw if folder is None else json.loads((folder / "hf" / "config.json").read_text("utf-8"))
    pairs = ROWS * length**2 * raw["num_attention_heads"] * raw["num_hidden_layers"] / 2
    products = (9 if variant.parts else 7) * pairs * raw["head_dim"] / _speed()
    found = {"cpu": min(taken), "memory": memory, "attention": own[True], "rest": own[False]}
    print(json.dumps(found | {"products": products}))


def _speed() -> float:
    """Multiplications of NumPy's product in a second."""
    size, taken = 1024, []
    x = np.ones((size, size), np.float32)
    for _ in range(20):
        start = time.process_time()
        np.dot(x, x)
        taken.append(time.process_time() - start)
    return float(size**3 / min(taken))


def measured(name: str, length: int, folder: Path | None) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", name, str(length)]
    command += [] if VARIANTS[name].model == "embedded" else [str(folder)]
    environment = {**os.environ, **VARIANTS[name].variables}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def exponents(values: list[float]) -> str:
    """The exponent of tokens over the last two lengths, and over all."""
    last, all_ = (
        math.log2(values[-1] / values[-2]),
        math.log(values[-1] / values[0], LENGTHS[-1] / LENGTHS[0]),
    )
    return f"{last:.2f} | {all_:.2f}"


def table(found: dict[str, list[dict[str, float]]], about: dict[str, Any]) -> list[str]:
    lines = [
        *heading("Steps of learning by tokens", about),
        f"LoRA steps, {ROWS} rows: of the embedded model, and of SmolLM2-135M's shape (135M). Processor",
        "seconds (minima of three steps, of 135M one) and megabytes that the process grows by at its peak;",
        "exponents are those of tokens, over the last two lengths and all. Attention, whose products are",
        "quadratic in the length, and all else are of a step under a profiler.",
        "",
        f"| | {' | '.join(f'{ROWS} x {length}' for length in LENGTHS)} | last | all |",
        f"|---|{'--:|' * (len(LENGTHS) + 2)}",
    ]
    for name, rows in found.items():
        shares = [row["attention"] / (row["attention"] + row["rest"]) for row in rows]
        for key, unit in (
            ("cpu", "s"),
            ("attention", "attention, s"),
            ("products", "its products by NumPy, s"),
            ("rest", "all else, s"),
            ("memory", "MB"),
        ):
            values = [row[key] for row in rows]
            cells = " | ".join(f"{value:.3g}" for value in values)
            lines.append(f"| {name}, {unit} | {cells} | {exponents(values)} |")
        lines.append(f"| {name}, share of attention | {' | '.join(f'{x:.0%}' for x in shares)} | | |")
    return [*lines, "", "![growth](learning_growth.svg)"]


def plot(found: dict[str, list[dict[str, float]]], file: Path) -> None:
    plt = pyplot()
    plt.rcParams["svg.fonttype"] = "none"
    models = list(dict.fromkeys(VARIANTS[name].model for name in found))
    figure, axes = plt.subplots(
        len(models), 2, figsize=(9, 3.5 * len(models)), layout="constrained", squeeze=False
    )
    tokens = [ROWS * length for length in LENGTHS]
    for model, pair in zip(models, axes, strict=True):
        for axis, key, title in zip(pair, ("cpu", "memory"), ("processor seconds", "megabytes"), strict=True):
            for name, rows in found.items():
                if VARIANTS[name].model == model:
                    axis.plot(tokens, [row[key] for row in rows], "o-", label=name)
            axis.set(xlabel="tokens", ylabel=title, xlim=0, ylim=0)
            axis.grid(alpha=0.3)
        pair[0].legend()
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = arguments(__doc__, 1, "processes of each length")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], int(args.child[1]), args.folder)
        return
    about, folder = machine(), args.folder
    names = [name for name, variant in VARIANTS.items() if variant.model == "embedded" or folder is not None]
    found: dict[str, list[dict[str, float]]] = {name: [{}] * len(LENGTHS) for name in names}
    for _ in range(args.rounds):
        for i, length in enumerate(LENGTHS):
            for name in names:
                new, old = measured(name, length, folder), found[name][i]
                found[name][i] = {key: min(value, old.get(key, value)) for key, value in new.items()}
                print(name, length, found[name][i], flush=True)
    folder = place(args)
    show(folder, "learning_growth", table(found, about), {"about": about, "lengths": LENGTHS, "rows": found})
    if folder is not None:
        plot(found, folder / "learning_growth.svg")


if __name__ == "__main__":
    main()
