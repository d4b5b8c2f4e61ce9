"""Arguments that only mean something to torch."""

import pytest
from helpers.counting_env import CountingEnv

from lite.data import Collector, MultiSyncCollector

TAKEN = {
    "device": "cpu", "storing_device": "cpu", "policy_device": None, "env_device": "cpu",
    "compile_policy": False, "cudagraph_policy": None, "trust_policy": True, "no_cuda_sync": True,
    "use_buffers": False, "num_threads": 2, "num_sub_threads": 1, "extend_buffer": True,
    "reset_when_done": True,
}  # fmt: skip
REFUSED = [
    ({"device": "cuda:0"}, ValueError, "device must be None or 'cpu', got 'cuda:0'"),
    ({"storing_device": "cuda"}, ValueError, "storing_device"),
    ({"compile_policy": True}, ValueError, "lite.jit"),
    ({"cudagraph_policy": {"warmup": 2}}, ValueError, "cudagraph_policy"),
    ({"extend_buffer": False}, ValueError, "extend_buffer must be True, got False"),
    ({"reset_when_done": False}, ValueError, "reset_when_done must be True"),
    ({"frames": 3}, TypeError, "no argument 'frames'"),
]


def test_what_has_one_way_is_taken() -> None:
    assert Collector(CountingEnv(), frames_per_batch=4, total_frames=4, **TAKEN).next().shape == (4,)


def test_what_would_not_happen_is_refused() -> None:
    for given, error, message in REFUSED:
        for make in (Collector, MultiSyncCollector):
            with pytest.raises(error, match=message):
                make(CountingEnv, frames_per_batch=4, **given)
