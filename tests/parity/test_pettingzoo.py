"""PettingZoo's environments beside torchrl's: specs, resets, steps, masks, ends of episodes."""

from __future__ import annotations

import copy
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torchrl.envs as theirs
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from helpers.cases import each_case
from helpers.compared import assert_same_entries
from helpers.pettingzoo_envs import Dying, Turns

import lite.envs as ours

OBSERVED = Dict(
    x=Box(0, 1, (2, 2)), k=Discrete(3), bits=MultiBinary(2), n=Box(0, 1, ()), deep=Dict(v=Box(-1, 1, (1,)))
)
ACTED = Dict(u=Box(-1, 1, (2,)), k=Discrete(3))
GROUPS = {"x": ["cat_2", "old_dog"], "y": ["cat_1", "cat_0"]}


@pytest.fixture(autouse=True)
def _interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torchrl asks of the package: its version, and the classes of the two interfaces."""
    env = SimpleNamespace(ParallelEnv=Dying, AECEnv=Turns)
    package = SimpleNamespace(__version__="1.24.3", utils=SimpleNamespace(env=env))
    monkeypatch.setitem(sys.modules, "pettingzoo", package)


def specs_of(env: Any) -> dict[Any, Any]:
    kinds = ("full_observation_spec", "full_action_spec", "full_reward_spec", "full_done_spec")
    leaves = [(kind, *item) for kind in kinds for item in getattr(env, kind).items(True, True)]
    return {
        (kind, key): (tuple(spec.shape), str(spec.dtype).removeprefix("torch."), getattr(spec, "n", None))
        for kind, key, spec in leaves
    }


@each_case(
    "make, options",
    [
        (lambda: Dying(), {"use_mask": True}),
        (lambda: Dying(), {"use_mask": True, "done_on_any": False, "return_state": True}),
        (lambda: Dying("info"), {"use_mask": True, "done_on_any": False, "categorical_actions": False}),
        (lambda: Dying(None, limit=1), {}),
        (lambda: Dying(None, limit=9), {"use_mask": True, "done_on_any": False, "group_map": GROUPS}),
        (lambda: Dying(limit=9), {"use_mask": True, "done_on_any": True, "group_map": GROUPS}),
        (lambda: Dying(None, 4, copy.deepcopy(OBSERVED), ACTED), {"use_mask": True, "done_on_any": False}),
        (lambda: Turns(), {"use_mask": True}),
        (lambda: Turns(), {"use_mask": True, "done_on_any": True, "categorical_actions": False}),
        (lambda: Turns(), {"use_mask": True, "group_map": {"all": ["b", "c", "a"]}}),
    ],
)  # fmt: skip
def test_steps(make: Any, options: dict[str, Any]) -> None:
    mine, other = (library.PettingZooWrapper(make(), seed=3, **options) for library in (ours, theirs))
    assert specs_of(mine) == specs_of(other)
    assert (mine.group_map, mine.done_on_any, mine.parallel) == (
        other.group_map,
        other.done_on_any,
        other.parallel,
    )
    td, wanted = mine.reset(seed=3), other.reset(seed=3)
    for _ in range(30):
        assert_same_entries(td, wanted)
        for key, spec in mine.full_action_spec.items(True, True):
            masks = (getattr(each, "mask", None) for each in (spec, other.full_action_spec[key]))
            np.testing.assert_equal(*masks)
        mine.rand_action(td)
        for key in mine.action_keys:
            wanted[key] = torch.as_tensor(np.array(td[key]))
        mine.step(td)
        other.step(wanted)
        assert_same_entries(td, wanted)
        td, wanted = mine.maybe_reset(mine.step_mdp(td)), other.maybe_reset(other.step_mdp(wanted))


@each_case("kind", ["ALL_IN_ONE_GROUP", "ONE_GROUP_PER_AGENT"])
def test_group_maps(kind: str) -> None:
    names = ["a_0", "b"]
    mine, other = (getattr(library.MarlGroupMapType, kind) for library in (ours, theirs))
    assert mine.get_group_map(names) == other.get_group_map(names)
    assert mine.value == other.value
