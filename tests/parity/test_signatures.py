"""Every public name of tensordict and its parameters is in lite, or in a table with the reason."""

import inspect
from typing import Any

import pytest
import tensordict
import tensordict.nn
import torch
import torch.nn.functional
from helpers.cases import each_case
from parity.outcomes import MENDED
from torchrl import collectors, data, envs, record
from torchrl.collectors.distributed import RayCollector
from torchrl.collectors.llm import LLMCollector
from torchrl.modules import distributions as rl
from torchrl.objectives.value import functional as estimates

import lite
import lite.data
import lite.envs
from lite import kernels, nn
from lite._tree.protocol import MISSING
from lite.nn import distributions

pytestmark = pytest.mark.filterwarnings("ignore")


TORCH = "belongs to torch"
LEGACY = "a former name, which warns"
SWITCH = "a switch between behaviours of which lite has one"
STORE = "a database as storage"
MODULE = "tensorclasses of torch modules"

# Names that lite does not have.
LEFT_OUT = {
    **dict.fromkeys(("lock", "unlock", "rename_key", "valid_keys"), LEGACY),
    **dict.fromkeys(("lazy_legacy", "set_lazy_legacy"), SWITCH),
    **dict.fromkeys(("LazyStackedTensorDictStore", "TensorDictStore", "from_zarr"), STORE),
    **dict.fromkeys(("TensorClassModuleBase", "TensorClassModuleWrapper"), MODULE),
    "NonTensorDataBase": "is_non_tensor tells; the base class is private",
    "PersistentTensorDict": "from_h5 reads to memory; mapped files are there for more",
    "TensorAttrs": "belongs to attrs, which lite has not",
    "TensorDictParams": "in lite.nn, where the modules are",
    "as_tensordict_module": "in lite.nn, where the modules are",
    "from_module": "a class method, for which lite.nn is imported",
    "from_modules": "a class method, for which lite.nn is imported",
    "is_batchedtensor": TORCH,
    "parse_tensor_dict_string": "a repr is for people",
}

# Names that raise NotImplementedError and say what to use instead.
REFUSED = {
    "all_gather", "all_reduce", "arecv", "asend", "attrs", "broadcast", "clear_refs_for_compile_",
    "complex32", "from_remote_init", "from_zarr", "gather_and_stack", "get_nestedtensor", "init_remote",
    "irecv", "isend", "pin_memory", "pin_memory_", "qint32", "qint8", "quint4x2", "quint8", "record_stream",
    "recv", "reduce", "scatter", "send", "to_mds", "to_store", "to_zarr",
}  # fmt: skip

# Parameters of any function that only mean something to torch.
TORCH_ONLY = {"requires_grad", "layout", "hook_in", "hook_out", "as_nested_tensor"}

# name -> parameters that are missing or called otherwise, and why.
PARAMETERS = {
    "LazyStackedTensorDict": ({"names"}, "without effect there"),
    "NonTensorData": ({"_metadata", "_is_non_tensor"}, "internal"),
    "densify": ({"layout"}, "padding is the only layout"),
    "get_defaults_to_none": ({"set_to_none"}, "without effect there"),
    "from_dict": ({"d"}, "the class method's name, input_dict"),
    "from_h5": ({"h5_file"}, "the class method's name, filename"),
    "from_namedtuple": ({"named_tuple"}, "the class method's name"),
    "get": ({"as_list", "as_padded_tensor", "padding_side", "padding_value"}, "taken as lazy_kwargs"),
    "lazy_stack": (
        {"items", "device", "as_list", "as_padded_tensor", "padding_side", "padding_value"},
        "input, as on every other class; pad_sequence pads arrays",
    ),
    "maybe_dense_stack": ({"items", "strict"}, "input, as on every other class; stack is strict"),
    "new_empty": ({"pin_memory"}, TORCH),
    "new_full": ({"pin_memory"}, TORCH),
    "new_ones": ({"pin_memory"}, TORCH),
    "new_tensor": ({"pin_memory"}, TORCH),
    "new_zeros": ({"pin_memory"}, TORCH),
    "update_at_": ({"index"}, "idx, as on TensorDict"),
}

# name -> parameters whose default differs, and why.
DEFAULTS = {
    **dict.fromkeys(
        ("load", "load_memmap", "load_memmap_", "memmap_refresh_"),
        ({"allow_pickle", "mode"}, "False instead of a warning: files are untrusted; None as of 0.15"),
    ),
    "NonTensorData": ({"batch_size"}, "() unless given"),
    "broadcast_to": ({"shape"}, "may come one by one"),
    "flatten": ({"start_dim", "end_dim"}, "the numbers in one of the two classes there"),
    "flip": ({"dims"}, "may come one by one"),
    "from_dict": ({"auto_batch_size"}, "None and False mean the same"),
    "tile": ({"dims"}, "may come one by one"),
}

UNSET = "<not given>"


def parameters(fn):
    """By name; those behind a typed `**options` are those of `memmap`."""
    found = dict(inspect.signature(fn).parameters)
    if "MemmapOptions" in str(getattr(found.get("options"), "annotation", "")):
        del found["options"]
        found |= inspect.signature(lite.TensorDict.memmap).parameters
    return {name: p for name, p in found.items() if name not in ("self", "cls", "td")}


def default(parameter):
    """The default in one form for both libraries, whose markers for "not given" differ."""
    value = parameter.default
    if value is MISSING or type(value).__name__ == "_NoDefault":
        return UNSET
    return tuple(value) if type(value).__name__ == "Size" else value


def differences(name, theirs, ours):
    """What a call that suits tensordict would meet in lite."""
    expected, got = parameters(theirs), parameters(ours)
    missing, _ = PARAMETERS.get(name, (set(), ""))
    other_defaults, _ = DEFAULTS.get(name, (set(), ""))
    out = []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    # A parameter that is not in the table has the same place, if it can be given by place there.
    order = [n for n, p in expected.items() if p.kind in positional and n not in missing]
    order_here = [n for n, p in got.items() if p.kind in positional]
    has_args = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in got.values())
    takes_any = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in expected.values())
    if not (missing or has_args or takes_any) and order_here[: len(order)] != order:
        out.append(f"{name}: positional {order_here}, expected {order}")
    for key, parameter in expected.items():
        if parameter.kind in variadic or key in missing | TORCH_ONLY:
            continue
        mine = got.get(key)
        if mine is None:
            if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in got.values()):
                out.append(f"{name}: no parameter {key!r}")
            continue
        a, b = default(parameter), default(mine)
        unset = UNSET in (a, b) and (a in (UNSET, None, False) and b in (UNSET, None, False))
        if key not in other_defaults and not unset and not (a is b or a == b):
            out.append(f"{name}: {key}={b!r}, expected {a!r}")
    return out


def compared(theirs, ours):
    out = []
    for name in sorted(name for name in dir(theirs) if not name.startswith("_")):
        if name in LEFT_OUT and name not in REFUSED:
            continue
        if not (hasattr(ours, name) or name in REFUSED):
            out.append(f"{name} is missing")
            continue
        if name in REFUSED:
            continue
        a, b = getattr(theirs, name), getattr(ours, name)
        if callable(a) != callable(b):
            out.append(f"{name}: method and property")
        elif callable(a) and not inspect.isclass(a):
            out += differences(name, a, b)
    return out


@each_case("name", ["TensorDict", "LazyStackedTensorDict"])
def test_methods_and_their_parameters(name):
    assert compared(getattr(tensordict, name), getattr(lite, name)) == []


def test_public_names_and_their_parameters():
    out = []
    for name in sorted(set(tensordict.__all__) - set(LEFT_OUT) - {"__version__"}):
        if not hasattr(lite, name):
            out.append(f"{name} is missing")
            continue
        theirs, ours = getattr(tensordict, name), getattr(lite, name)
        if callable(theirs) and name not in CLASSES:
            out += differences(name, theirs, ours)
    assert out == []


# Classes whose constructors are not those of a plain class on one of the sides.
CLASSES = {
    "MemoryMappedTensor", "MetaData", "NonTensorStack", "TensorClass", "TensorDictBase", "set_printoptions",
}  # fmt: skip


def test_tensorclasses_have_the_methods_of_tensorclasses():
    class Theirs(tensordict.TensorClass):
        a: Any

    class Ours(lite.TensorClass):
        a: Any

    theirs, ours = Theirs(a=torch.zeros(2)), Ours(a=lite.TensorDict(x=1)["x"])
    internal = {"maybe_to_stack", "extend"}  # lists of parts: instances over a lazy stack have extend
    missing = [
        name
        for name in sorted(set(dir(theirs)) - set(LEFT_OUT) - REFUSED - internal)
        if not name.startswith("_") and not (hasattr(ours, name) or hasattr(lite.TensorDict, name))
    ]
    assert missing == []


@each_case("name", sorted(REFUSED))
def test_refused_names_say_what_to_use(name):
    td = lite.TensorDict(a=1)
    assert hasattr(tensordict.LazyStackedTensorDict, name)
    with pytest.raises(NotImplementedError, match=f"{name} is not available: .{{10}}"):
        getattr(td, name)()


def test_the_tables_name_what_exists_there_and_not_here():
    """A table that outlived its reason would hide the next difference."""
    there = {*tensordict.__all__, *dir(tensordict.TensorDict), *dir(tensordict.LazyStackedTensorDict)}
    gone = {"is_batchedtensor", "lock", "rename_key", "unlock"} if MENDED else set()
    assert (set(LEFT_OUT) | REFUSED | set(PARAMETERS) | set(DEFAULTS)) - there == gone
    here = set(lite.__all__) | {n for n in dir(lite.TensorDict) if n not in REFUSED}
    assert set(LEFT_OUT) & here <= {"from_module", "from_modules"}


@each_case("name", [n for n in dir(lite.TensorDict) if not n.startswith("_")])
def test_lazy_stacks_take_what_dense_ones_take(name):
    dense, lazy = getattr(lite.TensorDict, name), getattr(lite.LazyStackedTensorDict, name)
    if callable(dense) and name != "from_dict":  # a list of dicts, not one
        assert list(parameters(lazy)) == list(parameters(dense))


LEFT_OUT_NN = {
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
    ("OneHotCategoricalStraightThrough", "validate_args"): "parameters are always checked",
}


def parameters_nn(obj):
    target = obj.__init__ if inspect.isclass(obj) else obj
    if target is object.__init__ or isinstance(obj, dict):
        return None
    found = dict(inspect.signature(target).parameters)
    found.pop("self", None)
    return found


def compare(name, ours, theirs):
    mine, other = parameters_nn(ours), parameters_nn(theirs)
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
    assert set(LEFT_OUT_NN) == set(NAMES) - set(nn.__all__)
    assert lite.make_tensordict.__module__.startswith("lite")


# One class stands for tensordict's and for torchrl's, with whose parameters_nn it is compared below.
TWO_IN_ONE = {"TruncatedNormal"}


@each_case("name", [name for name in NAMES if name not in {*LEFT_OUT_NN, *TWO_IN_ONE}])
def test_names_and_parameters(name):
    compare(name, getattr(nn, name), getattr(tensordict.nn, name))


def test_every_distribution_is_there():
    theirs = set(rl.__all__) | set(tensordict.nn.distributions.__all__)
    missing = {name for name in theirs if not hasattr(distributions, name) and not hasattr(nn, name)}
    assert missing == set(DISTRIBUTIONS_LEFT_OUT)


# The base takes shapes only; the reference's LogProbDistribution is private to its wrappers.
COMPARED = {n for n in distributions.__all__ if n[0].isupper()} - {"Distribution", "LogProbDistribution"}


@each_case("name", sorted(COMPARED))
def test_parameters_of_distributions(name):
    source = torch.distributions if name in OF_TORCH else rl
    source = tensordict.nn if name == "CompositeDistribution" else source
    if name in TRANSFORMS:
        source = rl.continuous if name == "SafeTanhTransform" else torch.distributions.transforms
    compare(name, getattr(distributions, name), getattr(source, name))


@each_case("name", ["ProbabilisticTensorDictModule", "ProbabilisticTensorDictSequential"])
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


ESTIMATES = [name for name in kernels.__all__ if hasattr(estimates, name) and not name.startswith("vec_")]
LAZY = ["LazyLinear", "LazyConv1d", "LazyConv2d"]
# A function here and there; parameters that are here alone, and whose defaults differ.
CASES = {
    **{name: (getattr(kernels, name), getattr(estimates, name), set(), set()) for name in ESTIMATES},
    **{name: (getattr(nn, name), getattr(torch.nn, name), {"rng"}, set())
        for name in LAZY},
    "LazyBatchNorm1d": (nn.LazyBatchNorm1d, torch.nn.LazyBatchNorm1d, set(), set()),
    "split_trajectories": (
        lite.data.split_trajectories, collectors.utils.split_trajectories, set(), set(),
    ),
    "MultiStepTransform": (lite.data.MultiStepTransform, envs.MultiStepTransform, {"shift_done"}, set()),
    "DensifyReward": (lite.data.DensifyReward, data.DensifyReward, set(), {"time_dim"}),
    "RayReplayBuffer": (lite.data.RayReplayBuffer, data.RayReplayBuffer, set(), {"replay_buffer_cls"}),
    "RayCollector": (
        lite.data.RayCollector, RayCollector, {"seed", "start_timeout", "progress"},
        {"exploration_type", "collector_class"},  # other classes
    ),
    "VideoRecorder": (lite.data.VideoRecorder, record.VideoRecorder, set(), set()),
    "PixelRenderTransform": (lite.data.PixelRenderTransform, record.PixelRenderTransform, set(), set()),
    "WandbLogger": (lite.data.WandbLogger, record.loggers.WandbLogger, {"log_dir"}, set()),
    "Evaluator": (lite.data.Evaluator, collectors.Evaluator, set(), {"exploration_type"}),
    "default_info_dict_reader": (
        lite.envs.default_info_dict_reader, envs.default_info_dict_reader, set(), set(),
    ),
    "LLMCollector": (
        lite.data.LLMCollector, LLMCollector,
        {"prompts", "reward", "repeats", "seed", "progress"},  # the first three in place of the environment
        {"exploration_type", "dialog_turns_per_batch"},  # the latter always needed
    ),
}  # fmt: skip
SUBSETS = {"RayReplayBuffer", "RayCollector", "LLMCollector", "Evaluator"}


@each_case("name", CASES)
def test_names_order_and_defaults(name):
    ours, theirs, own, others = CASES[name]
    makes = [fn.__init__ if inspect.isclass(fn) else fn for fn in (ours, theirs)]
    mine, known = (inspect.signature(fn).parameters for fn in makes)
    assert set(mine) - set(known) == own
    assert set(known) <= set(mine) or name in SUBSETS
    shared = [argument for argument in mine if argument in known]
    assert shared == [argument for argument in known if argument in shared]
    for argument in shared:
        same = mine[argument].default == known[argument].default
        assert same or argument in others, argument
        assert name in {*SUBSETS, *ESTIMATES} or mine[argument].kind == known[argument].kind


OF_LITE = {"linear_log_probs"}  # torch has no function that joins a layer with its log-probs


@each_case("name", sorted(set(nn.functional.__all__) - OF_LITE))
def test_functions(name):
    """What a call says by name in torch but `out`, it says here; by place, up to what is deprecated there."""
    try:
        wanted = inspect.signature(getattr(torch.nn.functional, name)).parameters
    except ValueError:  # written in C
        return
    here = inspect.signature(getattr(nn.functional, name)).parameters
    assert set(wanted) - {"size_average", "reduce", "_stacklevel", "out"} == set(here)
    for parameter in here.values():
        assert parameter.default == wanted[parameter.name].default, parameter
    by_place = [p.name for p in here.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert list(wanted)[: len(by_place)] == by_place
