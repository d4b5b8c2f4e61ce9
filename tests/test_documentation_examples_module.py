"""The examples of the reference documentation for nn.Module, one test each: 001-3 to 001-19, and those of 000
that are the same.
"""

import numpy as np
import pytest
from helpers.documentation_examples import F32, ones, tree, zeros

import lite
from lite import nn
from lite.nn import TensorDictModule as Mod


class Norm(nn.Module):
    """Stands for BatchNorm: two buffers."""

    def __init__(self, features):
        super().__init__()
        self.register_buffer("running_mean", zeros(features))
        self.register_buffer("running_var", ones(features))


# -- 001: Module (000-1 to 000-9 are the same examples) -------------------------------------------


def test_001_3_apply_init_weights():
    seen = []

    def init_weights(m):
        seen.append(type(m).__name__)
        if type(m) is nn.Linear:
            m.weight.data.fill(1.0)

    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    assert net.apply(init_weights) is net
    assert seen == ["Linear", "Linear", "Sequential"]
    for layer in net:
        np.testing.assert_array_equal(layer.weight, ones(2, 2))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=2, bias=True)\n"
        "  (1): Linear(in_features=2, out_features=2, bias=True)\n"
        ")"
    )


def test_001_4_buffers():
    model = nn.Sequential(Norm(20), Norm(5))
    assert [(type(buf), buf.shape) for buf in model.buffers()] == [
        (np.ndarray, (20,)),
        (np.ndarray, (20,)),
        (np.ndarray, (5,)),
        (np.ndarray, (5,)),
    ]


def test_001_5_modules():
    linear = nn.Linear(2, 2)
    net = nn.Sequential(linear, linear)
    assert [(i, type(m).__name__) for i, m in enumerate(net.modules())] == [(0, "Sequential"), (1, "Linear")]


def test_001_6_named_buffers():
    assert [b.shape for name, b in Norm(7).named_buffers() if name in ["running_var"]] == [(7,)]


def test_001_7_named_children():
    model = nn.Sequential({"conv4": nn.Identity(), "conv5": nn.Tanh(), "other": nn.ReLU()})
    chosen = [(name, module) for name, module in model.named_children() if name in ["conv4", "conv5"]]
    assert chosen == [("conv4", model.conv4), ("conv5", model.conv5)]


def test_001_8_named_modules():
    linear = nn.Linear(2, 2)
    net = nn.Sequential(linear, linear)
    assert list(net.named_modules()) == [("", net), ("0", linear)]


def test_001_9_named_parameters():
    net = nn.Linear(3, 4)
    assert [param.shape for name, param in net.named_parameters() if name in ["bias"]] == [(4,)]


def test_001_10_parameters():
    net = nn.Sequential(nn.Linear(3, 4))
    assert [param.shape for param in net.parameters()] == [(4, 3), (4,)]
    assert all(isinstance(np.asarray(param), np.ndarray) for param in net.parameters())


def test_001_11_register_buffer():
    module = nn.Module()
    module.register_buffer("running_mean", zeros(6))
    np.testing.assert_array_equal(module.running_mean, zeros(6))
    assert list(module.state_dict()) == ["running_mean"]
    module.register_buffer("scratch", zeros(6), persistent=False)
    assert list(module.state_dict()) == ["running_mean"]


def test_001_12_state_dict():
    assert list(nn.Linear(2, 2).state_dict().keys()) == ["weight", "bias"]


def test_001_13_get_submodule():
    a = tree()
    assert a.get_submodule("net_b.linear") is a.net_b.linear
    assert a.get_submodule("net_b.net_c.conv") is a.net_b.net_c.conv
    with pytest.raises(AttributeError, match="missing"):
        a.get_submodule("net_b.missing")


def test_001_14_set_submodule():
    a = tree()
    new = nn.Linear(33, 16)
    a.set_submodule("net_b.net_c.conv", new)
    assert a.net_b.net_c.conv is new
    with pytest.raises(ValueError, match="target"):
        a.set_submodule("", new)
    with pytest.raises(AttributeError):
        a.set_submodule("net_b.nothing.conv", new)


def test_001_15_to_double():
    linear = nn.Linear(2, 2)
    before, text = linear.weight.data.copy(), repr(linear)
    assert linear.to(np.double) is linear
    assert linear.weight.dtype == np.float64
    np.testing.assert_allclose(linear.weight, before, atol=1e-7)
    assert repr(linear) == text == "Linear(in_features=2, out_features=2, bias=True)"


def test_001_16_to_half():
    linear = nn.Linear(2, 2)
    before = linear.weight.data.copy()
    with pytest.raises(RuntimeError, match="cuda:1"):
        linear.to("cuda:1", dtype=np.half, non_blocking=True)
    assert linear.weight.dtype == F32
    linear.to("cpu", dtype=np.half)
    assert linear.weight.dtype == np.float16
    np.testing.assert_allclose(linear.weight, before, atol=2e-4, rtol=1e-3)


def test_001_17_to_cpu():
    linear = nn.Linear(2, 2).half()
    assert linear.to("cpu") is linear
    assert linear.weight.dtype == np.float16


def test_001_18_to_complex():
    linear = nn.Linear(2, 2, bias=None).to(np.cdouble)
    assert linear.weight.dtype == np.complex128
    linear.weight.data[...] = [[0.3741, 0.2382], [0.5593, -0.4443]]
    out = linear(np.ones((3, 2), dtype=np.cdouble))
    np.testing.assert_allclose(out, np.tile([0.6123 + 0j, 0.1150 + 0j], (3, 1)), atol=1e-10)


def fired(module, register, **options):
    """How often a forward hook runs in two calls, the second after its removal."""
    calls = []
    handle = getattr(module, register)(lambda *args: calls.append(1), **options)
    module(ones(2))
    handle.remove()
    module(ones(2))
    return len(calls)


def saved(module, register):
    """How often a hook of saving or loading runs when the state dict goes round."""
    calls = []
    getattr(module, register)(lambda *args: calls.append(1))
    module.load_state_dict(module.state_dict())
    return len(calls)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda m: m.train(False).training, False),
        (lambda m: m.eval().training, False),
        (lambda m: m.requires_grad_(False).weight.requires_grad, False),
        (lambda m: m.zero_grad(), None),
        (lambda m: m.to_empty(device="cpu").weight.shape, (2, 2)),
        (lambda m: m.type("float16").weight.dtype, np.float16),
        (lambda m: m.double().float().weight.dtype, np.float32),
        (lambda m: m.half().weight.dtype, np.float16),
        (lambda m: m.cpu() is m, True),
        (lambda m: m.extra_repr(), "in_features=2, out_features=2, bias=True"),
        (lambda m: m.get_parameter("weight") is m.weight, True),
        (lambda m: len(list(m.children())), 0),
        (lambda m: (m.register_buffer("b", zeros(1)), m.get_buffer("b") is m.b)[1], True),
        (lambda m: (m.register_parameter("p", None), m.p, "p" in m.state_dict())[1:], (None, False)),
        (lambda m: (m.register_module("c", nn.ReLU()), [n for n, _ in m.named_children()])[1], ["c"]),
        (lambda m: (m.add_module("c", nn.ReLU()), type(m.get_submodule("c")))[1], nn.ReLU),
        (lambda m: repr(m.load_state_dict(m.state_dict())), "<All keys matched successfully>"),
        (lambda m: fired(m, "register_forward_pre_hook"), 1),
        (lambda m: fired(m, "register_forward_pre_hook", with_kwargs=True, prepend=True), 1),
        (lambda m: fired(m, "register_forward_hook"), 1),
        (lambda m: fired(m, "register_forward_hook", with_kwargs=True, always_call=True), 1),
        (lambda m: saved(m, "register_state_dict_pre_hook"), 1),
        (lambda m: saved(m, "register_state_dict_post_hook"), 1),
        (lambda m: saved(m, "register_load_state_dict_pre_hook"), 1),
        (lambda m: saved(m, "register_load_state_dict_post_hook"), 1),
    ],
)
def test_001_19_other_methods(call, expected):
    assert call(nn.Linear(2, 2)) == expected


def test_001_19_bfloat16():
    pytest.importorskip("ml_dtypes")
    assert nn.Linear(2, 2).bfloat16().weight.dtype.name == "bfloat16"


@pytest.mark.parametrize(
    "register", ["register_backward_hook", "register_full_backward_hook", "register_full_backward_pre_hook"]
)
def test_001_19_backward_hooks(register):
    module, calls = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), []
    handle = getattr(module[1], register)(lambda *args: calls.append(1))
    with lite.enable_grad():
        module(ones(2)).sum().backward()
        handle.remove()
        module(ones(2)).sum().backward()
    assert calls == [1]


def test_001_19_calls_without_forward():
    with pytest.raises(NotImplementedError, match="forward"):
        nn.Module()(1)


def test_001_19_traversal():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    assert [name for name, _ in net.named_parameters(prefix="net")] == ["net.0.weight", "net.0.bias"]
    assert [len(list(found)) for found in (net.buffers(), net.modules(), net.parameters(recurse=False))] == [
        0,
        3,
        0,
    ]
    assert nn.TensorDictModule.is_tdmodule_compatible(Mod(net, ["a"], ["b"]))
    assert not nn.TensorDictModule.is_tdmodule_compatible(net)


@pytest.mark.parametrize("method", ["get_extra_state", "set_extra_state"])
def test_001_19_extra_state(method):
    with pytest.raises(RuntimeError, match=method):
        getattr(nn.Module(), method)(*([1] if method.startswith("set") else []))


def test_001_19_compile():
    assert nn.Linear(2, 2).compile() is None


@pytest.mark.parametrize("method", ["cuda", "xpu", "ipu", "mtia"])
def test_001_19_other_devices(method):
    with pytest.raises(RuntimeError, match=method):
        getattr(nn.Linear(2, 2), method)()


# -- 000: the TensorDictModuleBase part ------------------------------------------------------------


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(test_001_3_apply_init_weights, id="000-1"),
        pytest.param(test_001_4_buffers, id="000-2"),
        pytest.param(test_001_5_modules, id="000-3"),
        pytest.param(test_001_6_named_buffers, id="000-4"),
        pytest.param(test_001_7_named_children, id="000-5"),
        pytest.param(test_001_8_named_modules, id="000-6"),
        pytest.param(test_001_9_named_parameters, id="000-7"),
        pytest.param(test_001_10_parameters, id="000-8"),
        pytest.param(test_001_11_register_buffer, id="000-9"),
        pytest.param(test_001_12_state_dict, id="000-15-state_dict"),
        pytest.param(test_001_15_to_double, id="000-15-double"),
        pytest.param(test_001_16_to_half, id="000-15-half"),
        pytest.param(test_001_17_to_cpu, id="000-15-cpu"),
        pytest.param(test_001_18_to_complex, id="000-15-complex"),
    ],
)
def test_000_examples_that_are_those_of_module(example):
    example()
