"""Lazy modules as torch has them, and modules of plain functions that are sent."""

import copy
import pickle

import numpy as np
from helpers.cases import each_case
from parity.functional import LITE, QUIET, agree, compared, fill, raw

pytestmark = QUIET


LAYERS = {
    "LazyLinear": (lambda lib: lib.nn.LazyLinear(4), lambda lib, n: lib.nn.Linear(n, 4), (2, 6)),
    "LazyLinear without bias": (lambda lib: lib.nn.LazyLinear(4, bias=False), lambda lib,
        n: lib.nn.Linear(n, 4, bias=False), (6,)),
    "LazyConv1d": (lambda lib: lib.nn.LazyConv1d(4, 3, padding=1, groups=2), lambda lib,
        n: lib.nn.Conv1d(n, 4, 3, padding=1, groups=2), (2, 6, 5)),
    "LazyConv1d of one": (lambda lib: lib.nn.LazyConv1d(4, 3, stride=2), lambda lib,
        n: lib.nn.Conv1d(n, 4, 3, stride=2), (6, 5)),
    "LazyConv2d": (lambda lib: lib.nn.LazyConv2d(4, (3, 2), bias=False), lambda lib,
        n: lib.nn.Conv2d(n, 4, (3, 2), bias=False), (2, 6, 5, 5)),
    "LazyBatchNorm1d": (lambda lib: lib.nn.LazyBatchNorm1d(), lambda lib, n: lib.nn.BatchNorm1d(n),
        (4, 6)),
    "LazyBatchNorm1d without statistics": (lambda lib: lib.nn.LazyBatchNorm1d(affine=False,
        track_running_stats=False), lambda lib, n: lib.nn.BatchNorm1d(n, affine=False,
        track_running_stats=False), (4, 6, 2)),
}  # fmt: skip


def data(lib, shape):
    return lib.array(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def told(module):
    """What a module says of itself."""
    lazy = hasattr(module, "has_uninitialized_params") and module.has_uninitialized_params()
    kinds = [(name, "Uninit" in type(value).__name__) for name, value in module.state_dict().items()]
    names = [name for name, _ in module.named_parameters()], [name for name, _ in module.named_buffers()]
    return type(module).__name__, lazy, kinds, names, len(module._forward_pre_hooks), module.training


def numbers(value):
    return tuple(value.shape), np.round(raw(value), 4).tolist()


SENT = {
    "itself": lambda module: module,
    "deepcopy": copy.deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
}


# Torch cannot copy buffers without a shape, which `nn/modules/test_lazy.py` does.
CALLS = [(name, sent) for name in LAYERS for sent in SENT if (name, sent) != ("LazyBatchNorm1d", "deepcopy")]


@each_case(("name", "sent"), CALLS)
def test_the_first_call(name, sent):
    make, _, shape = LAYERS[name]

    def program(lib):
        original = make(lib)
        module = SENT[sent](original)
        found = [repr(module), told(module)]
        sized = module.has_uninitialized_params()  # else torch's says 0 features for ever
        module(data(lib, shape))
        fill(lib, [module])
        result = module.eval()(data(lib, shape))
        return [*found, sized and repr(module), told(module), numbers(result), told(original)[:2]]

    agree(program)


@each_case("assign", [False, True])
@each_case("name", LAYERS)
def test_state_dicts_of_layers(name, assign):
    make, eager, shape = LAYERS[name]

    def program(lib):
        module, layer = make(lib), eager(lib, 6)
        fill(lib, [layer])
        found = [list(module.load_state_dict(layer.state_dict(), assign=assign)), told(module)]
        result = module.eval()(data(lib, shape))
        return [*found, told(module), numbers(result)]

    agree(program)


@each_case("name", LAYERS)
def test_state_dicts_of_lazy_ones(name):
    make, eager, _ = LAYERS[name]

    def program(lib):
        lazy = make(lib)
        return list(make(lib).load_state_dict(lazy.state_dict())), told(lazy)

    agree(program)
    if LAYERS[name][0](LITE).has_uninitialized_params():
        failed = agree(lambda lib: eager(lib, 6).load_state_dict(make(lib).state_dict(), strict=False))
        assert failed is RuntimeError


PROGRAMS = {
    "shape": lambda lib: lib.nn.LazyLinear(3).weight.shape,
    "repr of a parameter": lambda lib: repr(lib.nn.LazyLinear(3).weight),
    "addition": lambda lib: lib.nn.LazyLinear(3).weight + 1,
    "half": lambda lib: str(lib.nn.LazyLinear(3).half().weight.dtype).removeprefix("torch."),
    "no bias": lambda lib: lib.nn.LazyLinear(3, bias=False).bias,
    "reset": lambda lib: lib.nn.LazyLinear(3).reset_parameters(),
    "materialize": lambda lib: (p := lib.nn.UninitializedParameter(), p.materialize((2, 1)),
        tuple(p.shape))[2],
    "what it becomes": lambda lib: (p := lib.nn.UninitializedParameter(), p.materialize((2, 1)),
        (type(p).__name__, p.requires_grad))[2],
    "without requires_grad": lambda lib: (p := lib.nn.UninitializedParameter(requires_grad=False),
        p.materialize((2,)), p.requires_grad)[2],
    "by hand": lambda lib: (m := lib.nn.LazyLinear(4), m.initialize_parameters(lib.ones(2, 3)),
        (type(m).__name__, m.in_features, tuple(m.weight.shape), tuple(m(lib.ones(2, 3)).shape)))[2],
    "by keyword": lambda lib: tuple(lib.nn.LazyLinear(4)(input=lib.ones(2, 3)).shape),
    "another size": lambda lib: (m := lib.nn.LazyLinear(4), m(lib.ones(2, 3)), m(lib.ones(2, 5))),
    "channels of groups": lambda lib: lib.nn.LazyConv1d(4, 1, groups=4)(lib.ones(1, 6, 3)),
    "too few dimensions": lambda lib: lib.nn.LazyConv1d(4, 1)(lib.ones(3)),
    "a tree": lambda lib: sorted(lib.TD.from_module(lib.nn.LazyLinear(4)).keys()),
    "a tree as a module": lambda lib: [name for name,
        _ in lib.TD.from_module(lib.nn.LazyLinear(4), as_module=True).named_parameters()],
    "copying a tree": lambda lib: lib.TD.from_module(lib.nn.LazyLinear(4)).clone(),
    "a lazy stack of trees": lambda lib: lib.TD.from_modules(lib.nn.LazyLinear(4), lib.nn.LazyLinear(4),
        lazy_stack=True),
    "an ensemble": lambda lib: lib.tdnn.EnsembleModule(lib.tdnn.TensorDictModule(lib.nn.LazyLinear(4),
        ["a"], ["b"]), 2),
    "a sequence": lambda lib: (m := lib.nn.Sequential(lib.nn.LazyLinear(2), lib.nn.LazyBatchNorm1d()),
        m(lib.ones(3, 4)), list(map(repr, m)))[2],
}  # fmt: skip


@each_case("name", PROGRAMS)
@compared
def test_what_else_is_asked(lib, name):
    try:
        return PROGRAMS[name](lib)
    except RuntimeError:
        return "RuntimeError"


def of(factor):
    def scaled(x):
        return x * factor

    return scaled
