"""Layers with stacked parameters run as one computation and give what each layer gives by itself."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.layer_cases import CASES, Case

import lite
from lite import nn, vmap

COPIES = 3


def floats(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


TOLERANCE = {"float16": 3e-2, "float32": 3e-5, "float64": 1e-10}
# Of the cases of all layers, those that differ in how a map computes them.
LAYERS = (
    *("NoisyLinear 4", "DuelingCnnDQNet 6", "DdpgMlpQNet 8", "DdpgCnnQNet 10", "Bilinear", "Flatten"),
    *("Embedding with padding", "Embedding with max_norm", "LayerNorm", "RMSNorm of a vector"),
    *("BatchNorm1d in training", "BatchNorm1d without averages", "Dropout", "ReLU", "GELU", "SiLU"),
    *("Softplus", "Softmax", "LogSoftmax", "Conv1d of a sequence", "Conv2d by channel"),
    *("MaxPool2d with positions", "AvgPool2d", "RNNCell with relu", "GRUCell without bias", "GRU"),
    *("RNN of a sequence", "LSTM with a projection", "MultiheadAttention with more keys", "Transformer"),
    *("ModuleList and ModuleDict", "ParameterList and ParameterDict"),
)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A function of the leaves of nested tuples."""
    return tuple(mapped(function, item) for item in value) if isinstance(value, tuple) else function(value)


def assert_same(got: Any, expected: list[Any]) -> None:
    for k, array in enumerate(leaves(got)):
        one = [leaves(result)[k] for result in expected]
        assert array.dtype == one[0].dtype
        tolerance = TOLERANCE.get(array.dtype.name, 0)
        np.testing.assert_allclose(array, np.stack(one), rtol=tolerance, atol=tolerance / 3)


class Stacked:
    """Layers of a case with other parameters, their parameters stacked, and a layer to put these in."""

    def __init__(self, case: Case, dtype: str) -> None:
        self.modules = [case.make(nn) for _ in range(COPIES)]
        rng = np.random.default_rng(0)
        for module in self.modules:
            for buffer in module.buffers():
                if buffer.ndim:
                    buffer[...] = rng.random(buffer.shape) + 0.5
            if any(True for _ in module.parameters()):
                module.to(np.dtype(dtype))
        self.empty = copy.deepcopy(self.modules[0])
        self.params = lite.from_modules(*self.modules, lock=False)
        self.arrays, self.options = case.arrays(dtype), case.call_options(dtype)

    def call(self, params: Any, *arrays: Any) -> Any:
        with params.to_module(self.empty):
            return self.run(self.empty, arrays)

    def run(self, module: Any, arrays: tuple[Any, ...]) -> Any:
        """What there is of a result: vmap takes no None for the weights of an attention."""
        out = module(*arrays, **self.options)
        return tuple(x for x in out if x is not None) if isinstance(out, tuple) else out

    def each(self) -> tuple[Any, list[Any]]:
        """Other arrays for each, stacked and one by one."""
        stacks = mapped(
            lambda a: (
                a + np.arange(COPIES).reshape(-1, *(1,) * a.ndim).astype(a.dtype) * (a.dtype.kind == "f")
            ),
            self.arrays,
        )
        return stacks, [mapped(lambda a, i=i: a[i], stacks) for i in range(COPIES)]


@pytest.mark.parametrize("title", LAYERS)
def test_layers(title: str) -> None:
    """Warnings are errors, so a layer that has to loop fails."""
    case = next(case for case in CASES if case.title == title)

    layers = Stacked(case, "float32")
    held = list(layers.empty.parameters())
    alone = copy.deepcopy(layers.modules)
    got = vmap(layers.call, (0, *[None] * len(layers.arrays)))(layers.params, *layers.arrays)
    assert_same(got, [layers.run(module, layers.arrays) for module in alone])
    for key, value in layers.params.items(True, True):  # running averages of training, rows that were limited
        names = (key,) if isinstance(key, str) else key
        assert_same(value, [module.state_dict()[".".join(names)] for module in alone])
    assert all(a is b for a, b in zip(held, layers.empty.parameters(), strict=True))

    layers = Stacked(case, "float16")
    stacks, rows = layers.each()
    alone = copy.deepcopy(layers.modules)
    got = vmap(layers.call)(layers.params, *stacks)
    assert_same(got, [layers.run(module, row) for module, row in zip(alone, rows, strict=True)])

    if title == "BatchNorm1d in training":
        return  # running averages that all elements share take no mapped values; see below
    layers = Stacked(case, "float64")
    stacks, rows = layers.each()
    one = copy.deepcopy(layers.empty)
    got = vmap(lambda *arrays: layers.run(layers.empty, arrays))(*stacks)
    assert_same(got, [layers.run(one, row) for row in rows])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x + w,
        lambda x, w: x @ w,
        lambda x, w: np.stack([x, w]).sum(0),
        lambda x, w: np.add.outer(x, w).sum((0, 1)),
        lambda x, w: np.add(x, w, out=x),
    ],
)
def test_mapped_arrays_with_mapped_parameters(function: Callable[[Any, Any], Any]) -> None:
    modules = [nn.Linear(3, 3, rng=i) for i in range(COPIES)]

    def call(params: Any) -> Any:
        with params.to_module(modules[0]):
            return function(modules[0].weight * 2, modules[0].weight)

    expected = [function(module.weight * 2, module.weight) for module in modules]
    np.testing.assert_allclose(vmap(call)(lite.from_modules(*modules)), expected, rtol=1e-6)


def test_training_statistics_that_are_shared_take_no_mapped_values() -> None:
    layer = nn.BatchNorm1d(3)
    raises(TypeError, "cannot become an ndarray", vmap(layer), floats(2, 5, 3))
    np.testing.assert_array_equal(layer.running_mean, 0)


def test_embedding_checks_all_elements() -> None:
    table = nn.Embedding(4, 2)
    raises(IndexError, r"input must be from 0 to 3, got 0 to 4", vmap(table), np.array([[0, 1], [2, 4]]))


def test_lazily_stacked_parameters() -> None:
    modules = [nn.Linear(3, 4) for _ in range(COPIES)]
    params = lite.from_modules(*modules, lazy_stack=True)
    empty = nn.Linear(3, 4, device="meta")

    def call(params: Any, x: Any) -> Any:
        with params.to_module(empty):
            return empty(x)

    x = floats(5, 3)
    assert_same(vmap(call, (0, None))(params, x), [module(x) for module in modules])
    assert empty.weight.is_meta


def test_module_is_restored_when_the_body_raises() -> None:
    layer = nn.Linear(3, 4)
    weight = layer.weight
    params = lite.from_modules(layer, nn.Linear(3, 4))

    def call(params: Any, x: Any) -> Any:
        with params.to_module(layer):
            raise KeyError("inside")

    raises(KeyError, "inside", vmap(call, (0, None)), params, floats(3))
    assert layer.weight is weight
