"""OnnxModule: keys, batch dimensions, dtypes, copies, threads, devices and errors."""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import os
import pickle
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shared
from recurrent_policy import PATH

from lite import TensorDict, nn, vmap
from lite.models import OnnxModule
from lite.models.graph_tensors import read_tensors
from lite.nn import TensorDictModule, TensorDictSequential

onnxruntime = pytest.importorskip("onnxruntime")
F32 = np.float32


@pytest.fixture
def policy() -> OnnxModule:
    return OnnxModule(PATH)


@pytest.fixture(scope="module")
def session() -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(PATH, options, providers=["CPUExecutionProvider"])


def inputs(*batch: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    observation = rng.standard_normal((*batch, 4)).astype(F32)
    hidden = rng.standard_normal((*batch, 2, 16)).astype(F32)
    observation.flags.writeable = hidden.flags.writeable = False
    return observation, hidden


def expected(session: Any, observation: np.ndarray, hidden: np.ndarray) -> list[np.ndarray]:
    """What the session gives, the batch in front."""
    lead = observation.shape[:-1]
    flat = np.moveaxis(hidden.reshape(-1, 2, 16), 0, 1)
    action, value, state = session.run(None, {"observation": observation.reshape(-1, 4), "hidden": flat})
    return [a.reshape(*lead, *a.shape[1:]) for a in (action, value, np.moveaxis(state, 1, 0))]


# -- keys and calls --------------------------------------------------------------------------------


def test_keys_are_the_graphs_names(policy: OnnxModule) -> None:
    assert policy.in_keys == ["observation", "hidden"]
    assert policy.out_keys == ["action", "value", "new_hidden"]
    assert "observation: float32[batch, 4]" in repr(policy)


@pytest.mark.parametrize(
    ("in_keys", "out_keys"),
    [
        (["obs", ("state", "h")], ["a", "_", ("next", "state", "h")]),
        (
            {"observation": "obs", "hidden": ("state", "h")},
            {"action": "a", "value": "_", "new_hidden": ("next", "state", "h")},
        ),
    ],
)
def test_keys_may_be_chosen(in_keys: Any, out_keys: Any, session: Any) -> None:
    module = OnnxModule(PATH, in_keys, out_keys)
    observation, hidden = inputs(3)
    td = TensorDict({"obs": observation, "state": {"h": hidden}}, [3])
    assert module(td) is td
    action, _, state = expected(session, observation, hidden)
    np.testing.assert_array_equal(td["a"], action)
    np.testing.assert_array_equal(td["next", "state", "h"], state)
    assert set(td.keys()) == {"obs", "state", "a", "next"}


@pytest.mark.parametrize(
    ("argument", "keys", "message"),
    [
        ("in_keys", ["observation"], "in_keys has 1 keys for the 2 of the graph"),
        ("out_keys", {"actions": "a"}, r"out_keys names \['actions'\]; the graph has"),
        ("batch_axes", {"nope": 0}, "batch_axes names 'nope'"),
        ("batch_axes", {"hidden": 3}, r"batch_axes\['hidden'\] must be None or an axis from 0 to 2, got 3"),
    ],
)
def test_keys_that_do_not_fit(argument: str, keys: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OnnxModule(PATH, **{argument: keys})


@pytest.mark.parametrize("batch", [(), (1,), (5,), (2, 3), (2, 1, 3), (0,), (2, 0)])
def test_any_batch_dimensions(policy: OnnxModule, session: Any, batch: tuple[int, ...]) -> None:
    observation, hidden = inputs(*batch)
    td = policy(TensorDict({"observation": observation, "hidden": hidden}, batch))
    arrays = policy(observation, hidden)
    # onnxruntime itself ends the process when a GRU gets no rows
    shapes = [(*batch, 3), (*batch, 1), (*batch, 2, 16)]
    wanted = expected(session, observation, hidden) if 0 not in batch else [np.empty(s, F32) for s in shapes]
    assert td.batch_size == batch
    for key, array, want in zip(policy.out_keys, arrays, wanted, strict=True):
        np.testing.assert_allclose(td[key], want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(array, want, rtol=1e-5, atol=1e-6)
        assert array.dtype == F32
        assert array.shape == want.shape


def test_calls_by_keyword_and_in_a_module(policy: OnnxModule) -> None:
    observation, hidden = inputs(3)
    by_name = policy(hidden=hidden, observation=observation)
    wrapped = TensorDictModule(policy, ["x", "h"], ["a", "v", "n"])
    td = wrapped(TensorDict({"x": observation, "h": hidden}, [3]))
    for name, want in zip("avn", by_name, strict=True):
        np.testing.assert_array_equal(td[name], want)


def test_rollout_in_a_sequence_beside_other_modules(session: Any) -> None:
    """Five steps of an environment; the state goes from step to step through the TensorDict."""
    agent = TensorDictSequential(
        TensorDictModule(lambda pixels: pixels / F32(255), ["pixels"], ["observation"]),
        OnnxModule(PATH, out_keys={"action": "logits", "new_hidden": ("next", "hidden")}),
        TensorDictModule(nn.Softmax(-1), ["logits"], ["probs"]),
        TensorDictModule(lambda p: p.argmax(-1), ["probs"], ["action"]),
    )
    assert agent.in_keys == ["pixels", "hidden"]
    rng = np.random.default_rng(1)
    td = TensorDict(
        {"pixels": rng.integers(0, 256, (3, 4)).astype(F32), "hidden": np.zeros((3, 2, 16), F32)}, [3]
    )
    state = np.zeros((3, 2, 16), F32)
    states = []
    for _ in range(5):
        agent(td)
        logits, value, state = expected(session, td["pixels"] / F32(255), state)
        np.testing.assert_allclose(td["value"], value, rtol=1e-5)
        np.testing.assert_array_equal(td["action"], logits.argmax(-1))
        np.testing.assert_allclose(td["next", "hidden"], state, rtol=1e-4, atol=1e-6)
        states.append(state)
        pixels = (td["pixels"] + 10 * td["action"][:, None].astype(F32)) % F32(256)
        td = TensorDict({"pixels": pixels, "hidden": td["next", "hidden"]}, [3])
    assert np.abs(states[0] - states[-1]).max() > 0.01


def test_vmap_maps_the_batch(policy: OnnxModule) -> None:
    observation, hidden = inputs(4, 3)
    mapped = vmap(policy, (0, 0))(observation, hidden)
    shared = vmap(policy, (0, None))(observation, hidden[0])
    for i in range(4):
        for got, want in zip(mapped, policy(observation[i], hidden[i]), strict=True):
            np.testing.assert_allclose(got[i], want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(shared[0][i], policy(observation[i], hidden[0])[0], rtol=1e-5, atol=1e-6)


def test_selection_and_skipped_inputs(policy: OnnxModule) -> None:
    observation, hidden = inputs(3)
    td = TensorDict({"observation": observation, "hidden": hidden}, [3])
    assert set(policy.select_out_keys("action")(td).keys()) == {"observation", "hidden", "action"}
    with pytest.raises(KeyError, match="hidden"):
        policy(TensorDict({"observation": observation}, [3]))


# -- dtypes and shapes -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "uint8", "bool"])
def test_numbers_are_cast(policy: OnnxModule, dtype: str) -> None:
    observation, hidden = np.ones((3, 4), dtype), inputs(3)[1]
    np.testing.assert_array_equal(policy(observation, hidden)[0], policy(np.ones((3, 4), F32), hidden)[0])


def test_other_dtypes_are_errors(policy: OnnxModule) -> None:
    with pytest.raises(TypeError, match=r"observation: float32\[batch, 4\]: got dtype complex64"):
        policy(np.ones((3, 4), np.complex64), inputs(3)[1])


@pytest.mark.parametrize(
    ("observation", "hidden", "message"),
    [
        ((3, 5), (3, 2, 16), r"observation: float32\[batch, 4\]: got an array of shape \(3, 5\)"),
        ((3, 4), (3, 3, 16), r"hidden: .*got an array of shape \(3, 3, 16\), expected .*\(2, 16\)"),
        ((3, 4), (4, 2, 16), r"'observation' has \(3,\), 'hidden' has \(4,\)"),
        ((3, 4), (16,), r"hidden: .*shape \(16,\), too few dimensions"),
    ],
)
def test_shapes_that_do_not_fit(policy: OnnxModule, observation: Any, hidden: Any, message: str) -> None:
    td = TensorDict({"observation": np.zeros(observation, F32), "hidden": np.zeros(hidden, F32)}, [])
    before = set(td.keys())
    with pytest.raises(ValueError, match=message):
        policy(td)
    assert set(td.keys()) == before


def test_wrong_number_of_arrays(policy: OnnxModule) -> None:
    with pytest.raises(TypeError, match="the graph has 2 inputs"):
        policy.module(np.zeros((3, 4), F32))


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
    from lite._device_array import DeviceArray
    from lite.models import graph_call

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
    from lite.models import shared_session

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
    from lite.models.shared_session import SessionOptions

    cuda = ("CUDAExecutionProvider", {"device_id": 2})
    assert SessionOptions.from_arguments(None, [cuda, "CPUExecutionProvider"], None).device == "cuda:2"
    assert SessionOptions.from_arguments("cuda:2", [cuda], None).device == "cuda:2"
    assert SessionOptions.from_arguments(None, ["CUDAExecutionProvider"], None).device == "cuda"


# -- a module like others --------------------------------------------------------------------------


def test_no_state(policy: OnnxModule) -> None:
    assert policy.state_dict() == {}
    assert list(policy.parameters()) == []
    assert policy.half().eval() is policy
    policy.load_state_dict({})


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies_share_the_session(policy: OnnxModule, duplicate: Any) -> None:
    other = duplicate(policy)
    assert other.module.session is policy.module.session
    other.out_keys = ["a", "b", "c"]
    assert policy.out_keys == ["action", "value", "new_hidden"]


def test_pickles_open_the_graph_when_used(policy: OnnxModule, tmp_path: Path, session: Any) -> None:
    observation, hidden = inputs(3)
    again = pickle.loads(pickle.dumps(policy))
    assert again.module.session is policy.module.session  # of the same process
    path = tmp_path / "policy.onnx"
    shutil.copy(PATH, path)
    text = pickle.dumps(OnnxModule(path, out_keys={"action": "a"}))
    assert len(text) < 3000  # no weights
    path.rename(tmp_path / "elsewhere.onnx")
    lazy = pickle.loads(text)
    assert lazy.out_keys == ["a", "value", "new_hidden"]
    with pytest.raises(FileNotFoundError, match=r"no ONNX file .*policy\.onnx"):
        lazy(observation, hidden)
    shutil.copy(PATH, path)
    np.testing.assert_array_equal(lazy(observation, hidden)[0], expected(session, observation, hidden)[0])


def test_another_graph_under_the_same_name_is_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "graph.onnx"
    shutil.copy(PATH, path)
    text = pickle.dumps(OnnxModule(path))
    shutil.copy(PATH.parents[1] / "models" / "optimum-llama" / "model.onnx", path)
    with pytest.raises(RuntimeError, match=r"graph\.onnx: the graph failed with observation"):
        pickle.loads(text)(*inputs(2))


def test_given_sessions_are_shared_but_not_pickled(session: Any) -> None:
    module = OnnxModule(session)
    observation, hidden = inputs(3)
    other = copy.deepcopy(module)
    np.testing.assert_array_equal(other(observation, hidden)[0], expected(session, observation, hidden)[0])
    with pytest.raises(TypeError, match="give the path"):
        pickle.dumps(module)
    with pytest.raises(RuntimeError, match="give the path"):
        module.to("cuda")


def test_threads(policy: OnnxModule) -> None:
    batches = [inputs(i + 1, seed=i) for i in range(8)]
    wanted = [policy(*batch) for batch in batches]
    failures: list[Any] = []

    def work(i: int) -> None:
        for _ in range(30):
            for got, want in zip(policy(*batches[i]), wanted[i], strict=True):
                if not np.array_equal(got, want):
                    failures.append((i, got, want))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_open_their_own(policy: OnnxModule, method: str) -> None:
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=shared.first_output, args=(queue, policy, *inputs(3)), daemon=True)
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=60), policy(*inputs(3))[0])
    child.join(60)
    assert child.exitcode == 0


# -- files -----------------------------------------------------------------------------------------


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no ONNX file"):
        OnnxModule(tmp_path / "none.onnx")
    shutil.copy(PATH, tmp_path / "policy.onnx")
    with pytest.raises(FileNotFoundError, match=r"it is a folder with policy\.onnx"):
        OnnxModule(tmp_path)


def test_neither_path_nor_session() -> None:
    with pytest.raises(TypeError, match="model must be a path or a session of onnxruntime, got int"):
        OnnxModule(3)  # type: ignore[arg-type]


def test_symbolic_links_as_download_caches_have_them(tmp_path: Path, session: Any) -> None:
    """The graph and what it needs are links to files of other names elsewhere."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    llama = PATH.parents[1] / "models" / "genai-llama-fp32"
    for name in ("model.onnx", "model.onnx.data"):
        shutil.copy(llama / name, tmp_path / "blobs" / name[::-1])
        (tmp_path / "snapshot" / name).symlink_to(f"../blobs/{name[::-1]}")
    assert (
        OnnxModule(tmp_path / "snapshot" / "model.onnx").in_keys == OnnxModule(llama / "model.onnx").in_keys
    )
    (tmp_path / "policy.onnx").symlink_to(PATH)
    observation, hidden = inputs(3)
    action = OnnxModule(tmp_path / "policy.onnx")(observation, hidden)[0]
    np.testing.assert_array_equal(action, expected(session, observation, hidden)[0])
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    (tmp_path / "gone.onnx").symlink_to("nowhere.onnx")
    for name in ("loop.onnx", "gone.onnx"):
        with pytest.raises(FileNotFoundError, match=f"there is no ONNX file .*{name}"):
            OnnxModule(tmp_path / name)
    (tmp_path / "blobs" / "model.onnx.data"[::-1]).unlink()
    with pytest.raises(FileNotFoundError, match=r"external data file 'model\.onnx\.data' is missing"):
        OnnxModule(tmp_path / "snapshot" / "model.onnx")


@pytest.mark.parametrize("seed", range(3))
def test_files_damaged_anywhere_are_refused_or_run(tmp_path: Path, seed: int) -> None:
    """Cut, with other bytes, with bytes missing: a ValueError that names the file, or a graph that runs."""
    rng, whole = np.random.default_rng(seed), PATH.read_bytes()
    refused = 0
    for i in range(12):
        damaged, at = bytearray(whole), int(rng.integers(len(whole)))
        if i % 3 == 0:
            del damaged[at:]
        elif i % 3 == 1:
            damaged[at : at + 4] = rng.bytes(4)
        else:
            del damaged[at : at + int(rng.integers(1, 200))]
        path = tmp_path / f"{i}.onnx"
        path.write_bytes(damaged)
        try:
            module = OnnxModule(path)
        except ValueError as err:
            refused += 1
            assert f"{i}.onnx" in str(err) or "numeric tensors only" in str(err)  # noqa: PT017
            continue
        with contextlib.suppress(RuntimeError, ValueError, KeyError):
            module(*inputs(2))
    assert refused


@pytest.mark.parametrize("content", [b"", b"no graph at all", PATH.read_bytes()[:2000]])
def test_damaged_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "policy.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"policy\.onnx"):
        OnnxModule(path)


def _field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2, len(payload)]) + payload


@pytest.mark.parametrize("location", [b"../secret.bin", b"/etc/passwd", b"a/../../b"])
def test_data_outside_the_folder_are_refused(tmp_path: Path, location: bytes) -> None:
    entry = _field(13, _field(1, b"location") + _field(2, location))
    path = tmp_path / "policy.onnx"
    path.write_bytes(_field(7, _field(5, entry)))
    with pytest.raises(ValueError, match="external data outside its folder"):
        OnnxModule(path)


def test_without_onnxruntime_the_command_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "policy.onnx"  # a file whose session is not open yet
    shutil.copy(PATH, path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r'pip install "tensordict-lite\[llm\]"'):
        OnnxModule(path)
