"""Collection in the background, into a replay buffer, while the buffer is sampled."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Self

from lite._transforms.levels import TRACING
from lite.data.collectors.progress import shown
from lite.data.trajectories.split_trajectories import split_trajectories


class BatchIterator(ABC):
    """Base of all collectors of steps: a context manager that gives a number of batches."""

    total_frames: int
    requested_frames_per_batch: int
    policy_version: int
    progress: bool
    split_trajs: bool
    postproc: Callable[[Any], Any] | None
    replay_buffer: Any
    _frames: int

    def __iter__(self) -> Iterator[Any]:
        """The batches that are left, one after the other."""
        if not self.progress:
            return self._each()
        return shown(self._each(), self.total_frames, lambda: self._frames, self._mean_reward)

    @abstractmethod
    def _each(self) -> Iterator[Any]:
        """The batches that are left, without a bar."""

    @abstractmethod
    def _mean_reward(self) -> float | None:
        """The mean reward of the last episodes, for the bar."""

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
        """End what collects."""

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
        """What `stats` of all collectors tell."""
        found = {"frames": self._frames, "requested_frames_per_batch": self.requested_frames_per_batch}
        found |= {"policy_version": self.policy_version, **more}
        if self.total_frames >= 0:
            found |= {"total_frames": self.total_frames, "completed": self._frames >= self.total_frames}
        return found


class BackgroundCollector(BatchIterator):
    """Base of collectors that a thread can iterate over."""

    _thread: threading.Thread | None = None
    _stopped = False
    _failure: BaseException | None = None

    @abstractmethod
    def shutdown(self, timeout: float | None = None) -> None:
        """Close what steps the environments."""

    def start(self) -> None:
        """Collect into the replay buffer from now on, in a thread, until `async_shutdown` or the last frame.

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
        if not self.is_running():
            self._stopped = False
            self._thread = threading.Thread(target=self._collect_all, daemon=True)
            self._thread.start()

    def _acting(self, policy: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The policy; in the thread of `start`, one whose steps are not made while `lite.jit` traces it."""
        if threading.current_thread() is not self._thread:
            return policy

        def act(td: Any) -> Any:
            with TRACING:
                return policy(td)

        return act

    def is_running(self) -> bool:
        """Whether `start` was called, and the thread has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def async_shutdown(self, timeout: float | None = None, close_env: bool = True) -> None:
        """End what `start` began, after its batch, and shut down.

        Args:
            timeout: seconds to wait for the batch; None for any time.
            close_env: leave environments of this process open if False.

        Raises:
            BaseException: whatever the thread failed with.
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
