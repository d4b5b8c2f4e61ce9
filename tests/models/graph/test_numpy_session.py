"""Graphs on NumPy: values, bindings, caches in place, and errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.compared import assert_same
from helpers.models.real_models import MODELS
from helpers.recurrent_policy import PATH, inputs
from numpy.typing import NDArray

from lite._files.onnx import writer
from lite.models import OnnxModule
from lite.models.graph import call
from lite.models.graph.numpy_session import NumpySession
from lite.models.graph.session import PointerBinding, open_session, run_once

Arrays = dict[str, NDArray[Any]]
GRAPHS = Path(__file__).parents[1] / "graphs"
X = np.array([1.0, -2.0, 3.0], np.float32)


def node(op: str, given: str, outputs: str, **attributes: Any) -> bytes:
    return writer.node(op, f"the_{op}", given.split(), outputs.split(), attributes)


def typed(nodes: list[bytes], inputs: Arrays, outputs: Arrays, weights: Arrays | None = None) -> bytes:
    given, asked = (
        [writer.value(name, x.dtype, x.shape) for name, x in side.items()] for side in (inputs, outputs)
    )
    kept = [writer.tensor(name, x) for name, x in (weights or {}).items()]
    return writer.model(writer.graph("graph", nodes, kept, given, asked), 21, ("tests", ""))


def opened(*args: Any) -> Any:
    return NumpySession(Path("nowhere.onnx"), typed(*args), 60)


def test_a_policy_gives_what_it_gives_on_onnxruntime() -> None:
    ours, theirs = (OnnxModule(PATH, runtime=name) for name in ("numpy", "onnxruntime"))
    assert (ours.in_keys, ours.out_keys, ours.runtime) == (theirs.in_keys, theirs.out_keys, "numpy")
    for rows in ((3,), (2, 2), (0,)):
        given = [np.broadcast_to(x[:1], (*rows, *x.shape[1:])) for x in inputs(1)]
        assert_same(ours(*given), theirs(*given), atol=1e-6, strict=True)
    import pickle

    again = pickle.loads(pickle.dumps(ours))
    assert again.runtime == "numpy"


def test_bindings_read_and_write_memory_and_results_are_new() -> None:
    session = opened([node("Neg", "x", "y"), node("Identity", "x", "z")], {"x": X}, {"y": X, "z": X})
    binding, x, y = PointerBinding(session), X.copy(), np.zeros(3, np.float32)
    cpu = binding.device("cpu", 0)
    binding.bind_input("x", cpu, np.float32, [3], x.ctypes.data)
    binding.bind_output("y", cpu, np.float32, [3], y.ctypes.data)
    binding.bind_new_output("z", cpu)
    for run in (binding.run, binding.runner()):
        x += 1  # what is bound is read at each run
        run()
        np.testing.assert_array_equal(y, -x)
    (_, z) = binding.outputs_on_cpu()
    x[:] = 0
    np.testing.assert_array_equal(z, X + 2)
    value = binding.outputs()[1]
    assert (value.shape(), value.data_type(), value.data_ptr()) == ([3], "tensor(float)", z.ctypes.data)
    binding.bind_output("y", cpu, np.float32, [1, 3], y.ctypes.data)
    raises(ValueError, r"'y' has the shape \[3\], bound is \[1, 3\]", lambda: binding.run())


def test_half_precision_is_computed_in_single_and_given_as_half() -> None:
    half = {"x": X.astype(np.float16)}, {"y": X.astype(np.float16)}
    session = opened([node("Mul", "x x", "y")], *half)
    (y,) = session.run(None, {"x": np.full(3, 300, np.float16)})
    assert y.dtype == np.float16
    assert np.isinf(y).all()
    two = opened([node("Mul", "x x", "z"), node("Sqrt", "z", "y")], *half)
    np.testing.assert_array_equal(two.run(["y"], {"x": np.full(3, 300, np.float16)})[0], [300] * 3)


def test_inputs_that_do_not_fit() -> None:
    cases: list[tuple[int, ...]] = [(2,), (3, 1)]
    for shape in cases:
        session = opened([node("Neg", "x", "y")], {"x": X}, {"y": X})
        with pytest.raises(ValueError, match=r"'x' has the shape .*\. Expected: \[3\]"):
            session.run(None, {"x": np.zeros(shape, np.float32)})
        raises(ValueError, r"the inputs \['x'\] are missing", session.run, None, {})
    none = np.zeros((0, 3), np.float32)  # onnxruntime takes no other size for 0 either
    with pytest.raises(ValueError, match=r"\[2, 3\]. Expected: \[0, 3\]"):
        opened([node("Neg", "x", "y")], {"x": none}, {"y": none}).run(
            None, {"x": np.zeros((2, 3), np.float32)}
        )


def test_nothing_that_is_given_is_written_to() -> None:
    """But a cache that is input and output at once: `tests/models/decoder/test_decoder_numpy.py`."""
    path = MODELS / "genai-llama-fp32" / "model.onnx"
    session = open_session(path, runtime="numpy")
    rng, feeds = np.random.default_rng(0), {}
    for arg in session.get_inputs():
        past = "past" in arg.name
        sizes = [
            n if isinstance(n, int) else 1 if i == 0 else (1, 2, 4, 16)[i] if past else 5
            for i, n in enumerate(arg.shape)
        ]
        feeds[arg.name] = rng.normal(size=sizes).astype(np.float32) if past else np.ones(sizes, np.int64)
    feeds["input_ids"] = feeds["input_ids"][:, :1]
    before = {name: array.copy() for name, array in feeds.items()}
    first = run_once(session, ["logits"], feeds)[0]
    for name, array in feeds.items():
        np.testing.assert_array_equal(array, before[name])
    np.testing.assert_array_equal(run_once(session, ["logits"], feeds)[0], first)


def test_initializers_that_are_inputs_may_be_given() -> None:
    weight = np.array([2.0], np.float32)
    session = opened([node("Mul", "x w", "y")], {"x": X, "w": weight}, {"y": X}, {"w": weight})
    assert [x.name for x in session.get_inputs()] == ["x"]
    assert [x.name for x in session.get_overridable_initializers()] == ["w"]
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], 2 * X)
    np.testing.assert_array_equal(session.run(None, {"x": X, "w": 3 * weight})[0], 6 * X)


def test_older_files_list_all_initializers_as_inputs() -> None:
    weight = np.array([2.0], np.float32)
    content = typed([node("Mul", "x w", "y")], {"x": X, "w": weight}, {"y": X}, {"w": weight})
    session = NumpySession(Path("nowhere.onnx"), b"\x08\x03" + content, 60)
    assert not session.get_overridable_initializers()
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], 2 * X)


# -- graphs that are refused, or end --------------------------------------------------------------


def test_what_has_no_rule_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.onnx").write_bytes(typed([node("Fancy", "x", "y")], {"x": X}, {"y": X}))
    with pytest.raises(
        ValueError, match=r"NumPy cannot load '.*odd\.onnx'.*'the_Fancy'.*no rule for the operator Fancy"
    ):
        OnnxModule(tmp_path / "odd.onnx", runtime="numpy")


def test_errors_of_a_run_have_the_shapes(tmp_path: Path) -> None:
    arrays = {"x": np.zeros((2, 3), np.float32), "z": np.zeros((2, 3), np.float32)}
    (tmp_path / "odd.onnx").write_bytes(typed([node("MatMul", "x z", "y")], arrays, {"y": X}))
    module = OnnxModule(tmp_path / "odd.onnx", runtime="numpy")
    raises(RuntimeError, r"odd\.onnx: the graph failed with x float32\[2, 3\], z", module, *arrays.values())


def test_a_graph_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "FIRST_RUN_SECONDS", 0.2)
    module = OnnxModule(GRAPHS / "endless.onnx", runtime="numpy")
    for _ in range(2):
        raises(TimeoutError, r"its run took over 0\.2 seconds", lambda: module(np.ones((1, 2), np.int64)))
    session = open_session(GRAPHS / "endless.onnx", runtime="numpy")
    monkeypatch.setattr("lite.models.graph.session.FIRST_RUN_SECONDS", 0.1)
    feeds = {arg.name: np.ones((1, 2), np.int64) for arg in session.get_inputs()}
    raises(TimeoutError, r"its run took over 0\.1 seconds", lambda: run_once(session, ["logits"], feeds))


def test_loading_takes_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite.models.graph.session.LOAD_SECONDS", 0.0)
    with pytest.raises(ValueError, match=r"cannot load .*loading took over 0 seconds"):
        open_session(MODELS / "genai-llama-fp32" / "model.onnx", runtime="numpy")
