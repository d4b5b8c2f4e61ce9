"""The files beside the examples are what torch writes, and what lite makes of them opens in torch."""

import numpy as np
import pytest
import tensordict
import torch
from examples import frames_learn, frames_record, pendulum_deploy, pendulum_train
from torchrl import data as reference

from lite import TensorDict
from lite.data import GAE, LazyMemmapStorage, TensorDictReplayBuffer
from lite.models import OnnxModule

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def known():
    return TensorDict.load(pendulum_deploy.FOLDER / "outputs.npz")


@pytest.fixture(scope="module")
def trained():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield pendulum_train.train()
    torch.set_num_threads(threads)


def test_training_gives_the_weights_that_are_there(trained):
    from lite import nn

    weights = nn.load_safetensors(pendulum_deploy.FOLDER / "weights.safetensors")
    assert list(weights) == sorted(trained.state_dict())
    for name, value in trained.state_dict().items():
        np.testing.assert_allclose(weights[name], value, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        actions = trained(torch.from_numpy(known()["observation"]))
    np.testing.assert_allclose(actions, known()["action"], rtol=1e-4, atol=1e-5)


def test_the_graph_is_what_torch_exports(trained, tmp_path):
    trained.load_state_dict(_torch_weights())
    pendulum_train.write(trained, tmp_path)
    anew, there = OnnxModule(tmp_path / "policy.onnx"), pendulum_deploy.as_graph()
    assert (anew.in_keys, anew.out_keys) == (there.in_keys, there.out_keys) == (["observation"], ["action"])
    for rows in (1, 100):
        observation = known()["observation"][:rows]
        np.testing.assert_allclose(anew(observation), there(observation), rtol=0, atol=1e-6)
    for policy in (anew, there):
        assert pendulum_deploy.difference(policy, tmp_path) < 1e-6


@pytest.mark.parametrize("way", ["as_graph", "as_weights"])
def test_actions_are_torchs(way):
    """Torch's own network under the weights that are there, on other observations than those in the file."""
    net = pendulum_train.network()
    net.load_state_dict(_torch_weights())
    observation = np.random.default_rng(1).normal(size=(500, 3), scale=2).astype(np.float32)
    found = getattr(pendulum_deploy, way)()(TensorDict(observation=observation, batch_size=[500]))
    with torch.no_grad():
        expected = net(torch.from_numpy(observation))
    np.testing.assert_allclose(found["action"], expected, rtol=0, atol=1e-6)


def _torch_weights():
    load_file = pytest.importorskip("safetensors.torch", reason="needs the files extra").load_file
    return load_file(pendulum_deploy.FOLDER / "weights.safetensors")


# -- frames -----------------------------------------------------------------------------------------------


def test_recording_gives_the_frames_that_are_there(tmp_path):
    anew = frames_record.record(tmp_path / "frames")
    there = TensorDict.load_memmap(frames_learn.FOLDER)
    assert set(anew.keys(True, True)) == set(there.keys(True, True))
    for key, value in there.items(True, True):
        np.testing.assert_allclose(anew[key], value, rtol=1e-4, atol=1e-5)


def test_torch_opens_what_lite_made_of_them(tmp_path):
    """Frames with advantages, in the folder of a storage and in what a buffer dumps."""
    frames = TensorDict.load_memmap(frames_learn.FOLDER).clone()
    frames["state_value"] = frames["observation"].sum(-1, keepdims=True)
    frames["next", "state_value"] = frames["next", "observation"].sum(-1, keepdims=True)
    GAE(gamma=0.99, lmbda=0.95, value_network=None)(frames)
    rows = tmp_path / "rows"
    buffer = TensorDictReplayBuffer(storage=LazyMemmapStorage(len(frames), scratch_dir=rows), batch_size=32)
    buffer.extend(frames)
    table = tensordict.TensorDict.load_memmap(rows)
    assert table.batch_size == (len(frames),)
    for key, value in frames.items(True, True):
        np.testing.assert_array_equal(table[key], value)
    table["advantage"][0] = 7.0  # the same pages
    assert buffer[0]["advantage"] == 7.0

    buffer.dumps(tmp_path / "dump")
    theirs = reference.TensorDictReplayBuffer(storage=reference.LazyMemmapStorage(len(frames)), batch_size=32)
    theirs.storage.loads(tmp_path / "dump" / "storage")
    assert len(theirs) == len(frames)
    batch = theirs.sample()
    for key in ("observation", "advantage", ("next", "reward")):
        np.testing.assert_array_equal(batch[key], buffer[batch["index"].numpy()][key])
