"""`SerialEnv`, and what it shares with `ParallelEnv`: the batch of their environments' specs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, lazy_stack, maybe_dense_stack
from lite._arrays.public import belong_to
from lite.envs.base import EnvBase
from lite.envs.env_worker import METHOD, MISSING, attribute
from lite.envs.spec_checks import require_env
from lite.kernels._integer import integer
from lite.specs.base import Stacked, stacked
from lite.specs.composite import Composite, StackedComposite

Maker = Callable[..., Any]


class BatchedEnvBase(EnvBase):
    """Environments that step together, along a first batch dimension; a lazy stack where their specs differ.

    Args:
        num_workers: number of environments.
        create_env_fn: makes one; or a function for each.
        create_env_kwargs: for these functions: a dict, or one for each.
        device: None or "cpu".
        allow_done_after_reset, run_type_checks: as for `EnvBase`.
        mp_start_method: "forkserver", "spawn" or "fork"; the first of these that there is if None.
        daemon: end the processes at the end of this one; such processes may have no processes themselves.
        shutdown_timeout: seconds that a process may take to end before it is killed.
        serial_for_single: see `ParallelEnv`.
        pin_memory: TorchRL's, without effect.

    `env[1:]` and `env[0]` are batches of some of them. Where their entries differ, each row of a TensorDict
    has those of its environment: `td[0]`, `td.get(key, as_list=True)`. An attribute that only the
    environments have is a list of those of each; a method of theirs is called in each, and gives a list.

    Raises:
        ValueError: `num_workers` is below 1, or there is another number of functions or dicts.
        TypeError: a function cannot be called.
    """

    def __init__(
        self,
        num_workers: int,
        create_env_fn: Maker | list[Maker] | tuple[Maker, ...],
        *,
        create_env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        device: Any = None,
        allow_done_after_reset: bool = False,
        run_type_checks: bool = False,
        mp_start_method: str | None = None,
        daemon: bool = True,
        shutdown_timeout: float = 5.0,
        serial_for_single: bool = False,
        pin_memory: bool = False,
    ) -> None:
        count = integer("num_workers", num_workers, least=1)
        makers = [*create_env_fn] if isinstance(create_env_fn, (list, tuple)) else [create_env_fn] * count
        given = {} if create_env_kwargs is None else create_env_kwargs
        keywords = [given] * count if isinstance(given, Mapping) else list(given)
        for name, values in (("create_env_fn", makers), ("create_env_kwargs", keywords)):
            if len(values) != count:
                raise ValueError(f"{name} must have num_workers={count} elements, got {len(values)}.")
        for maker in makers:
            if isinstance(maker, EnvBase) or not callable(maker):
                raise TypeError(f"create_env_fn must be a function that makes one, got {maker!r:.40}.")
        super().__init__(
            device=device, allow_done_after_reset=allow_done_after_reset, run_type_checks=run_type_checks
        )
        self.num_workers = count
        self._start_method, self._daemon, self.shutdown_timeout = mp_start_method, daemon, shutdown_timeout
        self._makers = [(maker, dict(kwargs)) for maker, kwargs in zip(makers, keywords, strict=True)]
        self._begin()

    _whole: Any = None  # what these are a part of, whose processes they share
    _starts = 0  # how often they were made again
    _begin: Callable[[], None]  # makes the environments
    _end: Callable[[], None]  # closes them
    _take_part: Callable[[list[int]], None]  # leaves out the others
    _of_each: Callable[[str, list[Any]], list[Any]]  # what `attribute` gives of each
    _seed_one: Callable[[int, int | None, bool], int | None]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or hasattr(type(self), name) or self.__dict__.get("is_closed", True):
                raise
            found = self._of_each(name, [None] * self.num_workers)
            if any(value is MISSING for value in found):
                raise
        if any(value is METHOD for value in found):
            return lambda *args, **kwargs: self._of_each(name, [(args, kwargs)] * self.num_workers)
        return found

    def _take_specs(self, specs: Sequence[Composite]) -> None:
        """Set the specs of all environments, from those of each.

        Raises:
            ValueError: they do not stack: batch sizes, dtypes or numbers of dimensions differ, or there is no
                done entry that all have.
        """
        whole: Any = stacked(specs)
        differ = any(isinstance(spec, Stacked) and not spec.dim for spec in whole.values(True))
        self.__dict__.update(_batch_size=whole.shape, _join=lazy_stack if differ else maybe_dense_stack)
        for name in ("output_spec", "input_spec"):
            # An entry of one kind that differs makes the whole TensorDict a lazy stack.
            for kind in whole[name] if differ else ():
                whole[name][kind] = StackedComposite(*[spec[name, kind] for spec in specs])
            self.__dict__[f"_{name}"] = whole[name]
        if whole["output_spec", "full_done_spec"].is_empty():
            raise ValueError(f"the environments must share a done entry, got {specs}.")
        self.empty_cache()

    def _asked(self, tensordict: Any, *keys: NestedKey) -> NDArray[np.bool_]:
        """Which environments the "_reset" or "_step" entries name, (num_workers,); all without one."""
        masks: list[Any] = [None if tensordict is None else tensordict.get(key, None) for key in keys]
        if any(mask is None for mask in masks):
            return np.ones(self.num_workers, np.bool_)
        return np.any([mask.reshape(self.num_workers, -1).any(-1) for mask in masks], 0)

    def __getitem__(self, index: Any) -> Self:
        """The environments of a number, a slice or an array of numbers, as a batch of their own.

        They stay those of this batch: steps of either move them, and closing the part leaves them open.

        Raises:
            IndexError: there is none, or one twice, or the array has several dimensions.
        """
        rows = np.atleast_1d(np.arange(self.num_workers)[index])
        if rows.ndim != 1 or not 0 < rows.size == len({*rows.tolist()}):
            raise IndexError(
                f"index must give one or more of {self.num_workers} environments once, got {index!r}."
            )
        self.start()
        part = object.__new__(type(self))
        whole = self if self._whole is None else self._whole
        part.__dict__.update(vars(self), num_workers=rows.size, _whole=whole, _cache={})
        part._take_specs([self.specs[i] for i in rows.tolist()])
        part._take_part(rows.tolist())
        return part

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close all environments, and end their processes.

        Raises:
            RuntimeError: they are closed already, unless `raise_if_closed` is False.
        """
        if not self.is_closed:
            super().close()
            if self._whole is None:
                self._end()
        elif raise_if_closed:
            raise RuntimeError("the environment is closed already.")

    def _is_over(self) -> bool:
        """Whether it is a part of a batch, and closed, or made of environments that were."""
        whole = self._whole
        return whole is not None and (self.is_closed or whole.is_closed or self._starts < whole._starts)

    def start(self) -> None:
        """Make the environments again after they were closed, as `reset` and `set_seed` do."""
        if self._is_over():
            raise RuntimeError("a closed part of a batch of environments stays closed: index the batch.")
        if self.is_closed:
            self._begin()
            self._starts += 1
            self.is_closed = False

    def _set_seed(self, seed: int | None) -> None:
        raise NotImplementedError  # pragma: no cover - `set_seed` seeds one after the other

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed one environment after the other, each with the seed that the one before returned.

        Args:
            seed: seed of the first one.
            static_seed: all have the same.

        Returns:
            The seed for another environment.
        """
        self.generator = np.random.default_rng(seed)
        for i in range(self.num_workers):
            seed = self._seed_one(i, seed, static_seed)
        return seed

    def state_dict(self) -> dict[str, Any]:  # type: ignore[override]
        """What the transforms of the environments keep: of the i-th it is "worker{i}"."""
        states = self._of_each("state_dict", [((), {})] * self.num_workers)
        return {f"worker{i}": state for i, state in enumerate(states)}

    def load_state_dict(self, state_dict: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Restore a state of `state_dict`; one of a single environment in all of them."""
        many = "worker0" in state_dict
        states = [state_dict[f"worker{i}"] if many else state_dict for i in range(self.num_workers)]
        self._of_each("load_state_dict", [((state,), kwargs) for state in states])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_workers={self.num_workers}, batch_size={self.batch_size})"


class SerialEnv(BatchedEnvBase):
    """Environments that step one after the other, in this process.

    Args:
        num_workers, create_env_fn: how many, and what makes them.
        others: as for `BatchedEnvBase`; those of processes are without effect.

    Raises:
        ValueError: dtypes or numbers of dimensions of an entry differ, or another number of functions.

    Source:
        torchrl.envs.SerialEnv.

    Example:
        >>> from lite.envs import GymEnv, SerialEnv
        >>> env = SerialEnv(2, lambda: GymEnv("CartPole-v1"))
        >>> env.rollout(5, break_when_any_done=False).shape
        (2, 5)
    """

    def _begin(self) -> None:
        self._envs = [require_env(make(**given), "create_env_fn must make") for make, given in self._makers]
        self._started: list[Any] = [None] * self.num_workers  # what the last reset of each gave
        self._take_specs([env.specs for env in self._envs])

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        self.start()
        each = kwargs.pop("list_of_kwargs", [{}] * self.num_workers)
        asked = self._asked(tensordict, *self._filtered_reset_keys)
        parts = []
        for i, env in enumerate(self._envs):
            given = None if tensordict is None else tensordict[i]
            wanted = [*env.observation_keys, *env.done_keys]
            if asked[i]:
                if given is not None and not env.batch_size and env.reset_keys == ["_reset"]:
                    given = given.exclude("_reset")
                made = env.reset(given, **kwargs, **each[i])
                if self._started[i] is not None:  # where agents alone start anew, it has no other entries
                    made = self._started[i].copy().update(made)
                self._started[i] = made.select(*wanted, strict=False)
            elif self._started[i] is None:
                self._started[i] = env.fake_tensordict().select(*wanted, strict=False)
            # Of those that go on it is not looked at, but by statistics, which zeros would spoil.
            parts.append(self._started[i].copy())
        return self._join(parts, 0)

    def _step(self, tensordict: Any) -> Any:
        asked = self._asked(tensordict, "_step")
        inner = tensordict.get("_step", None) if self.ndim > 1 else None
        parts = []
        for i, (env, row) in enumerate(zip(self._envs, tensordict.exclude("_step").unbind(0), strict=True)):
            if asked[i] and inner is not None:
                row.set("_step", inner[i])
            parts.append(env.step(row).get("next") if asked[i] else env._unmoved(row))
        return self._join(parts, 0)

    def _seed_one(self, i: int, seed: int | None, static_seed: bool) -> int | None:
        self.start()
        return self._envs[i].set_seed(seed, static_seed=static_seed)

    def _of_each(self, name: str, arguments: list[Any]) -> list[Any]:
        return [attribute(env, name, own) for env, own in zip(self._envs, arguments, strict=True)]

    def _take_part(self, rows: list[int]) -> None:
        self._envs, self._started = ([of_each[i] for i in rows] for of_each in (self._envs, self._started))

    def _end(self) -> None:
        for env in [env for env in self._envs if not env.is_closed]:
            env.close()


belong_to("lite.envs", SerialEnv)
