"""`EnvCreator`: a function that makes environments, whose running statistics are shared."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, Self

from lite import TensorDictBase
from lite._arrays.public import belong_to
from lite.envs.base import EnvBase
from lite.envs.spec_checks import require_env
from lite.envs.transforms.vec_norm import VecNorm


class EnvCreator:
    """Makes environments whose `VecNorm`s have the same statistics, in other processes, too.

    One environment is made, reset, stepped once and closed beforehand; its statistics are those that all go
    on with. There is no lock: of two processes that add to them at the same moment, one's frame may be lost.

    Args:
        create_env_fn: makes an environment.
        create_env_kwargs: for that function.
        share_memory: put the statistics into memory that processes share.
        **kwargs: for that function, too.

    Raises:
        TypeError: what the function makes is not an `EnvBase`.

    Source:
        torchrl.envs.EnvCreator.

    Example:
        >>> from lite.envs import EnvCreator, GymEnv, TransformedEnv, VecNorm
        >>> make = EnvCreator(lambda: TransformedEnv(GymEnv("Pendulum-v1"), VecNorm(decay=1.0)))
        >>> first, second = make(), make()
        >>> td = first.reset()
        >>> second.transform.state_dict()["_extra_state"]["observation_count"]  # two frames were there before
        array([3.], dtype=float32)
    """

    def __init__(
        self,
        create_env_fn: Callable[..., EnvBase],
        create_env_kwargs: Mapping[str, Any] | None = None,
        share_memory: bool = True,
        **kwargs: Any,
    ) -> None:
        self.create_env_fn = create_env_fn
        self.create_env_kwargs = {**kwargs, **(create_env_kwargs or {})}
        env = require_env(create_env_fn(**self.create_env_kwargs), "create_env_fn must make")
        env.rand_step(env.reset())
        known = [norm._known() for norm in _norms(env)]
        self._statistics = [td.share_memory_() for td in known] if share_memory else known
        env.close()

    def __call__(self, **kwargs: Any) -> EnvBase:
        """Make an environment; of arguments given twice those of the creator count."""
        env = self.create_env_fn(**{**kwargs, **self.create_env_kwargs})
        for norm, statistics in zip(_norms(env), self._statistics, strict=True):
            norm._td = statistics
        return env

    def state_dict(self) -> Any:
        """The state dict of a new environment, with the statistics as they are now."""
        env = self()
        state = env.state_dict()
        env.close()
        return state

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_statistics": [_Shared(td) for td in self._statistics]}

    def make_variant(self, **kwargs: Any) -> Self:
        """A creator with other arguments, and the same statistics."""
        variant = type(self).__new__(type(self))
        variant.__dict__.update(self.__dict__, create_env_kwargs={**self.create_env_kwargs, **kwargs})
        return variant


belong_to("lite.envs", EnvCreator)


class _Shared:
    """A TensorDict that is pickled as a reference to its memory, where that is shared."""

    def __init__(self, td: TensorDictBase) -> None:
        self.td = td

    def __reduce__(self) -> Any:
        from multiprocessing.reduction import ForkingPickler

        return pickle.loads, (bytes(ForkingPickler.dumps(self.td)),)


def _norms(env: EnvBase) -> list[VecNorm]:
    return [part for part in env.modules() if isinstance(part, VecNorm)]
