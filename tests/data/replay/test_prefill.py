"""prefill_replay_buffer."""

import numpy as np
import pytest

from lite import TensorDict
from lite.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement, prefill_replay_buffer


def test_each_element_once() -> None:
    for count, expected in ((None, 25), (7, 7), (99, 25)):
        sampler = SamplerWithoutReplacement(shuffle=False)
        recorded = ReplayBuffer(storage=LazyTensorStorage(25), sampler=sampler)
        recorded.extend(TensorDict(a=np.arange(25), batch_size=[25]))
        buffer = ReplayBuffer(storage=LazyTensorStorage(30))
        assert prefill_replay_buffer(buffer, recorded, count, chunk_size=10) is buffer
        np.testing.assert_array_equal(buffer[:]["a"], np.arange(expected))
        with pytest.raises(TypeError, match="dataset must be a ReplayBuffer, got str"):
            prefill_replay_buffer(buffer, "minari:door")  # type: ignore[arg-type]
