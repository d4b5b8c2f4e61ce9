"""Collectors and buffers on clusters, and of prompts, have the arguments and defaults of torchrl's."""

import inspect
import warnings

import pytest

from lite import data

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchrl.collectors.distributed import RayCollector
    from torchrl.collectors.llm import LLMCollector
    from torchrl.data import RayReplayBuffer

OWN = {
    "RayCollector": {"seed", "start_timeout"},
    "RayReplayBuffer": set(),
    "LLMCollector": {
        "prompts",
        "reward",
        "repeats",
        "seed",
    },  # in place of the environment, which has them there
}
OTHER_DEFAULTS = {
    "exploration_type",  # another class
    "collector_class",
    "replay_buffer_cls",
    "dialog_turns_per_batch",  # always needed
}


@pytest.mark.parametrize("theirs", [RayCollector, LLMCollector, RayReplayBuffer])
def test_arguments_are_those_of_torchrl(theirs):
    name = theirs.__name__
    known = inspect.signature(theirs.__init__).parameters
    ours = inspect.signature(getattr(data, name).__init__).parameters
    assert set(ours) - set(known) == OWN[name]
    for argument, parameter in ours.items():
        if argument in known and argument not in OTHER_DEFAULTS:
            assert parameter.default == known[argument].default, argument
    keywords = [argument for argument in ours if argument in known]
    assert keywords == [argument for argument in known if argument in keywords]
