"""`SerialEnv`: environments that step one after the other, in this process."""

from __future__ import annotations

from typing import Any

from lite import maybe_dense_stack
from lite._arrays.public import belong_to
from lite.envs.batched_env import BatchedEnvBase
from lite.envs.env_worker import attribute


class SerialEnv(BatchedEnvBase):
    """Environments of the same specs that step one after the other, in this process.

    Args:
        num_workers, create_env_fn: how many, and what makes them.
        others: as for `BatchedEnvBase`; those of processes are without effect.

    Raises:
        ValueError: the specs of the environments differ, or another number of functions.

    Source:
        torchrl.envs.SerialEnv.

    Example:
        >>> from lite.envs import GymEnv, SerialEnv
        >>> env = SerialEnv(2, lambda: GymEnv("CartPole-v1"))
        >>> env.rollout(5, break_when_any_done=False).shape
        (2, 5)
    """

    def _begin(self) -> None:
        self._envs = [make(**keywords) for make, keywords in self._makers]
        self._started: list[Any] = [None] * self.num_workers  # what the last reset of each gave
        self._take_specs([env.specs for env in self._envs])

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        each = kwargs.pop("list_of_kwargs", [{}] * self.num_workers)
        wanted = [*self.full_observation_spec.keys(True, True), *self.done_keys]
        asked = self._asked(tensordict, "_reset")
        parts = []
        for i, env in enumerate(self._envs):
            given = None if tensordict is None else tensordict[i]
            if asked[i]:
                if given is not None and not env.batch_size and env.reset_keys == ["_reset"]:
                    given = given.exclude("_reset")
                self._started[i] = env.reset(given, **kwargs, **each[i]).select(*wanted)
            elif self._started[i] is None:
                self._started[i] = env.fake_tensordict().select(*wanted)
            # Of those that go on it is not looked at, but by statistics, which zeros would spoil.
            parts.append(self._started[i].copy())
        return maybe_dense_stack(parts, 0)

    def _step(self, tensordict: Any) -> Any:
        asked = self._asked(tensordict, "_step")
        inner = tensordict.get("_step", None) if self.ndim > 1 else None
        rows = tensordict.exclude("_step", "next").unbind(0)
        parts = []
        for i, (env, row) in enumerate(zip(self._envs, rows, strict=True)):
            if not asked[i]:
                parts.append(env._unmoved(row))
                continue
            if inner is not None:
                row.set("_step", inner[i])
            parts.append(env.step(row).get("next"))
        return maybe_dense_stack(parts, 0)

    def _seed_one(self, i: int, seed: int | None, static_seed: bool) -> int | None:
        return self._envs[i].set_seed(seed, static_seed=static_seed)

    def _of_each(self, name: str, arguments: Any) -> list[Any]:
        return [attribute(env, name, arguments) for env in self._envs]

    def __getitem__(self, index: Any) -> Any:
        """The environment of a number; or a list of those of a slice."""
        return self._envs[index]

    def _end(self) -> None:
        for env in self._envs:
            env.close(raise_if_closed=False)


belong_to("lite.envs", SerialEnv)
