"""Casts and devices of modules, and arrays without data."""

import copy
import sys

import ml_dtypes
import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import nn

F32 = np.float32


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3, rng=0)
        self.register_buffer("count", np.zeros((), dtype=np.int64))
        self.register_buffer("scratch", np.ones(2, dtype=F32), persistent=False)

    def forward(self, x):
        return self.first(x)


def test_casts_keep_parameter_objects_and_integers():
    net = Net()
    weight, before = net.first.weight, net.first.weight.data.copy()
    weight.grad = np.full(weight.shape, 0.1, F32)
    assert net.double() is net
    assert net.first.weight is weight
    assert weight.dtype == weight.grad.dtype == np.float64
    np.testing.assert_array_equal(weight, before.astype(np.float64))
    assert net.count.dtype == np.int64
    assert net.scratch.dtype == np.float64
    assert net.half().first.weight.dtype == np.float16
    assert net.float().first.weight.dtype == np.float32
    assert net.type("float64").count.dtype == np.float64
    assert net.type(np.float32).first.weight is weight


def test_bfloat16():
    net = Net().bfloat16()
    assert net.first.weight.dtype == ml_dtypes.bfloat16
    assert net(np.ones((2, 2), dtype=ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16
    assert net.float().first.weight.dtype == np.float32


@each_case(
    ("args", "kwargs"),
    [
        ((np.float64,), {}),
        (("cpu", "float64"), {}),
        (("cpu",), {"dtype": np.dtype("float64")}),
        ((), {"device": None, "dtype": float}),
        ((np.zeros(1),), {}),
        ((), {"tensor": np.zeros(1)}),
        ((np.float64, True), {"memory_format": None}),
    ],
)
def test_to_dtype(args, kwargs):
    net = Net()
    assert net.to(*args, **kwargs) is net
    assert net.first.weight.dtype == np.float64
    assert net.count.dtype == np.int64


def test_to_without_change():
    net = Net().half()
    weight = net.first.weight.data
    assert net.to() is net
    assert net.to("cpu").first.weight.data is weight
    assert net.cpu() is net


def test_to_errors():
    net = Net()
    raises(TypeError, "int32", lambda: net.to(np.int32))
    raises(TypeError, "dtype", lambda: net.to(object()))
    raises(TypeError, "colour", lambda: net.to(colour="red"))
    for device in ("cuda:1", "nowhere"):
        raises(RuntimeError, device, net.to, device)
    for method in (net.cuda, net.xpu, net.ipu, net.mtia):
        raises(RuntimeError, "CPU", method)
    assert net.first.weight.dtype == np.float32


def test_meta_device():
    layer = nn.Linear(2, 3, device="meta")
    assert layer.weight.shape == (3, 2)
    assert layer.weight.is_meta
    assert layer.weight.device == "meta"
    assert isinstance(copy.deepcopy(layer).weight.data, nn.MetaArray)
    raises(RuntimeError, "no data", lambda: layer(np.ones((1, 2), dtype=F32)))
    raises(RuntimeError, "no data", lambda: np.asarray(layer.weight))
    raises(NotImplementedError, "to_empty", lambda: layer.to("cpu"))
    source = nn.Linear(2, 3, rng=0)
    with pytest.warns(UserWarning, match="assign=True"):
        layer.load_state_dict(source.state_dict())
    layer.load_state_dict(source.state_dict(), assign=True)
    x = np.ones((1, 2), dtype=F32)
    np.testing.assert_array_equal(layer(x), source(x))
    assert source.to("meta").weight.is_meta
    assert source.to_empty(device="cpu").weight.data.shape == (3, 2)


def test_devices():
    class Device:
        type = "meta"

    assert nn.Linear(1, 1).to(Device()).weight.is_meta
    assert nn.Linear(1, 1).to_empty(device="meta").weight.is_meta
    raises(TypeError, "device", lambda: nn.Linear(1, 1, device=3))


def test_bfloat16_by_name_and_without_its_package(monkeypatch):
    layer = nn.Linear(2, 2, dtype="bfloat16")
    assert layer.weight.dtype.name == "bfloat16"
    assert layer(np.ones((1, 2), dtype=np.float16)).dtype == np.float32
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    raises(ImportError, "pip install ml-dtypes", lambda: nn.Linear(1, 1).bfloat16())
