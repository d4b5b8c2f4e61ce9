"""Collection in the background, into a replay buffer, while the buffer is sampled."""

from __future__ import annotations

import copy
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from lite._arrays.types import raw
from lite._transforms.arrays import InterpretedArray
from lite.data.collectors.progress import EpisodeRewards, shown
from lite.data.trajectories.split_trajectories import split_trajectories
from lite.nn._modules.module import Module


class BatchIterator(ABC):
    """Base class of collectors of steps: a context manager, and an iterable of batches."""

    total_frames: int
    requested_frames_per_batch: int
    policy_version: int
    progress: bool
    split_trajs: bool
    postproc: Callable[[Any], Any] | None
    replay_buffer: Any
    _frames: int
    _rewards: EpisodeRewards

    def __iter__(self) -> Iterator[Any]:
        """The batches that are left, one after the other."""
        if not self.progress:
            return self._each()
        return shown(self._each(), self.total_frames, lambda: self._frames, self._mean_reward)

    @abstractmethod
    def _each(self) -> Iterator[Any]:
        """The batches that are left, without a progress bar."""

    def _mean_reward(self) -> float | None:
        """The mean reward of the last episodes, for the bar."""
        return self._rewards.mean()

    def _frames_left(self) -> bool:
        return self.total_frames < 0 or self._frames < self.total_frames

    def __len__(self) -> int:
        """The number of batches in all; RuntimeError if it is unlimited."""
        if self.total_frames < 0:
            raise RuntimeError("a collector with total_frames=-1 has no end, and so no length.")
        return -(self.total_frames // -self.requested_frames_per_batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.shutdown()

    @abstractmethod
    def shutdown(self) -> None:
        """End the environments or processes that collect."""

    def _processed(self, data: Any) -> Any:
        """A batch after `split_trajs` and `postproc`."""
        if self.split_trajs:
            data = split_trajectories(data, prefix="collector")
        return data if self.postproc is None else self.postproc(data)

    def _stored(self, data: Any) -> Any:
        """The batch; None if the replay buffer got it."""
        if self.replay_buffer is None:
            return data
        self.replay_buffer.extend(data)
        return None

    def _counts(self, **more: Any) -> dict[str, Any]:
        """The entries of `stats` that all collectors have."""
        found = {"frames": self._frames, "requested_frames_per_batch": self.requested_frames_per_batch}
        found |= {"policy_version": self.policy_version, **more}
        if self.total_frames >= 0:
            found |= {"total_frames": self.total_frames, "completed": not self._frames_left()}
        return found


class Background(ABC):
    """Base class of collectors that a thread can iterate over, to fill a replay buffer."""

    replay_buffer: Any
    _thread: threading.Thread | None = None
    _stopped = False
    _failure: BaseException | None = None

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """The batches that are left, one after the other."""

    @abstractmethod
    def shutdown(self, timeout: float | None = None) -> None:
        """End the environments or processes that collect."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_thread": None}  # threads cannot be pickled

    def start(self) -> None:
        """Collect into the replay buffer from now on, in a thread, until `async_shutdown` or the end.

        A policy that is a Module may be trained meanwhile: collectors of steps act with its parameters as
        they are at each step. A language model gets weights by `update_policy_weights_`.

        Raises:
            RuntimeError: there is no replay buffer.

        Example:
            >>> from lite.data import Collector, LazyTensorStorage, ReplayBuffer
            >>> from lite.envs import GymEnv
            >>> buffer = ReplayBuffer(storage=LazyTensorStorage(100))
            >>> collector = Collector(
            ...     GymEnv("CartPole-v1"), frames_per_batch=10, total_frames=40, replay_buffer=buffer
            ... )
            >>> collector.start()
            >>> while collector.is_running():
            ...     pass
            >>> len(buffer)
            40
            >>> collector.async_shutdown()
        """
        if self.replay_buffer is None:
            raise RuntimeError("start needs a replay_buffer, which gets what is collected.")
        if self._stopped and self._thread is not None:
            self._thread.join()  # `async_shutdown` did not wait for its batch
        if not self.is_running():
            self._stopped = False
            self._before_start()
            self._thread = threading.Thread(target=self._collect_all, daemon=True)
            self._thread.start()

    def _before_start(self) -> None:  # noqa: B027
        """Called by `start` before its thread begins."""

    def is_running(self) -> bool:
        """Whether `start` was called, and the thread has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def async_shutdown(self, timeout: float | None = None, close_env: bool = True) -> None:
        """End the thread of `start` after its batch, and shut down.

        Args:
            timeout: seconds to wait for the batch; None for any time.
            close_env: leave environments of this process open if False.

        Raises:
            BaseException: whatever the thread failed with, which is printed at once, unless the program ends.
        """
        self._stopped = True
        if self._thread is not None:
            self._thread.join(timeout)
        self.shutdown(timeout, **({} if close_env else {"close_env": False}))
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _collect_all(self) -> None:
        try:
            for _ in self:
                if self._stopped:
                    return
        except BaseException as error:
            self._failure = error
            # Print now: a loop that waits for frames would not see the failure. Not at the program's end.
            if threading.main_thread().is_alive():
                traceback.print_exc()


class BackgroundCollector(BatchIterator, Background):
    """Base of collectors of steps that a thread can iterate over."""

    _twin: tuple[Any, Any] = (None, None)  # a policy, and its copy that acts in the thread

    @abstractmethod
    def shutdown(self, timeout: float | None = None) -> None:
        """Close the environments."""

    def _before_start(self) -> None:
        policy = getattr(self, "policy", None)
        # A language model gets its weights between two calls, and a copy would keep the adapter of now.
        if isinstance(policy, Module) and not hasattr(policy, "update_weights_"):
            own = {id(x): x for x in (self, *vars(self).values()) if x is not policy}
            self._twin = policy, _acting_twin(policy, own)

    def _acting(self, policy: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The policy; in the thread of `start` the copy of it that acts there."""
        if threading.current_thread() is self._thread and self._twin[0] is policy:
            policy = self._twin[1]
        return policy


def _acting_twin(policy: Module, memo: dict[int, Any]) -> Callable[[Any], Any]:
    """A copy of a policy that has, at each call, the arrays of its parameters and buffers.

    While a step is traced or recorded (`lite.jit`, `lite.grad` with `to_module`), modules hold arrays that
    nobody but the thread that learns can use: the copy stays with what it had before. `memo` is of
    `copy.deepcopy`, with what is not copied.
    """
    for part in policy.modules():
        shared = (*part._buffers.values(), *vars(part).values())
        memo |= {id(x): x for x in shared if isinstance(x, np.ndarray | np.random.Generator)}
    try:
        twin = copy.deepcopy(policy, memo)
    except TypeError:  # it holds what nobody can copy, such as a lock
        return policy
    modules = zip(policy.modules(), twin.modules(), strict=True)
    pairs = [(old.__dict__, new.__dict__) for old, new in modules]

    def act(td: Any) -> Any:
        given = [_updated(old, new) for old, new in pairs]
        out = twin(td)
        for (old, new), before in zip(pairs, given, strict=True):
            for name, x in before.items():  # what the policy changed, unless others did meanwhile
                if new["_buffers"][name] is not x and old["_buffers"].get(name) is x:
                    old["_buffers"][name] = new["_buffers"][name]
        return out

    return act


def _updated(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Give a module's copy the arrays of the module; its buffers then.

    It is a function so that no array of a trace is held while the copy acts: `lite.jit` refuses what is kept.
    """
    for name, holder in [*old["_parameters"].items()]:
        if holder is not None and not isinstance(array := raw(holder), InterpretedArray):
            new["_parameters"][name].data = array
    buffers = {**old["_buffers"]}
    if not any(isinstance(x, InterpretedArray) for x in buffers.values()):
        new["_buffers"] = buffers
    return {**new["_buffers"]}
