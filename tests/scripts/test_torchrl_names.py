"""What TorchRL's own scripts and tutorials import, call and give by keyword is in lite, or in a table below.

`torchrl_names.txt` has it; `bench/torchrl_names.py` writes it from a checkout of TorchRL.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import lite
import lite.data
import lite.envs
import lite.envs.transforms.base
import lite.nn
import lite.nn.distributions
import lite.nn.losses
import lite.optim
from lite.data.collectors.torch_arguments import TorchArguments

PACKAGES = (lite, lite.nn, lite.envs, lite.data, lite.nn.losses, lite.optim, lite.nn.distributions)
# Names that lite does not have, and why.
LEFT_OUT = {
    "torch's compiler and devices": (
        *("CudaGraphModule", "DEVICE_TYPING", "_exclude_td_from_pytree", "compile_with_warmup"),
        "get_available_device",
    ),
    "a loop of its own, which scripts have in view": (
        *("BatchSubSampler", "ClearCudaCache", "CountFramesLog", "LogScalar", "LogValidationReward"),
        *("ReplayBufferTrainer", "RewardNormalizer", "Trainer", "UpdateWeights"),
    ),
    "state dicts, which `lite.save` writes": (
        *("Checkpoint", "CheckpointAdapter", "CheckpointFormat", "CheckpointOptions", "GlobalRNGState"),
        *("StateDictCheckpointAdapter", "save_render_checkpoint"),
    ),
    "environments of other packages": (*("DMControlEnv", "MujocoPlaygroundEnv", "VmasEnv"),),
    "a pretrained network of torchvision": ("R3MTransform",),
    "data in formats that nobody writes any more": ("D4RLExperienceReplay",),
    "storages do this by compress_next=True": ("NextObservationDelta", "NextStateReconstructor"),
    "Python's logging": ("VERBOSE", "logger"),
    "names for type hints, and former ones": (
        *(
            "ACTIVATIONS", "BaseCollector", "REDQLoss_deprecated", "sync_async_collector",
            "sync_sync_collector",
        ),
    ),
    "processes get copies of modules": ("TensorDictSequential.share_memory",),
    "private there: lite.envs.transforms.base has it": ("_apply_to_composite",),
}  # fmt: skip
ABSENT = {name for names in LEFT_OUT.values() for name in names}
LEFT_OUT_ARGUMENTS = {
    "Collector": {"compact_obs"}  # storages do this by compress_next=True
}
# Taken as keyword arguments without a name.
UNNAMED = {
    "MultiAgentMLP": {"centralised"},
    "PettingZooEnv": {*("continuous_actions", "max_cycles", "num_adversaries", "num_good", "num_obstacles")},
    "PixelRenderTransform": {"mode"},
    "ProbabilisticActor": {
        *("default_interaction_type", "distribution_class", "distribution_kwargs", "return_log_prob")
    },
}
LINES = (Path(__file__).parent / "torchrl_names.txt").read_text(encoding="utf-8").splitlines()
NAMES = {name: set(arguments.split()) for name, _, arguments in (line.partition(":") for line in LINES)}


def named(name: str) -> Any:
    """The class, function or method of lite; None without one."""
    first, *rest = name.split(".")
    for package in PACKAGES:
        if first in package.__all__:
            found = getattr(package, first)
            for part in rest:
                found = getattr(found, part, None)
            return found
    return None


def arguments_of(function: Any) -> set[str] | None:
    """The arguments that it takes; None for any."""
    taken: set[str] = set()
    classes = [c for c in function.__mro__ if "__init__" in vars(c)] if inspect.isclass(function) else []
    for step in [c.__init__ for c in classes] or [function]:
        parameters = inspect.signature(step).parameters.values()
        taken |= {p.name for p in parameters}
        rest = [p for p in parameters if p.kind is p.VAR_KEYWORD]
        if not rest:
            return taken
        if "TorchArguments" in str(rest[0].annotation):
            return taken | set(TorchArguments.__annotations__)
    return None


def test_names_and_arguments_are_there() -> None:
    wrong = {}
    for name, arguments in NAMES.items():
        found = named(name)
        if name in ABSENT or name.partition(".")[0] in ABSENT:
            if found is not None:
                wrong[name] = "it is there: take it out of the table"
        elif found is None:
            wrong[name] = "it is not there"
        elif callable(found):
            taken = arguments_of(found)
            missing = set() if taken is None else arguments - taken - UNNAMED.get(name, set())
            if missing != LEFT_OUT_ARGUMENTS.get(name, set()):
                wrong[name] = f"arguments that it does not take: {sorted(missing)}"
    assert wrong == {}
