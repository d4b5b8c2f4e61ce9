"""OnnxModule against the torch network that the graph was exported from; dtypes that NumPy does not know."""

import numpy as np
import onnx
import pytest
import tensordict
import torch
from helpers.cases import each_case
from helpers.recurrent_policy import PATH, network

from lite import TensorDict, nn
from lite.models import OnnxModule

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("batch", [1, 7])
def test_a_recurrent_policy_over_a_rollout(batch):
    """Twenty steps, the state carried by both: torch's module in tensordict, the graph in lite."""
    net = network()
    theirs = tensordict.nn.TensorDictModule(
        net, ["observation", "hidden"], ["action", "value", ("next", "hidden")]
    )
    mine = OnnxModule(PATH, out_keys={"new_hidden": ("next", "hidden")})
    rng = np.random.default_rng(0)
    state, torch_state = np.zeros((batch, 2, 16), np.float32), torch.zeros(2, batch, 16)
    for _ in range(20):
        observation = rng.standard_normal((batch, 4)).astype(np.float32)
        td = mine(TensorDict({"observation": observation, "hidden": state}, [batch]))
        with torch.no_grad():
            # torch has the batch of the state in the middle, so its TensorDict has no batch size
            other = theirs(
                tensordict.TensorDict({"observation": torch.from_numpy(observation), "hidden": torch_state})
            )
        for key in ("action", "value"):
            np.testing.assert_allclose(td[key], other[key], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            td["next", "hidden"].swapaxes(0, 1), other["next", "hidden"], rtol=1e-5, atol=1e-6
        )
        state, torch_state = td["next", "hidden"], other["next", "hidden"]


def test_the_graph_and_the_same_layers_here():
    """The same weights in lite's own layers."""
    net = network()
    memory, action = nn.GRU(16, 16, num_layers=2, batch_first=True), nn.Linear(16, 3)
    encoder = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
    for mine, theirs in ((memory, net.memory), (action, net.action), (encoder, net.encoder)):
        mine.load_state_dict(theirs.state_dict())
    rng = np.random.default_rng(0)
    x, hidden = (rng.standard_normal(s).astype(np.float32) for s in ((5, 4), (5, 2, 16)))
    out, state = memory(encoder(x)[:, None], np.ascontiguousarray(hidden.swapaxes(0, 1)))
    graph = OnnxModule(PATH)(x, hidden)
    np.testing.assert_allclose(graph[0], action(out[:, 0]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(graph[2].swapaxes(0, 1), state, rtol=1e-5, atol=1e-6)


@each_case(
    "name",
    ["float", "double", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint8", "bool"],
)
def test_every_dtype_goes_through(name, tmp_path):
    make, kind = onnx.helper, getattr(onnx.TensorProto, name.upper())
    shape = ["batch", 2]
    graph = make.make_graph(
        [make.make_node("Identity", ["x"], ["y"])],
        "identity",
        [make.make_tensor_value_info("x", kind, shape)],
        [make.make_tensor_value_info("y", kind, shape)],
    )
    path = tmp_path / "identity.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    module = OnnxModule(path)
    x = np.array([[0, 1], [1, 0], [1, 1]]).astype(module.module.inputs[0].dtype)
    out = module(x)
    assert out.dtype == x.dtype
    np.testing.assert_array_equal(out.astype(np.float64), x.astype(np.float64))
    np.testing.assert_array_equal(out, module(x[:, None])[:, 0])
