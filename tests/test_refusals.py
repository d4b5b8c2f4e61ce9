"""Calls that are refused: a row for each reason that no test of the class itself looks at."""

from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.cases import raises
from helpers.counting_env import CountingEnv
from numpy.lib.stride_tricks import sliding_window_view

import lite
from lite import TensorDict, data, envs, lazy_stack, nn, optim

X = np.ones((2, 3), np.float32)
TD = TensorDict({"a": X, "n": {"b": X}}, [2])
LAZY = lazy_stack([TensorDict({"a": X}, [2]), TensorDict({"a": X[:, :2]}, [2])])
PARAMETERS = [nn.Parameter(np.ones(2))]


def inside(transform: Any) -> Any:
    return envs.TransformedEnv(CountingEnv(), transform).observation_spec


def buffer(**options: Any) -> Any:
    return data.ReplayBuffer(storage=data.ListStorage(4), **options)


def mapped(function: Callable[[Any], Any], ndim: int) -> Any:
    return lite.vmap(function)(np.ones((2, *[3] * ndim)))


def encoder(**options: Any) -> Any:
    return nn.Conv1d(1, 1, 3, **options)


ROWS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    # lite
    (lambda: TD.roll([1, 2]), ValueError, "several shifts need dims"),
    (lambda: TD.roll([1, 2], [0]), ValueError, "shifts and dims must have as many items"),
    (lambda: TD.reshape(1, 2).rot90(1, (0, 0)), RuntimeError, "dims must be two different dimensions"),
    (lambda: TD.repeat_interleave(2, inplace=True), RuntimeError, "needs a dim of the batch"),
    (lambda: LAZY.apply(abs, batch_size=[2], inplace=True), ValueError, "takes no batch_size"),
    (lambda: setattr(LAZY, "device", "cpu"), RuntimeError, "device cannot be set"),
    # lite.data
    (lambda: buffer(transform=abs, transform_factory=abs), TypeError, "transform and transform_factory"),
    (lambda: buffer(prefetch=2), ValueError, "prefetch needs a batch_size"),
    (lambda: buffer(sampler=data.SamplerWithoutReplacement(drop_last=True)), ValueError, "drop_last=True"),
    (lambda: buffer(sampler=3), TypeError, "sampler must be a Sampler"),
    (lambda: next(iter(buffer())), RuntimeError, "batch_size is not specified"),
    (lambda: buffer().sample(), RuntimeError, "batch_size not specified"),
    (lambda: data.TensorStorage(None), ValueError, "non-null"),
    (lambda: data.NonTensor((2,), device="cuda"), ValueError, "device must be None or 'cpu'"),
    (lambda: data.NonTensor((2,), dtype=np.float32), ValueError, "dtype must be None"),
    # lite.envs
    (lambda: envs.ActionScaling(in_keys_inv=["a", "b"]), ValueError, "one action"),
    (lambda: envs.ActionScaling(loc=1.0), ValueError, "give loc and scale"),
    (lambda: envs.ActionScaling(in_keys_inv=[]), ValueError, "loc and scale must be given"),
    (lambda: envs.ActionScaling(loc=0.0, scale=0.0), ValueError, "scale must not be zero"),
    (lambda: envs.ObservationNorm(), RuntimeError, "needs in_keys"),
    (lambda: envs.ObservationNorm(loc=1.0, in_keys=["a"]), ValueError, "give loc and scale"),
    (lambda: envs.ClipTransform(["a"]), TypeError, "low or high must be given"),
    (lambda: envs.ClipTransform(["a"], low=[1.0, 2.0]), TypeError, "must be a number or None"),
    (lambda: envs.Compose(envs.StepCounter(), other=1), ValueError, "takes transforms alone"),
    (lambda: setattr(envs.Compose(), "out_keys", ["a"]), AttributeError, "those of its transforms"),
    (lambda: envs.CatFrames(2, -1, in_keys=["a"])(TensorDict(a=1)), ValueError, "needs a batch dimension"),
    (lambda: envs.RandomCropTensorDict(4)(TD), RuntimeError, "must have at least 4 steps"),
    (lambda: envs.RandomCropTensorDict(4)(TensorDict(a=1)), RuntimeError, "needs a batch dimension"),
    (
        lambda: envs.TensorDictPrimer(a=data.Unbounded(), random=True, default_value=1.0),
        ValueError, "random=True or a default_value",
    ),
    (lambda: inside(envs.RewardSum(in_keys=["zz"])), ValueError, "RewardSum sums 'zz'"),
    (lambda: inside(envs.TargetReturn(1.0, in_keys=["zz"])), RuntimeError, "TargetReturn reads 'zz'"),
    # lite.nn
    (lambda: nn.MLP(3), ValueError, "out_features must be specified"),
    (lambda: nn.MLP(3, 2, depth=2, num_cells=[4]), RuntimeError, "depth 2 contradicts num_cells"),
    (lambda: nn.SqueezeLayer((-2,))(np.ones(1)), IndexError, "must have 2 dimensions"),
    (lambda: nn.ConvNet(1, num_cells=[2])(X), ValueError, "channels, H, W"),
    (lambda: encoder(padding_mode="mirror"), ValueError, "padding_mode must be one of"),
    (lambda: encoder(padding="all"), ValueError, "padding must be numbers"),
    (lambda: encoder(padding="same", stride=2), ValueError, "needs stride 1"),
    (lambda: encoder()(np.ones((1, 1, 2), np.float32)), RuntimeError, "must fit into the input"),
    (lambda: nn.MultiheadAttention(3, 2), AssertionError, "embed_dim must be divisible"),
    (lambda: nn.RNN(2, 2, bias=1), TypeError, "bias must be a bool"),
    (lambda: nn.RNN(2.0, 2), TypeError, "must be an int"),
    (lambda: nn.GRU(2, 2)(np.ones((0, 1, 2), np.float32)), RuntimeError, "at least one step"),
    (lambda: nn.GRU(2, 2)(np.ones(2, np.float32)), ValueError, "must have 2 dimensions"),
    (lambda: nn.ParameterList(3), TypeError, "must be an iterable of parameters"),
    (lambda: nn.ParameterDict(3), TypeError, "must be a mapping or pairs"),
    (lambda: nn.ParameterDict().popitem(), KeyError, "empty"),
    (lambda: nn.ParameterDict({1: PARAMETERS[0]}), TypeError, "names of a ParameterDict are strings"),
    (lambda: nn.ValueNorm().update(X), NotImplementedError, "defines no update"),
    (lambda: nn.ValueNorm().normalize(X), NotImplementedError, "defines no normalize"),
    (lambda: nn.ValueNorm().denormalize(X), NotImplementedError, "defines no denormalize"),
    (lambda: nn.LSTMModule(in_keys=["a"] * 3, out_keys=["b"] * 3), ValueError, "input_size and hidden_size"),
    # functions of NumPy inside vmap
    (lambda: mapped(np.diag, 3), ValueError, "1- or 2-d"),
    (lambda: mapped(lambda x: x.transpose(0), 2), ValueError, "axes don't match array"),
    (lambda: mapped(lambda x: np.broadcast_to(x, 2), 2), ValueError, "does not broadcast"),
    (lambda: mapped(np.linalg.matrix_transpose, 1), ValueError, "at least 2 dimensions"),
    (lambda: mapped(np.fliplr, 1), ValueError, ">= 2-d"),
    (lambda: mapped(lambda x: np.searchsorted(x, x, side="up"), 1), ValueError, "side must be"),
    (lambda: mapped(lambda x: np.vsplit(x, 2), 1), ValueError, "2 or more dimensions"),
    (lambda: mapped(lambda x: np.dsplit(x, 2), 2), ValueError, "3 or more dimensions"),
    (lambda: mapped(lambda x: np.select([x > 0], [x, x]), 1), ValueError, "same length"),
    (lambda: mapped(lambda x: np.gradient(x, edge_order=3), 1), ValueError, "edge_order"),
    (lambda: mapped(lambda x: np.gradient(x, 1.0, 2.0), 1), TypeError, "invalid number of arguments"),
    (lambda: mapped(lambda x: np.convolve(x, x, "all"), 1), ValueError, "mode must be"),
    (lambda: mapped(np.linalg.det, 1), np.linalg.LinAlgError, "at least two-dimensional"),
    (lambda: mapped(lambda x: np.linalg.norm(x, 2), 3), ValueError, "number of dimensions to norm"),
    (lambda: mapped(lambda x: np.meshgrid(x, x, indexing="up"), 1), ValueError, "'xy' and 'ij'"),
    (lambda: mapped(lambda x: sliding_window_view(x, (1, 1), 0), 2), ValueError, "one size for each"),
    # lite.optim
    (lambda: optim.SGD(set(PARAMETERS)), TypeError, "params must be ordered"),
    (lambda: optim.SGD(PARAMETERS).add_param_group([]), TypeError, "param_group must be a dict"),
    (lambda: optim.SGD(PARAMETERS).add_param_group({"params": set()}), TypeError, "params must be ordered"),
    (lambda: optim.CosineAnnealingWarmRestarts(0.1, 2, eta_min="a"), ValueError, "eta_min must be a number"),
    (lambda: optim.OneCycleLR(0.1, 0.2, 5, anneal_strategy="a"), ValueError, "anneal_strategy must be"),
    (lambda: optim.ReduceLROnPlateau(optim.SGD(PARAMETERS, lr=0.1), mode="a"), ValueError, "mode must be"),
]  # fmt: skip


def test_each_reason_is_told() -> None:
    for call, error, words in ROWS:
        raises(error, words, call)
