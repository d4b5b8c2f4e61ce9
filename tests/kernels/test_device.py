"""Where the arrays of a call lie."""

from typing import ClassVar

import numpy as np
import pytest

from lite.kernels._device import gpu_of, in_cuda_memory


class There:
    __cuda_array_interface__: ClassVar[dict[str, object]] = {}


def test_numbers_and_arrays_are_on_the_host():
    assert gpu_of(None, a=np.zeros(2), b=1.0, c=None, d=[1, 2], e=np.float32(1)) is None
    assert not any(map(in_cuda_memory, (np.zeros(2), 1.0, None, [1, 2])))
    assert in_cuda_memory(There())


def test_a_stream_needs_arrays_there():
    with pytest.raises(TypeError, match="stream goes with arrays in CUDA memory"):
        gpu_of(7, reward=np.zeros(2))


@pytest.mark.parametrize("host", [np.zeros(2), [True, False]])
def test_arrays_in_both_memories_are_named(host):
    with pytest.raises(TypeError, match=r"mixed devices: reward is an array in CUDA memory.*, done is not"):
        gpu_of(None, gamma=0.9, done=host, reward=There())
