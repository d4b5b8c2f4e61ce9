"""A buffer in an actor: what the actor and its clients do, with Ray's part played here.

`tests/data/collectors/test_ray_collector.py` has one on a cluster.
"""

import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lite import TensorDict
from lite.data import LazyTensorStorage, TensorDictReplayBuffer
from lite.data.replay.ray_replay_buffer import BufferActor, RayReplayBufferClient


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> RayReplayBufferClient:
    options = {"storage": partial(LazyTensorStorage, 100), "batch_size": 4, "generator": 0}
    actor = BufferActor(TensorDictReplayBuffer, options)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda value: value, data=None))
    monkeypatch.setitem(sys.modules, "ray.data", SimpleNamespace())
    return RayReplayBufferClient(SimpleNamespace(call=SimpleNamespace(remote=actor.call)))


def frames(*steps: int) -> TensorDict:
    return TensorDict({"step": np.array(steps)}, [len(steps)])


def test_a_client_has_the_methods_of_a_buffer(client: RayReplayBufferClient) -> None:
    np.testing.assert_array_equal(client.extend(frames(5, 6, 7)), [0, 1, 2])
    assert client.add(frames(8)[0]) == 3
    assert (len(client), client.write_count) == (4, 4)
    np.testing.assert_array_equal(client[1:3]["step"], [6, 7])
    client[0] = frames(9)[0]
    assert client[0]["step"] == 9
    batch = client.sample()
    assert batch.batch_size == (4,)
    assert client.sample(4, return_info=True)[0].batch_size == (4,)
    assert {int(x) for x in next(iter(client))["step"]} <= {9, 6, 7, 8}
    client.update_tensordict_priority(batch)
    client.mark_update(0)
    state = client.state_dict()
    client.empty()
    assert len(client) == 0
    client.load_state_dict(state)
    assert len(client) == 4


def test_batches_are_the_callers_own(client: RayReplayBufferClient) -> None:
    client.extend(frames(1, 2))
    client[:]["step"][:] = 0
    np.testing.assert_array_equal(client[:]["step"], [1, 2])


def test_files(client: RayReplayBufferClient, tmp_path: Any) -> None:
    client.extend(frames(1, 2, 3))
    client.dumps(tmp_path / "buffer")
    client.empty()
    client.loads(tmp_path / "buffer")
    np.testing.assert_array_equal(client[:]["step"], [1, 2, 3])
