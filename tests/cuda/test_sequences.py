"""Returns and moves along time where the layout decides how a GPU's threads share the work.

What holds on every device is in tests/kernels/test_returns.py and test_multistep_return.py, which run on
device arrays, too. Runs on a GPU, or under Numba's CUDA simulator
(tests/kernels/cuda/test_cuda.py starts it).
"""

from typing import Any

import numpy as np
import pytest
from helpers.compared import assert_same
from helpers.kernels_under_test import Foreign, to_device, to_host

from lite.kernels import (
    discounted_return,
    gae,
    gather_time,
    multistep_return,
    reward_to_go,
    td0_return,
    td1_return,
    td_lambda_return,
    vtrace,
)
from lite.kernels._device import gpu_of
from lite.kernels.cuda import _sequences
from lite.kernels.cuda._arrays import device_array
from lite.kernels.cuda._copies import c_ordered
from lite.kernels.cuda._jit import SIMULATED, cuda
from lite.kernels.cuda._sequences import ITEMS, Sequences, longest_axis

if not cuda.is_available():
    pytest.skip("needs a GPU, or NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)


def same(got: Any, expected: Any, rtol: float = 1e-6) -> None:
    assert_same(map(to_host, got), expected, rtol=rtol, atol=rtol, strict=True)


# Blocks of few threads, so that small arrays have many tiles: in time, of sequences, the last ones not full.
@pytest.mark.parametrize(
    ("shape", "axis", "threads"),
    [((1, 290), 1, 16), ((30, 11), 0, 16), ((2, 5, 3), 1, 16), ((1, 300), 1, 128)],
)
def test_tiles_are_joined(rng, monkeypatch, shape, axis, threads):
    for window in (3, 64):
        monkeypatch.setattr(_sequences, "_THREADS", threads)
        reward, value, following = (rng.normal(size=shape).astype(np.float32) for _ in range(3))
        done, gamma = rng.random(shape) < 0.02, rng.uniform(0.9, 1.0, shape)
        arrays = [to_device(array) for array in (reward, value, following, done)]
        if window == 3:
            same(
                gae(*arrays, gamma=to_device(gamma), lmbda=0.97, time_dim=axis),
                gae(reward, value, following, done, gamma=gamma, lmbda=0.97, time_dim=axis),
            )
        same(
            multistep_return(arrays[0], arrays[3], gamma=0.99, n_steps=window, time_dim=axis),
            multistep_return(reward, done, gamma=0.99, n_steps=window, time_dim=axis),
        )


def layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    """Equal arrays of (rows, time, features), laid out otherwise."""
    rows, time, features = array.shape
    inner = np.zeros((rows, time, features + 1), array.dtype)[..., :-1]
    backwards = array[:, ::-1].copy()[:, ::-1]
    by_time = array.transpose(1, 0, 2).copy().transpose(1, 0, 2)
    by_feature = array.transpose(2, 1, 0).copy().transpose(2, 1, 0)
    inner[...] = array
    return {"inner": inner, "backwards": backwards, "by_time": by_time, "by_feature": by_feature}


def test_views_give_what_copies_do(rng: Any) -> None:
    for layout in ("inner", "backwards", "by_time", "by_feature"):
        reward, value = rng.normal(size=(3, 20, 2)), rng.normal(size=(3, 20, 2))
        done = rng.random((3, 20)) < 0.2
        view = to_device(layouts(reward)[layout])
        assert isinstance(view, Foreign)
        flags = to_device(done.T.copy().T)
        same(
            [td_lambda_return(view, to_device(value), flags, gamma=0.9, lmbda=0.8, time_dim=1)],
            [td_lambda_return(reward, value, done, gamma=0.9, lmbda=0.8, time_dim=1)],
            rtol=1e-12,
        )
        out = multistep_return(view, flags, gamma=0.9, n_steps=4, time_dim=1)
        expected = multistep_return(reward, done, gamma=0.9, n_steps=4, time_dim=1)
        same(out, expected)
        same([gather_time(view, out.index)], [gather_time(reward, expected.index)])
        same([gather_time(view, to_device(expected.index.T.copy().T))], [gather_time(reward, expected.index)])


@pytest.mark.parametrize("name", ["reward_to_go", "discounted_return", "td0_return", "td1_return", "vtrace"])
def test_all_take_arrays_of_other_libraries(rng: Any, name: str) -> None:
    r, v, n, w = (rng.normal(size=(2, 12)).astype(np.float32) for _ in range(4))
    done = rng.random((2, 12)) < 0.3
    call = {
        "reward_to_go": lambda f: [reward_to_go(f(r), f(done), gamma=0.9)],
        "discounted_return": lambda f: [discounted_return(f(r), f(done), f(v[:, 0].copy()), gamma=0.9)],
        "td0_return": lambda f: [td0_return(f(r), f(n), f(done), gamma=f(np.abs(np.tanh(v))))],
        "td1_return": lambda f: [td1_return(f(r), f(n), f(done), gamma=0.9)],
        "vtrace": lambda f: vtrace(f(w), f(v), f(r), f(v), f(n), f(done), gamma=0.9, rho_thresh=0.8),
    }[name]
    same(call(Foreign), call(lambda array: array))


@pytest.mark.parametrize("dtype", [np.uint16, np.bool_])
def test_integers_are_numbers(rng: Any, dtype: Any) -> None:
    reward, done = rng.integers(0, 2, (2, 9)).astype(dtype), rng.integers(0, 3, (2, 9)) // 2
    flags = done.astype(np.uint16)  # whose memory might be taken for that of bfloat16
    same(
        multistep_return(to_device(reward), to_device(flags), gamma=0.5, n_steps=3),
        multistep_return(reward, flags, gamma=0.5, n_steps=3),
    )
    same(
        [reward_to_go(to_device(reward), to_device(flags), gamma=0.5)],
        [reward_to_go(reward, flags, gamma=0.5)],
    )


def test_gather_moves_items_of_any_size(rng: Any) -> None:
    for dtype, item in [("i1", "i1"), ("u2", "f2"), ("i8", "c16")]:
        array = rng.integers(0, 100, (2, 6, 3)).astype(item)
        index = rng.integers(0, 6, (2, 6)).astype(dtype)
        same([gather_time(to_device(array), to_device(index))], [gather_time(array, index)])


def test_gather_reports_an_index_beyond_64_bits() -> None:
    index = np.array([[0, 2**64 - 1]], np.uint64)
    with pytest.raises(IndexError, match=r"index must be in \[0, 2\), got -1"):
        gather_time(to_device(np.zeros((1, 2))), to_device(index))


def test_results_are_on_the_device_and_follow_the_stream(rng: Any) -> None:
    reward, done = rng.normal(size=(3, 8)), rng.random((3, 8)) < 0.3
    stream = cuda.stream()
    written = Foreign(reward)
    written.__cuda_array_interface__["stream"] = 2  # the per-thread default stream: waited for
    for given in (stream, None):
        out = reward_to_go(written, to_device(done), gamma=0.9, stream=given)
        assert hasattr(type(out), "__cuda_ndarray__")
        stream.synchronize()
        same([out], [reward_to_go(reward, done, gamma=0.9)], rtol=1e-12)


def test_mixed_devices_are_errors(rng: Any) -> None:
    reward, done = rng.normal(size=(3, 8)), np.zeros((3, 8), bool)
    there = to_device(reward), to_device(done)
    with pytest.raises(TypeError, match=r"mixed devices: reward is an array in CUDA memory .* done is not"):
        reward_to_go(there[0], done, gamma=0.9)
    with pytest.raises(TypeError, match=r"mixed devices: done is an array in CUDA memory .* reward is not"):
        multistep_return(reward, there[1], gamma=0.9, n_steps=2)
    with pytest.raises(TypeError, match=r"mixed devices: reward is .* gamma is not"):
        reward_to_go(*there, gamma=np.full((3, 8), 0.9))
    with pytest.raises(TypeError, match=r"mixed devices: .* terminated is not"):
        gae(there[0], there[0], there[0], there[1], done, gamma=0.9, lmbda=0.9)
    with pytest.raises(TypeError, match="stream goes with arrays in CUDA memory"):
        gae(reward, reward, reward, done, gamma=0.9, lmbda=0.9, stream=0)


def test_factors_on_the_device_are_checked(rng: Any) -> None:
    for bad in (-0.1, 1.5, np.nan):
        reward, done, gamma = rng.normal(size=(2, 5)), np.zeros((2, 5), bool), np.full((2, 5), 0.5)
        gamma[1, 3] = bad
        with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\], got 1 entries that are not"):
            reward_to_go(to_device(reward), to_device(done), gamma=to_device(gamma))
        with pytest.raises(ValueError, match=r"gamma.*broadcast.*\(2,\).*\(2, 5\)"):
            reward_to_go(to_device(reward), to_device(done), gamma=to_device(np.ones(2)))


def test_copies_are_in_the_order_of_c(rng: Any) -> None:
    for index in [np.s_[:, ::-1], np.s_[1:, :, None], np.s_[..., 2], np.s_[:0]]:
        view = rng.integers(0, 100, (4, 7)).T[index]
        value = to_device(view)
        gpu = gpu_of(None, x=value)
        assert gpu is not None
        copy = c_ordered(gpu, device_array("x", value))
        assert copy.c_contiguous
        np.testing.assert_array_equal(copy.owner.copy_to_host(), view)


def test_tiles_fit_a_block() -> None:
    for shape, axis, time_fast in [
        ((4096, 1024), 1, True),
        ((1024, 4096), 0, False),
        ((64, 1000, 1), 1, True),
        ((2, 10**6), 1, True),
    ]:
        value = to_device(np.zeros(1, np.float32))
        like = device_array("x", value)._like(np.broadcast_to(np.float32(0), shape))
        strides = np.lib.stride_tricks.as_strided(like.view, shape, _c_strides(shape, 4))
        gpu = gpu_of(None, x=value)
        assert gpu is not None
        tiles = Sequences(gpu, like._like(strides), axis).tiles()
        sequences = np.prod(shape) // shape[axis]
        assert tiles.time_fast == time_fast
        assert 32 <= tiles.threads <= 128
        assert tiles.threads * ITEMS == 1 << (tiles.log_steps + tiles.log_width)
        assert (tiles.groups - 1) << tiles.log_width < sequences <= tiles.groups << tiles.log_width
        assert (tiles.count - 1) << tiles.log_steps < shape[axis] <= tiles.count << tiles.log_steps
        assert tiles.shared(2) <= 48 * 1024
        if not SIMULATED and not time_fast:
            assert tiles.log_width >= 3


def _c_strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    return tuple(size * int(np.prod(shape[axis + 1 :], dtype=int)) for axis in range(len(shape)))


def test_the_axis_that_fills_tiles() -> None:
    for shape, axis in [((5, 9, 1), 1), ((9, 3), 0), ((3, 2), 0), ((4, 8), 1), ((1,), 0)]:
        assert longest_axis(shape) == axis
