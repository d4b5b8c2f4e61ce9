"""Steps on a GPU: what is donated stays there. Stand-ins for its memory and session, which runs on the CPU.

What onnxruntime does on a GPU is in them: an input in NumPy's memory is copied when it is bound, and one on
the GPU is read where it is. `test_on_a_gpu` in tests/models/decoder/test_decoder_devices.py has the hardware.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import numpy as np
import pytest
from helpers.compared import assert_same

import lite
from lite import TensorDict, nn, optim, value_and_grad
from lite.models.graph import step_session


class Memory:
    """An array of Numba on the GPU: without NumPy's functions, copied to and from by name."""

    __cuda_ndarray__ = True

    def __init__(self, held: np.ndarray) -> None:
        self.held = held
        self.shape, self.dtype, self.ndim, self.size = held.shape, held.dtype, held.ndim, held.size
        self.strides = held.strides

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.held.__array_interface__, "version": 3}

    def __getitem__(self, index: Any) -> Memory:
        return Memory(self.held[index])

    def reshape(self, shape: Any) -> Memory:
        return Memory(self.held.reshape(shape))

    def is_c_contiguous(self) -> bool:
        return self.held.flags.c_contiguous

    def copy_to_device(self, value: Any) -> None:
        np.copyto(self.held, value.held if isinstance(value, Memory) else value)

    def copy_to_host(self) -> np.ndarray:
        return self.held.copy()


class Cuda:
    """Numba's module."""

    gpus = (contextlib.nullcontext(),) * 2

    def device_array(self, shape: tuple[int, ...], dtype: Any) -> Memory:
        return Memory(np.full(shape, 77, dtype))

    def synchronize(self) -> None:
        """What the session leaves to do; here nothing."""


class Binding:
    def __init__(self, binding: Any) -> None:
        self.binding = binding
        self.copies: dict[str, np.ndarray] = {}
        self.places: dict[str, str] = {}

    def bind_input(
        self, name: str, kind: str, index: int, dtype: Any, shape: list[int], pointer: int
    ) -> None:
        self.places[name] = kind
        if kind == "cpu":
            value = onnxruntime_value(dtype, shape, pointer)
            self.copies[name] = value
            pointer = value.ctypes.data
        else:
            assert index == 1
        self.binding.bind_input(name, "cpu", 0, dtype, shape, pointer)

    def bind_output(self, name: str, kind: str, index: int, *rest: Any) -> None:
        self.places[name] = kind
        self.binding.bind_output(name, "cpu", 0, *rest)

    def get_outputs(self) -> Any:
        return self.binding.get_outputs()


def onnxruntime_value(dtype: Any, shape: list[int], pointer: int) -> np.ndarray:
    """A copy of what is at an address."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(ctypes.string_at(pointer, size), dtype).reshape(shape).copy()


class Session:
    def __init__(self, session: Any) -> None:
        self.session = session
        self.bindings: list[Binding] = []

    def get_providers(self) -> list[str]:
        return ["CUDAExecutionProvider", "CPUExecutionProvider"]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {"CUDAExecutionProvider": {"device_id": "1"}, "CPUExecutionProvider": {}}

    def io_binding(self) -> Binding:
        self.bindings.append(Binding(self.session.io_binding()))
        return self.bindings[-1]

    def run_with_iobinding(self, binding: Binding, options: Any = None) -> None:
        self.session.run_with_iobinding(binding.binding, options)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """The sessions that are opened."""
    sessions: list[Session] = []
    opened = step_session.open_session

    def on_gpu(*args: Any, providers: Any, **options: Any) -> Any:
        if providers is None:
            return opened(*args, providers=None, **options)
        sessions.append(Session(opened(*args, providers=None, **options)))
        return sessions[-1]

    cuda = Cuda()
    monkeypatch.setattr(step_session, "open_session", on_gpu)
    monkeypatch.setattr(step_session, "require_cuda", lambda device: cuda)
    return sessions


def learning(**options: Any) -> Any:
    """A step of Adam, its parameters, and its optimiser's state."""
    net = nn.Sequential(nn.Linear(3, 4, rng=0), nn.Tanh(), nn.Linear(4, 2, rng=1))
    adam = optim.Adam(1e-2)

    def update(params: Any, state: Any, x: Any, y: Any) -> Any:
        def objective(params: Any) -> Any:
            with params.to_module(net):
                return ((net(x) - y) ** 2).mean()

        loss, grads = value_and_grad(objective)(params)
        return loss, *adam.update(params, grads, state)

    params = TensorDict.from_module(net).data.clone()
    return lite.jit(update, donate=("params", "state"), **options), params, adam.init(params)


PROVIDERS = ["CUDAExecutionProvider", "CPUExecutionProvider"]


def data(i: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(i)
    return rng.standard_normal((5, 3)).astype(np.float32), rng.standard_normal((5, 2)).astype(np.float32)


def as_on_the_cpu(steps: int) -> tuple[Any, TensorDict]:
    """Steps learn with the providers what they do without: the function, and its parameters at the end."""
    theirs, *expected = learning()
    ours, *held = learning(providers=PROVIDERS)
    held[0] = held[0].to("cpu")
    for i in range(steps):
        wanted, *expected = theirs(*expected, *data(i))
        loss, *held = ours(*held, *data(i))
        np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    assert_same(held[0].to("cpu"), expected[0], rtol=1e-5)
    return ours, held[0]


def test_what_is_donated_stays_on_the_gpu(gpu: list[Session]) -> None:
    ours, params = as_on_the_cpu(4)
    assert all(isinstance(leaf, Memory) for leaf in params.values(True, True))
    assert params.device != "cpu"
    for binding in gpu[-1].bindings:
        assert list(binding.places.values()).count("cpu") == 3  # two arrays of data, and the loss
    assert ours.state["params"].to("cpu")["0", "weight"].shape == (4, 3)


def test_other_parameters_take_the_place_of_those_that_stayed(gpu: list[Session]) -> None:
    theirs, first, state = learning()
    ours, mine, my_state = learning(providers=PROVIDERS)
    second = first.clone()
    second["2", "bias"] += 1
    theirs(first, state, *data(0))
    ours(mine, my_state, *data(0))
    _, _, fresh = learning()
    wanted = theirs(second.clone(), fresh.clone(), *data(1))[0]
    np.testing.assert_allclose(ours(second.clone(), fresh.clone(), *data(1))[0], wanted, rtol=1e-5)


def test_what_is_written_in_place_stays_in_numpys_memory(gpu: list[Session]) -> None:
    def step(total: Any, x: np.ndarray) -> Any:
        total["sum"] += x
        return total["sum"].mean()

    ours = lite.jit(step, donate="total", providers=PROVIDERS)
    total = TensorDict({"sum": np.zeros(3, np.float32)})
    for i in range(3):
        mean = ours(total, np.full(3, i + 1, np.float32))
    assert mean == 6
    np.testing.assert_array_equal(total["sum"], np.full(3, 6.0))


def test_arrays_of_the_gpu_are_read_where_they_are(gpu: list[Session]) -> None:
    ours = lite.jit(lambda x, y: x + y, providers=PROVIDERS)
    x, y = np.arange(3.0), np.ones(3)
    np.testing.assert_array_equal(ours(Memory(x), y), x + 1)
    x[:] = 5
    np.testing.assert_array_equal(ours(Memory(x), y), np.full(3, 6.0))
    assert {binding.places["x"] for binding in gpu[0].bindings if "x" in binding.places} <= {"cuda"}
    strided = Memory(np.arange(6.0)[::2])
    np.testing.assert_array_equal(ours(strided, y), [1, 3, 5])


def test_what_is_in_other_memory_than_the_graph_is_copied_at_each_call(gpu: list[Session]) -> None:
    ours = lite.jit(lambda x: x * 2, providers=PROVIDERS)
    for i in range(4):
        np.testing.assert_array_equal(ours(np.full(3, float(i))), np.full(3, 2.0 * i))
    np.testing.assert_array_equal(lite.jit(lambda x: x * 2)(Memory(np.arange(3.0))), [0, 2, 4])


def test_without_numba_for_cuda_all_is_numpys(gpu: list[Session], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(device: str) -> Any:
        raise RuntimeError(f"{device} needs numba-cuda")

    monkeypatch.setattr(step_session, "require_cuda", missing)
    _, params = as_on_the_cpu(3)
    assert all(isinstance(leaf, np.ndarray) for leaf in params.values(True, True))


def test_a_provider_that_is_left_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = step_session.open_session
    monkeypatch.setattr(
        step_session, "open_session", lambda *args, providers, **options: opened(*args, **options)
    )
    with pytest.raises(RuntimeError, match="on CPUExecutionProvider in place of CUDAExecutionProvider"):
        lite.jit(lambda x: x + 1, providers=PROVIDERS)(np.zeros(2))
