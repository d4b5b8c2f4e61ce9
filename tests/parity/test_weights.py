"""Weights that torch wrote: state dicts given as arrays, and safetensors files."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from helpers.cases import each_case, raises
from parity.layers import assert_agree
from safetensors.torch import save_file

from lite import TensorDict, nn

LAYERS = {
    "Conv2d": ((3, 4, 3), {"padding": 1, "groups": 1}, [(2, 3, 5, 5)]),
    "BatchNorm1d": ((3,), {}, [(2, 3)]),
    "Bilinear": ((2, 3, 4), {}, [(5, 2), (5, 3)]),
    "GRU": ((3, 4), {"num_layers": 2, "bidirectional": True}, [(5, 2, 3)]),
    "LSTM": ((3, 4), {"num_layers": 2}, [(5, 2, 3)]),
    "MultiheadAttention": ((8, 2), {"add_bias_kv": True}, [(5, 2, 8)] * 3),
    "Transformer": ((8, 2, 1, 1, 16), {"batch_first": True}, [(2, 5, 8), (2, 4, 8)]),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@each_case(("name", "way"), zip(LAYERS, ["file", "arrays", "tensors"] * 2 + ["file"], strict=True))
def test_weights_of_torch(rng, tmp_path, name, way):
    args, options, shapes = LAYERS[name]
    theirs = getattr(torch.nn, name)(*args, **options).eval()
    ours = getattr(nn, name)(*args, **options).eval()
    state = theirs.state_dict()
    if way == "arrays":
        state = {key: value.numpy() for key, value in state.items()}
    elif way == "file":
        save_file(state, tmp_path / "model.safetensors", {"format": "pt"})
        state = nn.load_safetensors(tmp_path / "model.safetensors")
    assert str(ours.load_state_dict(state)) == "<All keys matched successfully>"
    inputs = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    with torch.no_grad():
        assert_agree(ours(*inputs), theirs(*map(torch.from_numpy, inputs)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(tmp_path, dtype):
    theirs = torch.nn.Linear(2, 3).to(getattr(torch, dtype))
    save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    # in a process in which nobody has told NumPy about bfloat16
    code = "import sys; from lite import nn; print(nn.load_safetensors(sys.argv[1])['weight'].dtype)"
    out = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "model.safetensors"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.strip() == dtype
    state = nn.load_safetensors(tmp_path / "model.safetensors")
    copied, assigned = nn.Linear(2, 3), nn.Linear(2, 3)
    copied.load_state_dict(state)
    assigned.load_state_dict(state, assign=True)
    assert (copied.weight.dtype.name, assigned.weight.dtype.name) == ("float32", dtype)
    for ours in (copied, assigned):
        np.testing.assert_array_equal(ours.weight.astype(np.float32), theirs.weight.detach().float().numpy())
    td = TensorDict.load(tmp_path / "model.safetensors")
    assert td["weight"].dtype.name == dtype


def test_errors(tmp_path):
    raises(FileNotFoundError, "", lambda: nn.load_safetensors(tmp_path / "missing.safetensors"))
    (tmp_path / "text.safetensors").write_text("not this format")
    raises(ValueError, "damaged or foreign", lambda: nn.load_safetensors(tmp_path / "text.safetensors"))
    save_file({"weight": torch.zeros(3, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(RuntimeError, match=r"Missing key\(s\).*bias") as err:
        nn.Linear(3, 2).load_state_dict(nn.load_safetensors(tmp_path / "other.safetensors"))
    assert "(3, 2)" in str(err.value)
