"""The examples of the reference documentation, one test each, asserting the listed observable.

Ids are those of the specification: 000 the inherited module part, 001 Module, 002 TensorDictModule,
003 TensorDictSequential, 004 from_modules; the number after the dash is the example's place in its document.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from lite import LazyStackedTensorDict, TensorDict, nn, vmap
from lite.data import MultiStep
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictSequential as Seq
from lite.nn import extract_weights_and_buffers
from lite.nn.distributions import Normal

F32 = np.float32


def ones(*shape):
    return np.ones(shape, dtype=F32)


def zeros(*shape):
    return np.zeros(shape, dtype=F32)


class Norm(nn.Module):
    """Stands for BatchNorm: two buffers."""

    def __init__(self, features):
        super().__init__()
        self.register_buffer("running_mean", zeros(features))
        self.register_buffer("running_var", ones(features))


# -- 001: MultiStep --------------------------------------------------------------------------------


def collected():
    """What a collector gives: ten steps of one episode that does not end."""
    step = np.arange(10)[:, None]
    end = np.zeros((10, 1), dtype=bool)
    after = {"step_count": step + 1, "reward": ones(10, 1), "done": end, "terminated": end, "truncated": end}
    return TensorDict({"step_count": step, "next": after}, batch_size=[10])


def test_001_1_four_steps_look_three_further():
    # The printout of the reference's document (5, 6, 7, ...) is of an older meaning of n.
    td = collected()
    out = MultiStep(gamma=0.99, n_steps=4)(td)
    assert out["next", "step_count"].shape == (10, 1)
    np.testing.assert_array_equal(out["next", "step_count"][:, 0], [4, 5, 6, 7, 8, 9, 10, 10, 10, 10])
    np.testing.assert_array_equal(out["step_count"][:, 0], np.arange(10))
    np.testing.assert_array_equal(td["next", "step_count"][:, 0], np.arange(1, 11))


def test_001_2_entries_that_multistep_adds():
    td = collected()
    out = MultiStep(gamma=0.99, n_steps=4)(td)
    for key in ("gamma", "steps_to_next_obs", "nonterminal"):
        assert out[key].shape == (10,)
    np.testing.assert_array_equal(out["next", "original_reward"], td["next", "reward"])
    expected = [3.940399] * 7 + [2.9701, 1.99, 1.0]
    np.testing.assert_allclose(out["next", "reward"][:, 0], expected, rtol=1e-5)


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


def tree():
    a = nn.Module()
    a.net_b = nn.Module()
    a.net_b.net_c = nn.Module()
    a.net_b.net_c.conv = nn.Identity()
    a.net_b.linear = nn.Linear(100, 200)
    return a


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
@pytest.mark.filterwarnings("ignore:backward hooks never run:UserWarning")
def test_001_19_backward_hooks(register):
    assert fired(nn.Linear(2, 2), register) == 0


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
    with pytest.warns(UserWarning, match="compile"):
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


def plus_two():
    return Mod(lambda x, y: (x + 2, y + 2), in_keys=["a", "b"], out_keys=["c", "d"])


def test_000_10_reset_out_keys():
    mod = plus_two()
    mod.select_out_keys("d")
    td = mod(TensorDict({"a": zeros(), "b": ones()}, []))
    assert set(td.keys()) == {"a", "b", "d"}
    mod.reset_out_keys()
    td = mod(TensorDict({"a": zeros(), "b": ones()}, []))
    assert set(td.keys()) == {"a", "b", "c", "d"}
    assert (td["c"], td["d"]) == (2, 3)
    assert all(td[key].shape == () for key in "abcd")


def test_000_11_reset_parameters():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    old = net[0].weight.data.copy()
    module = Mod(net, in_keys=["bork"], out_keys=["dork"])
    module.reset_parameters()
    assert not (old == net[0].weight).any()


def test_000_12_reset_given_parameters():
    module = Mod(nn.Sequential(nn.Linear(2, 3, rng=0), nn.ReLU()), in_keys=["bork"], out_keys=["dork"])
    params = TensorDict.from_module(module)
    old_params = params.data.clone()
    own = module.module[0].weight.data.copy()
    copied = params.data.clone()
    module.reset_parameters(copied)
    assert not (old_params == copied).any()
    np.testing.assert_array_equal(module.module[0].weight.data, own)
    module.reset_parameters(params)
    assert not (old_params == params.data).any()
    assert not (module.module[0].weight.data == own).any()


def test_000_13a_select_out_keys():
    mod = plus_two()
    assert set(mod(TensorDict({"a": zeros(), "b": ones()}, [])).keys()) == {"a", "b", "c", "d"}
    mod.select_out_keys("d")
    assert set(mod(TensorDict({"a": zeros(), "b": ones()}, [])).keys()) == {"a", "b", "d"}


def test_000_13b_select_out_keys_with_dispatch():
    # The printout of the reference's document (2.) predates y + 2 with y = 1.
    assert plus_two().select_out_keys("d")(zeros(), ones()) == 3


def test_000_13c_reset_after_selection():
    mod = plus_two().select_out_keys("d").reset_out_keys()
    assert set(mod(TensorDict({"a": zeros(), "b": ones()}, [])).keys()) == {"a", "b", "c", "d"}


def test_000_13d_select_out_keys_of_a_sequence():
    seq = Seq(Mod(lambda x: x + 1, ["x"], ["y"]), Mod(lambda x: x + 1, ["y"], ["z"]))
    assert set(seq(TensorDict({"x": zeros()}, [])).keys()) == {"x", "y", "z"}
    seq.select_out_keys("z")
    td = seq(TensorDict({"x": zeros()}, []))
    assert set(td.keys()) == {"x", "z"}
    assert td["z"] == 2


def test_000_14_set_submodule_strict():
    a, new = tree(), nn.Identity()
    a.set_submodule("net_b.net_c.conv", new)
    a.set_submodule("net_b.net_c.conv", new, strict=True)
    a.set_submodule("net_b.extra", new)
    assert a.net_b.extra is new
    with pytest.raises(AttributeError, match="another"):
        a.set_submodule("net_b.another", new, strict=True)


# -- 002: TensorDictModule -------------------------------------------------------------------------


def attend():
    return Mod(nn.Transformer(128), in_keys=["input", "tgt"], out_keys=["out"])


def test_002_1_two_inputs():
    td = TensorDict({"input": ones(2, 3, 128), "tgt": zeros(2, 3, 128)}, [2, 3])
    out = attend()(td)
    assert out is td
    assert set(td.keys()) == {"input", "tgt", "out"}
    assert td["out"].shape == (2, 3, 128)
    assert td["out"].dtype == F32
    assert td.batch_size == (2, 3)


def test_002_2_arrays():
    out = attend()(ones(2, 3, 128), zeros(2, 3, 128))
    assert type(out) is np.ndarray
    assert out.shape == (2, 3, 128)


def test_002_3_nested_keys():
    module = Mod(
        lambda x: (x - 1, x + 1), in_keys=[("input", "x")], out_keys=[("output", "x-1"), ("output", "x+1")]
    )
    td = module(TensorDict({"input": {"x": zeros()}}, []))
    assert set(td.keys(True, True)) == {("input", "x"), ("output", "x-1"), ("output", "x+1")}
    assert (td["output", "x-1"], td["output", "x+1"]) == (-1, 1)
    assert td["output", "x+1"].shape == ()


def test_002_4_populate():
    module = Mod(lambda: np.random.default_rng(0).standard_normal(3), in_keys=[], out_keys=["x"])
    td = module(TensorDict({}, []))
    assert td["x"].shape == (3,)
    assert td.batch_size == ()


def test_002_5_dict_of_in_keys():
    td = TensorDict({"1": ones(), "2": 2 * ones()}, [])
    module = Mod(lambda x, *, y: x + y, in_keys={"1": "x", "2": "y"}, out_keys=["z"])
    assert module(td)["z"] == 3


def cell():
    """The document's module and TensorDict, with numbers drawn from a seed."""
    rng = np.random.default_rng(0)
    td = TensorDict(
        input=rng.normal(size=(3, 4)).astype(F32), hidden=rng.normal(size=(3, 8)).astype(F32), batch_size=[3]
    )
    return Mod(nn.GRUCell(4, 8), in_keys=["input", "hidden"], out_keys=["output"]), td


CELL_SHAPES = {"hidden": (3, 8), "input": (3, 4), "output": (3, 8)}


def test_002_6_functional_call():
    module, td = cell()
    params = TensorDict.from_module(module)
    held = list(module.parameters())
    with params.to_module(module):
        functional = module(td.clone())
    assert functional.batch_size == (3,)
    assert {key: functional[key].shape for key in sorted(functional.keys())} == CELL_SHAPES
    np.testing.assert_array_equal(functional["output"], module(td.clone())["output"])
    assert all(a is b for a, b in zip(held, module.parameters(), strict=True))
    with TensorDict.from_module(cell()[0]).to_module(module):  # other weights, another result
        assert not np.allclose(module(td.clone())["output"], functional["output"])


def test_002_7_stateful_call():
    module, td = cell()
    assert module(td) is td
    assert {key: td[key].shape for key in sorted(td.keys())} == CELL_SHAPES
    np.testing.assert_array_equal(td["output"], module.module(td["input"], td["hidden"]))


def test_002_8_weights_of_a_module():
    params = extract_weights_and_buffers(cell()[0]).expand(4)
    assert params.batch_size == (4,)
    assert {key: value.shape for key, value in params["module"].items()} == {
        "weight_ih": (4, 24, 4),
        "weight_hh": (4, 24, 8),
        "bias_ih": (4, 24),
        "bias_hh": (4, 24),
    }


def test_002_9_vmap_over_parameters():
    module, td = cell()
    params = TensorDict.from_module(module)
    held = list(module.parameters())

    def func(td, params):
        with params.to_module(module):
            return module(td)

    out = vmap(func, (None, 0))(td, params.expand(4))
    assert out.batch_size == (4, 3)
    assert {key: value.shape for key, value in out.items()} == {
        "input": (4, 3, 4),
        "hidden": (4, 3, 8),
        "output": (4, 3, 8),
    }
    for part in out.unbind(0):
        np.testing.assert_allclose(part["output"], module(td.clone())["output"], rtol=1e-6)
    assert set(td.keys()) == {"input", "hidden"}
    assert all(a is b for a, b in zip(held, module.parameters(), strict=True))


# -- 003: TensorDictSequential ---------------------------------------------------------------------

WEIGHT = [
    [-0.00432252, 0.30971584, -0.47518533],
    [-0.4248946, -0.22236897, 0.15482073],
    [-0.01143914, 0.45777494, -0.0512364],
    [0.15277413, -0.17448279, -0.11348708],
]
BIAS = [-0.55157071, -0.38236874, -0.23799711, 0.02138712]
RESULT = [-0.72136271, -0.87481159, 0.15710229, -0.11380863]


def plus_one_linear():
    layer = nn.Linear(3, 4)
    layer.load_state_dict({"weight": np.array(WEIGHT), "bias": np.array(BIAS)})
    return Seq(Mod(lambda x: x + 1, ["x"], ["x+1"]), Mod(layer, ["x+1"], ["w*(x+1)+b"]))


def test_003_1_on_a_tensordict():
    td = plus_one_linear()(TensorDict({"x": zeros(3)}, []))
    shapes = {key: value.shape for key, value in td.items()}
    assert shapes == {"x": (3,), "x+1": (3,), "w*(x+1)+b": (4,)}
    np.testing.assert_allclose(td["w*(x+1)+b"], RESULT, rtol=1e-4)


@pytest.mark.parametrize("call", [lambda m: m(x=zeros(3)), lambda m: m(zeros(3))], ids=["003-2", "003-3"])
def test_003_2_3_on_arrays(call):
    first, second = call(plus_one_linear())
    np.testing.assert_array_equal(first, ones(3))
    np.testing.assert_allclose(second, RESULT, rtol=1e-4)


def probabilistic_chain():
    """The document's sequence: a net, parameters of a normal distribution, a sample, another net."""
    return nn.ProbabilisticTensorDictSequential(
        Mod(nn.Linear(4, 8), in_keys=["input"], out_keys=["params"]),
        Mod(nn.NormalParamExtractor(), in_keys=["params"], out_keys=["loc", "scale"]),
        nn.ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"], out_keys=["hidden"], distribution_class=Normal, return_log_prob=True
        ),
        Mod(nn.Linear(4, 8), in_keys=["hidden"], out_keys=["output"]),
    )


CHAIN_SHAPES = {
    "hidden": (3, 4),
    "hidden_log_prob": (3, 4),
    "input": (3, 4),
    "loc": (3, 4),
    "output": (3, 8),
    "params": (3, 8),
    "scale": (3, 4),
}


def test_003_4_a_probabilistic_chain():
    module = probabilistic_chain()
    td = TensorDict(input=np.random.default_rng(0).normal(size=(3, 4)).astype(F32), batch_size=[3])
    with TensorDict.from_module(module).to_module(module):
        assert module(td) is td
    assert {key: td[key].shape for key in sorted(td.keys())} == CHAIN_SHAPES
    np.testing.assert_array_equal(td["hidden"], td["loc"])
    assert (td["scale"] > 0).all()
    np.testing.assert_allclose(
        td["hidden_log_prob"], -0.5 * np.log(2 * np.pi) - np.log(td["scale"]), rtol=1e-5
    )


def test_003_4_the_older_name_of_the_log_prob():
    # The document prints sample_log_prob, which is the name where log-probs are summed.
    with nn.set_composite_lp_aggregate(True):
        out = probabilistic_chain()(TensorDict(input=ones(3, 4), batch_size=[3]))
    assert "sample_log_prob" in out
    assert "hidden_log_prob" not in out


def test_003_5_vmap_over_the_parameters_of_a_probabilistic_chain():
    module = probabilistic_chain()
    td = TensorDict(input=ones(3, 4), batch_size=[3])

    def func(td, params):
        with params.to_module(module):
            return module(td)

    out = vmap(func, (None, 0))(td, TensorDict.from_module(module).expand(4))
    assert out.batch_size == (4, 3)
    assert {key: out[key].shape[1:] for key in sorted(out.keys())} == CHAIN_SHAPES
    expected = module(td.clone())
    for key in CHAIN_SHAPES:
        np.testing.assert_allclose(out[key], np.stack([expected[key]] * 4), rtol=1e-5)


def test_003_5_vmap_over_parameters():
    first = Mod(nn.Linear(3, 4), in_keys=["x"], out_keys=["hidden"])
    module = Seq(first, Mod(nn.Linear(4, 2), in_keys=["hidden"], out_keys=["y"]))
    td = TensorDict(x=ones(3, 3), batch_size=[3])

    def func(td, params):
        with params.to_module(module):
            return module(td)

    out = vmap(func, (None, 0))(td, TensorDict.from_module(module).expand(4))
    assert out.batch_size == (4, 3)
    assert {key: value.shape for key, value in out.items()} == {
        "x": (4, 3, 3),
        "hidden": (4, 3, 4),
        "y": (4, 3, 2),
    }
    np.testing.assert_allclose(out["y"], np.stack([module(td.clone())["y"]] * 4), rtol=1e-6)


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(test_000_10_reset_out_keys, id="003-6"),
        pytest.param(test_000_13a_select_out_keys, id="003-7a"),
        pytest.param(test_000_13b_select_out_keys_with_dispatch, id="003-7b"),
        pytest.param(test_000_13c_reset_after_selection, id="003-7c"),
        pytest.param(test_000_13d_select_out_keys_of_a_sequence, id="003-7d"),
    ],
)
def test_003_examples_that_are_those_of_the_base(example):
    example()


def test_003_7_select_out_keys_in_the_constructor():
    seq = Seq(Mod(lambda x: x + 1, ["x"], ["y"]), Mod(lambda x: x + 1, ["y"], ["z"]), selected_out_keys=["z"])
    assert set(seq(TensorDict({"x": zeros()}, [])).keys()) == {"x", "z"}
    assert set(seq.reset_out_keys()(TensorDict({"x": zeros()}, [])).keys()) == {"x", "y", "z"}


def idn(x):
    return x


def branches():
    return Seq(Mod(idn, ["a"], ["b"]), Mod(idn, ["b"], ["c"]), Mod(idn, ["c"], ["d"]), Mod(idn, ["a"], ["e"]))


def child_text(number, reads, writes):
    return (
        f"      ({number}): TensorDictModule(\n"
        f"          module={idn},\n"
        f"          in_keys=['{reads}'],\n"
        f"          out_keys=['{writes}'])\n"
    )


def test_003_8_select_by_input_a():
    out = branches().select_subsequence(in_keys=["a"])
    assert len(out) == 4
    assert out.in_keys == ["a"]
    assert out.out_keys == ["b", "c", "d", "e"]
    children = "".join(child_text(i, *io) for i, io in enumerate(["ab", "bc", "cd", "ae"]))
    assert repr(out) == (
        "TensorDictSequential(\n"
        "    module=ModuleList(\n"
        f"{children}"
        "    ),\n"
        "    in_keys=['a'],\n"
        "    out_keys=['b', 'c', 'd', 'e'])"
    )


def test_003_9_select_by_input_c():
    out = branches().select_subsequence(in_keys=["c"])
    assert [(m.in_keys, m.out_keys) for m in out] == [(["c"], ["d"])]


def test_003_10_select_by_output_c():
    out = branches().select_subsequence(out_keys=["c"])
    assert len(out) == 2
    assert out.out_keys == ["b", "c"]


def test_003_11_select_by_output_e():
    out = branches().select_subsequence(out_keys=["e"])
    assert [(m.in_keys, m.out_keys) for m in out] == [(["a"], ["e"])]


def test_003_12_select_in_nested_sequences():
    seq = Seq(
        Seq(Mod(idn, ["a"], ["b"]), Mod(idn, ["b"], ["c"])),
        Seq(Mod(idn, ["b"], ["d"]), Mod(idn, ["d"], ["e"])),
    )
    out = seq.select_subsequence(in_keys=["b", "d"], out_keys=["e"])
    assert len(out) == 1
    assert type(out[0]) is Seq
    assert [(m.in_keys, m.out_keys) for m in out[0]] == [(["b"], ["d"]), (["d"], ["e"])]
    assert out.in_keys == ["b"]
    assert out.out_keys == ["d", "e"]


# -- 004: from_modules -----------------------------------------------------------------------------


def test_004_1_stacked_parameters():
    params = TensorDict.from_modules(nn.Linear(3, 4), nn.Linear(3, 4))
    assert params["bias"].shape == (2, 4)
    assert params["weight"].shape == (2, 4, 3)
    assert params.batch_size == (2,)
    assert params.is_locked
    assert all(isinstance(leaf, nn.Parameter) for leaf in params.values())


def call(params, x, module):
    with params.to_module(module):
        return module(x)


def test_004_2_an_empty_module_runs_all_sets():
    modules = [nn.Linear(3, 4), nn.Linear(3, 4)]
    params = TensorDict.from_modules(*modules)
    empty = nn.Linear(3, 4, device="meta")
    x = ones(3)
    y = vmap(lambda params, x: call(params, x, empty), (0, None))(params, x)
    assert y.shape == (2, 4)
    for got, module in zip(y, modules, strict=True):
        np.testing.assert_allclose(got, module(x), rtol=1e-6)
    assert empty.weight.is_meta


def test_004_3_modules_stay_independent():
    modules = [nn.Linear(3, 4), nn.Linear(3, 4)]
    params = TensorDict.from_modules(*modules)
    before = modules[0].weight.data.copy()
    params.data["weight"][0] = 7
    np.testing.assert_array_equal(modules[0].weight.data, before)
    assert modules[0].weight.grad is None
    with pytest.raises(NotImplementedError, match="no automatic differentiation"):
        params.backward()


def test_004_4_lazily_stacked_parameters():
    modules = [nn.Linear(3, 4), nn.Linear(3, 4)]
    params = TensorDict.from_modules(*modules, lazy_stack=True)
    assert isinstance(params, LazyStackedTensorDict)
    assert params.stack_dim == 0
    assert params.batch_size == (2,)
    assert params["bias"].shape == (2, 4)
    assert params["weight"].shape == (2, 4, 3)
    assert params[1]["weight"] is modules[1].weight


def test_004_5_lazy_stacks_follow_the_modules():
    modules = [nn.Linear(3, 4), nn.Linear(3, 4)]
    params = TensorDict.from_modules(*modules, lazy_stack=True)
    empty = nn.Linear(3, 4, device="meta")
    modules[0].weight[...] = 5
    np.testing.assert_array_equal(params.get("weight")[0], np.full((4, 3), 5))
    y = vmap(lambda params, x: call(params, x, empty), (0, None))(params, ones(3))
    for got, module in zip(y, modules, strict=True):
        np.testing.assert_allclose(got, module(ones(3)), rtol=1e-6)


# -- that none is left out -------------------------------------------------------------------------

EXAMPLES = {"000": 15, "001": 19, "002": 9, "003": 12, "004": 5}


def test_every_example_has_a_test():
    found = set(re.findall(r'(?:def test_|")(00\d)[-_](\d+)', Path(__file__).read_text()))
    wanted = [(doc, str(n)) for doc, count in EXAMPLES.items() for n in range(1, count + 1)]
    assert [f"{doc}-{n}" for doc, n in wanted if (doc, n) not in found] == []
