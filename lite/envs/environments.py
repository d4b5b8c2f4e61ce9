"""One face for gymnasium's environments: single ones, vectors, encoded ones; how they restart and fail."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite._arrays.public import belong_to
from lite._processes.watchdog import Watchdog
from lite._transforms.vmap.running import reads
from lite.envs.spaces import Encoding, Layout

_NUMBERS = (float, np.floating, int)
_PER_STEP = ("rewards", "terminations", "truncations")
RESERVED = {"action", "collector", "done", "next", "reward", "terminated", "truncated"}


class Fault(Exception):
    """An environment failed.

    Attributes:
        index: which, if that is known.
        cause: the error that it raised.
        steps: how many the loop had made before.
    """

    steps = 0

    def __init__(self, message: str, index: int | None, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.index = index
        self.cause = cause


class EnvError(RuntimeError):
    """Raised when an environment raises, hangs, or returns values outside its spaces.

    Attributes:
        index: the number of the environment, 0 for a single one; None if it is unknown.
        step: how many steps each environment had made before.
        frames: the frames of the current batch so far, a TensorDict; None if there are none.
    """

    def __init__(self, message: str, index: int | None, step: int, frames: Any = None) -> None:
        super().__init__(message)
        self.index = index
        self.step = step
        self.frames = frames

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.index, self.step, self.frames)


class Outcome(NamedTuple):
    """The result of a step, with arrays of shape (*batch, ...).

    Attributes:
        reached: the observation that each action led to, that at the end of an episode too; an array for
            each leaf of the observation space.
        present: what each environment observes now, which differs where it restarted by itself.
        reward, terminated, truncated: the step's numbers and flags.
        autoreset: which environments restarted by themselves; None for none.
    """

    reached: list[NDArray[Any]]
    present: list[NDArray[Any]]
    reward: Any
    terminated: Any
    truncated: Any
    autoreset: NDArray[np.bool_] | None


class Environments:
    """An `Env`, or the environments of a `VectorEnv`, seen as arrays.

    Attributes:
        batch: () for an `Env`, (n,) for a vector of n.
        count: how many environments there are.
        observation, action: where the arrays of observations and actions are.
        skips: an environment that ended restarts in the next step, whose action is lost, and cannot be
            asked to do so before.
        info: what the last step or reset told besides.
        resets_some: whether some environments can be asked to restart, and others not.

    Args:
        env: the environment.
        timeout: seconds that a step or a reset may take; None for any.

    Raises:
        TypeError: the object is not a gymnasium environment, or has unsupported spaces.
        ValueError: an observation is called as an entry that the collector writes; a bad timeout.
    """

    def __init__(self, env: Any, timeout: float | None = None) -> None:
        self.env = env
        self.info: Any = {}
        many = hasattr(env, "num_envs") or hasattr(env, "single_observation_space")
        self.count = int(env.num_envs) if many else 1
        self.batch: tuple[int, ...] = (self.count,) if many else ()
        prefix = "single_" if hasattr(env, "single_observation_space") else ""
        self.observation = Layout(getattr(env, f"{prefix}observation_space"), "observation", root=True)
        self.action = Layout(getattr(env, f"{prefix}action_space"), "action")
        taken = sorted({leaf.path[0] for leaf in self.observation.leaves} & RESERVED)
        if taken:
            raise ValueError(f"observations must not be called as other entries of a batch, got {taken}.")
        self._base = env.unwrapped if many and hasattr(env, "unwrapped") else env
        self._mode = _mode(env) if many else "Disabled"
        self.resets_some = (
            not many or self._mode == "Disabled" or _takes_reset_mask(env, self._base, self._mode)
        )
        self._gives_rows = many and _is_envpool(self._base)
        self.skips = self._mode == "NextStep" and not self.resets_some
        self._watchdog = None if timeout is None else Watchdog(timeout)
        self._reshaped = [
            (i, leaf)
            for i, leaf in enumerate(self.action.leaves)
            if leaf.shape != leaf.spec.shape or not (many or leaf.shape)
        ]

    # -- calls ----------------------------------------------------------------------------------

    def reset(self, seed: int | list[int] | None = None, **kwargs: Any) -> list[NDArray[Any]]:
        """Reset all; returns what they observe.

        Args:
            seed: seed of the first environment, the others have those after it; or one for each.
            **kwargs: for the environment's `reset`.
        """
        if seed is not None:
            kwargs["seed"] = seed[0] if isinstance(seed, list) and not self.batch else seed
        result = self._call("reset", self.env.reset, **kwargs)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise self._fault_of("reset", "(observation, info)", result)
        self.info = result[1]
        return self._observed(result[0], self.batch)

    def reset_some(self, ended: NDArray[np.bool_]) -> list[NDArray[Any]]:
        """Reset some, of shape `batch`; returns what all observe, where only their rows have a meaning."""
        if not self.batch:
            return self.reset()
        # gymnasium takes the mask out of the options that it is given.
        given, self.info = self._call("reset", self.env.reset, options={"reset_mask": ended.copy()})
        if not self._gives_rows:
            return self._observed(given, self.batch)
        arrays = self._observed(given, (int(np.count_nonzero(ended)),))
        places = np.cumsum(ended) - 1  # others get any row
        return [array[places] for array in arrays]

    def step(self, actions: list[NDArray[Any]]) -> Outcome:
        """Take one step with an array of actions for each leaf of the action space."""
        for i, leaf in self._reshaped:
            actions[i] = actions[i].reshape((*self.batch, *leaf.shape))
            if not actions[i].ndim and leaf.spec.dtype.kind != "f":
                # Environments that look actions up in dicts need numbers, not arrays of no dimension.
                actions[i] = actions[i][()]
        result = self._call("step", self.env.step, self.action.value(actions))
        if not isinstance(result, tuple | list) or len(result) != 5:
            raise self._fault_of("step", "(observation, reward, terminated, truncated, info)", result)
        given, reward, terminated, truncated, self.info = result
        reached = present = self._observed(given, self.batch)
        autoreset = None
        if self.batch:
            for i, array in enumerate((reward, terminated, truncated)):
                # Nearly always arrays: asking them is faster than np.shape.
                shape = array.shape if type(array) is np.ndarray else np.shape(array)
                if shape != self.batch:
                    raise Fault(f"gave {_PER_STEP[i]} of shape {shape}, expected {self.batch}", None)
            if self._mode == "SameStep":
                ended = np.logical_or(terminated, truncated)
                if np.count_nonzero(ended):
                    autoreset = ended
                    reached = self._final(present, ended, self.info)
        elif not isinstance(reward, _NUMBERS):
            reward = _number(reward)
        return Outcome(reached, present, reward, terminated, truncated, autoreset)

    def close(self) -> None:
        """Close the environment, or end its processes if one of them hangs."""
        stuck = self._watchdog is not None and self._watchdog.stuck
        if self._watchdog is not None:
            self._watchdog.close()
        if not stuck:
            self.env.close()
            return
        # The hanging thread uses the environment, so only calls that need no answer are possible.
        processes = getattr(self._base, "processes", ())
        for process in processes:
            process.terminate()
            process.join()
        if processes:
            self._base.closed = True  # there is nothing left to close

    # -- inside ---------------------------------------------------------------------------------

    def _call(self, what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        reads("an environment")
        try:
            if self._watchdog is not None:
                return self._watchdog.call(function, *args, **kwargs)
            return function(*args, **kwargs)
        except Exception as error:
            if self._watchdog is not None and self._watchdog.stuck:
                index = self._owner(self._watchdog.frames())
                raise Fault(f"{what} gave {error}", index, error) from error
            raise Fault(
                f"{what} raised {type(error).__name__}: {error}", self._culprit(error), error
            ) from error

    def _fault_of(self, what: str, wanted: str, result: Any) -> Fault:
        got = f"{len(result)} values" if isinstance(result, tuple | list) else f"one {type(result).__name__}"
        return Fault(f"{what} must give {wanted}, as gymnasium's does, got {got}", None if self.batch else 0)

    def _culprit(self, error: Exception) -> int | None:
        """The number of the environment that raised an error; None if it is unknown."""
        if not self.batch:
            return 0
        pipes = getattr(self._base, "parent_pipes", None)
        if pipes is not None:  # a process that failed has no pipe any more
            return next((i for i, pipe in enumerate(pipes) if pipe is None), None)
        frames = []
        trace = error.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        index = self._owner(frames)
        if index is not None:
            return index
        # gymnasium's SyncVectorEnv keeps the observations of all environments, and raises when it stacks
        # them.
        for i, value in enumerate(getattr(self._base, "_env_obs", ())):
            arrays = self.observation.arrays(value)
            if any(
                np.shape(a) != leaf.shape for a, leaf in zip(arrays, self.observation.leaves, strict=True)
            ):
                return i
        return None

    def _owner(self, frames: Iterable[FrameType]) -> int | None:
        """The environment, or the pipe to it, one of whose methods runs in a frame."""
        if not self.batch:
            return 0
        parts = [*getattr(self._base, "parent_pipes", ())] or [*getattr(self._base, "envs", ())]
        for frame in frames:
            owner = frame.f_locals.get("self")
            for i, part in enumerate(parts):
                if owner is part:
                    return i
        return None

    def _observed(self, given: Any, batch: tuple[int, ...]) -> list[NDArray[Any]]:
        """The arrays of an observation, in the shapes of entries."""
        arrays = self.observation.arrays(given)
        for i, leaf in enumerate(self.observation.leaves):
            array, expected = np.asarray(arrays[i]), batch + leaf.shape
            if array.shape != expected:
                raise Fault(
                    f"gave an observation of shape {array.shape} for {leaf.path}, expected {expected}",
                    None if self.batch else 0,
                )
            arrays[i] = array if leaf.shape == leaf.spec.shape else array.reshape((*batch, *leaf.spec.shape))
        return arrays

    def _final(self, present: list[NDArray[Any]], ended: NDArray[np.bool_], info: Any) -> list[NDArray[Any]]:
        """The last observations of environments that restarted in the same step."""
        final = info.get("final_obs") if isinstance(info, dict) else None
        if final is None:
            index = int(np.flatnonzero(ended)[0])
            raise Fault("restarted in the step that ended an episode, without final_obs in its info", index)
        reached = [array.copy() for array in present]
        each = isinstance(final, np.ndarray) and final.dtype == np.object_
        whole = None if each else self.observation.arrays(final)
        for i in np.flatnonzero(ended):
            values = self.observation.arrays(final[i]) if whole is None else [array[i] for array in whole]
            for leaf, array, value in zip(self.observation.leaves, reached, values, strict=True):
                if np.shape(value) != leaf.shape:
                    raise Fault(
                        f"gave a final_obs of shape {np.shape(value)} for {leaf.path}, expected {leaf.shape}",
                        int(i),
                    )
                array[i] = value
        return reached


def aligned(mask: NDArray[np.bool_], array: NDArray[Any]) -> NDArray[np.bool_]:
    """A mask of the batch, with the dimensions that `array` has besides."""
    return mask.reshape(mask.shape + (1,) * (array.ndim - mask.ndim))


def _number(reward: Any) -> Any:
    """The reward of one environment that gave something else, such as an array (1,); NaN for None."""
    try:
        return np.asarray(reward, np.float64).reshape(())[()]
    except (TypeError, ValueError) as error:
        raise Fault(f"gave the reward {reward!r:.60}, expected a number", 0, error) from error


def _mode(env: Any) -> str:
    """The value of gymnasium's AutoresetMode; NEXT_STEP is what vectors without a word of it do."""
    # Up to gymnasium 1.2 vectors of one class of environments share metadata, where the last one wrote.
    shared = getattr(env, "metadata", {}).get("autoreset_mode", "NextStep")
    mode = getattr(env, "autoreset_mode", shared)
    return str(getattr(mode, "value", mode))


def _takes_reset_mask(env: Any, base: Any, mode: str) -> bool:
    """Whether a vector that resets environments by itself lets others do it, too."""
    from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
    from gymnasium.wrappers.vector import NormalizeObservation

    wrapper = env
    while wrapper is not base:
        if isinstance(wrapper, NormalizeObservation):  # it refuses to
            return False
        wrapper = wrapper.env
    if isinstance(base, SyncVectorEnv):
        return True
    if isinstance(base, AsyncVectorEnv):
        # Without shared memory its workers forget nothing of an episode's end, and restart once more.
        return mode == "SameStep" or bool(base.shared_memory)
    return _is_envpool(base) and "options" in inspect.signature(base.reset).parameters


def _is_envpool(base: Any) -> bool:
    """Whether it is EnvPool, by name, as that may not be installed. Its resets return only the requested
    rows.
    """
    return any(cls.__module__.startswith("envpool.") for cls in type(base).__mro__)


class EncodedEnvironments:
    """`Environments` whose arrays are entries: classes as one-hot vectors, say.

    Args:
        environments: the environments.
        observations, actions: the encodings of their leaves.
    """

    def __init__(
        self, environments: Environments, observations: Sequence[Encoding], actions: Sequence[Encoding]
    ) -> None:
        self.inner = environments
        self.env = environments.env
        self.batch, self.count = environments.batch, environments.count
        self.skips, self.resets_some = environments.skips, environments.resets_some
        self.observation = environments.observation.encoded(observations)
        self.action = environments.action.encoded(actions)

    def reset(self, seed: int | list[int] | None = None) -> list[NDArray[Any]]:
        """Reset all; returns what they observe."""
        return self._entries(self.inner.reset(seed))

    def reset_some(self, ended: Any) -> list[NDArray[Any]]:
        """Reset some; see `Environments.reset_some`."""
        arrays = self.inner.reset_some(ended)
        if self.batch:  # rows without a meaning may be no classes
            rows = np.flatnonzero(ended)[np.cumsum(ended) - 1]
            arrays = [array[rows] for array in arrays]
        return self._entries(arrays)

    def step(self, actions: list[NDArray[Any]]) -> Outcome:
        """Take one step with an array for each entry of the actions."""
        values = [part.value(array) for part, array in zip(self.action.leaves, actions, strict=True)]
        outcome = self.inner.step(values)
        reached = self._entries(outcome.reached)
        present = reached if outcome.present is outcome.reached else self._entries(outcome.present)
        return outcome._replace(reached=reached, present=present)

    def close(self) -> None:
        """Close the environments."""
        self.inner.close()

    def _entries(self, arrays: list[Any]) -> list[NDArray[Any]]:
        pairs = zip(self.observation.leaves, arrays, strict=True)
        return [array if part.plain else part.entry(array) for part, array in pairs]


belong_to("lite.data", EnvError)
