"""`GymWrapper` and `GymEnv`: gymnasium's environments, single ones and vectors, as `EnvBase`."""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lite import TensorDict
from lite._arrays.public import belong_to
from lite._arrays.types import stored
from lite.envs.base import EnvBase, EnvWrapper, Listed
from lite.envs.environments import EncodedEnvironments, EnvError, Environments, Fault, aligned
from lite.envs.info_readers import BaseInfoDictReader, default_info_dict_reader
from lite.envs.recording import acted, recorded
from lite.envs.spaces import FLAGS, Encoding, flags_of_batch, specs_of_batch
from lite.envs.spec_checks import check_env_specs
from lite.kernels._install import install, needed
from lite.kernels._integer import integer
from lite.specs.arrays import Unbounded


class GymWrapper(EnvWrapper):
    """A gymnasium `Env`, or the environments of a `VectorEnv`, as an `EnvBase`.

    Observations are `"observation"`, or the members of a Dict space by their names ("state" is called
    "observation" where there is none). An environment of frames, of which the space is a Box from 0 to 255 of
    shape (height, width, 3), has them in "pixels". Rewards are float32, and with the done entries of shape
    (*batch, 1). Classes are one-hot vectors, int64, or integers with `categorical_action_encoding`.

    An episode that ends in a vector restarts when the environment is asked to, whatever gymnasium's
    AutoresetMode is: "next" has the last observation. Vectors that cannot be asked are refused.

    Args:
        env: the environment.
        categorical_action_encoding: give classes, of observations too, as integers.
        from_pixels: observe rendered frames, "pixels" uint8 (height, width, 3), unless it
            observes frames by itself; needs `render_mode`.
        pixels_only: observe nothing else.
        frame_skip: take each action so many times, or until one of the episodes ends, and sum the rewards.
        device, allow_done_after_reset, run_type_checks: as for `EnvBase`.

    Attributes:
        batch_size: (), or (n,) for a vector of n environments.

    What the environment has besides is an attribute of this one, too.

    Raises:
        ImportError: without gymnasium; the message has the pip command.
        TypeError: `env` is not a gymnasium environment, or has unsupported spaces.
        RuntimeError: a vector resets episodes by itself only.
        EnvError: in a step or a reset, the environment raised, or gave values of other shapes.

    Source:
        torchrl.envs.GymWrapper.

    Example:
        >>> import gymnasium
        >>> from lite.envs import GymWrapper
        >>> env = GymWrapper(gymnasium.make("CartPole-v1"))
        >>> seed = env.set_seed(0)
        >>> td = env.rollout(3)
        >>> td["action"].shape, td["next", "observation"].shape, td["next", "reward"].ravel()
        ((3, 2), (3, 4), array([1., 1., 1.], dtype=float32))
    """

    available_envs = Listed(lambda: list(_gymnasium("available_envs").registry))

    def __init__(
        self,
        env: Any,
        categorical_action_encoding: bool = False,
        *,
        from_pixels: bool = False,
        pixels_only: bool = False,
        frame_skip: int = 1,
        device: Any = None,
        allow_done_after_reset: bool = False,
        run_type_checks: bool = False,
    ) -> None:
        _gymnasium(type(self).__name__)
        if not (hasattr(env, "action_space") and hasattr(env, "observation_space")):
            raise TypeError(f"env must be a gymnasium environment, got {type(env).__name__}.")
        if from_pixels:
            env = _with_pixels(env, pixels_only)
        environments = Environments(env)
        from_pixels = from_pixels or (not environments.batch and _observes_pixels(env))
        if environments.skips:
            raise RuntimeError(
                "the vector resets episodes in the next step only: make it with the autoreset_mode "
                "DISABLED or SAME_STEP."
            )
        super().__init__(
            device=device,
            batch_size=environments.batch,
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.frame_skip = integer("frame_skip", frame_skip)
        self.categorical_action_encoding = categorical_action_encoding
        self.environments = environments
        self._env, self.from_pixels = env, from_pixels
        self._steps = 0
        self._readers: list[Any] = []
        self._started: NDArray[np.bool_] | None = None  # which restarted by themselves
        self._present: list[Any] = []  # and what all observe now
        observed = [leaf.path for leaf in environments.observation.leaves]
        if from_pixels and observed == [("observation",)]:
            observed = [("pixels",)]
        elif ("state",) in observed and ("observation",) not in observed:
            observed[observed.index(("state",))] = ("observation",)
        self._observations = [
            Encoding(leaf, key, categorical_action_encoding)
            for leaf, key in zip(environments.observation.leaves, observed, strict=True)
        ]
        self._actions = [
            Encoding(leaf, leaf.path, categorical_action_encoding) for leaf in environments.action.leaves
        ]
        # One array each, which most environments have, needs no search by key.
        self._flat = all(isinstance(part.key, str) for part in self._observations)
        batch = environments.batch
        self.observation_spec = specs_of_batch(((x.key, x.spec) for x in self._observations), batch)
        self.action_spec = specs_of_batch(((x.key, x.spec) for x in self._actions), batch)
        self.reward_spec = Unbounded((*batch, 1), dtype=np.float32)
        self.done_spec = flags_of_batch(batch)

    # -- steps ----------------------------------------------------------------------------------

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        try:
            if mask is None or mask.all():
                started, self._started = self._started, None
                restarted = mask is not None and started is not None and started.all()
                arrays = self._present if restarted else self.environments.reset(**kwargs)
            else:
                arrays = self._reset_some(mask.reshape(self.batch_size))
        except Fault as fault:
            raise self._error(fault) from fault.cause
        self._present = arrays
        out = self._observed(arrays)
        return self._told(out) if self._readers else out

    def _reset_some(self, mask: NDArray[np.bool_]) -> list[Any]:
        """The first observations of environments that restart; the last observations of the others."""
        started, self._started = self._started, None
        asked = mask if started is None else mask & ~started
        leaves = self.environments.observation.leaves
        arrays = [np.array(array) for array in self._present] or [
            np.zeros((*self.batch_size, *leaf.spec.shape), leaf.spec.dtype) for leaf in leaves
        ]
        if asked.any():
            for array, fresh in zip(arrays, self.environments.reset_some(asked), strict=True):
                np.copyto(array, fresh, "unsafe", aligned(asked, array))
        return arrays

    def _step(self, tensordict: Any) -> Any:
        """Repeat the action for `frame_skip` steps, or until an episode ends; rewards are summed."""
        values = [part.value(self._action_of(tensordict, part)) for part in self._actions]
        try:
            outcome = self.environments.step(list(values))
            reward = outcome.reward
            for _ in range(self.frame_skip - 1):
                if np.any(outcome.terminated) or np.any(outcome.truncated):
                    break
                outcome = self.environments.step(list(values))
                reward = reward + outcome.reward
        except Fault as fault:
            raise self._error(fault) from fault.cause
        state = self.__dict__  # a tenth of the time of assignments to attributes of a module
        state["_steps"] += 1
        state["_present"] = outcome.present
        state["_started"] = outcome.autoreset
        out = self._observed(outcome.reached)
        entries = out._data
        terminated, truncated = outcome.terminated, outcome.truncated
        if self.environments.batch:
            entries["reward"] = np.array(reward, np.float32)[:, None]
            entries["terminated"] = np.array(terminated, np.bool_)[:, None]
            entries["truncated"] = np.array(truncated, np.bool_)[:, None]
            entries["done"] = entries["terminated"] | entries["truncated"]
        else:
            entries["reward"] = np.array((reward,), np.float32).reshape(1)
            entries["done"] = np.array((terminated or truncated,), np.bool_)
            entries["terminated"] = np.array((terminated,), np.bool_)
            entries["truncated"] = np.array((truncated,), np.bool_)
        return self._told(out) if self._readers else out

    def _action_of(self, tensordict: Any, part: Encoding) -> Any:
        value = tensordict.get(part.key, None)
        if value is None:
            raise KeyError(
                f"the action {part.key!r} is missing; got the entries {sorted(map(str, tensordict.keys()))}."
            )
        wanted = (*self.batch_size, *part.spec.shape)
        if value.shape != wanted:
            raise ValueError(f"the action {part.key!r} must have shape {wanted}, got {tuple(value.shape)}.")
        return stored(value)

    def _step_proc_data(self, following: Any) -> Any:
        # `_step` leaves nothing to complete.
        return super()._step_proc_data(following) if self.run_type_checks else following

    def _recorded(self, tensordict: Any, actions: Any, policy: Any, max_steps: int, stop: bool) -> Any:
        alone = not self.batch_size and self.frame_skip == 1 and self._flat and len(self._actions) == 1
        known = type(self) in (GymWrapper, GymEnv) and type(tensordict) is TensorDict
        if not (alone and known) or self._readers or self.run_type_checks:
            return None
        action, observed = self._actions[0], {part.key for part in self._observations}
        if not tensordict._data.keys() <= observed | set(FLAGS) or not isinstance(action.key, str):
            return None
        if policy is not None:
            return self._acted(tensordict, action, policy, max_steps, stop) if max_steps else None
        if actions is None:
            actions = action.spec.rand((max_steps,), rng=self.generator)
        elif isinstance(actions, (list, tuple, np.ndarray)) and max_steps:
            actions = np.stack([np.asarray(entry) for entry in actions[:max_steps]])
        else:
            return None
        if actions.shape[1:] != action.spec.shape or actions.dtype != action.spec.dtype:
            return None
        try:
            out = recorded(self.environments, self._observations, action, tensordict, actions, stop)
        except Fault as fault:
            self._steps += fault.steps
            raise self._error(fault) from fault.cause
        self._steps += len(out)
        return out

    def _acted(self, tensordict: Any, action: Encoding, policy: Any, max_steps: int, stop: bool) -> Any:
        taken = 0

        def value_of(td: Any) -> Any:
            nonlocal taken
            taken += 1
            return action.value(self._action_of(td, action))

        def restarted(td: Any) -> Any:
            return self.maybe_reset(self.step_mdp(td))

        parts = self.environments, self._observations
        try:
            made = acted(*parts, tensordict, policy, value_of, max_steps, stop, restarted)
        except Fault as fault:
            self._steps += taken - 1
            raise self._error(fault) from fault.cause
        self._steps += taken
        return made

    def _observed(self, arrays: list[Any]) -> TensorDict:
        """The observations in a TensorDict, as copies: environments may write to theirs again."""
        if self._flat:
            parts = zip(self._observations, arrays, strict=True)
            entries: dict[Any, Any] = {part.key: part.entry(array) for part, array in parts}
            return TensorDict._make(entries, self.batch_size)
        out = TensorDict({}, self.batch_size)
        for part, array in zip(self._observations, arrays, strict=True):
            out.set(part.key, part.entry(array))
        return out

    @property
    def encoded(self) -> EncodedEnvironments | None:
        """The environments as arrays of the entries, for loops without TensorDicts; None for subclasses."""
        if type(self) not in (GymWrapper, GymEnv) or self.frame_skip != 1 or self._readers:
            return None
        return EncodedEnvironments(self.environments, self._observations, self._actions)

    def _error(self, fault: Fault) -> EnvError:
        who = "an environment" if fault.index is None else f"environment {fault.index}"
        return EnvError(f"{who} failed at step {self._steps}: {fault}.", fault.index, self._steps)

    def _set_seed(self, seed: int | None) -> None:
        self.reset(seed=seed)

    # -- what is told besides -------------------------------------------------------------------

    @property
    def info_dict_reader(self) -> list[Any]:
        """The readers of info dicts."""
        return self._readers

    def set_info_dict_reader(self, info_dict_reader: Any = None, ignore_private: bool = True) -> Self:
        """Write values of gymnasium's info dicts to the observations; returns self.

        Where the specs of a `default_info_dict_reader` are unknown, a step is made to see what there is. In a
        vector that resets episodes by itself, the values where one ends are those of the next one.

        Args:
            info_dict_reader: a function of the dict and the TensorDict to write to, best a
                `BaseInfoDictReader`, whose specs are added to those of observations; a
                `default_info_dict_reader` if None.
            ignore_private: for that one.

        Source:
            torchrl.envs.GymLikeEnv.set_info_dict_reader.

        Example:
            >>> from lite.envs import GymEnv, default_info_dict_reader
            >>> env = GymEnv("FrozenLake-v1").set_info_dict_reader(default_info_dict_reader(["prob"]))
            >>> env.rollout(2)["next", "prob"].shape
            (2,)
        """
        reader = info_dict_reader
        if reader is None:
            reader = default_info_dict_reader(ignore_private=ignore_private)
        if not callable(reader):
            raise TypeError(f"info_dict_reader must be callable or None, got {type(reader).__name__}.")
        self._readers.append(reader)
        if isinstance(reader, BaseInfoDictReader):
            if isinstance(reader, default_info_dict_reader) and reader.info_spec is None:
                self.reset()  # resets may tell less than steps
                reader.reset()
                self.rand_step()
                self.reset()
            self.observation_spec.update(reader.info_spec)
            self.empty_cache()
        return self

    def auto_register_info_dict(
        self, ignore_private: bool = True, *, info_dict_reader: Any = None
    ) -> EnvBase:
        """Write all values of gymnasium's info dicts to the observations, and check that the specs hold.

        Args:
            ignore_private, info_dict_reader: as for `set_info_dict_reader`.

        Returns:
            self; or an environment around it with a `TensorDictPrimer`, where resets lack what steps have.

        Raises:
            RuntimeError: there is a reader already.
            AssertionError: the specs do not hold.

        Source:
            torchrl.envs.GymLikeEnv.auto_register_info_dict.
        """
        if self._readers:
            raise RuntimeError("the environment has a reader of info dicts already.")
        self.set_info_dict_reader(info_dict_reader, ignore_private)
        try:
            check_env_specs(self)
        except (AssertionError, RuntimeError):  # keys of steps that resets lack
            from lite.envs.transforms import TensorDictPrimer, TransformedEnv  # for this rare case alone

            primed = TransformedEnv(self, TensorDictPrimer(self._readers[0].info_spec))
            check_env_specs(primed)
            return primed
        return self

    def _told(self, out: Any) -> Any:
        for reader in self._readers:
            found = reader(self.environments.info, out)
            out = out if found is None else found
        return out

    # -- the end --------------------------------------------------------------------------------

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environment."""
        if not self.is_closed:
            self.environments.close()
        super().close(raise_if_closed=raise_if_closed)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._env}, batch_size={self.batch_size})"


class GymEnv(GymWrapper):
    """A gymnasium environment by its name; see `GymWrapper`.

    Args:
        env_name: its name, as `gymnasium.make` takes it.
        categorical_action_encoding, from_pixels, pixels_only, frame_skip, device, allow_done_after_reset,
            run_type_checks: as for `GymWrapper`, but `pixels_only` is True.
        num_envs: how many environments run in processes of their own, and step together; 0 for one alone,
            in this process.
        disable_env_checker: leave out gymnasium's checks of each value.
        **kwargs: for `gymnasium.make`.

    Raises:
        gymnasium.error.Error: the name is unknown.
        ImportError, TypeError, EnvError: as for `GymWrapper`.

    Source:
        torchrl.envs.GymEnv.

    Example:
        >>> from lite.envs import GymEnv
        >>> env = GymEnv("Pendulum-v1")
        >>> env.action_spec, env.reset().get("observation").shape
        (Bounded(low=-2.0, high=2.0, shape=(1,), dtype=float32), (3,))
    """

    def __init__(
        self,
        env_name: str,
        categorical_action_encoding: bool = False,
        *,
        from_pixels: bool = False,
        pixels_only: bool = True,
        frame_skip: int = 1,
        num_envs: int = 0,
        device: Any = None,
        allow_done_after_reset: bool = False,
        run_type_checks: bool = False,
        disable_env_checker: bool = True,
        **kwargs: Any,
    ) -> None:
        gymnasium = _gymnasium(type(self).__name__)
        if from_pixels:
            kwargs.setdefault("render_mode", "rgb_array")
        kwargs["disable_env_checker"] = disable_env_checker
        make = partial(gymnasium.make, env_name, **kwargs)
        try:  # environments that skip frames themselves do it faster
            env = make(frameskip=frame_skip)
            make, frame_skip = partial(make, frameskip=frame_skip), 1
        except TypeError as error:
            if "frameskip" not in str(error):
                raise
            env = make()
        if num_envs:
            env.close()
            if from_pixels:
                make = partial(_made_with_pixels, make, pixels_only)
            env = gymnasium.vector.AsyncVectorEnv(
                [make] * integer("num_envs", num_envs), autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED
            )
        super().__init__(
            env,
            categorical_action_encoding,
            from_pixels=from_pixels,
            pixels_only=pixels_only,
            frame_skip=frame_skip,
            device=device,
            allow_done_after_reset=allow_done_after_reset,
            run_type_checks=run_type_checks,
        )
        self.env_name = env_name

    def __repr__(self) -> str:
        return f"GymEnv(env={self.env_name}, batch_size={self.batch_size})"


class set_gym_backend(ContextDecorator):
    """The library that environments are from: gymnasium, which is lite's only one.

    For scripts that choose one: a context, a decorator, or for good by `set()`; there is nothing to change.

    Args:
        backend: "gymnasium", the module, or a function that returns it.

    Raises:
        ValueError: another library.

    Source:
        torchrl.envs.set_gym_backend.

    Example:
        >>> from lite.envs import GymEnv, set_gym_backend
        >>> with set_gym_backend("gymnasium"):
        ...     env = GymEnv("CartPole-v1")
    """

    def __init__(self, backend: Any) -> None:
        library = backend() if callable(backend) else backend
        name = library if isinstance(library, str) else getattr(library, "__name__", library)
        if name != "gymnasium":
            raise ValueError(f"backend must be 'gymnasium', got {name!r}.")

    def set(self) -> None:
        """Choose it for good."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


belong_to("lite.envs", GymWrapper, GymEnv, set_gym_backend)


def _gymnasium(what: str) -> Any:
    return needed("gymnasium", f"{what} needs gymnasium", install("gym"))


def _with_pixels(env: Any, pixels_only: bool) -> Any:
    """The environment, observing frames; a vector is left as it is, as its environments do."""
    import gymnasium

    if isinstance(env, gymnasium.vector.VectorEnv) or _observes_pixels(env):
        return env
    if not env.render_mode:
        raise ValueError("from_pixels needs an environment made with render_mode='rgb_array'.")
    return gymnasium.wrappers.AddRenderObservation(env, render_only=pixels_only)


def _observes_pixels(env: Any) -> bool:
    """Whether an environment observes frames by itself: a Box of them, or a Dict that has "pixels"."""
    from gymnasium import spaces

    space = env.observation_space
    if isinstance(space, spaces.Dict):
        return "pixels" in space.spaces
    frames = isinstance(space, spaces.Box) and len(space.shape) == 3 and space.shape[-1] == 3
    return frames and bool((space.low == 0).all() and (space.high == 255).all())


def _made_with_pixels(make: Any, pixels_only: bool) -> Any:
    return _with_pixels(make(), pixels_only)
