"""OnnxModule: which axis is the batch, and devices; with scripted sessions."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from recurrent_policy import PATH, expected, inputs

from lite.models import OnnxModule
from lite.models.graph.tensors import read_tensors

onnxruntime = pytest.importorskip("onnxruntime")
F32 = np.float32


# -- which axis is the batch; scripted sessions ----------------------------------------------------


class Arg:
    def __init__(self, name: str, shape: list[Any], type_: str = "tensor(float)") -> None:
        self.name, self.shape, self.type = name, shape, type_


class Binding:
    """Keeps what is bound; `run` calls the scripted function with arrays at the bound addresses."""

    def __init__(self) -> None:
        self.inputs: dict[str, tuple[Any, ...]] = {}
        self.outputs: list[tuple[str, str, int]] = []

    def bind_input(self, name: str, kind: str, index: int, dtype: Any, shape: list[int], at: int) -> None:
        self.inputs[name] = (kind, index, dtype, shape, at)

    def bind_output(self, name: str, kind: str, index: int) -> None:
        self.outputs.append((name, kind, index))

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        return self.results

    def get_outputs(self) -> list[Any]:
        return self.results


class Session:
    def __init__(self, ins: list[Arg], outs: list[Arg], function: Any = None) -> None:
        self.ins, self.outs, self.function = ins, outs, function
        self.binding: Any = None

    def get_inputs(self) -> list[Arg]:
        return self.ins

    def get_outputs(self) -> list[Arg]:
        return self.outs

    def io_binding(self) -> Binding:
        self.binding = Binding()
        return self.binding

    def run_with_iobinding(self, binding: Binding) -> None:
        binding.results = self.function(**{name: bound[3] for name, bound in binding.inputs.items()})


@pytest.mark.parametrize(
    ("ins", "outs", "axes"),
    [
        ([["b", 4]], [["b", 2]], [0, 0]),
        ([["b", 4], [2, "b", 8]], [["b", 2], [2, "lost_name", 8]], [0, 1, 0, 1]),
        ([["b1", 4], ["b2", 8]], [["b3", 1]], [0, 0, 0]),
        ([[None, 4], [None, 8]], [[None, 1]], [0, 0, 0]),
        ([["b", "time", 4], ["b", "time"]], [["b", "time", 2]], [0, 0, 0]),
        ([["time", "b", 4], [1, "b", 8]], [["time", "b", 2]], [1, 1, 1]),
        ([["b", "time", 4], ["time"]], [["b", 2]], [0, None, 0]),
        ([["b", 4], [1]], [["b", 2], [3]], [0, None, 0, None]),
        ([[1, 4]], [[1, 2]], [None, None]),
        ([[]], [[]], [None, None]),
    ],
)
def test_the_batch_axis(ins: list[Any], outs: list[Any], axes: list[int | None]) -> None:
    tensors = [
        [Arg(f"{kind}{i}", s) for i, s in enumerate(shapes)]
        for kind, shapes in zip("xy", (ins, outs), strict=True)
    ]
    read = read_tensors(Session(*tensors))  # type: ignore[arg-type]
    assert [tensor.batch for tensor in (*read[0], *read[1])] == axes


def test_the_batch_axis_can_be_told() -> None:
    ins, outs = [Arg("x", ["n", 4]), Arg("table", ["n", 3])], [Arg("y", ["n", 2])]
    (x, table), (y,) = read_tensors(Session(ins, outs), {"table": None, "y": None})  # type: ignore[arg-type]
    assert (x.batch, table.batch, y.batch) == (0, None, None)


def test_fixed_sizes_take_their_shape_only() -> None:
    session = Session([Arg("x", [1, 4])], [Arg("y", [1, 2])], lambda x: [np.ones((1, 2), F32)])
    module = OnnxModule(session)
    assert module(np.zeros((1, 4), F32)).shape == (1, 2)
    with pytest.raises(ValueError, match=r"x: float32\[1, 4\]: got .* \(3, 4\).*no batch.*dynamic_shapes"):
        module(np.zeros((3, 4), F32))


def test_a_batch_that_is_fixed() -> None:
    session = Session([Arg("x", [6, 4])], [Arg("y", [6, 2])], lambda x: [np.ones((6, 2), F32)])
    module = OnnxModule(session, batch_axes={"x": 0, "y": 0})
    assert module(np.zeros((2, 3, 4), F32)).shape == (2, 3, 2)
    with pytest.raises(ValueError, match=r"got 5 rows .*batch is fixed at 6"):
        module(np.zeros((5, 4), F32))


def test_an_output_with_other_rows_is_pointed_out() -> None:
    session = Session([Arg("x", ["n", 4])], [Arg("y", ["m", 2])], lambda x: [np.ones((7, 2), F32)])
    with pytest.raises(ValueError, match="gave 7 rows for a batch of 3; name its batch axis"):
        OnnxModule(session)(np.zeros((3, 4), F32))
    out = OnnxModule(session, batch_axes={"y": None})(np.zeros((3, 4), F32))
    assert out.shape == (7, 2)


def test_narrow_integers_must_fit() -> None:
    session = Session([Arg("i", ["n"], "tensor(int32)")], [Arg("y", ["n"])], lambda i: [np.ones(i, F32)])
    module = OnnxModule(session)
    assert module(np.array([1, 2])).shape == (2,)
    with pytest.raises(ValueError, match="values from 1 to 5000000000, beyond int32"):
        module(np.array([1, 5_000_000_000]))
    with pytest.raises(TypeError, match="got dtype float64"):
        module(np.array([1.5]))


def test_types_other_than_numeric_tensors() -> None:
    session = Session([Arg("text", ["n"], "tensor(string)")], [Arg("y", ["n"])])
    with pytest.raises(ValueError, match=r"'text' has the type tensor\(string\); numeric tensors only"):
        OnnxModule(session)


def test_failures_of_the_graph_say_what_it_got() -> None:
    def fail(x: Any) -> Any:
        raise ZeroDivisionError("inside")

    module = OnnxModule(Session([Arg("x", ["n", 4])], [Arg("y", ["n"])], fail))
    with pytest.raises(RuntimeError, match=r"the graph failed with x float32\[3, 4\]: inside"):
        module(np.zeros((3, 4), F32))


# -- devices ---------------------------------------------------------------------------------------


class GpuArray:
    """Stands for a CuPy array: its content in host memory, an address like one of a GPU."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape, self.ndim, self.dtype, self.size = array.shape, array.ndim, array.dtype, array.size
        self.flags = array.flags
        self.__cuda_array_interface__ = array.__array_interface__

    def reshape(self, shape: Any) -> GpuArray:
        return GpuArray(self.array.reshape(shape))

    def transpose(self, axes: Any) -> GpuArray:
        return GpuArray(self.array.transpose(axes))

    def copy(self) -> GpuArray:
        return GpuArray(self.array.copy())

    def astype(self, dtype: Any, copy: bool = True) -> GpuArray:
        return GpuArray(self.array.astype(dtype))


def test_arrays_on_the_gpu_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from lite._arrays.device import DeviceArray
    from lite.models.graph import call as graph_call

    monkeypatch.setattr(graph_call, "_finish_writes", lambda: None)
    monkeypatch.setattr(graph_call, "_on_gpu", lambda value, tensor: DeviceArray(GpuArray(value)))
    monkeypatch.setattr(graph_call, "parse_device", lambda device: ("cuda", 1))
    session = Session(
        [Arg("x", ["n", 4]), Arg("h", [2, "n", 8])], [Arg("y", [2, "n", 8])], lambda x, h: [np.ones(h, F32)]
    )
    module = OnnxModule(session, device="cuda:1")
    assert module.device == "cuda:1"
    out = module.module(GpuArray(np.zeros((3, 5, 4), F32)), np.zeros((3, 5, 2, 8), F32))
    assert isinstance(out, GpuArray)
    assert out.shape == (3, 5, 2, 8)
    bound = session.binding
    assert bound.inputs["x"][:4] == ("cuda", 1, F32, [15, 4])
    assert bound.inputs["h"][:4] == ("cpu", 0, F32, [2, 15, 8])
    assert bound.outputs == [("y", "cuda", 1)]


def test_device_is_the_choice_of_provider(policy: OnnxModule, monkeypatch: pytest.MonkeyPatch) -> None:
    assert policy.device == "cpu"
    assert policy.to("cpu") is policy
    assert policy.cpu() is policy
    assert policy.to(np.float64) is policy
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda' or 'cuda:N'"):
        policy.to("meta")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    for move in (lambda: policy.to("cuda"), lambda: policy.cuda(3), lambda: OnnxModule(PATH, device="cuda")):
        with pytest.raises(RuntimeError, match=r"needs a GPU build of onnxruntime.*pip install"):
            move()
    assert policy.device == "cpu"
    assert policy(*inputs(2))[0].shape == (2, 3)


def test_moving_opens_a_session_there(policy: OnnxModule, monkeypatch: pytest.MonkeyPatch) -> None:
    from lite.models.graph import shared_session

    opened = []
    monkeypatch.setattr(
        shared_session, "open_session", lambda path, **options: opened.append(options) or object()
    )
    before = copy.deepcopy(policy)
    assert policy.cuda(1) is policy
    assert (policy.device, before.device) == ("cuda:1", "cpu")
    assert opened == [{"device": "cuda:1", "num_threads": None, "providers": None}]


def test_providers(session: Any) -> None:
    module = OnnxModule(PATH, providers=["CPUExecutionProvider"])
    observation, hidden = inputs(3)
    np.testing.assert_array_equal(module(observation, hidden)[0], expected(session, observation, hidden)[0])
    with pytest.raises(ValueError, match=r"providers=\['NoSuch'\]: this build of onnxruntime has"):
        OnnxModule(PATH, providers=["NoSuch"])
    with pytest.raises(ValueError, match="contradicts providers"):
        OnnxModule(PATH, device="cuda", providers=["CPUExecutionProvider"])
    with pytest.raises(TypeError, match="providers must be a list"):
        OnnxModule(PATH, providers="CPUExecutionProvider")


def test_the_device_follows_from_the_providers() -> None:
    from lite.models.graph.shared_session import SessionOptions

    cuda = ("CUDAExecutionProvider", {"device_id": 2})
    assert SessionOptions.from_arguments(None, [cuda, "CPUExecutionProvider"], None).device == "cuda:2"
    assert SessionOptions.from_arguments("cuda:2", [cuda], None).device == "cuda:2"
    assert SessionOptions.from_arguments(None, ["CUDAExecutionProvider"], None).device == "cuda"
