"""A call of a graph: sizes, dtypes, failures, arrays on a GPU; with scripted sessions."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.models.scripted_session import Arg, Session
from helpers.recurrent_policy import inputs

from lite import TensorDict
from lite.models import OnnxModule

F32 = np.float32


def test_fixed_sizes_take_their_shape_only() -> None:
    session = Session([Arg("x", [1, 4])], [Arg("y", [1, 2])], lambda x: [np.ones((1, 2), F32)])
    module = OnnxModule(session)
    assert module(np.zeros((1, 4), F32)).shape == (1, 2)
    with pytest.raises(ValueError, match=r"x: float32\[1, 4\]: got .* \(3, 4\).*no batch.*dynamic_shapes"):
        module(np.zeros((3, 4), F32))


def test_a_graph_of_one_row_takes_a_frame_without_it() -> None:
    """As exporters write where no batch is named; the state (layers, row, features) has its row second."""
    shapes = {"x": [1, 4], "is_init": [1], "h": [2, 1, 8], "new": [2, 1, 8], "fixed": [3], "free": ["m", 5]}
    given = {}

    def run(**got: list[int]) -> list[np.ndarray]:
        given.update(got)
        return [np.zeros(shape, F32) for shape in ([2, 1, 8], [3], [1, 5])]

    names = list(shapes)
    session = Session(*([Arg(name, shapes[name]) for name in part] for part in (names[:3], names[3:])), run)
    module = OnnxModule(session)
    for x, h, found in (
        ([4], [2, 8], [(2, 8), (3,), (5,)]),
        ([1, 4], [2, 1, 8], [(2, 1, 8), (3,), (1, 5)]),
        ([4], [2, 1, 8], [(2, 8), (3,), (5,)]),
    ):
        out = module(np.zeros(x, F32), np.ones(1, F32), np.zeros(h, F32))
        assert [y.shape for y in out] == found, (x, h)
        assert given == {name: shapes[name] for name in names[:3]}, (x, h)
    raises(
        ValueError,
        r"h: float32\[2, 1, 8\]: got .* \(1, 8\)",
        module,
        np.zeros(4),
        np.ones(1),
        np.zeros((1, 8)),
    )
    no_row = OnnxModule(Session([Arg("x", [4, 1])], [Arg("y", [2, 1])]))
    raises(ValueError, r"x: float32\[4, 1\]: got .* \(4,\)", no_row, np.zeros(4, F32))


@each_case("lead", [(), (3,), (2, 3)])
def test_flags_of_environments_may_have_a_dimension_behind(lead: tuple[int, ...]) -> None:
    """As `InitTracker` writes them, where the graph of a recurrent policy has one number a row."""
    arguments = [Arg("start", ["n"]), Arg("x", ["n", 4])], [Arg("y", ["n"])]
    given = {}

    def run(**got: list[int]) -> list[np.ndarray]:
        given.update(got)
        return [np.zeros(got["x"][0], F32)]

    module = OnnxModule(Session(*arguments, run))
    for start in (lead, (*lead, 1)):
        assert module(np.ones(start, bool), np.zeros((*lead, 4), F32)).shape == lead, start
        assert given["start"] == given["x"][:1], start
    raises(ValueError, "differ in their batch", module, np.ones((*lead, 2)), np.zeros((*lead, 4), F32))


def test_a_batch_that_is_fixed() -> None:
    session = Session([Arg("x", [6, 4])], [Arg("y", [6, 2])], lambda x: [np.ones((6, 2), F32)])
    module = OnnxModule(session, batch_axes={"x": 0, "y": 0})
    assert module(np.zeros((2, 3, 4), F32)).shape == (2, 3, 2)
    for copied in (copy.copy, copy.deepcopy):  # the session is shared
        assert copied(module.module) is module.module
    raises(ValueError, r"got 5 rows .*batch is fixed at 6", lambda: module(np.zeros((5, 4), F32)))


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
    raises(ValueError, "values from 1 to 5000000000, beyond int32", module, np.array([1, 5_000_000_000]))
    raises(TypeError, "got dtype float64", lambda: module(np.array([1.5])))


def test_failures_of_the_graph_say_what_it_got() -> None:
    def fail(x: Any) -> Any:
        raise ZeroDivisionError("inside")

    module = OnnxModule(Session([Arg("x", ["n", 4])], [Arg("y", ["n"])], fail))
    raises(RuntimeError, r"the graph failed with x float32\[3, 4\]: inside", module, np.zeros((3, 4), F32))


def test_what_a_watchdog_raises_comes_through() -> None:
    """A signal handler may raise anywhere, and whoever catches it asks for its class."""

    class WatchdogError(Exception):
        pass

    def interrupted(x: Any) -> Any:
        raise WatchdogError("500 us")

    module = OnnxModule(Session([Arg("x", ["n", 4])], [Arg("y", ["n"])], interrupted))
    raises(WatchdogError, "500 us", lambda: module(np.zeros((3, 4), F32)))


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


def test_numbers_are_cast(policy: OnnxModule) -> None:
    for dtype in ("float64", "float16", "int64", "uint8", "bool"):
        observation, hidden = np.ones((3, 4), dtype), inputs(3)[1]
        np.testing.assert_array_equal(policy(observation, hidden)[0], policy(np.ones((3, 4), F32), hidden)[0])


def test_other_dtypes_are_errors(policy: OnnxModule) -> None:
    with pytest.raises(TypeError, match=r"observation: float32\[batch, 4\]: got dtype complex64"):
        policy(np.ones((3, 4), np.complex64), inputs(3)[1])


def test_shapes_that_do_not_fit(policy: OnnxModule) -> None:
    cases: list[tuple[Any, Any, str]] = [
        ((3, 5), (3, 2, 16), r"observation: float32\[batch, 4\]: got an array of shape \(3, 5\)"),
        ((3, 4), (3, 3, 16), r"hidden: .*got an array of shape \(3, 3, 16\), expected .*\(2, 16\)"),
        ((3, 4), (4, 2, 16), r"'observation' has \(3,\), 'hidden' has \(4,\)"),
        ((3, 4), (16,), r"hidden: .*shape \(16,\), too few dimensions"),
    ]
    for observation, hidden, message in cases:
        td = TensorDict({"observation": np.zeros(observation, F32), "hidden": np.zeros(hidden, F32)}, [])
        before = set(td.keys())
        raises(ValueError, message, policy, td)
        assert set(td.keys()) == before, observation


def test_wrong_number_of_arrays(policy: OnnxModule) -> None:
    raises(TypeError, "the graph has 2 inputs", lambda: policy.module(np.zeros((3, 4), F32)))
