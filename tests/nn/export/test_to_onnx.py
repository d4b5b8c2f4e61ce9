"""Modules as ONNX graphs: every layer, at other batch sizes than the example's; names, states and options.

Past 600 lines because it is the test of one file, in which every layer, head and option meets.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.compared import assert_same
from helpers.graphs import flat, numbers, open_graph, resized, run_graph
from helpers.layer_cases import CASES, TITLES, Case

from lite import TensorDict, nn
from lite.models import OnnxModule
from lite.nn import TensorDictModule, TensorDictSequential
from lite.nn._export.example import of_arrays

# Layers whose batch is not the first dimension of each array: the axis of each array, None for none.
SECOND = {
    *("GRU", "MultiheadAttention", "MultiheadAttention of other sizes"),
    *("TransformerEncoderLayer", "TransformerDecoderLayer"),
}
AXES: dict[str, tuple[int | None, ...]] = {
    "RNN": (0, 1),
    "TransformerEncoderLayer": (1, None),
    "TransformerDecoderLayer": (1, 1, None),
    "MultiheadAttention with more keys": (0, 0, 0, None, 0),
    # without a batch: what comes first is a sequence, channels or features
    **dict.fromkeys(("MultiheadAttention of sequences", "TransformerDecoder"), (None, None, None)),
    **dict.fromkeys(
        (
            *("Linear of no rows", "LayerNorm without bias", "RMSNorm of a vector"),
            *(
                "Conv1d of a sequence",
                "Conv2d of an image",
                "MaxPool2d with positions",
                "AvgPool2d by a number",
            ),
            *("RNNCell with relu", "LSTMCell of a vector", "LSTM with a projection"),
        ),
        (None, None, None),
    ),
    "Bilinear of vectors, without bias": (None, None),
    "GRUCell without bias": (None, None),
    "GRU of a sequence": (0, None),
    "RNN of a sequence": (0, None),
    "TransformerEncoder": (0,),
}


def axes_of(case: Case, count: int) -> list[int | None]:
    """The batch axis of each array of a case."""
    found = list(AXES.get(case.title, (1 if case.title in SECOND else 0,) * count))
    return found[:count]


def arrays_in(case: Case) -> tuple[list[np.ndarray], Any]:
    """The arrays that a case is called with, and what calls a module with others in their place."""
    args, options = case.arrays(), case.call_options()
    arrays = [value for value in flat(args) + flat(options) if isinstance(value, np.ndarray)]

    def call(net: Any, given: list[np.ndarray]) -> Any:
        rest = iter(given)

        def put(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return next(rest)
            return tuple(map(put, value)) if isinstance(value, tuple) else value

        first = [put(value) for value in args]
        return net(*first, **{key: put(value) for key, value in options.items()})

    return arrays, call


@pytest.mark.parametrize("case", CASES, ids=TITLES)
def test_every_layer(case: Case, tmp_path: Path) -> None:
    """At the example's batch size and at others: numbers to 1e-5, dtypes and shapes as the module's.

    A sensor that gives NaN must not become an action: NaN in an input is NaN where it is the module's.
    """
    net = case.make(nn).eval()
    net.training = False
    arrays, call = arrays_in(case)
    args, options = case.arrays(), case.call_options()
    axes = axes_of(case, len(arrays))
    names = [one.name for one in of_arrays(net, args, options, None, {}).inputs]
    dynamic = {name: {axis: "batch"} for name, axis in zip(names, axes, strict=True) if axis is not None}
    session = open_graph(net.to_onnx(tmp_path / "net.onnx", *args, kwargs=options, dynamic_axes=dynamic))
    # Without averages, one row has no variance.
    sizes = () if not dynamic else (3,) if "without averages" in case.title else (1, 3)
    for size in (None, *sizes, np.nan):
        given = [
            x if size in (None, np.nan) or axis is None else resized(x, {axis: size})
            for x, axis in zip(arrays, axes, strict=True)
        ]
        if size is np.nan:
            given = [x.copy() for x in given]
            for x in given:
                if x.dtype.kind == "f" and x.size:
                    x.flat[x.size // 2] = np.nan
        expected = flat(call(net, given))
        assert_same(run_graph(session, given), expected, rtol=1e-5, atol=1e-5, strict=True)


def test_every_layer_is_tested() -> None:
    """The list above has every layer of lite.nn."""
    layers = {
        value
        for value in (getattr(nn, name) for name in nn.__all__)
        if isinstance(value, type) and value.__module__ == "lite.nn" and issubclass(value, nn.Module)
    }
    from lite.nn.tensordict_modules.base import TensorDictModuleBase

    made = {type(part) for case in CASES for part in case.make(nn).modules()}
    # Tested elsewhere: what becomes one of the others at its first call (test_tracing.py), what makes scales
    # (below), and what is a base of others.
    elsewhere = {
        nn.Module, nn.LazyModuleMixin, nn.LazyLinear, nn.LazyConv1d, nn.LazyConv2d, nn.LazyBatchNorm1d,
    }  # fmt: skip
    elsewhere |= {nn.NormalParamExtractor, nn.AddStateIndependentNormalScale, nn.biased_softplus}
    elsewhere |= {nn.ModuleList, nn.ModuleDict, nn.TensorDictParams, nn.TensorClassModuleBase}
    elsewhere |= {nn.GraphModule}  # what a file says (tests/nn/import)
    elsewhere |= {nn.LoraModule}  # a module with adapters (tests/nn/lora)
    elsewhere |= {nn.NoisyLazyLinear, nn.BatchRenorm1d}  # tests/nn/policies
    elsewhere |= {nn.MultiAgentConvNet, nn.MultiAgentMLP, nn.QMixer, nn.VDNMixer}  # there, too
    elsewhere |= {nn.gSDEModule, nn.LazygSDEModule, nn.ConsistentDropout}  # explore, and are not deployed
    # What losses divide by is not called.
    elsewhere |= {nn.ValueNorm, nn.PercentileValueNorm, nn.PopArtValueNorm, nn.RunningValueNorm}
    missing = {
        layer.__name__ for layer in layers - made - elsewhere if not issubclass(layer, TensorDictModuleBase)
    }
    np.testing.assert_equal(missing, set())


@each_case(
    "net",
    [
        nn.NormalParamExtractor(),
        nn.NormalParamExtractor("exp"),
        nn.NormalParamExtractor("expln"),
        nn.AddStateIndependentNormalScale(4),
        nn.biased_softplus(1.0),
    ],
    ids=repr,
)
def test_scales(net: Any, tmp_path: Path) -> None:
    session = open_graph(net.to_onnx(tmp_path / "net.onnx", numbers(5, 4)))
    for rows in (1, 3, 0):
        x = numbers(rows, 4)
        assert_same(run_graph(session, [x]), flat(net(x)), rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.parametrize("opset", [20, 25])
def test_versions_of_the_operators(opset: int, tmp_path: Path) -> None:
    for title in ("GRU", "Conv1d of a sequence", "TransformerEncoderLayer, norm first"):
        case = CASES[TITLES.index(title)]
        net, (arrays, call) = case.make(nn).eval(), arrays_in(case)
        options = {"kwargs": case.call_options(), "dynamic_axes": {}, "opset": opset}
        session = open_graph(net.to_onnx(tmp_path / "net.onnx", *case.arrays(), **options))
        assert_same(run_graph(session, arrays), flat(call(net, arrays)), rtol=1e-5, atol=1e-5)


# -- names, states, options --------------------------------------------------------------------------------


def policy() -> TensorDictModule:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory, self.head = nn.GRUCell(4, 8, rng=0), nn.Linear(8, 2, rng=1)

        def forward(self, observation: Any, state: Any) -> Any:
            state = self.memory(observation, state)
            return self.head(state), state

    return TensorDictModule(
        Recurrent(), ["observation", ("agent", "state")], ["action", ("next", "agent", "state")]
    )


def states(*batch: int) -> TensorDict:
    return TensorDict(
        {"observation": numbers(*batch, 4), "agent": {"state": numbers(*batch, 8, seed=1)}}, batch
    )


def test_a_tensordict_with_states(tmp_path: Path) -> None:
    net = policy()
    path = net.to_onnx(tmp_path / "policy.onnx", states(5))
    session = open_graph(path)
    np.testing.assert_equal(
        [[arg.name, arg.shape] for arg in (*session.get_inputs(), *session.get_outputs())],
        [
            ["observation", ["batch", 4]],
            ["agent.state", ["batch", 8]],
            ["action", ["batch", 2]],
            ["next.agent.state", ["batch", 8]],
        ],
    )
    contract = json.loads((tmp_path / "policy.onnx.json").read_text())
    np.testing.assert_equal(contract["states"], {"agent.state": "next.agent.state"})
    np.testing.assert_equal((contract["batch"], contract["opset"]), ("batch", 20))
    graph = OnnxModule(path)
    np.testing.assert_equal((graph.in_keys, graph.out_keys), (net.in_keys, net.out_keys))
    for batch in ((5,), (1,), (0,), (2, 3), ()):
        td = states(*batch)
        got, want = graph(td.clone()), net(states(*batch).reshape(-1)).reshape(batch)
        for key in net.out_keys:
            np.testing.assert_allclose(got[key], want[key], rtol=1e-5, atol=1e-6, strict=True)


def test_states_that_are_given(tmp_path: Path) -> None:
    net = TensorDictModule(nn.GRUCell(4, 8), ["x", "h"], ["carry"])
    td = TensorDict(x=numbers(5, 4), h=numbers(5, 8), batch_size=[5])
    path = net.to_onnx(tmp_path / "net.onnx", td, states={"h": "carry"})
    np.testing.assert_equal(
        json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))["states"], {"h": "carry"}
    )
    raises(ValueError, "states pairs 'h' with 'c'", lambda: net.to_onnx(path, td, states={"h": "c"}))


def test_sequences_of_modules_and_what_is_selected(tmp_path: Path) -> None:
    net = TensorDictSequential(
        TensorDictModule(nn.Linear(4, 3), ["x"], ["hidden"]),
        TensorDictModule(nn.Linear(3, 2), ["hidden"], [("out", "y")]),
        TensorDictModule(lambda x, y: x[:, :1] * y, ["x", ("out", "y")], ["z"]),
    )
    td = TensorDict(x=numbers(5, 4), unrelated=numbers(5), batch_size=[5])
    path = net.to_onnx(tmp_path / "net.onnx", td)
    np.testing.assert_equal([arg.name for arg in open_graph(path).get_outputs()], ["hidden", "out.y", "z"])
    weights = OnnxModule(path)
    want = net(td.clone())
    got = weights(TensorDict(x=td["x"], batch_size=[5]))
    for key in net.out_keys:
        np.testing.assert_allclose(got[key], want[key], rtol=1e-5, atol=1e-6)
    path = net.select_out_keys("z").to_onnx(path, td)
    np.testing.assert_equal([arg.name for arg in open_graph(path).get_outputs()], ["z"])
    path = TensorDictModule(lambda x, y: x + 1, ["x", "unrelated"], ["z"]).to_onnx(path, td)
    assert [arg.name for arg in open_graph(path).get_inputs()] == ["x", "unrelated"]  # one is not read


def test_entries_that_are_no_arrays_stay_as_they_are(tmp_path: Path) -> None:
    net = TensorDictModule(lambda x, mode: x * 2 if mode == "double" else x, ["x", "mode"], ["y"])
    td = TensorDict({"x": numbers(5, 4), "mode": "double"}, [5])
    session = open_graph(net.to_onnx(tmp_path / "net.onnx", td))
    np.testing.assert_equal([arg.name for arg in session.get_inputs()], ["x"])
    np.testing.assert_allclose(run_graph(session, [td["x"]])[0], td["x"] * 2)


def test_names_of_arguments(tmp_path: Path) -> None:
    lstm = nn.LSTM(3, 4)
    args = numbers(6, 5, 3), (numbers(1, 5, 4), numbers(1, 5, 4))
    axes = {name: {1: "batch"} for name in ("input", "hx_0", "hx_1")}
    session = open_graph(lstm.to_onnx(tmp_path / "net.onnx", *args, dynamic_axes=axes))
    np.testing.assert_equal([arg.name for arg in session.get_inputs()], ["input", "hx_0", "hx_1"])
    names = [arg.name for arg in session.get_outputs()]
    np.testing.assert_equal(names, ["output_0", "output_1_0", "output_1_1"])
    path = lstm.to_onnx(
        tmp_path / "net.onnx", *args, input_names=["x", "h", "c"], output_names={"output_0": "y"},
        dynamic_axes={},
    )  # fmt: skip
    session = open_graph(path)
    np.testing.assert_equal([arg.name for arg in session.get_inputs()], ["x", "h", "c"])
    np.testing.assert_equal(session.get_outputs()[0].name, "y")
    np.testing.assert_equal(session.get_inputs()[0].shape, [6, 5, 3])


def test_weights_have_the_names_of_the_state_dict_and_are_stored_once(tmp_path: Path) -> None:
    import onnx

    shared = nn.Linear(4, 4)
    net = nn.Sequential(shared, nn.Tanh(), shared, nn.BatchNorm1d(4)).eval()
    model = onnx.load(str(net.to_onnx(tmp_path / "net.onnx", numbers(5, 4))))
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    names = {f"0.{n}" for n in ("weight", "bias")}
    names |= {f"3.{n}" for n in ("weight", "bias", "running_mean", "running_var")}
    np.testing.assert_equal(set(stored), names)
    for name in names:
        np.testing.assert_array_equal(stored[name], net.state_dict()[name])


@pytest.mark.parametrize("way", ["ensemble", "from_modules"])
def test_ensembles(way: str, tmp_path: Path) -> None:
    from lite import vmap

    template = nn.MLP(4, 2, num_cells=[8])
    if way == "ensemble":
        net: Any = nn.EnsembleModule(TensorDictModule(template, ["x"], ["q"]), 3)
    else:
        critics = [nn.MLP(4, 2, num_cells=[8]) for _ in range(3)]
        params = TensorDict.from_modules(*critics, as_module=True)

        class Critics(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.params, self.template = params, critics[0]

            def forward(self, x: Any) -> Any:
                def call(params: Any, x: Any) -> Any:
                    with params.to_module(self.template):
                        return self.template(x)

                return vmap(call, (0, None))(self.params, x)

        net = Critics()
    path = net.to_onnx(tmp_path / "net.onnx", numbers(5, 4))
    session = open_graph(path)
    np.testing.assert_equal(session.get_outputs()[-1].shape, [3, "batch", 2])
    for rows in (1, 5, 0):
        x = numbers(rows, 4)
        want = net(x)
        np.testing.assert_allclose(run_graph(session, [x])[-1], want, rtol=1e-5, atol=1e-5, strict=True)
        np.testing.assert_allclose(OnnxModule(path)(x), np.moveaxis(want, 1, 0), rtol=1e-5, atol=1e-5)


class Standardize(nn.Module):
    """Observations of mean 0 and standard deviation 1."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__()
        self.register_buffer("mean", np.asarray(mean, np.float32))
        self.register_buffer("std", np.asarray(std, np.float32))

    def forward(self, x: Any) -> Any:
        return (x - self.mean) / self.std


def test_normalization(tmp_path: Path) -> None:
    net = TensorDictModule(nn.Linear(2, 3), [("obs", "x")], ["y"])
    td = TensorDict({("obs", "x"): numbers(5, 2)}, [5])
    scale = Standardize([1, 2], [3, 4])
    path = net.to_onnx(tmp_path / "net.onnx", td, normalization={("obs", "x"): scale})
    about = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))["inputs"][0]["normalization"]
    np.testing.assert_equal(
        about, {"module": "Standardize", "in_graph": True, "state": {"mean": [1.0, 2.0], "std": [3.0, 4.0]}}
    )
    want = net(TensorDict({("obs", "x"): scale(td["obs", "x"])}, [5]))["y"]
    np.testing.assert_allclose(OnnxModule(path)(td)["y"], want, rtol=1e-5, atol=1e-6)
    lost = Standardize([1, np.nan], [3, 4])
    net.to_onnx(path, td, normalization={("obs", "x"): lost})
    about = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))["inputs"][0]["normalization"]
    np.testing.assert_equal(about["state"], {"std": [3.0, 4.0]})  # JSON has no NaN
    with pytest.raises(ValueError, match=r"normalization has 'z', the inputs are"):
        net.to_onnx(path, td, normalization={"z": scale})
    with pytest.raises(TypeError, match="must be a Module, got function"):
        net.to_onnx(path, td, normalization={("obs", "x"): lambda x: x})
    with pytest.raises(ValueError, match="an array of the shape of the input"):
        net.to_onnx(path, td, normalization={("obs", "x"): nn.Linear(2, 3)})


# -- distributions -----------------------------------------------------------------------------------------

HEADS = {
    "TanhNormal": (["loc", "scale"], {"low": -2.0, "high": np.float32([1, 2])}),
    "Normal": (["loc", "scale"], {}),
    "IndependentNormal": (["loc", "scale"], {}),
    "TruncatedNormal": (["loc", "scale"], {}),
    "Delta": (["param"], {}),
    "TanhDelta": (["param"], {}),
    "Categorical": (["logits"], {}),
    "OneHotCategorical": (["logits"], {}),
    "Bernoulli": (["logits"], {}),
}


def head(name: str, **options: Any) -> nn.ProbabilisticTensorDictSequential:
    from lite.nn import distributions

    keys, kwargs = HEADS[name]
    layers = [nn.MLP(4, 4, num_cells=[8], activation_class=nn.Tanh)]
    if len(keys) == 2:
        layers.append(nn.NormalParamExtractor())
    return nn.ProbabilisticTensorDictSequential(
        TensorDictModule(nn.Sequential(*layers), ["observation"], list(keys)),
        nn.ProbabilisticTensorDictModule(
            list(keys), ["action"], distribution_class=getattr(distributions, name),
            distribution_kwargs=kwargs, **options,
        ),
    )  # fmt: skip


@pytest.mark.depth
@pytest.mark.parametrize("name", HEADS)
def test_policies_act_deterministically(name: str, tmp_path: Path) -> None:
    net = head(name, default_interaction_type="random")
    graph = OnnxModule(
        net.to_onnx(tmp_path / "policy.onnx", TensorDict(observation=numbers(5, 4), batch_size=[5]))
    )
    np.testing.assert_equal((graph.in_keys, graph.out_keys), (["observation"], net.out_keys))
    for rows in (5, 1, 0):
        td = TensorDict(observation=numbers(rows, 4), batch_size=[rows])
        with nn.set_interaction_type("deterministic"):
            want = net(td.clone())
        got = graph(td)
        for key in net.out_keys:
            np.testing.assert_allclose(got[key], want[key], rtol=1e-5, atol=1e-5, strict=True)


def test_other_values_of_distributions(tmp_path: Path) -> None:
    net = head("OneHotCategorical").select_out_keys("action")
    td = TensorDict(observation=numbers(5, 4), batch_size=[5])
    for how in ("mean", nn.InteractionType.MODE):
        path = net.to_onnx(tmp_path / "policy.onnx", td, interaction_type=how)
        with nn.set_interaction_type(how):
            want = net(td.clone())["action"]
        np.testing.assert_allclose(OnnxModule(path)(td.clone())["action"], want, rtol=1e-5, atol=1e-6)
        np.testing.assert_equal(
            json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))["interaction_type"], str(how)
        )


def test_masks_of_actions_are_inputs(tmp_path: Path) -> None:
    from lite.nn import distributions

    masks = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]], bool)
    for kind in (distributions.MaskedCategorical, distributions.MaskedOneHotCategorical):
        net = nn.ProbabilisticTensorDictSequential(
            TensorDictModule(nn.Linear(4, 3), ["observation"], ["logits"]),
            nn.ProbabilisticTensorDictModule(["logits", "mask"], ["action"], distribution_class=kind),
        )
        td = TensorDict(observation=numbers(5, 4), mask=masks, batch_size=[5])
        graph = OnnxModule(net.to_onnx(tmp_path / "policy.onnx", td[:1]))
        np.testing.assert_array_equal(graph(td.clone())["action"], net(td)["action"])


def test_several_distributions_at_once(tmp_path: Path) -> None:
    from lite.nn.distributions import Categorical, CompositeDistribution, Normal

    net = nn.ProbabilisticTensorDictSequential(
        TensorDictModule(nn.Linear(4, 4), ["x"], ["h"]),
        TensorDictModule(
            lambda h: (h[:, :1], np.exp(h[:, 1:2]), h[:, 2:]),
            ["h"],
            [("params", "a", "loc"), ("params", "a", "scale"), ("params", "b", "logits")],
        ),
        nn.ProbabilisticTensorDictModule(
            ["params"],
            distribution_class=CompositeDistribution,
            distribution_kwargs={"distribution_map": {"a": Normal, "b": Categorical}},
        ),
    ).select_out_keys("a", "b")
    td = TensorDict(x=numbers(5, 4), batch_size=[5])
    got, want = OnnxModule(net.to_onnx(tmp_path / "net.onnx", td))(td.clone()), net(td)
    for key in ("a", "b"):
        np.testing.assert_allclose(got[key], want[key], rtol=1e-5, atol=1e-6, strict=True)


def test_random_numbers_are_refused(tmp_path: Path) -> None:
    td = TensorDict(observation=numbers(5, 4), batch_size=[5])
    with pytest.raises(ValueError, match="a graph draws nothing"):
        head("Normal").to_onnx(tmp_path / "p.onnx", td, interaction_type="random")
    with pytest.raises(NotImplementedError, match="draws random numbers"):  # of an estimate
        head("TanhNormal").to_onnx(tmp_path / "p.onnx", td, interaction_type="mean")


def test_numbers_that_differ_from_call_to_call_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    net = TensorDictModule(lambda x: x + rng.normal(size=(4,)), ["x"], ["y"])
    for axes in ({}, None):
        with pytest.raises(NotImplementedError, match="has other numbers"):
            net.to_onnx(tmp_path / "net.onnx", numbers(5, 4), dynamic_axes=axes)


def test_an_input_with_the_name_of_a_parameter(tmp_path: Path) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(numbers(4))

        def forward(self, scale: Any) -> Any:
            return scale * self.scale

    net, x = Scaled(), numbers(5, 4)
    with pytest.raises(ValueError, match="would be called 'scale', such as an input and a parameter"):
        net.to_onnx(tmp_path / "net.onnx", x)
    session = open_graph(net.to_onnx(tmp_path / "net.onnx", x, input_names=["x"]))
    np.testing.assert_allclose(run_graph(session, [x])[0], net(x), rtol=1e-5, atol=1e-6)


def test_a_graph_is_not_put_into_another(tmp_path: Path) -> None:
    graph = OnnxModule(nn.Linear(4, 2).to_onnx(tmp_path / "net.onnx", numbers(5, 4)))
    with pytest.raises(NotImplementedError, match="runs another graph"):
        TensorDictSequential(graph).to_onnx(tmp_path / "other.onnx", numbers(5, 4))


# -- what is refused ---------------------------------------------------------------------------------------


def test_examples_as_other_exporters_take_them_are_refused(tmp_path: Path) -> None:
    net, x = nn.Sequential(nn.Linear(4, 2)), numbers(5, 4)
    with pytest.raises(TypeError, match=r"the input must be an array .* got tuple"):
        net.to_onnx(tmp_path / "net.onnx", (x,))  # torch's arguments in a tuple
    with pytest.raises(TypeError, match=r"must be an array .* got tuple") as caught:
        nn.LSTM(4, 2).to_onnx(tmp_path / "net.onnx", (x,))
    assert "write to_onnx(path, *inputs)" in caught.value.__notes__[-1]
    with pytest.raises(TypeError, match=r"examples of the inputs: arrays .* got \['list'\]"):
        net.to_onnx(tmp_path / "net.onnx", [1.0, 2.0])
    td = TensorDict(obs=x, batch_size=[5])
    with pytest.raises(KeyError) as missing:
        TensorDictModule(net, ["observation"], ["action"]).to_onnx(tmp_path / "net.onnx", td)
    assert "The example has ['obs']." in missing.value.__notes__


def test_what_cannot_be_exported_is_named(tmp_path: Path) -> None:
    class Whiten(nn.Module):
        def forward(self, x: Any) -> Any:
            return x @ np.linalg.pinv(x.T @ x)

    net = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.Tanh(), Whiten()))
    with pytest.raises(
        NotImplementedError, match=r"the module '1\.1' calls numpy\.linalg\.pinv, which has no rule for ONNX"
    ):
        net.to_onnx(tmp_path / "net.onnx", numbers(5, 4))
    np.testing.assert_equal(list(tmp_path.iterdir()), [])


def test_branches_on_numbers_are_refused(tmp_path: Path) -> None:
    class Clipped(nn.Module):
        def forward(self, x: Any) -> Any:
            return x / 2 if x.max() > 1 else x

    net = TensorDictModule(nn.Sequential(nn.Linear(4, 3), Clipped()), ["x"], ["y"])
    td = TensorDict(x=numbers(5, 4), batch_size=[5])
    with pytest.raises(RuntimeError, match=r"the module 'module\.1' branches on the numbers in an array"):
        net.to_onnx(tmp_path / "net.onnx", td)


def test_branches_on_sizes_are_refused_where_a_size_has_another_answer(tmp_path: Path) -> None:
    class Branching(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if self.asks(x.shape[0]) else x

    net, x, path = Branching(), numbers(3, 4), tmp_path / "net.onnx"
    for asks in (lambda n: n > 5, lambda n: n == 7, lambda n: 2 * n - 1 > 1, lambda n: n < np.int64(2000)):
        net.asks = asks
        message = r"asks whether a dynamic size is (<|>|==) \d+, where a graph has one answer for all sizes"
        raises(NotImplementedError, message, net.to_onnx, path, x)
        session = open_graph(net.to_onnx(path, x, dynamic_axes={}))
        np.testing.assert_allclose(run_graph(session, [x])[0], net(x), err_msg=str(asks))
    for net.asks in (lambda n: n % 2 == 0, lambda n: n & 1, lambda n: n in {3, 7}, lambda n: 10 // n):
        raises(
            NotImplementedError,
            "the module takes (mod|and|hash|rfloordiv) of a dynamic",
            net.to_onnx,
            path,
            x,
        )
    for net.asks in (
        lambda n: n > 0, lambda n: n == 0, lambda n: 3 * n >= 3, lambda n: n + 1 < 2,
        lambda n: np.tile(np.ones(2), (n, 1)).all(),  # tile itself asks n == 1
        lambda n: n <= np.inf, lambda n: n < 2**40, lambda n: n > np.nan,
    ):  # fmt: skip
        session = open_graph(net.to_onnx(path, x))
        for rows in (numbers(n, 4) for n in (1, 7)):
            np.testing.assert_allclose(run_graph(session, [rows])[0], net(rows))


@pytest.mark.grid
def test_loops_over_the_batch_are_refused(tmp_path: Path) -> None:
    class Walk(nn.Module):
        def forward(self, x: Any) -> Any:
            h = np.zeros(x.shape[1:], np.float32)
            for t in range(x.shape[0]):
                h = np.tanh(h + x[t])
            return h

    x = numbers(6, 5, 3)
    with pytest.raises(NotImplementedError, match="one size of the dynamic dimensions time alone"):
        Walk().to_onnx(tmp_path / "net.onnx", x, dynamic_axes={"x": {0: "time"}})
    session = open_graph(Walk().to_onnx(tmp_path / "net.onnx", x, dynamic_axes={"x": {1: "batch"}}))
    for rows in (1, 7):
        x = numbers(6, rows, 3)
        np.testing.assert_allclose(run_graph(session, [x])[0], Walk()(x), rtol=1e-5, atol=1e-6)


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    net, x, path = nn.Linear(4, 3), numbers(5, 4), tmp_path / "net.onnx"
    for options, error, message in (
        ({"opset": 12}, ValueError, "opset must be from 20 to 25, got 12"),
        ({"interaction_type": "best"}, ValueError, "best"),
        ({"dynamic_axes": {"y": [0]}}, ValueError, "dynamic_axes names 'y'; the inputs are"),
        ({"dynamic_axes": {"input": [2]}}, ValueError, "must be axes of 2 dimensions, got 2"),
        ({"input_names": ["a", "b"]}, ValueError, "input_names must have 1 names"),
        ({"output_names": "input"}, ValueError, "must not be names of inputs"),
        ({"output_names": {"out": "y"}}, ValueError, r"output_names has \['out'\]"),
        ({"kwargs": {"extra": x}}, TypeError, "extra"),
    ):
        raises(error, message, net.to_onnx, path, x, **options)
    raises(IsADirectoryError, "the folder", lambda: net.to_onnx(tmp_path, x))
    for given in ((), ([1.0, 2.0],), (None,)):
        raises(TypeError, "needs examples of the inputs", net.to_onnx, path, *given)
    raises(TypeError, "takes 1 arguments, got 2", lambda: net.to_onnx(path, x, x))
    np.testing.assert_equal(list(tmp_path.iterdir()), [])


def test_inputs_of_different_first_sizes_have_to_say_which_is_the_batch(tmp_path: Path) -> None:
    layer = nn.GRU(3, 4)
    with pytest.raises(
        ValueError, match="the inputs differ in their first size, so which axes are the batch"
    ):
        layer.to_onnx(tmp_path / "net.onnx", numbers(6, 5, 3), numbers(1, 5, 4))
    with pytest.raises(ValueError, match="the dynamic size 'n' is 6 in 'input' and 5 in 'hx'"):
        layer.to_onnx(
            tmp_path / "net.onnx",
            numbers(6, 5, 3),
            numbers(1, 5, 4),
            dynamic_axes={"input": {0: "n"}, "hx": {1: "n"}},
        )


def test_the_module_stays_as_it_is(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4)).train()
    before = {name: array.copy() for name, array in net.state_dict().items()}
    kept = [part.__dict__.copy() for part in net.modules()]
    session = open_graph(net.to_onnx(tmp_path / "net.onnx", numbers(5, 4)))
    for part, attributes in zip(net.modules(), kept, strict=True):
        np.testing.assert_equal(part.__dict__.keys(), attributes.keys())
        np.testing.assert_equal(part.training, True)
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    x = numbers(5, 4)
    np.testing.assert_allclose(run_graph(session, [x])[0], net.eval()(x), rtol=1e-5, atol=1e-6)


def test_threads_export_and_run_at_once(tmp_path: Path) -> None:
    net, x = nn.MLP(4, 2, num_cells=[8, 8]), numbers(5, 4)
    want, errors = net(x), []

    def work(i: int) -> None:
        try:
            for _ in range(2):
                session = open_graph(net.to_onnx(tmp_path / f"{i}.onnx", x))
                np.testing.assert_allclose(run_graph(session, [x])[0], want, rtol=1e-5, atol=1e-6)
                np.testing.assert_array_equal(net(x), want)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_equal(errors, [])


def test_importing_lite_does_not_import_onnx() -> None:
    names = ("onnx", "lite.nn._export.to_onnx", "lite._transforms.graphs.array")
    code = (
        f"import sys, lite, lite.nn, lite.data, lite.models; print([m for m in {names} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    np.testing.assert_equal(out.stdout.strip(), "[]")


def test_errors_of_a_module_say_which_sizes_stand_for_dynamic_ones(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="in_features=3") as found:
        nn.Linear(3, 2).to_onnx(tmp_path / "a.onnx", np.ones((1, 4), np.float32))
    assert found.value.__notes__ == [
        "Sizes that stand for dynamic dimensions while a graph is traced: 503 is 'batch'."
    ]
    assert list(tmp_path.iterdir()) == []
