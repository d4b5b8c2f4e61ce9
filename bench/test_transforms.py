"""Transforms beside TorchRL's: calls on small observations, batches of images, and steps of an environment.

    python bench/test_transforms.py [--only CASE ...] [--rounds N] [--output DIR]

Small observations are transformed a hundred times in a measurement. Batches are 64 images of 84x84, on all
threads that torch takes; "a copy" is NumPy's of the images or of the result, whichever is larger, for the
speed of memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensordict
import torch
import torchrl
from side_by_side import arguments, machine, measure, place, repeated, report, row
from torchrl import envs as theirs

import lite
import lite.envs as ours

CALLS = 100
RNG = np.random.default_rng(0)
LITE = SimpleNamespace(e=ours, td=lite.TensorDict, of=lambda a: a, dtype=np.dtype)
TORCH = SimpleNamespace(
    e=theirs, td=tensordict.TensorDict, of=torch.from_numpy, dtype=lambda name: getattr(torch, name)
)
Make = Callable[[Any], Any]

VECTOR = RNG.normal(size=4).astype(np.float32)
REWARD = np.ones(1, np.float32)
SMALL: dict[str, tuple[Make, dict[str, Any]]] = {
    "ObservationNorm": (lambda b: b.e.ObservationNorm(0.5, 2.0, ["x"], ["y"]), {"x": VECTOR}),
    "RewardScaling": (lambda b: b.e.RewardScaling(0.0, 0.1, ["reward"], ["r"]), {"reward": REWARD}),
    "RewardClipping": (lambda b: b.e.RewardClipping(-1, 1), {"reward": REWARD}),
    "DoubleToFloat": (lambda b: b.e.DoubleToFloat(["x"], ["y"]), {"x": VECTOR.astype(np.float64)}),
    "UnsqueezeTransform": (
        lambda b: b.e.UnsqueezeTransform(-1, in_keys=["x"], out_keys=["y"]),
        {"x": VECTOR},
    ),
    "CatTensors": (lambda b: b.e.CatTensors(["x", "z"], "y", del_keys=False), {"x": VECTOR, "z": VECTOR}),
    "VecNorm": (lambda b: b.e.VecNorm(["x"], ["y"]), {"x": VECTOR}),
    "Compose of three": (
        lambda b: b.e.Compose(
            b.e.ObservationNorm(0.5, 2.0, ["x"], ["y"]),
            b.e.RewardScaling(0.0, 0.1, ["reward"], ["r"]),
            b.e.RewardClipping(-1, 1),
        ),
        {"x": VECTOR, "reward": REWARD},
    ),
}

COLOURS = RNG.integers(0, 256, (64, 84, 84, 3)).astype(np.uint8)
STACKS = RNG.integers(0, 256, (64, 84, 84, 4)).astype(np.uint8)
FLOATS = RNG.random((64, 4, 84, 84)).astype(np.float32)
LARGE: dict[str, tuple[Make, Any]] = {
    "ToTensorImage, 84x84x4": (lambda b: b.e.ToTensorImage(out_keys=["y"]), STACKS),
    "GrayScale, 3x84x84": (lambda b: b.e.GrayScale(out_keys=["y"]), np.moveaxis(COLOURS, -1, 1).copy()),
    "ObservationNorm, 4x84x84": (lambda b: b.e.ObservationNorm(0.5, 2.0, ["pixels"], ["y"]), FLOATS),
    "RewardClipping, 4x84x84": (lambda b: b.e.RewardClipping(-0.5, 0.5, ["pixels"], ["y"]), FLOATS),
    "DTypeCastTransform, 84x84x4": (
        lambda b: b.e.DTypeCastTransform(b.dtype("uint8"), b.dtype("float32"), ["pixels"], ["y"]),
        STACKS,
    ),
}


def small(name: str, rounds: int) -> list[dict[str, Any]]:
    make, entries = SMALL[name]

    def calls(b: Any) -> Callable[[], None]:
        transform = make(b)
        td = b.td({key: b.of(value) for key, value in entries.items()}, batch_size=[])
        return repeated(lambda: transform(td), CALLS)

    result = measure({"lite": calls(LITE), "torchrl": calls(TORCH)}, rounds)
    return [row(f"{name}, {CALLS} calls", "torchrl", result)]


def large(name: str, rounds: int) -> list[dict[str, Any]]:
    make, images = LARGE[name]

    def call(b: Any) -> Callable[[], Any]:
        transform, td = make(b), b.td({"pixels": b.of(images)}, batch_size=[len(images)])
        return lambda: transform(td)

    ours, kept = call(LITE), {}
    larger = max(images, ours()["y"], key=lambda array: array.nbytes)

    def copy() -> None:
        kept["y"] = larger.copy("K")  # as the transform's result is, until the next

    result = measure({"lite": ours, "torchrl": call(TORCH), "a copy": copy}, rounds)
    return [row(name, other, result) for other in ("torchrl", "a copy")]


def frames(rounds: int) -> list[dict[str, Any]]:
    """What an environment does at each step with four grey frames."""

    def steps(b: Any) -> Callable[[], None]:
        transform = b.e.CatFrames(4, -3)
        frame = b.of(RNG.random((1, 84, 84)).astype(np.float32))
        transform._call(b.td({"pixels": frame}, batch_size=[]), b.of(np.ones((), bool)))
        return repeated(lambda: transform._call(b.td({"pixels": frame}, batch_size=[])), CALLS)

    result = measure({"lite": steps(LITE), "torchrl": steps(TORCH)}, rounds)
    return [row(f"CatFrames, {CALLS} steps of 84x84", "torchrl", result)]


def rollout(rounds: int) -> list[dict[str, Any]]:
    """Steps of CartPole with transforms."""

    def steps(b: Any) -> Callable[[], Any]:
        transforms = b.e.Compose(
            b.e.ObservationNorm(0.0, 1.0, in_keys=["observation"]), b.e.StepCounter(), b.e.RewardSum()
        )
        env = b.e.TransformedEnv(b.e.GymEnv("CartPole-v1"), transforms)
        return lambda: env.rollout(CALLS, break_when_any_done=False)

    result = measure({"lite": steps(LITE), "torchrl": steps(TORCH)}, rounds)
    return [row(f"CartPole with three transforms, {CALLS} steps", "torchrl", result)]


def main() -> None:
    warnings.simplefilter("ignore")
    cases: dict[str, Callable[[int], list[dict[str, Any]]]] = {
        **{name: lambda rounds, name=name: small(name, rounds) for name in SMALL},
        **{name: lambda rounds, name=name: large(name, rounds) for name in LARGE},
        "CatFrames": frames,
        "CartPole": rollout,
    }
    parser = arguments(__doc__, rounds=15)
    parser.add_argument("--only", nargs="+", choices=cases, metavar="CASE", help=f"some of {list(cases)}")
    asked = parser.parse_args()
    rows = [line for name in asked.only or cases for line in cases[name](asked.rounds)]
    folder = place(asked, bool(asked.only))
    report(folder, "transforms", "Transforms", rows, machine(torch, tensordict, torchrl))


if __name__ == "__main__":
    main()
