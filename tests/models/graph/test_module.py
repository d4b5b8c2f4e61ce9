"""OnnxModule: keys, calls, batch dimensions, dtypes; copies, pickles, threads and processes."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import shared
from helpers.models.real_models import MODELS
from helpers.recurrent_policy import PATH, expected, inputs

from lite import TensorDict, nn, vmap
from lite.models import OnnxModule
from lite.nn import TensorDictModule, TensorDictSequential

pytest.importorskip("onnxruntime")
F32 = np.float32


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
    shutil.copy(MODELS / "optimum-llama" / "model.onnx", path)
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
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.processes)])
def test_other_processes_open_their_own(policy: OnnxModule, method: str) -> None:
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=shared.first_output, args=(queue, policy, *inputs(3)), daemon=True)
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=60), policy(*inputs(3))[0])
    child.join(60)
    assert child.exitcode == 0
