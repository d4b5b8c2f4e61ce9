"""The examples of the reference documentation for TensorDictSequential (003), one test each."""

import numpy as np
import pytest
from helpers.documentation_examples import F32, ones, zeros

from lite import TensorDict, nn, vmap
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictSequential as Seq
from lite.nn.distributions import Normal

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
