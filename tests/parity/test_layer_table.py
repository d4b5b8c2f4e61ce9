"""Every layer of tests/helpers/layer_cases.py against torch's, in every dtype; and that each has a case."""

import copy
import inspect

import ml_dtypes
import numpy as np
import pytest
import torch
from helpers.layer_cases import CASES, TITLES
from parity.layers import assert_agree, flat, matched, torch_fast_path

from lite import nn

pytestmark = [
    pytest.mark.filterwarnings("ignore:Support for mismatched:UserWarning"),
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning"),
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def one_path():
    with torch_fast_path(False):
        yield


def both(case, dtype="float32"):
    """The layer of both libraries, with parameters around zero; positive, where one is a variance."""
    ours, theirs = case.make(nn), case.make(torch.nn)
    return matched(ours, theirs, dtype, low=0.1 if list(ours.buffers()) else -0.4)


def tensors(value, dtype):
    """Arrays as tensors, floats in a dtype."""
    if isinstance(value, tuple):
        return tuple(tensors(item, dtype) for item in value)
    if isinstance(value, dict):
        return {key: tensors(item, dtype) for key, item in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind in "ib":
        return torch.from_numpy(value.copy())
    return torch.from_numpy(value.astype(np.float64)).to(dtype)


@pytest.mark.parametrize("case", CASES, ids=TITLES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values(case, dtype):
    """Twice, as statistics take part; and what is in the state dict afterwards."""
    ours, theirs = both(case, dtype)
    for seed in range(2):
        arrays, options = case.arrays(dtype, seed), case.call_options(dtype)
        with torch.no_grad():
            expected = theirs(
                *tensors(arrays, getattr(torch, dtype)), **tensors(options, getattr(torch, dtype))
            )
        assert_agree(ours(*arrays, **options), expected)
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[key], value.numpy(), rtol=1e-5, err_msg=key)


@pytest.mark.parametrize("case", CASES, ids=TITLES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_as_exact_as_half_precision_can_be(case, dtype):
    """The same numbers in torch's float64; the result in the dtype that torch gives."""
    stored = np.dtype(getattr(ml_dtypes, dtype, dtype))
    ours, theirs = both(case)
    if any(True for _ in ours.parameters()):
        ours.type(stored)
    wide = copy.deepcopy(theirs).to(getattr(torch, dtype)).double()
    arrays, options = case.arrays(stored), case.call_options(stored)
    with torch.no_grad():
        expected = wide(*tensors(arrays, torch.float64), **tensors(options, torch.float64))
    steps = 8 * float(ml_dtypes.finfo(stored).eps)
    for got, tensor in zip(flat(ours(*arrays, **options)), flat(expected), strict=True):
        if tensor is not None and tensor.is_floating_point():
            assert got.dtype == stored
            np.testing.assert_allclose(got.astype(np.float64), tensor.numpy(), rtol=steps, atol=steps)


NO_LAYERS = {
    *("AddStateIndependentNormalScale", "Module", "NormalParamExtractor", "TensorDictParams"),
    *("ModuleDict", "TensorClassModuleBase", "biased_softplus"),
    # Compared in test_losses_ppo.py.
    *("PercentileValueNorm", "PopArtValueNorm", "RunningValueNorm", "ValueNorm"),
    # These become the others at their first call: test_lazy_modules.py.
    *("LazyBatchNorm1d", "LazyConv1d", "LazyConv2d", "LazyLinear", "LazyModuleMixin"),
}


def test_the_table_has_every_layer():
    public = [(name, getattr(nn, name)) for name in nn.__all__ if inspect.isclass(getattr(nn, name))]
    layers = {
        name
        for name, cls in public
        if issubclass(cls, nn.Module) and not issubclass(cls, nn.TensorDictModuleBase)
    }
    built = {type(module).__name__ for case in CASES for module in case.make(nn).modules()}
    assert layers - built == NO_LAYERS
