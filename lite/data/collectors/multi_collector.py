"""`MultiSyncCollector`, `MultiAsyncCollector`, `AsyncCollector`: collectors in processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing.connection
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Unpack

import numpy as np

from lite import TensorDict, cat, stack
from lite._arrays.public import belong_to
from lite._processes.piped import PipedProcess
from lite.data.collectors.background import BackgroundCollector
from lite.data.collectors.collector_worker import serve
from lite.data.collectors.progress import EpisodeRewards, require_total
from lite.data.collectors.torch_arguments import TorchArguments, check_torch_arguments
from lite.data.collectors.weights import only_source, weights_of
from lite.envs.env_worker import packed
from lite.kernels._integer import integer
from lite.nn import InteractionType, Module

Maker = Callable[..., Any]
_END = object()


class _Worker(PipedProcess):
    """One of the processes, and what is between it and the collector.

    Attributes:
        index: its number.
        weights: those that it has not got yet.
        batch: the memory that it writes to.
        collects: the number of batches, and 1, when one was asked for that was not taken yet; 0 without one.
        early: a batch that was answered before it was wanted, as a tuple of one.
    """

    def __init__(self, made: bytes, index: int, start_method: str | None) -> None:
        super().__init__(serve, made, index, start_method=start_method)
        self.index = index
        self.weights: Any = None
        self.batch: Any = None
        self.collects = 0
        self.early: tuple[Any] | None = None

    def take_weights(self) -> Any:
        """The weights, which are going to be sent."""
        weights, self.weights = self.weights, None
        return weights


class MultiCollector(BackgroundCollector):
    """Collects with a `Collector` in each of several processes; base of the two classes.

    Batches are those of `Collector`, in memory of their own; ids of trajectories begin with the number of
    their process, so that no two are equal. Where a process fails or ends, RuntimeError names it, and the
    others end. All end with this process, whichever way that ends.

    Args:
        create_env_fn: functions that make environments, one for each process; or one, with `num_workers`.
        policy: as for `Collector`; each process has a copy.
        num_workers: how many processes; the number of functions if None.
        policy_factory: makes the policy in each process, in place of `policy`; or a function for each.
        frames_per_batch: frames in a batch.
        total_frames: when to stop, at the end of a batch; -1 for never.
        create_env_kwargs: for the functions: a dict, or one for each.
        init_random_frames: as for `Collector`, of all processes together.
        postproc: what becomes of each batch.
        split_trajs: give batches as `split_trajectories` does, before `postproc`.
        replay_buffer: anything with `extend`: it gets the batches, and the iterator yields None.
        update_at_each_batch: send the weights of `policy` before each batch.
        max_frames_per_traj, reset_at_each_iter, exploration_type, set_truncated, track_traj_ids,
            track_policy_version, auto_register_policy_transforms: as for `Collector`.
        seed: see `set_seed`.
        progress: draw a bar on stderr, with frames per second and the mean reward of the last 100 episodes,
            which needs `track_traj_ids`; needs `total_frames`.
        mp_start_method: "forkserver", "spawn" or "fork"; the first of these that there is if None.
        shutdown_timeout: seconds that a process may take to end before it is killed.
        **torch_arguments: as for `Collector`.

    Raises:
        TypeError: something cannot be sent to a process; both `policy` and `policy_factory`; an unknown name.
        ValueError: a number out of range, or other numbers of functions and dicts.
        RuntimeError: a process failed.
    """

    def __init__(
        self,
        create_env_fn: Maker | Sequence[Maker],
        policy: Callable[[Any], Any] | None = None,
        *,
        num_workers: int | None = None,
        policy_factory: Maker | Sequence[Maker] | None = None,
        frames_per_batch: int,
        total_frames: int = -1,
        create_env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        max_frames_per_traj: int | None = None,
        init_random_frames: int | None = None,
        reset_at_each_iter: bool = False,
        postproc: Callable[[Any], Any] | None = None,
        split_trajs: bool = False,
        track_traj_ids: bool = True,
        exploration_type: InteractionType | str | None = InteractionType.RANDOM,
        set_truncated: bool = False,
        replay_buffer: Any = None,
        update_at_each_batch: bool = False,
        track_policy_version: bool = False,
        auto_register_policy_transforms: bool | None = None,
        seed: int | None = None,
        progress: bool = False,
        mp_start_method: str | None = None,
        shutdown_timeout: float = 5.0,
        **torch_arguments: Unpack[TorchArguments],
    ) -> None:
        check_torch_arguments(torch_arguments)
        makers = list(create_env_fn) if isinstance(create_env_fn, Sequence) else [create_env_fn]
        count = len(makers) if num_workers is None else integer("num_workers", num_workers)
        if len(makers) == 1:
            makers *= max(count, 1)
        given = {} if create_env_kwargs is None else create_env_kwargs
        keywords = [given] * count if isinstance(given, Mapping) else list(given)
        many = isinstance(policy_factory, Sequence)
        factories = list(policy_factory) if many else [policy_factory] * count  # type: ignore[arg-type]
        if count < 1 or not len(makers) == len(keywords) == len(factories) == count:
            raise ValueError(
                f"num_workers must be at least 1 and fit create_env_fn, its kwargs and policy_factory, got "
                f"{count} for {len(makers)}, {len(keywords)} and {len(factories)}."
            )
        if policy is not None and policy_factory is not None:
            raise TypeError("give policy or policy_factory, not both.")
        self.num_workers = count
        self.policy = policy
        self.policy_version = 0
        self.total_frames = integer("total_frames", -1 if total_frames is None else total_frames)
        self.progress = require_total(progress, self.total_frames)
        self._rewards = EpisodeRewards()
        self.requested_frames_per_batch = integer("frames_per_batch", frames_per_batch)
        self.postproc, self.split_trajs, self.replay_buffer = postproc, split_trajs, replay_buffer
        self.update_at_each_batch = update_at_each_batch
        self.shutdown_timeout = shutdown_timeout
        self.closed = False
        self._frames = self._iter = 0
        self._workers: list[_Worker] = []
        kwargs = {
            "policy": policy,
            "frames_per_batch": self._share_of(self.requested_frames_per_batch),
            "init_random_frames": -(-(init_random_frames or 0) // count),
            "max_frames_per_traj": max_frames_per_traj,
            "reset_at_each_iter": reset_at_each_iter,
            "track_traj_ids": track_traj_ids,
            "exploration_type": exploration_type,
            "set_truncated": set_truncated,
            "track_policy_version": track_policy_version,
            "auto_register_policy_transforms": auto_register_policy_transforms,
        }
        made = [
            packed(maker, {**kwargs, "create_env_kwargs": dict(own), "policy_factory": factory})
            for maker, own, factory in zip(makers, keywords, factories, strict=True)
        ]
        try:
            for i, data in enumerate(made):
                self._workers.append(_Worker(data, i, mp_start_method))
            self.frames_per_batch_worker = [self._answer(worker) for worker in self._workers]
            if seed is not None:
                self.set_seed(seed)
        except BaseException:
            self.shutdown()
            raise

    @abstractmethod
    def _share_of(self, frames: int) -> int:
        """The frames that a process collects at a time."""

    @abstractmethod
    def _collect(self) -> Any:
        """The next batch."""

    # -- iterating ------------------------------------------------------------------------------

    def _each(self) -> Iterator[Any]:
        while (data := self._next_or_end()) is not _END:
            yield data

    def next(self) -> Any:
        """The next batch; None when there are no more."""
        data = self._next_or_end()
        return None if data is _END else data

    def _next_or_end(self) -> Any:
        if self._frames_left():
            return self._next()
        self.shutdown()  # only now: between the last batch and the end there may be `state_dict`
        return _END

    def _next(self) -> Any:
        if self.closed:
            raise RuntimeError("the collector was shut down.")
        if self.update_at_each_batch:
            self.update_policy_weights_()
        data = self._collect()
        self._frames += data.numel()
        self._iter += 1
        if self.progress:
            self._rewards.add(data)
        data = self._processed(data)
        many = self.replay_buffer is not None and data.ndim > 1
        return self._stored(data.reshape(-1) if many else data)

    # -- what processes are told ----------------------------------------------------------------

    def update_policy_weights_(
        self, policy_or_weights: Any = None, *, weights: Any = None, policy: Any = None
    ) -> None:
        """Send weights to the processes, which have them from their next batch on.

        Args:
            policy_or_weights: a `Module` of the policy's structure, or its parameters, as a TensorDict or a
                dict; None for those that `policy` has now.
            weights: parameters, in its place.
            policy: a module, in its place.

        Raises:
            ValueError: more than one is given.
            TypeError: there are no weights.
            KeyError, ValueError: they are not those of `policy`; processes go on with what they have.
        """
        source = only_source(policy_or_weights, weights, policy)
        found = weights_of(self.policy if source is None else source, self.policy)
        plain = TensorDict(found.apply(np.array).to_dict())
        for worker in self._workers:
            worker.weights = plain
        self.policy_version += 1

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """Seed one process after the other, each with what the one before returned.

        Returns:
            What the last one returned.

        Raises:
            RuntimeError: processes collect already: seeds come before the first batch.
        """
        if any(worker.collects for worker in self._workers):
            raise RuntimeError("set_seed must be called before the first batch.")
        for worker in self._workers:
            worker.connection.send(("seed", (seed, static_seed)))
            seed = self._answer(worker)
        return seed

    # -- state ----------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | bool]:
        """How far the collector is.

        Returns:
            `frames` and `batches` so far, `requested_frames_per_batch`, `policy_version`, `workers`; with a
            last frame, `total_frames` and `completed`.
        """
        return self._counts(batches=self._iter, workers=self.num_workers)

    def state_dict(self) -> dict[str, Any]:
        """The state from which another collector with as many processes can continue.

        That of process i, as `Collector.state_dict` gives it, is "worker{i}"; weights that were sent are in
        it. Batches that are being collected are not: their frames are collected anew.

        Raises:
            RuntimeError: a thread collects, or the processes were ended: after the loop they are.
        """
        state: dict[str, Any] = {
            "frames": self._frames,
            "iter": self._iter,
            "policy_version": self.policy_version,
        }
        for worker in self._workers:
            state[f"worker{worker.index}"] = self._told(worker, "state", worker.take_weights())
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore a state of `state_dict`, `policy` included.

        Args:
            state_dict: a result of `state_dict`.
            strict: raise where the policy's names differ.

        Raises:
            KeyError: something is missing.
            ValueError: it is of another number of processes.
            RuntimeError: as for `state_dict`; a process does not take its part.
        """
        numbers = [int(state_dict[name]) for name in ("frames", "iter", "policy_version")]
        workers = [name for name in state_dict if name.startswith("worker")]
        if len(workers) != self.num_workers:
            raise ValueError(f"state_dict must be of {self.num_workers} processes, got {len(workers)}.")
        states = [state_dict[f"worker{i}"] for i in range(self.num_workers)]
        for worker, state in zip(self._workers, states, strict=True):
            self._told(worker, "load", (state, strict))
            if worker.collects:
                self._batch_of(worker)  # of before
        if isinstance(self.policy, Module) and (strict or "policy_state_dict" in states[0]):
            self.policy.load_state_dict(states[0]["policy_state_dict"], strict=strict)
        self._frames, self._iter, self.policy_version = numbers
        for worker in self._workers:
            worker.weights = None

    def _told(self, worker: _Worker, name: str, given: Any) -> Any:
        """The answer of a process; the batch that it collects comes first, and is kept."""
        if self.closed:
            raise RuntimeError("the collector was shut down.")
        if self.is_running():
            raise RuntimeError("a state is taken between batches, and a thread collects them.")
        if worker.collects and worker.early is None:
            worker.early = (self._answer(worker),)
        worker.connection.send((name, given))
        return self._answer(worker)

    # -- inside ---------------------------------------------------------------------------------

    def _ask(self, worker: _Worker) -> None:
        if worker.collects:  # as after an interrupt
            return
        with contextlib.suppress(OSError):  # where the process has ended, the answer says so
            worker.connection.send(("next", worker.take_weights()))
        worker.collects = self._iter + 1

    def _batch_of(self, worker: _Worker) -> Any:
        """The batch of a process, in the memory that it writes to."""
        (answer,) = worker.early or (self._answer(worker),)
        worker.early, worker.collects = None, 0
        if answer is not None:
            worker.batch = answer
        return worker.batch

    def _answer(self, worker: _Worker) -> Any:
        try:
            state, answer = worker.connection.recv()
        except (EOFError, OSError):
            state, answer = "failed", worker.how_it_ended(self.shutdown_timeout)
        if state == "failed":
            self.shutdown()
            raise RuntimeError(f"collector {worker.index} failed: {answer}")
        return answer

    # -- the end --------------------------------------------------------------------------------

    def shutdown(
        self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True
    ) -> None:
        """End the processes; batches that were yielded stay good. Doing it again does nothing.

        Args:
            timeout: seconds that a process may take; `shutdown_timeout` if None.
            close_env, raise_on_error: without effect here.
        """
        if self.closed:
            return
        self.closed = True
        for worker in self._workers:
            with contextlib.suppress(OSError):
                worker.connection.send(("close", None))
        for worker in self._workers:
            worker.end(self.shutdown_timeout if timeout is None else timeout)

    def __repr__(self) -> str:
        workers, frames = self.num_workers, self._frames
        return f"{type(self).__name__}(num_workers={workers}, policy={self.policy}, frames={frames})"


class MultiSyncCollector(MultiCollector):
    """Collects in several processes, and gives batches with the frames of all.

    Args:
        cat_results: "stack" for a new first dimension, the processes; an int for the dimension along which
            their batches are concatenated.
        others: as for `MultiCollector`; `frames_per_batch` are those of all processes.

    Raises:
        TypeError, ValueError, RuntimeError: as for `MultiCollector`.

    Source:
        torchrl.collectors.MultiSyncCollector.

    Example:
        >>> from functools import partial
        >>> from lite.data import MultiSyncCollector
        >>> from lite.envs import GymEnv
        >>> make = partial(GymEnv, "CartPole-v1")
        >>> for td in MultiSyncCollector([make, make], frames_per_batch=20, total_frames=20):
        ...     td.shape
        (2, 10)
    """

    def __init__(self, *args: Any, cat_results: int | Literal["stack"] | None = None, **kwargs: Any) -> None:
        if cat_results not in (None, "stack") and not isinstance(cat_results, int):
            raise ValueError(f"cat_results must be 'stack' or a dimension, got {cat_results!r}.")
        self.cat_results = "stack" if cat_results is None else cat_results
        super().__init__(*args, **kwargs)

    def _share_of(self, frames: int) -> int:
        return -(-frames // self.num_workers)

    def _collect(self) -> Any:
        for worker in self._workers:
            self._ask(worker)
        batches = [self._batch_of(worker) for worker in self._workers]
        # Both copy: the processes go on in the memory of these.
        return stack(batches, 0) if self.cat_results == "stack" else cat(batches, int(self.cat_results))


class MultiAsyncCollector(MultiCollector):
    """Collects in several processes, and gives the batch of whichever is ready first.

    That process goes on when the next batch is asked for, with the weights of then; the others go on in the
    meantime.

    Args:
        args, kwargs: as for `MultiCollector`; `frames_per_batch` are those of one process.

    Raises:
        TypeError, ValueError, RuntimeError: as for `MultiCollector`.

    Source:
        torchrl.collectors.MultiAsyncCollector.

    Example:
        >>> from functools import partial
        >>> from lite.data import MultiAsyncCollector
        >>> from lite.envs import GymEnv
        >>> make = partial(GymEnv, "CartPole-v1")
        >>> for td in MultiAsyncCollector(make, num_workers=1, frames_per_batch=10, total_frames=20):
        ...     td.shape
        (10,)
        (10,)
    """

    def _share_of(self, frames: int) -> int:
        return frames

    def _collect(self) -> Any:
        for worker in self._workers:
            self._ask(worker)
        early = (worker for worker in self._workers if worker.early)  # that of all, after a `state_dict`
        done = min(early, key=lambda worker: worker.collects, default=None)
        if done is None:
            ready = multiprocessing.connection.wait([worker.connection for worker in self._workers])
            done = next(worker for worker in self._workers if worker.connection is ready[0])
        return self._batch_of(done).clone()


class AsyncCollector(MultiAsyncCollector):
    """Collects in one other process, which goes on while its batches are learnt from.

    Args:
        create_env_fn: a function that makes the environment.
        policy, kwargs: as for `MultiAsyncCollector`.

    Raises:
        TypeError, ValueError, RuntimeError: as for `MultiCollector`.

    Source:
        torchrl.collectors.AsyncCollector.

    Example:
        >>> from functools import partial
        >>> from lite.data import AsyncCollector
        >>> from lite.envs import GymEnv
        >>> make = partial(GymEnv, "CartPole-v1")
        >>> for td in AsyncCollector(make, frames_per_batch=10, total_frames=20):
        ...     td.shape
        (10,)
        (10,)
    """

    def __init__(
        self, create_env_fn: Maker, policy: Callable[[Any], Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__([create_env_fn], policy, **kwargs)


belong_to("lite.data", MultiSyncCollector, MultiAsyncCollector, AsyncCollector)
