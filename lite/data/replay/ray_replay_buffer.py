"""`RayReplayBuffer`: a replay buffer in an actor of a Ray cluster, for many who write and read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from lite import is_tensor_collection
from lite._arrays.public import belong_to
from lite.data.replay.replay_buffer import ReplayBuffer
from lite.data.replay.tensordict_replay_buffer import TensorDictReplayBuffer
from lite.data.tables.ray_runtime import RayConnection, import_ray


def _in_the_actor(method: Callable[..., Any]) -> Any:
    """The method of the client that calls this one of the buffer."""

    @functools.wraps(method)
    def called(self: RayReplayBufferClient, *args: Any, **kwargs: Any) -> Any:
        return self._call(method.__name__, *args, **kwargs)

    return called


class RayReplayBufferClient:
    """A handle of a `RayReplayBuffer` that can be sent to other processes of the cluster, and cannot end it.

    Its methods are those of `ReplayBuffer`. They run in the actor, one after the other, and what they raise
    is raised here; folders are those of the actor's machine. Batches come as copies.

    Args:
        actor: Ray's handle of the actor.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return _own(import_ray().get(self._actor.call.remote(name, args, kwargs)))

    extend = _in_the_actor(ReplayBuffer.extend)
    add = _in_the_actor(ReplayBuffer.add)
    flush = _in_the_actor(ReplayBuffer.flush)
    sample = _in_the_actor(ReplayBuffer.sample)
    update_priority = _in_the_actor(ReplayBuffer.update_priority)
    update_tensordict_priority = _in_the_actor(TensorDictReplayBuffer.update_tensordict_priority)
    mark_update = _in_the_actor(ReplayBuffer.mark_update)
    empty = _in_the_actor(ReplayBuffer.empty)
    state_dict = _in_the_actor(ReplayBuffer.state_dict)
    load_state_dict = _in_the_actor(ReplayBuffer.load_state_dict)
    dumps = _in_the_actor(ReplayBuffer.dumps)
    loads = _in_the_actor(ReplayBuffer.loads)

    @property
    def write_count(self) -> int:
        """How many elements were written since the buffer was empty."""
        return int(self._call("__getattribute__", "write_count"))

    def __len__(self) -> int:
        return int(self._call("__len__"))

    def __getitem__(self, index: Any) -> Any:
        return self._call("__getitem__", index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._call("__setitem__", index, value)

    def __iter__(self) -> Iterator[Any]:
        """Batches without end; the actor draws each when it is asked for."""
        while True:
            yield self.sample()


def _own(found: Any) -> Any:
    """A copy in the caller's memory: Ray's arrays are read-only memory of the object store."""
    if isinstance(found, tuple):
        return tuple(_own(part) for part in found)
    return found.clone() if is_tensor_collection(found) else found


class RayReplayBuffer(RayReplayBufferClient):
    """A replay buffer in an actor: collectors of a cluster fill it, and a trainer samples.

    Args:
        replay_buffer_cls: the class of the buffer.
        ray_init_config: arguments of `ray.init`, if this process is not connected to a cluster; see
            `RayCollector`.
        remote_config: options of the actor, such as `{"num_cpus": 0}`; one processor by default. With
            `{"max_restarts": 3}` an actor that dies restarts, and has the rows again if its storage is a
            `LazyMemmapStorage(..., scratch_dir=folder, existsok=True)`; calls until then raise Ray's
            `RayActorError`.
        **kwargs: arguments of the buffer. Storages, samplers and writers are best given as functions that
            make them, so that they are made in the actor.

    Raises:
        ImportError: without Ray; the message has the pip command.

    Source:
        torchrl.data.RayReplayBuffer.

    Example:
        >>> from functools import partial
        >>> from lite.data import LazyTensorStorage, RayReplayBuffer
        >>> storage = partial(LazyTensorStorage, 1_000_000)
        >>> buffer = RayReplayBuffer(storage=storage, batch_size=256)  # doctest: +SKIP
        >>> collector = RayCollector(..., replay_buffer=buffer)  # doctest: +SKIP
        >>> for _ in collector:  # doctest: +SKIP
        ...     train(buffer.sample())
    """

    def __init__(
        self,
        *,
        replay_buffer_cls: Callable[..., Any] = ReplayBuffer,
        ray_init_config: Mapping[str, Any] | None = None,
        remote_config: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._connection = RayConnection(ray_init_config)
        options = {"num_cpus": 1, **(remote_config or {})}
        ray = self._connection.ray
        super().__init__(ray.remote(**options)(BufferActor).remote(replay_buffer_cls, kwargs))
        self._closed = False
        try:
            len(self)  # arguments that do not fit are refused here
        except BaseException:
            self.close()
            raise

    def client(self) -> RayReplayBufferClient:
        """A handle for other processes."""
        return RayReplayBufferClient(self._actor)

    def close(self) -> None:
        """End the actor, and with it what the buffer holds in memory; a second time does nothing."""
        if not self._closed:
            self._closed = True
            self._connection.ray.kill(self._actor)
            self._connection.close()

    shutdown = close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


belong_to("lite.data", RayReplayBuffer)


class BufferActor:
    """The actor: it makes and holds the buffer.

    Args:
        kind: its class.
        options: its arguments.
    """

    def __init__(self, kind: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self._buffer = kind(**options)

    def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call a method of the buffer."""
        return getattr(self._buffer, name)(*args, **kwargs)
