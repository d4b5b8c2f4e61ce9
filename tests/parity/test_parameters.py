"""Parameters and defaults of functions and classes beside those of torch and TorchRL."""

import inspect

import pytest
import torch
import torch.nn.functional
from torchrl import collectors, data, envs
from torchrl.collectors.distributed import RayCollector
from torchrl.collectors.llm import LLMCollector
from torchrl.objectives.value import functional as estimates

import lite.data
from lite import kernels, nn

ESTIMATES = [name for name in kernels.__all__ if hasattr(estimates, name) and not name.startswith("vec_")]
LAZY = ["LazyLinear", "LazyConv1d", "LazyConv2d"]
# A function here and there; parameters that are here alone, and whose defaults differ.
CASES = {
    **{name: (getattr(kernels, name), getattr(estimates, name), set(), set()) for name in ESTIMATES},
    **{name: (getattr(nn, name), getattr(torch.nn, name), {"rng"}, set())
        for name in LAZY},
    "LazyBatchNorm1d": (nn.LazyBatchNorm1d, torch.nn.LazyBatchNorm1d, set(), set()),
    "split_trajectories": (
        lite.data.split_trajectories, collectors.utils.split_trajectories, set(), set(),
    ),
    "MultiStepTransform": (lite.data.MultiStepTransform, envs.MultiStepTransform, {"shift_done"}, set()),
    "DensifyReward": (lite.data.DensifyReward, data.DensifyReward, set(), {"time_dim"}),
    "RayReplayBuffer": (lite.data.RayReplayBuffer, data.RayReplayBuffer, set(), {"replay_buffer_cls"}),
    "RayCollector": (
        lite.data.RayCollector, RayCollector, {"seed", "start_timeout"},
        {"exploration_type", "collector_class"},  # other classes
    ),
    "LLMCollector": (
        lite.data.LLMCollector, LLMCollector,
        {"prompts", "reward", "repeats", "seed"},  # in place of the environment, which has them there
        {"exploration_type", "dialog_turns_per_batch"},  # the latter always needed
    ),
}  # fmt: skip
SUBSETS = {"RayReplayBuffer", "RayCollector", "LLMCollector"}


@pytest.mark.parametrize("name", CASES)
def test_names_order_and_defaults(name):
    ours, theirs, own, others = CASES[name]
    makes = [fn.__init__ if inspect.isclass(fn) else fn for fn in (ours, theirs)]
    mine, known = (inspect.signature(fn).parameters for fn in makes)
    assert set(mine) - set(known) == own
    assert set(known) <= set(mine) or name in SUBSETS
    shared = [argument for argument in mine if argument in known]
    assert shared == [argument for argument in known if argument in shared]
    for argument in shared:
        same = mine[argument].default == known[argument].default
        assert same or argument in others, argument
        assert name in {*SUBSETS, *ESTIMATES} or mine[argument].kind == known[argument].kind


@pytest.mark.parametrize("name", nn.functional.__all__)
def test_functions(name):
    """What a call says by name in torch, it says here; by place, up to what is deprecated there."""
    try:
        wanted = inspect.signature(getattr(torch.nn.functional, name)).parameters
    except ValueError:  # written in C
        return
    here = inspect.signature(getattr(nn.functional, name)).parameters
    assert set(wanted) - {"size_average", "reduce", "_stacklevel"} == set(here)
    for parameter in here.values():
        assert parameter.default == wanted[parameter.name].default, parameter
    by_place = [p.name for p in here.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert list(wanted)[: len(by_place)] == by_place
