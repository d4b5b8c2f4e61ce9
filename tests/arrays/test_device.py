"""Device leaves without a GPU: Numba's real array class over host memory, and a library like NumPy.

Views of Numba's arrays are described by lite (Numba itself cannot slice with an ellipsis or None, nor
permute more than two dimensions), so its class can be tested with any memory behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict, lazy_stack, stack
from lite._arrays.device import DeviceArray, NotOnDevice, wrap

devicearray = pytest.importorskip("numba.cuda.cudadrv.devicearray", reason="the class is Numba's")


class Memory:
    """A stand-in for Numba's MemoryPointer: some bytes of a host buffer."""

    __cuda_memory__ = True

    def __init__(self, buffer: np.ndarray, start: int, size: int) -> None:
        assert 0 <= start <= start + size <= buffer.nbytes
        self.buffer, self.start, self._cuda_memsize_ = buffer, start, size

    def view(self, start: int, stop: int) -> Memory:
        return Memory(self.buffer, self.start + start, stop - start)


def on_device(array: np.ndarray) -> Any:
    if devicearray.DeviceRecord is None:
        pytest.skip("the simulator has no such class")
    array = np.ascontiguousarray(array)
    memory = Memory(array.reshape(-1).view(np.uint8), 0, array.nbytes)
    return devicearray.DeviceNDArray(array.shape, array.strides, array.dtype, gpu_data=memory)


def content(leaf: Any) -> np.ndarray:
    """What is in the memory of a leaf, read through its own shape and strides."""
    assert type(leaf) is devicearray.DeviceNDArray
    memory = leaf.gpu_data
    return np.ndarray(leaf.shape, leaf.dtype, memory.buffer, memory.start, leaf.strides)


@pytest.fixture
def host() -> np.ndarray:
    return np.arange(24.0).reshape(3, 4, 2)


@pytest.fixture
def td(host: np.ndarray) -> TensorDict:
    return TensorDict({"a": on_device(host)}, batch_size=[3, 4])


VIEWS = {
    "int": lambda td: td[1],
    "both": lambda td: td[2, 3],
    "slice": lambda td: td[1:, ::2],
    "reversed": lambda td: td[::-1],
    "reversed twice": lambda td: td[::-1][1:].flip(0),
    "none": lambda td: td[None, 1:],
    "ellipsis": lambda td: td[..., 1],
    "reshape": lambda td: td.reshape(6, 2),
    "view of a slice": lambda td: td[1:].view(8),
    "permute": lambda td: td.permute(1, 0),
    "unsqueeze": lambda td: td.unsqueeze(-1),
    "expand": lambda td: td.expand(5, 3, 4),
    "unbind": lambda td: td.unbind(1)[3],
    "chain": lambda td: td[1:].permute(1, 0)[1:3].unsqueeze(0)[:, ::-1],
}


@each_case("name", VIEWS)
def test_views_are_those_of_numpy(td: TensorDict, host: np.ndarray, name: str) -> None:
    expected = VIEWS[name](TensorDict({"a": host}, batch_size=[3, 4]))
    out = VIEWS[name](td)
    assert out.batch_size == expected.batch_size
    np.testing.assert_array_equal(content(out["a"]), expected["a"], strict=True)
    assert content(out["a"]).strides == expected["a"].strides
    assert out["a"].gpu_data.buffer is td["a"].gpu_data.buffer


def test_leaves_are_kept(td: TensorDict) -> None:
    leaf = td["a"]
    assert td.clone(recurse=False)["a"] is leaf
    assert td.select("a")["a"] is leaf
    assert lazy_stack([td, td])[1]["a"] is leaf
    assert td.apply(lambda x: x)["a"] is leaf
    assert "device=cuda:0" in repr(td)


def _refuse(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("copied to the host")


@each_case(
    ("what", "call"),
    [
        ("add", lambda td: td + 1),
        ("add", lambda td: td.add_(1)),
        ("subtract", lambda td: 1 - td),
        ("equal", lambda td: td == 1),
        ("multiply", lambda td: td * td),
        ("add with an array in host memory", lambda td: td + np.ones((3, 4))),
        ("matmul with an array in host memory", lambda td: td @ np.ones((2, 2))),
        ("exp", np.exp),
        ("all", lambda td: td.all()),
        ("NumPy function", lambda td: td.sum(dim=0, reduce=True)),
        ("'a' is on a device", lambda td: td.to_struct_array()),
        ("NumPy function", lambda td: td.cat_from_tensordict()),
        ("add.reduce", lambda td: td.sum()),
        ("take_along_axis|index array", lambda td: td.gather(0, np.zeros((1, 4), int))),
        ("index array or mask", lambda td: td[np.array([0])]),
        ("a cast to float32", lambda td: td.float()),
        ("copy", lambda td: td.permute(1, 0).reshape(12)),
        ("stack|concatenate", lambda td: stack([td, TensorDict({"a": np.zeros((3, 4, 2))}, [3, 4])])),
    ],
)
def test_what_numba_arrays_cannot_do_is_a_type_error(td, what, call, monkeypatch):
    monkeypatch.setattr(devicearray.DeviceNDArray, "copy_to_host", _refuse)
    raises(TypeError, what, lambda: call(td))


def test_an_index_of_numba_can_write_a_view(td: TensorDict) -> None:
    # DeviceArray.__setitem__ writes `view[()] = value`, so Numba must understand that index.
    for view in (td["a"], td[0, 0]["a"], td[1, ::2]["a"]):
        part = view._dummy[()]
        assert part.extent[0] == 0


def test_unsupported_attributes_are_type_errors_that_hasattr_understands(td: TensorDict) -> None:
    array = wrap(td["a"])
    assert isinstance(array, DeviceArray)
    assert not hasattr(array, "tobytes")
    raises(TypeError, "'tobytes' is not available for a DeviceNDArray", lambda: array.tobytes())
    raises(NotOnDevice, r'td.to\("cpu"\)', lambda: np.asarray(array))


# -- a library whose arrays follow NumPy -----------------------------------------------------------


class Like(np.lib.mixins.NDArrayOperatorsMixin):
    """As a CuPy array is: NumPy's methods and protocols, and the CUDA array interface."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.array, name)
        if not callable(found):
            return found
        return lambda *args, **kwargs: Like(found(*args, **kwargs))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self) -> np.ndarray:
        return self.array.copy()

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Like:
        return Like(self.array[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = value.array if isinstance(value, Like) else value

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        arrays = [x.array if isinstance(x, Like) else x for x in inputs]
        return Like(np.asarray(getattr(ufunc, method)(*arrays, **kwargs)))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        def plain(x: Any) -> Any:
            return type(x)(map(plain, x)) if isinstance(x, list | tuple) else getattr(x, "array", x)

        return Like(func(*plain(args), **kwargs))


@pytest.fixture
def like(host: np.ndarray) -> TensorDict:
    return TensorDict({"a": Like(host)}, batch_size=[3, 4])


@each_case(
    "call",
    [
        *VIEWS.values(),
        lambda td: td[np.array([2, 0])],
        lambda td: td[np.array([True, False, True])],
        lambda td: td + 1,
        lambda td: td * td,
        lambda td: td.exp(),
        lambda td: td.float(),
        lambda td: td.clone(),
        lambda td: stack([td, td], 1),
        lambda td: lazy_stack([td, td]).contiguous(),
    ],
)
def test_a_library_like_numpy_does_everything_itself(like: TensorDict, host: np.ndarray, call: Any) -> None:
    expected = call(TensorDict({"a": host.copy()}, batch_size=[3, 4]))
    out = call(like)
    assert isinstance(out["a"], Like)
    np.testing.assert_array_equal(out["a"].array, expected["a"], strict=True)


def test_such_leaves_come_home_by_their_own_method(like: TensorDict, host: np.ndarray) -> None:
    back = like.to("cpu")
    np.testing.assert_array_equal(back["a"], host)
    like[0] = {"a": np.zeros((4, 2))}
    assert not host[0].any()
