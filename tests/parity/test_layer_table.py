"""Every layer of tests/helpers/layer_cases.py against torch's: values, and gradients in two dtypes."""

import copy
import inspect
import itertools

import ml_dtypes
import numpy as np
import pytest
import torch
from helpers.cases import each_case
from helpers.layer_cases import CASES, TITLES
from parity.layers import assert_agree, flat, matched, torch_fast_path

import lite
from lite import TensorDict, nn

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
@each_case("dtype", ["float32", "float64"])
def test_values(case, dtype):
    """Twice where statistics take part; and what is in the state dict afterwards."""
    ours, theirs = both(case, dtype)
    for seed in range(2 if list(ours.buffers()) else 1):
        arrays, options = case.arrays(dtype, seed), case.call_options(dtype)
        with torch.no_grad():
            expected = theirs(
                *tensors(arrays, getattr(torch, dtype)), **tensors(options, getattr(torch, dtype))
            )
        assert_agree(ours(*arrays, **options), expected)
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[key], value.numpy(), rtol=1e-5, err_msg=key)


EITHER = list(zip(CASES, itertools.cycle(["float16", "bfloat16"]), strict=False))


@pytest.mark.parametrize(("case", "dtype"), EITHER, ids=TITLES)
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
    "GraphModule",  # test_from_onnx.py
    "LoraModule",  # test_lora.py
    # Compared in test_losses_ppo.py.
    *("PercentileValueNorm", "PopArtValueNorm", "RunningValueNorm", "ValueNorm"),
    # These become the others at their first call: test_lazy_modules.py.
    *("LazyBatchNorm1d", "LazyConv1d", "LazyConv2d", "LazyLinear", "LazyModuleMixin"),
    *("MultiAgentConvNet", "MultiAgentMLP", "NoisyLazyLinear", "QMixer", "VDNMixer"),  # test_policies.py
    *("BatchRenorm1d", "ConsistentDropout", "LazygSDEModule", "gSDEModule"),  # test_exploring_policies.py
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


TOLERANCE = 2e-5  # float32 sums of BLAS with AVX-512 differ by up to 1.1e-5


def leaves(value):
    """Arrays as tensors of their own; floats are differentiated by."""
    if isinstance(value, tuple):
        return tuple(map(leaves, value))
    if isinstance(value, dict):
        return {key: leaves(item) for key, item in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    return torch.from_numpy(value.copy()).requires_grad_(value.dtype.kind == "f")


def total(outputs, seed):
    """One number of all outputs of floats, in which each has another weight."""
    rng = np.random.default_rng(seed)
    out = 0
    for x in flat(outputs):
        if x is None:
            continue
        weight = rng.standard_normal(tuple(x.shape))
        if isinstance(x, torch.Tensor):
            if x.is_floating_point():
                out = out + (x * torch.from_numpy(weight).to(x.dtype)).sum()
        elif x.dtype.kind == "f":
            out = out + (x * weight.astype(x.dtype)).sum()
    return out


def assert_gradient(got, expected, name):
    """Equal to rounding, in relation to the largest; what takes no part has a gradient of zeros here."""
    value = np.zeros(got.shape, got.dtype) if expected is None else expected.numpy()
    assert (got.shape, got.dtype) == (value.shape, value.dtype), name
    scale = max(1.0, float(np.abs(value).max(initial=0)))
    np.testing.assert_allclose(got, value, rtol=0, atol=TOLERANCE * scale, err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=TITLES)
def test_by_parameters_and_inputs(case):
    ours, theirs = both(case)
    arrays, options = case.arrays("float32"), case.call_options("float32")
    given, named = leaves(arrays), leaves(options)
    loss = total(theirs(*given, **named), 1)
    loss.backward()
    params = TensorDict(dict(ours.named_parameters())).data.clone()
    floats = [x for x in flat(arrays) if x.dtype.kind == "f"]
    before = [x.copy() for x in floats]

    def ours_loss(given):
        params, queue = given["params"], iter(given["inputs"])

        def put(x):
            if isinstance(x, tuple):
                return tuple(map(put, x))
            return next(queue) if x.dtype.kind == "f" else x

        with params.unflatten_keys(".").to_module(ours):
            return total(ours(*put(arrays), **options), 1)

    value, found = lite.value_and_grad(ours_loss)({"params": params, "inputs": floats})
    by_params, by_inputs = found["params"], found["inputs"]
    np.testing.assert_allclose(value, loss.item(), rtol=10 * TOLERANCE, atol=10 * TOLERANCE)
    for name, parameter in theirs.named_parameters():
        assert_gradient(by_params[name], parameter.grad, name)
    tensors = [x for x in flat(given) if isinstance(x, torch.Tensor) and x.is_floating_point()]
    for i, (got, tensor) in enumerate(zip(by_inputs, tensors, strict=True)):
        assert_gradient(got, tensor.grad, f"input {i}")
    np.testing.assert_equal(floats, before)
    for key, tensor in theirs.state_dict().items():  # statistics, too
        if key not in dict(theirs.named_parameters()):
            np.testing.assert_allclose(ours.state_dict()[key], tensor.numpy(), rtol=1e-5, err_msg=key)


def cast(value, dtype):
    """Floats, also in tuples and dicts, in a dtype."""
    if isinstance(value, tuple):
        return tuple(cast(item, dtype) for item in value)
    if isinstance(value, dict):
        return {key: cast(item, dtype) for key, item in value.items()}
    return value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


WITH_PARAMETERS = [case for case in CASES if any(True for _ in case.make(nn).parameters())]


@each_case("case", WITH_PARAMETERS, ids=[case.title for case in WITH_PARAMETERS])
def test_gradients_in_half_precision(case):
    """Gradients have the parameters' dtype, and are those of the same numbers in float64."""
    ours, _ = both(case, "float32")
    ours.half()
    arrays, options = case.arrays(np.float16), case.call_options(np.float16)
    params = TensorDict(dict(ours.named_parameters())).data.clone()

    def gradient(dtype):
        def loss(params):
            with params.unflatten_keys(".").to_module(ours):
                return total(ours(*cast(arrays, dtype), **cast(options, dtype)), 1).astype(np.float64)

        return lite.grad(loss)(params.apply(lambda x: x.astype(dtype)))

    got, exact = gradient(np.float16), gradient(np.float64)
    for name, _ in ours.named_parameters():
        assert got[name].dtype == np.float16, name
        scale = max(1.0, float(np.abs(exact[name]).max(initial=0)))
        np.testing.assert_allclose(got[name], exact[name], rtol=0, atol=2e-2 * scale, err_msg=name)


OTHERS = {
    "NormalParamExtractor": (lambda m: m.NormalParamExtractor(scale_mapping="biased_softplus_0.5"), (5, 6)),
    "NormalParamExtractor, exp": (lambda m: m.NormalParamExtractor(scale_mapping="exp"), (5, 6)),
    "NormalParamExtractor, relu": (lambda m: m.NormalParamExtractor(scale_mapping="relu"), (5, 6)),
    "NormalParamExtractor, expln": (lambda m: m.NormalParamExtractor(scale_mapping="expln"), (5, 6)),
    "AddStateIndependentNormalScale": (lambda m: m.AddStateIndependentNormalScale(6, init_value=0.3), (5, 6)),
    "biased_softplus": (lambda m: m.biased_softplus(0.7), (5, 6)),
}


@each_case("name", OTHERS)
def test_layers_that_tensordict_has(name):
    from tensordict.nn.distributions import AddStateIndependentNormalScale, NormalParamExtractor
    from tensordict.nn.utils import biased_softplus

    make, shape = OTHERS[name]
    reference = type("m", (), {})
    reference.NormalParamExtractor = NormalParamExtractor
    reference.AddStateIndependentNormalScale = AddStateIndependentNormalScale
    reference.biased_softplus = biased_softplus
    ours, theirs = make(nn), make(reference)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[0, 4] = 0.0
    tensor = leaves(x)
    total(theirs(tensor), 1).backward()
    params = TensorDict(dict(ours.named_parameters())).data.clone()

    def loss(given):
        with given["params"].to_module(ours):
            return total(ours(given["x"]), 1)

    found = lite.grad(loss)({"params": params, "x": x})
    assert_gradient(found["x"], tensor.grad, "input")
    for key, parameter in theirs.named_parameters():
        assert_gradient(found["params"][key], parameter.grad, key)
