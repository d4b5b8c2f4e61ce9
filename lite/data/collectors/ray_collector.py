"""`RayCollector`: collectors in the actors of a Ray cluster."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from lite import TensorDict, TensorDictBase, stack
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite.data.collectors.background import BatchIterator
from lite.data.collectors.collector import Collector
from lite.data.collectors.progress import EpisodeRewards, require_total
from lite.data.collectors.weights import only_source, weights_of
from lite.data.replay.ray_replay_buffer import RayReplayBufferClient
from lite.data.tables.ray_runtime import RayConnection
from lite.data.tables.row_seeds import row_seeds
from lite.kernels._integer import integer
from lite.nn import InteractionType, Module

_TRIES = 3  # deaths of an actor before it has given anything
_QUIET = 10.0  # seconds, before a warning says what actors wait for
_ID_BITS = 40  # of the ids of trajectories, for those of one actor


class RayCollector(BatchIterator):
    """Collects with an ordinary collector in each of several actors, on one machine or many.

    With `sync=True` a batch has `frames_per_batch` of all actors, stacked along a new first dimension;
    otherwise those of the actor that is ready first. Batches are those of `Collector`, in memory of their
    own, with "policy_version", int64, of the weights that made each frame. Dead actors are replaced; the
    guide `collectors.md` says what is lost.

    Args:
        create_env_fn: a function that makes a gymnasium `Env` or `VectorEnv`, or a list of one per actor.
        policy, policy_factory: as for `Collector`, a copy for each actor; the latter also one per actor.
        frames_per_batch, total_frames, max_frames_per_traj, reset_at_each_iter, postproc, split_trajs,
            exploration_type, seed: as for `Collector`; `postproc` runs here.
        init_random_frames: how many of the first frames of all actors have random actions.
        collector_class, collector_kwargs: class and arguments of the actors; a list has those of each.
        num_workers_per_collector: environments of an actor, in one `SyncVectorEnv` of single ones.
        sync: wait for all actors for each batch.
        ray_init_config: arguments of `ray.init`, if this process is not connected to a cluster. By default it
            connects to the cluster that RAY_ADDRESS names, or starts one here.
        remote_configs: options of the actors, such as `{"num_cpus": 2}`, also one per actor; one CPU.
        num_collectors: how many actors, by default one for each element of a list, or one.
        update_after_each_batch, max_weight_update_interval: call `update_policy_weights_()` after each batch,
            or after more batches than this; -1 for never.
        replay_buffer: gets the batches, and None is yielded. Actors themselves fill a `RayReplayBuffer`.
        pre_collect_hook, post_collect_hook: called in the actors before each batch, and with it.
        start_timeout: seconds to wait for processors of a running cluster.
        progress: as for `MultiSyncCollector`; without rewards where the actors fill the buffer.

    Raises:
        ImportError, TypeError: no Ray; both `policy` and `policy_factory`.
        ValueError: lists of different lengths, a number out of range, frames that cannot be divided among
            the actors with `sync=True`, or too few processors where a cluster is started here.
        RuntimeError: while iterating, an actor died several times before its first batch, or the cluster
            did not have the processors within `start_timeout`.

    Source:
        torchrl.collectors.distributed.RayCollector.

    Example:
        >>> collector = RayCollector(make_env, num_collectors=8, frames_per_batch=256)  # doctest: +SKIP
    """

    def __init__(
        self,
        create_env_fn: Any,
        policy: Callable[[Any], Any] | None = None,
        *,
        policy_factory: Callable[[], Any] | Sequence[Callable[[], Any]] | None = None,
        frames_per_batch: int,
        total_frames: int = -1,
        max_frames_per_traj: int = -1,
        init_random_frames: int = -1,
        reset_at_each_iter: bool = False,
        postproc: Callable[[TensorDictBase], Any] | None = None,
        split_trajs: bool = False,
        exploration_type: InteractionType | str | None = InteractionType.RANDOM,
        collector_class: Callable[..., Any] = Collector,
        collector_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        num_workers_per_collector: int = 1,
        sync: bool = False,
        ray_init_config: Mapping[str, Any] | None = None,
        remote_configs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        num_collectors: int | None = None,
        update_after_each_batch: bool = False,
        max_weight_update_interval: int = -1,
        replay_buffer: Any = None,
        pre_collect_hook: Callable[[], object] | None = None,
        post_collect_hook: Callable[[Any], object] | None = None,
        seed: int | None = None,
        start_timeout: float = 120.0,
        progress: bool = False,
    ) -> None:
        if policy is not None and policy_factory is not None:
            raise TypeError("policy and policy_factory cannot both be given")
        given = {
            "create_env_fn": create_env_fn,
            "policy_factory": policy_factory,
            "collector_kwargs": collector_kwargs or {},
            "remote_configs": {"num_cpus": 1} if remote_configs is None else remote_configs,
        }
        count, lists = _for_each(given, num_collectors)
        workers = integer("num_workers_per_collector", num_workers_per_collector, least=1)
        frames = integer("frames_per_batch", frames_per_batch)
        if frames < 1 or (sync and frames % count):
            raise ValueError(f"frames_per_batch must be a multiple of the {count} collectors, got {frames}")
        self.num_collectors = count
        self.frames_per_batch = self.requested_frames_per_batch = frames
        self.total_frames = integer("total_frames", total_frames)
        self.progress, self._rewards = require_total(progress, self.total_frames), EpisodeRewards()
        self.sync = sync
        self.split_trajs = split_trajs
        self.postproc = postproc
        self.update_after_each_batch = update_after_each_batch
        self.max_weight_update_interval = integer("max_weight_update_interval", max_weight_update_interval)
        self.replay_buffer = replay_buffer
        self.policy = policy
        self.policy_version = 0
        self.closed = False
        self._init_random_frames = max(0, init_random_frames)
        self._seed = None if seed is None else integer("seed", seed)
        self._start_timeout = start_timeout
        self._options = [
            {
                "frames_per_batch": frames // count if sync else frames,
                "max_frames_per_traj": max_frames_per_traj,
                "reset_at_each_iter": reset_at_each_iter,
                "exploration_type": exploration_type,
                "pre_collect_hook": pre_collect_hook,
                "post_collect_hook": post_collect_hook,
                **own,
            }
            for own in lists["collector_kwargs"]
        ]
        if isinstance(replay_buffer, RayReplayBufferClient):
            client = RayReplayBufferClient(replay_buffer._actor)
            self._options = [{**options, "replay_buffer": client} for options in self._options]
        self._remote = lists["remote_configs"]
        self._frames = 0
        self._made = 0  # actors, those that died included
        self._restarts = 0
        self._since_update = 0  # batches
        self._weights: Any = None  # of the version, in the object store
        self._actors: list[_Actor | None] = [None] * count
        self._pending: dict[Any, int] = {}  # requests under way, and whose they are
        self._found: dict[int, Any] = {}  # of a batch of all actors
        self._connection = RayConnection(ray_init_config)
        self._ray = self._connection.ray
        self._check_processors()
        # A copy of the current weights: a replacement actor gets those of its predecessor, also if the policy
        # changes.
        self._parts = [
            self._ray.put((collector_class, env if workers == 1 else _Vector(env, workers), policy, factory))
            for env, factory in zip(lists["create_env_fn"], lists["policy_factory"], strict=True)
        ]

    def _check_processors(self) -> None:
        """ValueError if actors would wait for processors that a machine alone will never have."""
        needed = sum(config.get("num_cpus", 1) for config in self._remote)
        there = self._ray.cluster_resources().get("CPU", 0) if self._connection.started else needed
        if needed > there:
            self._connection.close()
            raise ValueError(
                f"{self.num_collectors} collectors need {needed:g} processors and this machine has {there:g}:"
                ' give fewer, or less to each, as remote_configs={"num_cpus": 0.5}'
            )

    # -- iterating ---------------------------------------------------------------------------------

    def _each(self) -> Iterator[Any]:
        while self._left() > 0 and not self.closed:
            with suppress(_Closed):
                yield self._next()
        self._release()

    def next(self) -> Any:
        """The next batch; None when there are no more, and with a replay buffer."""
        if self._left() > 0 and not self.closed:
            with suppress(_Closed):
                return self._next()
        self._release()
        return None

    def _next(self) -> Any:
        most = 0 if self.update_after_each_batch else self.max_weight_update_interval
        if 0 <= most < self._since_update:
            self.update_policy_weights_()
        self._since_update += 1
        data = self._all() if self.sync else self._first()
        if data is None:
            return None
        if self.progress:
            self._rewards.add(data)
        return self._stored(self._processed(data))

    def _left(self) -> int:
        return 1 if self.total_frames < 0 else self.total_frames - self._frames

    def _all(self) -> Any:
        """One batch of each actor, in their order."""
        for i in range(self.num_collectors):
            if i not in self._pending.values() and i not in self._found:
                self._ask(i)
        while len(self._found) < self.num_collectors:
            i, part = self._ready()
            self._found[i] = part
        parts = [self._found.pop(i) for i in range(self.num_collectors)]
        self._frames += sum(frames for frames, _ in parts)
        if parts[0][1] is None:
            return None
        return stack([data for _, data in parts])  # a copy, too

    def _first(self) -> Any:
        """The batch of an actor that is ready."""
        each = self.frames_per_batch
        for i in range(self.num_collectors):
            # No more batches are requested than needed, so that no collected frames are discarded.
            needed = self.total_frames < 0 or len(self._pending) * each < self._left()
            if needed and i not in self._pending.values():
                self._ask(i)
        _, (frames, data) = self._ready()
        self._frames += frames
        return None if data is None else data.clone()  # Ray's arrays are read-only memory of the object store

    # -- actors ------------------------------------------------------------------------------------

    def _ask(self, i: int) -> None:
        """Make actor i collect a batch with the current weights."""
        actor = self._actors[i]
        if actor is None:
            actor = self._actors[i] = self._new_actor(i)
        weights = None if actor.version == self.policy_version else self._weights
        actor.version = self.policy_version
        self._pending[actor.handle.collect.remote(self.policy_version, weights)] = i

    def _new_actor(self, i: int) -> _Actor:
        number, options = self._made, dict(self._options[i])
        self._made += 1
        left = max(0, self._init_random_frames - self._frames)
        options["init_random_frames"] = -(-left // self.num_collectors)
        if self._seed is not None:
            options["seed"] = int(row_seeds(self._seed, [number])[0, 0] >> np.uint64(33))
        # Ray would restart it with the same seeds and ids, which were used.
        remote = self._ray.remote(**{**self._remote[i], "max_restarts": 0, "max_task_retries": 0})(
            CollectorActor
        )
        handle = remote.remote(self._parts[i], options, number << _ID_BITS)
        return _Actor(handle, tries=0 if (before := self._actors[i]) is None else before.tries)

    def _wait(self) -> Any:
        """A request that has been answered.

        Raises:
            _Closed: another thread has called `shutdown`.
            RuntimeError: no actor has started within `start_timeout`.
        """
        begun, warned = time.monotonic(), False
        while not self.closed:
            try:
                ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=1.0)
            except Exception:
                if self.closed:
                    break
                raise
            if ready:
                return ready[0]
            waited = time.monotonic() - begun
            if waited < _QUIET or (warned and waited < self._start_timeout):
                continue
            waiting = self._not_started()
            if len(waiting) < self.num_collectors and not (self.sync and waiting):
                self._hand_over(waiting)
                begun, warned = time.monotonic(), False  # there are some at work
                continue
            if waited >= self._start_timeout:
                raise RuntimeError(f"after {waited:.0f} seconds {self._missing(waiting)}")
            warn(f"{self._missing(waiting)}; waiting for them.")
            warned = True
        raise _Closed

    def _hand_over(self, waiting: list[int]) -> None:
        """Request a batch from a started actor if all others may never start."""
        if not set(self._pending.values()) <= set(waiting):
            return
        request, i = next(iter(self._pending.items()))
        del self._pending[request]
        actor = self._actors[i]
        if actor is not None:
            self._ray.kill(actor.handle)
            self._actors[i] = None
        self._ask(next(j for j, other in enumerate(self._actors) if other is not None and j not in waiting))

    def _not_started(self) -> list[int]:
        """The numbers of the actors that Ray has no processors for."""
        started = {i: actor.started for i, actor in enumerate(self._actors) if actor is not None}
        ready, _ = self._ray.wait(list(started.values()), num_returns=len(started), timeout=0)
        return [i for i, ref in started.items() if ref not in ready]

    def _missing(self, waiting: list[int]) -> str:
        needed = sum(self._remote[i].get("num_cpus", 1) for i in waiting)
        there, free = self._ray.cluster_resources(), self._ray.available_resources()
        return (
            f"{len(waiting)} of {self.num_collectors} collectors have not started: they need {needed:g} "
            f"processors, and of the {there.get('CPU', 0):g} of the cluster {free.get('CPU', 0):g} are free. "
            'Give fewer collectors, or less to each, as remote_configs={"num_cpus": 0.5}'
        )

    def _ready(self) -> tuple[int, Any]:
        """The number of an actor that has its batch, the batch's frames and the batch."""
        errors = self._ray.exceptions
        while True:
            request = self._wait()
            i = self._pending.pop(request, -1)
            actor = self._actors[i]
            if i < 0 or actor is None:  # another thread has called `shutdown`
                raise _Closed
            try:
                frames, data = self._ray.get(request)
            except (errors.RayActorError, errors.ObjectLostError) as error:
                actor.tries += 1
                if actor.tries >= _TRIES:
                    self._actors[i] = None
                    raise RuntimeError(
                        f"collector {i} died {actor.tries} times before it gave a batch: {error}"
                    ) from error
                self._restarts += 1
                self._ray.kill(actor.handle)
                self._actors[i] = self._new_actor(i)
                self._ask(i)
                continue
            except errors.RayError:  # an error of the environment or the policy
                self._actors[i] = None
                self._ray.kill(actor.handle)
                raise
            actor.tries = 0
            return i, (frames, data)

    # -- the policy --------------------------------------------------------------------------------

    def update_policy_weights_(
        self, policy_or_weights: Any = None, *, weights: Any = None, policy: Any = None
    ) -> None:
        """Set the weights of the actors' next batches, and increment the version.

        Args:
            policy_or_weights: a `Module` of the policy's structure, or its parameters, as a dict or what
                `TensorDict.from_module` gives; by default those that the given policy has now.
            weights: parameters, in its place.
            policy: a module, in its place.

        Raises:
            ValueError: more than one is given.
            TypeError: something else is given, or nothing, and the policy is no `Module`.
            KeyError, ValueError: they are not those of the policy; actors go on with what they have.
        """
        source = only_source(policy_or_weights, weights, policy)
        self._weights = self._ray.put(weights_of(self.policy if source is None else source, self.policy))
        self.policy_version += 1
        self._since_update = 0

    # -- state and shutdown ------------------------------------------------------------------------

    def stats(self) -> dict[str, int | bool]:
        """Frames so far, how many actors there are, and how often one was replaced."""
        return self._counts(workers=self.num_collectors, restarts=self._restarts)

    def state_dict(self) -> dict[str, Any]:
        """The state from which another collector can continue: numbers, and the policy's arrays.

        Batches that are under way are not a part of it: the other's actors begin new episodes, with seeds and
        ids that none had before.
        """
        state: dict[str, Any] = {
            "frames": self._frames,
            "actors": self._made,
            "policy_version": self.policy_version,
        }
        if isinstance(self.policy, Module):
            state["policy_state_dict"] = self.policy.state_dict()
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`.

        Raises:
            KeyError: something is missing.
            RuntimeError: this one has collected already, or the policy does not take its part.
        """
        if self._made:
            raise RuntimeError("a state is loaded before anything is collected")
        frames, made, version = (state_dict[name] for name in ("frames", "actors", "policy_version"))
        if isinstance(self.policy, Module):
            self.policy.load_state_dict(state_dict["policy_state_dict"])
            self._weights = self._ray.put(TensorDict.from_module(self.policy).data)
        self._frames, self._made, self.policy_version = int(frames), int(made), int(version)

    def shutdown(self) -> None:
        """End the actors, and the cluster if it was started here. Doing it again does nothing."""
        if self.closed:
            return
        self.closed = True
        self._release()
        self._connection.close()

    def _release(self) -> None:
        """End the actors: others need their processors."""
        for actor in self._actors:
            if actor is not None:
                self._ray.kill(actor.handle)
        self._actors = [None] * self.num_collectors
        self._pending.clear()


belong_to("lite.data", RayCollector)


class CollectorActor:
    """The class of the actors: a collector, and the version of its policy's weights.

    Args:
        parts: the class of the collector, what makes the environment, the policy, and what makes it.
        options: further arguments of the collector.
        first_id: is added to the ids of trajectories.
    """

    def __init__(self, parts: tuple[Any, Any, Any, Any], options: Mapping[str, Any], first_id: int) -> None:
        kind, env, policy, factory = parts
        # Arrays in the object store are read-only, but weights are written into the policy's arrays.
        policy = copy.deepcopy(policy) if factory is None else factory()
        self._collector = kind(env, policy, total_frames=-1, **{"track_policy_version": True, **options})
        self._first_id = first_id
        self._version = 0

    def collect(self, version: int, weights: TensorDictBase | None) -> tuple[int, TensorDictBase | None]:
        """Collect a batch with the weights of a version, which are given if they are new here.

        Returns:
            The number of frames, and the batch; None where the collector has filled a buffer with it.
        """
        collector = self._collector
        if version != self._version:
            if weights is not None:
                collector.update_policy_weights_(weights)
            collector.policy_version = self._version = version
        data = collector.next()
        if data is None:
            return collector.requested_frames_per_batch, None
        return data.numel(), self._stamped(data)

    def _stamped(self, data: TensorDictBase) -> TensorDictBase:
        """A batch with trajectory ids that are unique to this actor."""
        ids = data.get(("collector", "traj_ids"), None)
        if ids is not None:
            data.set(("collector", "traj_ids"), np.where(ids < 0, ids, ids + self._first_id))
        return data


class _Vector:
    """Makes several environments, which step as one."""

    def __init__(self, env: Callable[[], Any], count: int) -> None:
        self.env, self.count = env, count

    def __call__(self) -> Any:
        from gymnasium.vector import SyncVectorEnv

        return SyncVectorEnv([self.env] * self.count)


class _Closed(Exception):
    """The collector was shut down while a batch was waited for."""


class _Actor:
    """An actor's handle, the version whose weights it was given, and how often it died in a row.

    `started` is a reference that is ready once the actor has started.
    """

    def __init__(self, handle: Any, *, tries: int) -> None:
        self.handle = handle
        self.started = handle.__ray_ready__.remote()
        self.version = 0
        self.tries = tries


def _for_each(given: Mapping[str, Any], count: int | None) -> tuple[int, dict[str, list[Any]]]:
    """How many actors there are, and the arguments as lists of that length."""
    lengths = {name: len(value) for name, value in given.items() if isinstance(value, (list, tuple))}
    if count is not None:
        lengths["num_collectors"] = integer("num_collectors", count)
    if len(set(lengths.values())) > 1:
        raise ValueError(f"lists must have one element for each collector, got {lengths}")
    number = next(iter(lengths.values()), 1)
    if number < 1:
        raise ValueError(f"there must be at least one collector, got {number}")
    lists = {
        name: list(value) if isinstance(value, (list, tuple)) else [value] * number
        for name, value in given.items()
    }
    return number, lists
