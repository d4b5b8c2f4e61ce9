"""Modules that find out their sizes at their first call."""

import copy
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict, nn, vmap

X = np.ones((2, 6), np.float32)


class Scale(nn.LazyModuleMixin, nn.Module):
    """A lazy module of a user's own, with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.UninitializedParameter()
        self.register_buffer("offset", nn.UninitializedBuffer())

    def initialize_parameters(self, x: Any, scale: float = 2.0) -> None:
        if self.has_uninitialized_params():
            self.factor.materialize(x.shape[-1:])
            self.factor[...] = scale
            self.offset = self.offset.materialize(x.shape[-1:])
            self.offset[...] = 1

    def forward(self, x: Any, scale: float = 2.0) -> Any:
        return x * self.factor + self.offset


def test_what_must_be_defined() -> None:
    class Nothing(nn.LazyModuleMixin, nn.Module):
        pass

    class Forgets(Scale):
        def initialize_parameters(self, x: Any) -> None:
            self.factor.materialize(x.shape)

    raises(NotImplementedError, "initialize_parameters is not implemented for Nothing", lambda: Nothing()(X))
    raises(RuntimeError, "module Forgets has not been fully initialized", lambda: Forgets()(X))


def test_other_hooks_see_the_sizes() -> None:
    layer, seen = nn.LazyLinear(4), []
    layer.register_forward_pre_hook(lambda module, args: seen.append((type(module), module.in_features)))
    layer(X)
    layer(X)
    assert seen == [(nn.Linear, 6)] * 2


@each_case("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_find_out_their_own(copied: Any) -> None:
    net = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    other = copied(net)
    other(X)
    assert [type(m) for m in other] == [nn.Linear, nn.BatchNorm1d]
    assert [type(m) for m in net] == [nn.LazyLinear, nn.LazyBatchNorm1d]
    net(X[:, :5])
    assert (net[0].in_features, other[0].in_features) == (5, 6)
    again = copied(net)
    np.testing.assert_array_equal(again.eval()(X[:, :5]), net.eval()(X[:, :5]))


def test_seeds_and_dtypes() -> None:
    layers = [nn.LazyLinear(4, dtype="float64", rng=3), nn.Linear(6, 4, dtype="float64", rng=3)]
    np.testing.assert_array_equal(*[layer(X) for layer in layers])
    with_generator = nn.LazyConv1d(4, 2, rng=np.random.default_rng(1)).half()
    with_generator(np.ones((2, 3, 8), np.float32))
    assert with_generator.weight.dtype == np.float16
    np.testing.assert_array_equal(with_generator.weight, nn.Conv1d(3, 4, 2, rng=1).half().weight)


def test_state_dicts_initialise() -> None:
    for lazy, layer, x in (
        (nn.LazyLinear(4), nn.Linear(6, 4), X),
        (nn.LazyConv1d(4, 3, groups=2), nn.Conv1d(6, 4, 3, groups=2), np.ones((6, 8), np.float32)),
        (nn.LazyConv2d(4, 3), nn.Conv2d(6, 4, 3), np.ones((1, 6, 8, 8), np.float32)),
        (nn.LazyBatchNorm1d(affine=False), nn.BatchNorm1d(6, affine=False), X),
    ):
        assert lazy.load_state_dict(layer.state_dict()) == ([], [])
        with pytest.raises(RuntimeError, match=r"(in_features|in_channels|num_features)=6"):
            copy.deepcopy(lazy)(np.ones([5 if n == 6 else n for n in x.shape], np.float32))
        np.testing.assert_array_equal(lazy.eval()(x), layer.eval()(x))
        assert repr(lazy) == repr(layer)


def test_half_a_state_dict() -> None:
    layer = nn.LazyLinear(4)
    layer.load_state_dict({"bias": np.ones(4)}, strict=False)
    raises(RuntimeError, r"LazyLinear \['bias'\] were loaded alone: load all or none", lambda: layer(X))
    assert layer.bias.tolist() == [1, 1, 1, 1]


def test_inputs_that_tell_no_size() -> None:
    for layer, x, message in (
        (nn.LazyLinear(4), np.float32(1.0), "at least one dimension"),
        (nn.LazyConv1d(4, 3), np.ones(6), "must have 2 dimensions, or 3"),
        (nn.LazyConv2d(4, 3), np.ones((6, 6)), "must have 3 dimensions, or 4"),
        (nn.LazyConv1d(4, 3, groups=4), np.ones((6, 8)), "in_channels must be divisible by groups=4, got 6"),
        (nn.LazyBatchNorm1d(), np.ones(6), "expected 2D or 3D input"),
    ):
        raises((RuntimeError, ValueError), message, layer, x)
        assert layer.has_uninitialized_params()


def test_on_tensordicts_and_under_vmap() -> None:
    first = nn.TensorDictModule(nn.LazyLinear(4), ["x"], ["h"])
    net = nn.TensorDictSequential(first, nn.TensorDictModule(nn.LazyLinear(2), ["h"], ["y"]))
    assert net(TensorDict(x=X, batch_size=[2]))["y"].shape == (2, 2)
    layer = nn.LazyLinear(3)
    assert vmap(layer)(np.ones((5, 6), np.float32)).shape == (5, 3)
    assert layer.weight.shape == (3, 6)
    lazy, params = nn.LazyLinear(4), TensorDict.from_module(nn.Linear(6, 4, rng=0))
    with params.to_module(lazy):
        np.testing.assert_array_equal(lazy(X), nn.Linear(6, 4, rng=0)(X))


def test_mlp_without_in_features() -> None:
    net = nn.MLP(out_features=2, num_cells=[8], layer_kwargs={"bias": False})
    assert net(X).shape == (2, 2)
    assert [type(layer) for layer in net] == [nn.Linear, nn.Tanh, nn.Linear]
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "2.weight"]
    with pytest.raises(KeyError, match="in_features must be given"):
        nn.MLP(out_features=2, layer_class=lambda n, m, bias: nn.Linear(n, m, bias))


def test_first_calls_of_several_threads() -> None:
    class Slow(nn.LazyLinear):
        def initialize_parameters(self, input: Any) -> None:
            time.sleep(0.02)
            super().initialize_parameters(input)

    for _ in range(2):
        layer = Slow(4)
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(layer, [X] * 8))
        for result in results:
            np.testing.assert_array_equal(result, results[0])
