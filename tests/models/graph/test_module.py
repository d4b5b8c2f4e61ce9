"""OnnxModule: keys, calls, batch dimensions, dtypes; copies, processes, devices and broken files."""

import copy
import multiprocessing
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from helpers import shared
from helpers.cases import raises
from helpers.models.real_models import MODELS
from helpers.recurrent_policy import PATH, expected, inputs

from lite import TensorDict, nn, vmap
from lite.envs import step_mdp
from lite.models import OnnxModule

F32 = np.float32


# -- keys and calls --------------------------------------------------------------------------------


def test_keys_are_the_graphs_names(policy: OnnxModule) -> None:
    assert policy.in_keys == ["observation", "hidden"]
    assert policy.out_keys == ["action", "value", "new_hidden"]
    assert "observation: float32[batch, 4]" in repr(policy)


def test_keys_may_be_chosen(session: Any) -> None:
    cases: list[tuple[Any, Any]] = [
        (["obs", ("state", "h")], ["a", "_", ("next", "state", "h")]),
        (
            {"observation": "obs", "hidden": ("state", "h")},
            {"action": "a", "value": "_", "new_hidden": ("next", "state", "h")},
        ),
    ]
    for in_keys, out_keys in cases:
        module = OnnxModule(PATH, in_keys, out_keys)
        observation, hidden = inputs(3)
        td = TensorDict({"obs": observation, "state": {"h": hidden}}, [3])
        assert module(td) is td, in_keys
        action, _, state = expected(session, observation, hidden)
        np.testing.assert_array_equal(td["a"], action, err_msg=str(in_keys))
        np.testing.assert_array_equal(td["next", "state", "h"], state, err_msg=str(in_keys))
        assert set(td.keys()) == {"obs", "state", "a", "next"}, in_keys


def test_keys_that_do_not_fit() -> None:
    cases: list[tuple[str, Any, str]] = [
        ("in_keys", ["observation"], "in_keys has 1 keys for the 2 of the graph"),
        ("out_keys", {"actions": "a"}, r"out_keys names \['actions'\]; the graph has"),
        ("batch_axes", {"nope": 0}, "batch_axes names 'nope'"),
        ("batch_axes", {"hidden": 3}, r"batch_axes\['hidden'\] must be None or an axis from 0 to 2, got 3"),
    ]
    for argument, keys, message in cases:
        raises(ValueError, message, OnnxModule, PATH, **{argument: keys})


def test_any_batch_dimensions(policy: OnnxModule, session: Any) -> None:
    cases: list[tuple[int, ...]] = [(), (1,), (5,), (2, 3), (2, 1, 3), (0,), (2, 0)]
    for batch in cases:
        observation, hidden = inputs(*batch)
        td = policy(TensorDict({"observation": observation, "hidden": hidden}, batch))
        arrays = policy(observation, hidden)
        # onnxruntime itself ends the process when a GRU gets no rows
        shapes = [(*batch, 3), (*batch, 1), (*batch, 2, 16)]
        wanted = (
            expected(session, observation, hidden) if 0 not in batch else [np.empty(s, F32) for s in shapes]
        )
        assert td.batch_size == batch, batch
        for key, array, want in zip(policy.out_keys, arrays, wanted, strict=True):
            np.testing.assert_allclose(td[key], want, rtol=1e-5, atol=1e-6, err_msg=str(batch))
            np.testing.assert_allclose(array, want, rtol=1e-5, atol=1e-6, err_msg=str(batch))
            assert array.dtype == F32, batch
            assert array.shape == want.shape, batch


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
    raises(KeyError, "hidden", lambda: policy(TensorDict({"observation": observation}, [3])))


# -- a module like others --------------------------------------------------------------------------


def test_no_state(policy: OnnxModule) -> None:
    assert policy.state_dict() == {}
    assert list(policy.parameters()) == []
    assert policy.half().eval() is policy
    policy.load_state_dict({})


def test_copies_share_the_session(policy: OnnxModule) -> None:
    cases: list[Any] = [copy.copy, copy.deepcopy]
    for duplicate in cases:
        other = duplicate(policy)
        assert other.module.session is policy.module.session, duplicate
        other.out_keys = ["a", "b", "c"]
        assert policy.out_keys == ["action", "value", "new_hidden"], duplicate


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
    raises(FileNotFoundError, r"no ONNX file .*policy\.onnx", lambda: lazy(observation, hidden))
    shutil.copy(PATH, path)
    np.testing.assert_array_equal(lazy(observation, hidden)[0], expected(session, observation, hidden)[0])


def test_another_graph_under_the_same_name_is_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "graph.onnx"
    shutil.copy(PATH, path)
    text = pickle.dumps(OnnxModule(path))
    shutil.copy(MODELS / "optimum-llama" / "model.onnx", path)
    raises(RuntimeError, r"graph\.onnx: the graph failed with observation", pickle.loads(text), *inputs(2))


def test_given_sessions_are_shared_but_not_pickled(session: Any) -> None:
    module = OnnxModule(session)
    observation, hidden = inputs(3)
    other = copy.deepcopy(module)
    np.testing.assert_array_equal(other(observation, hidden)[0], expected(session, observation, hidden)[0])
    raises(TypeError, "give the path", lambda: pickle.dumps(module))
    raises(RuntimeError, "give the path", lambda: module.to("cuda"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.processes)])
def test_other_processes_open_their_own(policy: OnnxModule, method: str) -> None:
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=shared.first_output, args=(queue, policy, *inputs(3)), daemon=True)
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=60), policy(*inputs(3))[0])
    child.join(60)
    assert child.exitcode == 0


def test_device_is_the_choice_of_provider(policy: OnnxModule, monkeypatch: pytest.MonkeyPatch) -> None:
    assert policy.device == "cpu"
    assert policy.to("cpu") is policy
    assert policy.cpu() is policy
    assert policy.to(np.float64) is policy
    raises(ValueError, "device must be 'cpu', 'cuda' or 'cuda:N'", lambda: policy.to("meta"))
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    for move in (lambda: policy.to("cuda"), lambda: policy.cuda(3), lambda: OnnxModule(PATH, device="cuda")):
        raises(RuntimeError, r"needs a GPU build of onnxruntime.*pip install", move)
    assert policy.device == "cpu"
    assert policy(*inputs(2))[0].shape == (2, 3)


def test_moving_opens_a_session_there(policy: OnnxModule, monkeypatch: pytest.MonkeyPatch) -> None:
    from lite.models.graph import session

    opened = []
    monkeypatch.setattr(session, "open_session", lambda path, **options: opened.append(options) or object())
    before = copy.deepcopy(policy)
    assert policy.cuda(1) is policy
    assert (policy.device, before.device) == ("cuda:1", "cpu")
    runtime = {"memory_reuse": False, "runtime": "onnxruntime"}
    assert opened == [{"device": "cuda:1", "num_threads": None, "providers": None, **runtime}]


def test_providers(session: Any) -> None:
    module = OnnxModule(PATH, providers=["CPUExecutionProvider"])
    observation, hidden = inputs(3)
    np.testing.assert_array_equal(module(observation, hidden)[0], expected(session, observation, hidden)[0])
    with pytest.raises(ValueError, match=r"providers=\['NoSuch'\]: this build of onnxruntime has"):
        OnnxModule(PATH, providers=["NoSuch"])
    with pytest.raises(ValueError, match="contradicts providers"):
        OnnxModule(PATH, device="cuda", providers=["CPUExecutionProvider"])
    raises(TypeError, "providers must be a list", lambda: OnnxModule(PATH, providers="CPUExecutionProvider"))


def test_missing_files(tmp_path: Path) -> None:
    raises(FileNotFoundError, "there is no ONNX file", lambda: OnnxModule(tmp_path / "none.onnx"))
    shutil.copy(PATH, tmp_path / "policy.onnx")
    raises(FileNotFoundError, r"it is a folder with policy\.onnx", lambda: OnnxModule(tmp_path))


def test_neither_path_nor_session() -> None:
    with pytest.raises(TypeError, match="model must be a path or a session of onnxruntime, got int"):
        OnnxModule(3)  # type: ignore[arg-type]


def test_symbolic_links_as_download_caches_have_them(tmp_path: Path, session: Any) -> None:
    """The graph and what it needs are links to files of other names elsewhere."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshots" / "1").mkdir(parents=True)
    llama = MODELS / "genai-llama-fp32"
    for name in ("model.onnx", "model.onnx.data"):
        shutil.copy(llama / name, tmp_path / "blobs" / name[::-1])
        (tmp_path / "snapshots" / "1" / name).symlink_to(f"../../blobs/{name[::-1]}")
    linked = tmp_path / "snapshots" / "1" / "model.onnx"
    assert OnnxModule(linked).in_keys == OnnxModule(llama / "model.onnx").in_keys
    (tmp_path / "policy.onnx").symlink_to(PATH)
    observation, hidden = inputs(3)
    action = OnnxModule(tmp_path / "policy.onnx")(observation, hidden)[0]
    np.testing.assert_array_equal(action, expected(session, observation, hidden)[0])
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    (tmp_path / "gone.onnx").symlink_to("nowhere.onnx")
    for name in ("loop.onnx", "gone.onnx"):
        raises(FileNotFoundError, f"there is no ONNX file .*{name}", OnnxModule, tmp_path / name)
    (tmp_path / "blobs" / "model.onnx.data"[::-1]).unlink()
    raises(FileNotFoundError, r"external data file 'model\.onnx\.data' is missing", OnnxModule, linked)


def test_without_onnxruntime_the_command_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "policy.onnx"  # a file whose session is not open yet
    shutil.copy(PATH, path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    raises(ImportError, r'pip install -e "\.\[llm\]"', lambda: OnnxModule(path, runtime="onnxruntime"))


def test_states_may_be_missing_where_an_episode_starts(tmp_path: Path) -> None:
    """And nowhere else: a loop that does not hand them on would run a policy without a memory."""
    policy = nn.TensorDictSequential(
        nn.LSTMModule(3, 4, in_key="x", out_key="hidden"),
        nn.TensorDictModule(nn.Linear(4, 2), ["hidden"], ["action"]),
    )
    x = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
    example = TensorDict(x=x[0], is_init=np.ones((2, 1), bool), batch_size=[2])
    graph = OnnxModule(policy.select_out_keys("action").to_onnx(tmp_path / "policy.onnx", example))
    policy.reset_out_keys()
    assert graph.out_keys == ["action", ("next", "recurrent_state_h"), ("next", "recurrent_state_c")]
    zeros = {key: np.zeros((2, 1, 4), np.float32) for key in ("recurrent_state_h", "recurrent_state_c")}
    td, want = example.copy(), example.copy().update(zeros)
    for step in x:
        td["x"] = want["x"] = step
        td, want = graph(td), policy(want)
        np.testing.assert_allclose(td["action"], want["action"], atol=1e-6)
        td, want = step_mdp(td), step_mdp(want)
        td["is_init"] = want["is_init"] = np.zeros((2, 1), bool)
    for starts in ([[False], [False]], [[True], [False]]):
        with pytest.raises(KeyError, match=r"states .*recurrent_state_c'. are missing: each step gives them"):
            graph(TensorDict(x=x[0], is_init=np.array(starts), batch_size=[2]))
    with pytest.raises(KeyError, match="recurrent_state_h"):  # one of two is a mistake
        graph(example.copy().set("recurrent_state_c", zeros["recurrent_state_c"]).exclude("x"))
    raises(KeyError, "the states", graph, example.copy().set("recurrent_state_c", zeros["recurrent_state_c"]))
    assert pickle.loads(pickle.dumps(graph))(example.copy())["action"].shape == (2, 2)
