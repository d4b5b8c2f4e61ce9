"""Every public name of tensordict.nn and its distributions, with its parameters, or a reason why not."""

import inspect

import pytest
import tensordict.nn
import torch
from torchrl.modules import distributions as rl

import lite
from lite import nn
from lite.nn import distributions

pytestmark = pytest.mark.filterwarnings("ignore")

LEFT_OUT = {
    "CudaGraphModule": "records CUDA kernels of torch",
    "make_tensordict": "in lite, where the containers are",
}

DISTRIBUTIONS_LEFT_OUT = {
    "NormalParamWrapper": "raises in the reference; NormalParamExtractor replaces it",
    "ReparamGradientStrategy": "a choice between gradients",
    **dict.fromkeys(
        ("has_analytic_entropy", "has_analytic_kl"), "entropy and kl_divergence say so themselves"
    ),
}
# Those that tensordict or TorchRL have, too, are theirs here.
OF_TORCH = {name for name in distributions.__all__ if hasattr(torch.distributions, name)} - set(rl.__all__)
TRANSFORMS = {name for name in distributions.__all__ if name.endswith("Transform")}

# Parameters that lite does not have, and those that it has more.
PARAMETERS_LEFT_OUT = {
    ("TensorDictParams", "memory_format"): "torch's",
    ("OneHotCategorical", "kwargs"): "passed to torch",
    ("OneHotCategorical", "grad_method"): "a choice between gradients",
    ("MaskedOneHotCategorical", "grad_method"): "a choice between gradients",
    ("IndependentNormal", "kwargs"): "passed to torch; validate_args is named",
    ("TruncatedNormal", "validate_args"): "parameters are always checked",
    ("Categorical", "validate_args"): "parameters are always checked",
    ("Independent", "validate_args"): "parameters are always checked",
}


def parameters(obj):
    target = obj.__init__ if inspect.isclass(obj) else obj
    if target is object.__init__ or isinstance(obj, dict):
        return None
    found = dict(inspect.signature(target).parameters)
    found.pop("self", None)
    return found


def compare(name, ours, theirs):
    mine, other = parameters(ours), parameters(theirs)
    if mine is None or other is None:
        return
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    for key, parameter in other.items():
        if (name, key) in PARAMETERS_LEFT_OUT:
            assert key not in mine
            continue
        if parameter.kind in kinds:
            continue
        if not any(p.kind in kinds for p in mine.values()) or key in mine:
            assert key in mine, f"{name} lacks the parameter {key}"
            expected, got = parameter.default, mine[key].default
            if isinstance(expected, str | bool | int | float):
                assert got == expected, f"{name}: {key} defaults to {got!r}, there {expected!r}"
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    order = [k for k, p in other.items() if p.kind in positional and k in mine]
    assert [k for k, p in mine.items() if p.kind in positional and k in order] == [
        k for k in order if mine[k].kind in positional
    ]


NAMES = sorted(tensordict.nn.__all__)


def test_the_table_names_what_is_there():
    assert set(LEFT_OUT) == set(NAMES) - set(nn.__all__)
    assert lite.make_tensordict.__module__.startswith("lite")


# One class stands for tensordict's and for torchrl's, with whose parameters it is compared below.
TWO_IN_ONE = {"TruncatedNormal"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in {*LEFT_OUT, *TWO_IN_ONE}])
def test_names_and_parameters(name):
    compare(name, getattr(nn, name), getattr(tensordict.nn, name))


def test_every_distribution_is_there():
    theirs = set(rl.__all__) | set(tensordict.nn.distributions.__all__)
    missing = {name for name in theirs if not hasattr(distributions, name) and not hasattr(nn, name)}
    assert missing == set(DISTRIBUTIONS_LEFT_OUT)


# The base takes shapes only; the reference's LogProbDistribution is private to its wrappers.
COMPARED = {n for n in distributions.__all__ if n[0].isupper()} - {"Distribution", "LogProbDistribution"}


@pytest.mark.parametrize("name", sorted(COMPARED))
def test_parameters_of_distributions(name):
    source = torch.distributions if name in OF_TORCH else rl
    source = tensordict.nn if name == "CompositeDistribution" else source
    if name in TRANSFORMS:
        source = rl.continuous if name == "SafeTanhTransform" else torch.distributions.transforms
    compare(name, getattr(distributions, name), getattr(source, name))


@pytest.mark.parametrize("name", ["ProbabilisticTensorDictModule", "ProbabilisticTensorDictSequential"])
def test_public_members(name):
    """Every member that the class adds to what it derives from."""
    theirs = getattr(tensordict.nn, name)
    own = {key for key in vars(theirs) if not key.startswith("_")} - {"SAMPLE_LOG_PROB_KEY"}
    assert own <= set(dir(getattr(nn, name)))
    if name.endswith("Module"):
        made = nn.ProbabilisticTensorDictModule(["param"], ["x"])
        reference = tensordict.nn.ProbabilisticTensorDictModule(["param"], ["x"])
        attributes = {key for key in vars(reference) if not key.startswith("_")}
        assert attributes <= {*dir(made), *vars(made)}
