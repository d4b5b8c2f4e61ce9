"""Environments with PettingZoo's interfaces, without the package: agents die, or take turns."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Space

NAMES = ["cat_0", "old_dog", "cat_1", "cat_2"]


class Dying:
    """A parallel environment; the agent with number k dies in step k + 2, or is cut off after `limit` steps.

    An agent observes its number and the step, and has as reward its action. Its mask forbids one action,
    that of its number and the step, modulo 3.

    Args:
        mask: where the mask of actions is: "observation", "info", or None for none.
        limit: steps of an episode.
        observed: a space that is observed in place of numbers, drawn from; without a mask there.
        acted: a space of actions in place of three classes; rewards are the step's number.
    """

    def __init__(
        self, mask: str | None = "observation", limit: int = 4, observed: Any = None, acted: Any = None
    ) -> None:
        self.possible_agents, self.agents = list(NAMES), list(NAMES)
        self.mask, self.limit, self.observed, self.acted = mask, limit, observed, acted
        self.given: list[Any] = []
        self.closed = False

    def observation_space(self, agent: str) -> Space[Any]:
        if self.observed is not None:
            return self.observed
        box = Box(-5, 50, (2,))
        return Dict(here=box, action_mask=MultiBinary(3)) if self.mask == "observation" else box

    def action_space(self, agent: str) -> Space[Any]:
        return Discrete(3) if self.acted is None else self.acted

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.observed is not None and seed is not None:
            self.observed.seed(seed)
        self.step_number, self.agents, self.seed = 0, list(NAMES), seed
        return self._observations(), self._infos()

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        self.given.append(actions)
        self.step_number += 1
        t = self.step_number
        rewards = {name: float(actions[name] if self.acted is None else t) for name in self.agents}
        dead = {name: t == NAMES.index(name) + 2 for name in self.agents}
        late = dict.fromkeys(self.agents, t == self.limit)
        result = self._observations(), rewards, dead, late, self._infos()
        self.agents = [name for name in self.agents if not (dead[name] or late[name])]
        return result

    def state(self) -> Any:
        return np.array([self.step_number, len(self.agents)])

    def close(self) -> None:
        self.closed = True

    def _mask(self, name: str) -> Any:
        allowed = np.ones(3, np.int8)
        allowed[(NAMES.index(name) + self.step_number) % 3] = 0
        return allowed

    def _observations(self) -> dict[str, Any]:
        if self.observed is not None:
            return {name: self.observed.sample() for name in self.agents}
        here = {name: np.float32([NAMES.index(name), self.step_number]) for name in self.agents}
        if self.mask != "observation":
            return here
        return {name: {"here": value, "action_mask": self._mask(name)} for name, value in here.items()}

    def _infos(self) -> dict[str, Any]:
        info: dict[str, Any] = {"age": self.step_number, "pair": [1.0, 2.0]}
        masked = self.mask == "info"
        return {name: info | ({"action_mask": self._mask(name)} if masked else {}) for name in self.agents}


class Turns:
    """An AEC environment: three players take turns in putting a stone on one of five places.

    Who puts one on the third place leaves the game, who puts one on the last place ends it for all.

    Args:
        leave: whether players may leave before the end.
    """

    def __init__(self, leave: bool = False) -> None:
        self.possible_agents, self.leave = ["a", "b", "c"], leave
        self.given: list[Any] = []

    def observation_space(self, agent: str) -> Space[Any]:
        return Dict(observation=MultiBinary(5), action_mask=MultiBinary(5))

    def action_space(self, agent: str) -> Space[Any]:
        return Discrete(5)

    def observe(self, agent: str) -> dict[str, Any]:
        mask = 1 - self.stones if agent == self.agent_selection else np.zeros(5, np.int8)
        return {"observation": self.stones.copy(), "action_mask": mask}

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.stones = np.zeros(5, np.int8)
        self.agents = list(self.possible_agents)
        self.agent_selection = "a"
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {name: {} for name in self.agents}

    def step(self, action: Any) -> None:
        self.given.append((self.agent_selection, action))
        name = self.agent_selection
        place = self.agents.index(name)
        following = self.agents[(place + 1) % len(self.agents)]
        if self.terminations[name]:
            assert action is None, "who is dead can do nothing"
            self.agents.remove(name)
            for entries in (self.rewards, self.terminations, self.truncations, self.infos):
                del entries[name]
            self.agent_selection = following
            return
        self.stones[action] = 1
        self.rewards = dict.fromkeys(self.agents, 0.0) | {name: float(action)}
        self.terminations[name] = self.leave and action == 2
        if action == 4:
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = following

    def close(self) -> None: ...
