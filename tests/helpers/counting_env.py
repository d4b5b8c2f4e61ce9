"""An environment that counts its steps, for tests of what `EnvBase` does around `_reset` and `_step`."""

from typing import Any

import numpy as np

from lite import TensorDict
from lite.data import Bounded, Composite, NonTensor, Unbounded
from lite.envs import Compose, EnvBase, RewardSum, StepCounter, TensorDictPrimer, TransformedEnv, VecNorm


class CountingEnv(EnvBase):
    """Observes how many steps each of its environments has made; the i-th is done after `limit` + i.

    Args:
        batch: batch size.
        limit: steps of the first environment.
        fails_at: raise at this step of the first environment.
        nested: its observations and done entries are below "agents", for two agents.
        most: the bound of its actions.
    """

    def __init__(
        self,
        batch: tuple[int, ...] = (),
        limit: int = 3,
        fails_at: int | None = None,
        nested: bool = False,
        most: float = 1.0,
    ) -> None:
        super().__init__(batch_size=batch)
        self.observation_spec = Composite(observation=Unbounded((*batch, 1)), shape=batch)
        self.action_spec = Bounded(-most, most, (*batch, 1))
        self.reward_spec = Unbounded((*batch, 1))
        self.nested = nested
        if nested:
            two = (*batch, 2)
            seen = Composite(observation=Unbounded((*two, 1)), shape=two)
            self.observation_spec = Composite(agents=seen, shape=batch)
            done = Unbounded((*two, 1), dtype=np.bool_)
            self.done_spec = Composite(agents=Composite(done=done, shape=two), shape=batch)
        self.limits = (limit + np.arange(self.numel())).reshape(*batch, 1)
        self.fails_at = fails_at
        self.count = np.zeros((*batch, 1), np.float32)
        self.seeds: list[Any] = []
        self.resets = 0

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        self.resets += 1
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.count = np.where(True if mask is None else mask, 0, self.count).astype(np.float32)
        return self._entries({"observation": self.count}, np.zeros(self.limits.shape, np.bool_))

    def _step(self, tensordict: Any) -> Any:
        self.count = self.count + np.float32(1)
        if self.fails_at is not None and self.count.flat[0] == self.fails_at:
            raise RuntimeError("the wheel came off")
        entries = {"observation": self.count, "reward": tensordict["action"].sum(-1)}
        return self._entries(entries, self.count >= self.limits)

    def _entries(self, entries: dict[str, Any], done: Any) -> Any:
        if self.nested:
            two = np.repeat(done[..., None, :], 2, -2)
            seen = np.repeat(entries.pop("observation")[..., None, :], 2, -2)
            entries["agents"] = TensorDict({"done": two, "observation": seen}, two.shape[:-1])
        else:
            entries["done"] = done
        return TensorDict(entries, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        self.seeds.append(seed)


class Constant:
    """A policy that always does the same."""

    def __init__(self, value: float = 0.5) -> None:
        self.value = value

    def __call__(self, td: Any) -> Any:
        return td.set("action", np.full((*td.batch_size, 1), self.value, np.float32))


def failing(limit: int = 3, fails_at: int = 2) -> CountingEnv:
    """One that raises at a step."""
    return CountingEnv((), limit, fails_at)


def unmakeable() -> CountingEnv:
    """None."""
    raise ValueError("there is no such game")


class Named(CountingEnv):
    """An environment with attributes of its own."""

    def __init__(self, limit: int = 3) -> None:
        super().__init__(limit=limit)
        self.label = f"limit {limit}"
        self.unsendable = (lambda: 0,)

    def above(self, number: float, *, by: float = 0) -> Any:
        return self.limits[0] > number + by


class TalkingEnv(CountingEnv):
    """It observes a text, too."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_spec["words"] = NonTensor((), example_data="hi")


def with_memory(limit: int) -> TransformedEnv:
    return TransformedEnv(
        CountingEnv(limit=limit), TensorDictPrimer({"h": Unbounded((1,), dtype=np.float32)})
    )


def counted(limit: int) -> TransformedEnv:
    """One with a count of steps that ends episodes, and returns so far."""
    return TransformedEnv(CountingEnv((2,), 100), Compose(StepCounter(limit), RewardSum()))


def counting_with_statistics(limit: int = 3) -> TransformedEnv:
    """In a file that processes can import: they get functions by name."""
    transforms = Compose(VecNorm(in_keys=["observation"], decay=1.0), StepCounter())
    return TransformedEnv(CountingEnv(limit=limit), transforms)


class Task(CountingEnv):
    """It observes the number of steps below its own name, too, which is as long as its actions."""

    def __init__(self, name: str, limit: int = 3) -> None:
        super().__init__(limit=limit)
        self.name = name
        self.observation_spec[name] = Unbounded(len(name))
        self.action_spec = Bounded(-1, 1, (len(name),))

    def _entries(self, entries: dict[str, Any], done: Any) -> Any:
        return super()._entries({**entries, self.name: np.repeat(self.count, len(self.name))}, done)
