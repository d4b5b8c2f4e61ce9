"""Examples of the reference documentation that go through several parts: what it prints or says of them.

Ids are those of the specification: 001 Module, 002 TensorDictModule, 003 TensorDictSequential, 004
from_modules; then the place in the document. Examples of one method are in the tests of its file.
"""

import numpy as np
import pytest

import lite
from lite import TensorDict, nn, vmap
from lite.data import MultiStep
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictSequential as Seq
from lite.nn.distributions import Normal

F32 = np.float32


def ones(*shape):
    return np.ones(shape, dtype=F32)


def zeros(*shape):
    return np.zeros(shape, dtype=F32)


# -- 001: MultiStep --------------------------------------------------------------------------------


def collected():
    """What a collector gives: ten steps of one episode that does not end."""
    step = np.arange(10)[:, None]
    end = np.zeros((10, 1), dtype=bool)
    after = {"step_count": step + 1, "reward": ones(10, 1), "done": end, "terminated": end, "truncated": end}
    return TensorDict({"step_count": step, "next": after}, batch_size=[10])


def test_001_2_entries_that_multistep_adds():
    td = collected()
    out = MultiStep(gamma=0.99, n_steps=4)(td)
    for key in ("gamma", "steps_to_next_obs", "nonterminal"):
        assert out[key].shape == (10,)
    np.testing.assert_array_equal(out["next", "original_reward"], td["next", "reward"])
    expected = [3.940399] * 7 + [2.9701, 1.99, 1.0]
    np.testing.assert_allclose(out["next", "reward"][:, 0], expected, rtol=1e-5)


# -- 002: TensorDictModule -------------------------------------------------------------------------


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


# -- 004: from_modules -----------------------------------------------------------------------------


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
    empty = nn.Linear(3, 4, device="meta")
    with lite.enable_grad():
        y = vmap(lambda params, x: call(params, x, empty), (0, None))(params, ones(3))
        y.sum().backward()
    assert np.linalg.norm(params["weight"].grad) > 0
    assert modules[0].weight.grad is None


def test_004_5_lazy_stacks_follow_the_modules():
    modules = [nn.Linear(3, 4), nn.Linear(3, 4)]
    params = TensorDict.from_modules(*modules, lazy_stack=True)
    empty = nn.Linear(3, 4, device="meta")
    modules[0].weight[...] = 5
    np.testing.assert_array_equal(params.get("weight")[0], np.full((4, 3), 5))
    y = vmap(lambda params, x: call(params, x, empty), (0, None))(params, ones(3))
    for got, module in zip(y, modules, strict=True):
        np.testing.assert_allclose(got, module(ones(3)), rtol=1e-6)


# -- 003: TensorDictSequential


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


# -- 001: Module


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
