"""The memory of a process's batches."""

import numpy as np

from lite import TensorDict
from lite.data.collectors.collector_worker import _SharedBatch


def test_memory_is_sent_where_shapes_change():
    shared = _SharedBatch()
    first = shared.take(TensorDict({"x": np.zeros(3)}, [3]))
    assert first.is_shared()
    assert shared.take(TensorDict({"x": np.ones(3)}, [3])) is None
    np.testing.assert_array_equal(first["x"], [1.0] * 3)
    assert shared.take(TensorDict({"x": np.ones(4)}, [4])).batch_size == (4,)
    assert shared.take(TensorDict({"x": np.ones(4), "y": np.ones(4)}, [4])) is not None
