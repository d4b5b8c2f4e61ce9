"""PettingZoo's environments: what groups have, who acts, who died, and what ends an episode."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from lite import TensorDict
from lite.data import Categorical, Collector
from lite.envs import (
    MarlGroupMapType,
    PettingZooEnv,
    PettingZooWrapper,
    SerialEnv,
    check_env_specs,
    check_marl_grouping,
)
from tests.helpers.cases import each_case, raises
from tests.helpers.pettingzoo_envs import NAMES, Dying, Turns


def stepped(env: Any, td: Any, **actions: Any) -> Any:
    """A step with actions by group; the "next"."""
    for group, values in actions.items():
        td[group, "action"] = np.asarray(values)
    return env.step(td)["next"]


def test_agents_are_grouped_by_name_and_die_one_by_one() -> None:
    env = PettingZooWrapper(Dying(), use_mask=True, done_on_any=False, return_state=True)
    assert env.group_map == {"cat": ["cat_0", "cat_1", "cat_2"], "old_dog": ["old_dog"]}
    td = env.reset()
    assert env.observation_spec["cat", "mask"] == Categorical(2, (3,), dtype=np.bool_)
    assert env.observation_spec["cat", "action_mask"] == Categorical(2, (3, 3), dtype=np.bool_)
    np.testing.assert_array_equal(td["cat", "observation", "here"], [[0, 0], [2, 0], [3, 0]])
    np.testing.assert_array_equal(td["cat", "action_mask"], [[0, 1, 1], [1, 1, 0], [0, 1, 1]])
    assert td["cat", "mask"].all()
    assert not td["cat", "done"].any()
    assert "reward" not in td["cat"]
    np.testing.assert_array_equal(td["state"], [0, 4])
    first = stepped(env, td, cat=[2, 1, 2], old_dog=[0])
    np.testing.assert_array_equal(first["cat", "reward"], np.float32([[2], [1], [2]]))
    np.testing.assert_array_equal(first["cat", "info", "age"], np.float32([1, 1, 1]))
    np.testing.assert_array_equal(first["cat", "info", "pair"], np.float32([[1, 2]] * 3))
    second = stepped(env, env.step_mdp(td), cat=[2, 1, 2], old_dog=[0])  # cat_0 dies
    np.testing.assert_array_equal(second["cat", "terminated"], [[True], [False], [False]])
    np.testing.assert_array_equal(second["cat", "mask"], [False, True, True])
    np.testing.assert_array_equal(second["cat", "reward"], np.float32([[2], [1], [2]]))
    # Who died may do anything, as nothing that it does is read.
    np.testing.assert_array_equal(second["cat", "action_mask"], [[1, 1, 1], [1, 0, 1], [1, 1, 0]])
    third = stepped(env, TensorDict(cat=TensorDict(batch_size=3), old_dog=TensorDict(batch_size=1)),
                    cat=[0, 1, 2], old_dog=[1])  # fmt: skip
    np.testing.assert_array_equal(third["cat", "observation", "here"], [[0, 0], [2, 3], [3, 3]])
    np.testing.assert_array_equal(third["cat", "reward"], np.float32([[0], [1], [2]]))
    for flag in ("done", "terminated", "truncated"):
        np.testing.assert_array_equal(third["cat", flag][0], [True])
    assert third["old_dog", "terminated"].item()
    assert not third["done"].item()
    last = stepped(env, TensorDict(cat=TensorDict(batch_size=3), old_dog=TensorDict(batch_size=1)),
                   cat=[0, 1, 2], old_dog=[1])  # fmt: skip
    np.testing.assert_array_equal(last["cat", "truncated"], [[True]] * 3)
    assert last["done"].item()
    assert last["truncated"].item()
    assert not last["terminated"].item()
    np.testing.assert_array_equal(last["state"], [4, 0])
    assert list(env._env.given[0]) == ["cat_0", "cat_1", "cat_2", "old_dog"]


@each_case("mask", ["observation", "info"])
def test_random_actions_are_those_that_are_allowed(mask: str) -> None:
    env = PettingZooWrapper(Dying(mask, limit=9), use_mask=True, done_on_any=False, seed=0)
    env.set_seed(0)
    for _ in range(20):
        td = env.rollout(9)
        taken = np.take_along_axis(td["cat", "action_mask"], td["cat", "action"][..., None], -1)
        assert taken.all()
        assert ("cat", "observation", "action_mask") not in td.keys(True)


@each_case(
    "options, ended",
    [({}, [False, True]), ({"done_on_any": False}, [False, False]), ({"done_on_any": True}, [False, True])],
)
def test_an_episode_ends_with_any_agent_or_with_all(options: dict[str, Any], ended: list[bool]) -> None:
    env = PettingZooWrapper(Dying(), use_mask=True, **options)
    td = env.rollout(2, break_when_any_done=False)
    np.testing.assert_array_equal(td["next", "done"].ravel(), ended)
    assert env.done_on_any is options.get("done_on_any", True)


def test_players_take_turns() -> None:
    env = PettingZooWrapper(Turns(), use_mask=True)
    assert env.group_map == {"a": ["a"], "b": ["b"], "c": ["c"]}
    assert not env.parallel
    assert not env.done_on_any
    td = env.reset()
    np.testing.assert_array_equal([td[name, "mask"].item() for name in "abc"], [True, False, False])
    following = stepped(env, td, a=[3], b=[0], c=[0])
    assert env._env.given == [("a", 3)]
    np.testing.assert_array_equal([following[n, "reward"].item() for n in "abc"], [3.0, 0.0, 0.0])
    np.testing.assert_array_equal([following[n, "mask"].item() for n in "abc"], [False, True, False])
    np.testing.assert_array_equal(following["b", "action_mask"], [[1, 1, 1, 0, 1]])
    np.testing.assert_array_equal(following["c", "action_mask"], [[1, 1, 1, 1, 1]])
    np.testing.assert_array_equal(following["c", "observation", "observation"], [[0, 0, 0, 1, 0]])
    last = stepped(env, env.step_mdp(td), a=[0], b=[4], c=[0])
    assert last["done"].item()
    assert last["b", "reward"].item() == 4.0


def test_players_that_leave_do_nothing_in_their_turn() -> None:
    env = PettingZooWrapper(Turns(leave=True), use_mask=True)
    td = env.reset()
    for place in (2, 0, 1):
        following = stepped(env, td, a=[place], b=[place], c=[place])
        td = env.step_mdp(td)
    assert following["a", "done"].item()
    assert not following["done"].item()
    following = stepped(env, td, a=[3], b=[3], c=[3])
    assert env._env.given[-1] == ("a", None)
    assert following["a", "done"].item()
    assert not following["a", "observation", "observation"].any()
    following = stepped(env, env.step_mdp(td), a=[4], b=[4], c=[4])
    assert following["done"].item()
    assert following["b", "reward"].item() == 4.0


def test_actions_and_observations_are_encoded() -> None:
    observed = Dict(k=Discrete(3), x=Box(0, 1, ()), deep=Dict(v=Box(-1, 1, (2,))))
    acted = Dict(n=Discrete(3), pair=MultiDiscrete([2, 2]), u=Box(-1, 1, (2,)))
    inner = Dying(None, observed=observed, acted=acted)
    env = PettingZooWrapper(inner, categorical_actions=False, group_map=MarlGroupMapType.ALL_IN_ONE_GROUP)
    check_env_specs(env)
    td = env.rand_action(env.reset())
    assert td["agents", "observation", "k"].shape == (4, 3)
    assert td["agents", "observation", "x"].shape == (
        4,
        1,
    )
    assert td["agents", "observation", "deep", "v"].shape == (4, 2)
    td["agents", "action", "n"] = np.eye(3, dtype=np.int64)[[2, 0, 1, 2]]
    env.step(td)
    given = inner.given[-1]
    np.testing.assert_array_equal([given[name]["n"] for name in NAMES], [2, 0, 1, 2])
    np.testing.assert_array_equal(given["cat_1"]["u"], td["agents", "action", "u"][2])
    np.testing.assert_array_equal(given["old_dog"]["pair"], td["agents", "action", "pair"][1].argmax(-1))


@each_case(
    "make",
    [
        lambda: PettingZooWrapper(Dying(), use_mask=True),
        lambda: PettingZooWrapper(Dying(None), use_mask=True, return_state=True, done_on_any=False),
        lambda: PettingZooWrapper(Turns(), use_mask=True, categorical_actions=False),
        lambda: PettingZooWrapper(Turns(leave=True), use_mask=True, group_map={"x": ["b", "a", "c"]}),
    ],
)
def test_loops_take_them(make: Any) -> None:
    check_env_specs(make(), break_when_any_done="both")
    assert SerialEnv(2, make).rollout(20, break_when_any_done=False).shape == (2, 20)
    batches = list(Collector(make(), frames_per_batch=30, total_frames=60, seed=0))
    assert all(batch.shape == (30,) and batch["next", "done"].any() for batch in batches)


def test_an_environment_may_tell_nothing_beside_its_observations() -> None:
    class Silent(Dying):
        def _infos(self) -> dict[str, Any]:
            return {}

    env = PettingZooWrapper(Silent(), use_mask=True)
    check_env_specs(env)
    assert ("cat", "info") not in env.rollout(2).keys(True)


def test_seeds_reach_the_environment_and_its_attributes_are_read() -> None:
    env = PettingZooWrapper(Dying(), use_mask=True, seed=3)
    assert env._env.seed == 3
    assert env.agents == NAMES
    assert env.limit == 4
    env.set_seed(5)
    assert env._env.seed == 5
    assert env.seed == 5
    env.close()
    assert env._env.closed
    assert env.is_closed
    assert "cat_1" in repr(env)


def test_what_is_refused() -> None:
    class Differing(Dying):
        spaces: Any = ()

        def observation_space(self, agent: str) -> Any:
            return self.spaces[NAMES.index(agent) > 0]

    class Wrong(Dying):
        def _observations(self) -> Any:
            return {name: np.zeros(3) for name in self.agents}

    class Hidden(Dying):
        def step(self, actions: Any) -> Any:
            observations, *others = super().step(actions)
            return {name: observations[name] for name in NAMES[1:]}, *others

    wrap = PettingZooWrapper
    raises(TypeError, "env must be a PettingZoo environment, got int", wrap, 3)
    raises(ValueError, "use_mask must be True for an AEC", wrap, Turns())
    for spaces in (
        (Box(0, 1, (1,)), Box(0, 1, (2,))),
        (Box(0, 1, (1,)), Box(0, 1, (1, 1))),
        (Box(0, 1, (1,)), Dict(x=Box(0, 1, (1,)))),
        (Dict(x=Box(0, 1, (1,))), Dict(y=Box(0, 1, (1,)))),
    ):
        Differing.spaces = spaces
        raises(ValueError, "group_map must part the agents of 'cat'", wrap, Differing(None))
    raises(
        ValueError, r"'observation' of 'cat_0' must have shape \(2,\), got \(3,\)", wrap(Wrong(None)).reset
    )
    env = wrap(Dying(None, limit=9), done_on_any=False)
    raises(ValueError, "'cat_0' was not observed.*needs use_mask=True", env.rollout, 9)
    raises(ValueError, "'cat_0' was not observed", wrap(Hidden(None), use_mask=True).rollout, 1)
    raises(RuntimeError, "one environment to reset", env.reset, TensorDict(_reset=np.array([False])))
    raises(ImportError, "PettingZooEnv needs pettingzoo: pip", PettingZooEnv, "pistonball_v6", True)


@each_case(
    "groups, names",
    [
        ({}, []),
        ({"x": ["a"]}, ["a", "b"]),
        ({"x": ["a", "b"], "y": ["b"]}, ["a", "b"]),
        ({"x": ["a", "a"]}, ["a", "a"]),
        ({"x": ["a"], "y": []}, ["a"]),
        ({"x": ["a", "c"]}, ["a"]),
    ],
)
def test_each_agent_is_in_one_group(groups: dict[str, list[str]], names: list[str]) -> None:
    raises(ValueError, "agent_names must be|group_map must have", check_marl_grouping, groups, names)
    check_marl_grouping({"x": ["b"], "y": ["a"]}, ["a", "b"])


def test_environments_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "pettingzoo/__init__.py": "",
        "pettingzoo/classic/__init__.py": "raise ImportError('a family that lacks a package')",
        "pettingzoo/sisl/__init__.py": "",
        "pettingzoo/sisl/dying_v2.py": (
            "from tests.helpers.pettingzoo_envs import Dying as parallel_env, Turns as env"
        ),
        "pettingzoo/sisl/dying_base.py": "",
        "mpe2/__init__.py": "",
        "mpe2/tag_v3.py": "from tests.helpers.pettingzoo_envs import Dying as parallel_env",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert sorted(PettingZooEnv.available_envs) == ["mpe/tag_v3", "sisl/dying_v2"]
        for task in ("dying_v2", "sisl/dying_v2", "mpe/tag_v3"):
            env = PettingZooEnv(task, parallel=True, use_mask=True, seed=2, limit=7)
            assert (env.limit, env.task_name, env._env.seed) == (7, task, 2)
        assert isinstance(PettingZooEnv("dying_v2", parallel=False, use_mask=True)._env, Turns)
        raises(
            RuntimeError,
            r"task must be one of .*sisl/dying_v2.*, got 'dying_v1'",
            PettingZooEnv,
            "dying_v1",
            True,
        )
    finally:
        for name in set(sys.modules) - before:
            if isinstance(sys.modules[name], types.ModuleType) and name.split(".")[0] in (
                "pettingzoo",
                "mpe2",
            ):
                del sys.modules[name]
