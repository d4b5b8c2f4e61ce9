"""The examples of the reference documentation, one test each, asserting the listed observable.

Ids are those of the specification: 000 the inherited module part, 001 Module, 002 TensorDictModule,
003 TensorDictSequential, 004 from_modules; the number after the dash is the example's place in its document.
001-3 on and 000 are in `test_documentation_examples_module.py` and `..._base.py`, 003 in `..._sequential.py`.
"""

import re
from pathlib import Path

import numpy as np
from helpers.documentation_examples import F32, ones, zeros

import lite
from lite import LazyStackedTensorDict, TensorDict, nn, vmap
from lite.data import MultiStep
from lite.nn import TensorDictModule as Mod
from lite.nn import extract_weights_and_buffers

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
    empty = nn.Linear(3, 4, device="meta")
    with lite.enable_grad():
        y = vmap(lambda params, x: call(params, x, empty), (0, None))(params, ones(3))
        y.sum().backward()
    assert np.linalg.norm(params["weight"].grad) > 0
    assert modules[0].weight.grad is None


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
    files = Path(__file__).parent.glob("test_documentation_examples*.py")
    text = "".join(file.read_text() for file in files)
    found = set(re.findall(r'(?:def test_|")(00\d)[-_](\d+)', text))
    wanted = [(doc, str(n)) for doc, count in EXAMPLES.items() for n in range(1, count + 1)]
    assert [f"{doc}-{n}" for doc, n in wanted if (doc, n) not in found] == []
