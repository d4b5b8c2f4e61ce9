"""All of lite in a process that cannot import Numba, nor llvmlite."""

import os
import subprocess
import sys

import pytest

REFUSE = """
import importlib.abc, sys, warnings

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
warnings.simplefilter("always")
"""

ARRAYS = """
import tempfile
import numpy as np
import lite.kernels
from lite import TensorDict, nn, optim, from_module, value_and_grad, vmap
from lite.data import GAE, LazyTensorStorage, MultiStep, TensorDictPrioritizedReplayBuffer
from lite.nn import TensorDictModule
from lite.optim.leaves import LARGE

td = TensorDict(obs=np.random.rand(3, 4).astype(np.float32), batch_size=[3])
assert td.unsqueeze(0).shape == (1, 3) and vmap(lambda x: x * 2)(td["obs"]).shape == (3, 4)
with tempfile.TemporaryDirectory() as folder:
    td.memmap(folder + "/td")
    assert TensorDict.load_memmap(folder + "/td")["obs"].shape == (3, 4)

net = nn.MLP(4, 1, num_cells=[32])
def loss(params):
    with params.to_module(net):
        return (net(td["obs"]) ** 2).mean()
params = from_module(net)
value, grads = value_and_grad(loss)(params)
optim.Adam(1e-3).update(params, grads)
large = TensorDict(w=np.ones(LARGE, np.float32))
new, _ = optim.Adam(0.1).update(large, large)
np.testing.assert_allclose(new["w"], 0.9, rtol=1e-6)
assert nn.GELU()(np.ones((100, 400), np.float32)).shape == (100, 400)
assert nn.LayerNorm(400)(np.ones((100, 400), np.float32)).shape == (100, 400)
assert "numba" not in sys.modules

rollout = TensorDict(
    {
        "obs": np.random.rand(2, 5, 4), "state_value": np.zeros((2, 5, 1)),
        "next": {
            "obs": np.random.rand(2, 5, 4), "state_value": np.zeros((2, 5, 1)),
            "reward": np.ones((2, 5, 1)), "done": np.zeros((2, 5, 1), bool),
            "terminated": np.zeros((2, 5, 1), bool),
        },
    },
    batch_size=[2, 5],
)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    np.testing.assert_allclose(MultiStep(gamma=0.99, n_steps=3)(rollout)["next", "reward"][0, 0], [2.9701])
    assert GAE(gamma=0.99, lmbda=0.95, value_network=None)(rollout)["advantage"].shape == (2, 5, 1)
    storage = LazyTensorStorage(16)
    buffer = TensorDictPrioritizedReplayBuffer(alpha=0.7, beta=0.9, storage=storage, batch_size=4)
    buffer.extend(TensorDict(a=np.arange(8), td_error=np.ones(8), batch_size=[8]))
    sample = buffer.sample()
    sample["td_error"] = np.ones(4)
    buffer.update_tensordict_priority(sample)
    logits = np.random.default_rng(0).normal(size=(2, 3, 50)).astype(np.float32)
    assert lite.kernels.token_log_probs(logits, np.zeros((2, 3), int)).shape == (2, 3)
    tokens, _ = lite.kernels.sample_tokens(logits[0], np.arange(3), top_k=5, top_p=0.9)
    assert lite.kernels.backend() == "numpy"
messages = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
assert len(messages) == 1, messages
assert "pip install numba" in messages[0] and "python -m lite.kernels.prebuild --wheel" in messages[0]
"""

ERRORS = """
import numpy as np
import lite.kernels
from lite import nn

class OnGpu:
    __cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (64, False), "version": 3}

def fails(call, *kinds):
    try:
        call()
    except kinds as error:
        assert "pip install" in str(error), error
    else:
        raise AssertionError(call)

fails(lite.kernels.warmup, ImportError)
fails(lambda: lite.kernels.entropy(OnGpu()), ImportError)
from lite.models.graph.call import _finish_writes
fails(_finish_writes, ImportError)
from lite import TensorDict
fails(lambda: TensorDict(a=np.ones(2)).to("cuda"), RuntimeError)
"""

MODELS = """
from lite.cli import main

warnings.simplefilter("ignore")
assert main(["demo", "--prompts", "1", "--samples", "2", "--json"]) == 0
assert "numba" not in sys.modules
"""


def run(program: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("LITE_KERNELS", "NUMBA_DISABLE_JIT")}
    done = subprocess.run(
        [sys.executable, "-c", REFUSE + program],
        env=environment | {"LITE_KERNELS_PATH": os.devnull}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_arrays_modules_files_and_buffers_work() -> None:
    run(ARRAYS)


def test_what_needs_it_names_the_command() -> None:
    run(ERRORS)


@pytest.mark.processes
def test_models_generate() -> None:
    run(MODELS)
