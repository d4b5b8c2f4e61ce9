"""from_module, from_modules, to_module and ensembles against tensordict, and what differs on purpose."""

import numpy as np
import pytest
import tensordict.nn.functional_modules
from helpers.cases import each_case, raises
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.functional import LITE, QUIET, SIZES, TORCH, agree, compared, fill, kind, net, outcome, raw, tree
from parity.outcomes import MENDED

from lite import nn

pytestmark = QUIET


# -- from_module ------------------------------------------------------------------------------------


@settings(max_examples=10)
@given(SIZES, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
@compared
def test_from_module(lib, sizes, bias, shared, lock, as_module, filter_empty):
    module = net(lib, sizes, bias, shared)
    params = lib.TD.from_module(module, as_module, lock, False, filter_empty)
    identical = all(leaf is module.get_parameter(".".join(key)) for key, leaf in params.items(True, True))
    return tree(lib, params), identical, type(params).__name__, sorted(params.keys(True), key=str)


@compared
def test_free_functions_lock(lib):
    module = net(lib, [2, 3])
    return (
        lib.base.from_module(module).is_locked,
        lib.base.from_modules(module, module).is_locked,
        lib.TD.from_module(module).is_locked,
        lib.TD.from_modules(module, module, lock=False).is_locked,
    )


# -- from_modules -----------------------------------------------------------------------------------


@settings(max_examples=10)
@given(SIZES, st.integers(1, 3), st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
@compared
def test_from_modules(lib, sizes, n, lock, as_module, lazy, expand, state):
    modules = [net(lib, sizes) for _ in range(n)]
    params = lib.TD.from_modules(
        *modules, lock=lock, as_module=as_module, lazy_stack=lazy, expand_identical=expand,
        use_state_dict=state,
    )  # fmt: skip
    rows = [tree(lib, params[i])[2] for i in range(n)]
    independent = raw(params.get(("0", "weight"))).ctypes.data != raw(modules[0][0].weight).ctypes.data
    kinds = [] if lazy else [(key, kind(lib, leaf)) for key, leaf in params.items(True, True)]
    return tuple(params.batch_size), params.is_locked, rows, kinds, independent, type(params).__name__


@pytest.mark.parametrize("options", [{}, {"expand_identical": True}, {"lazy_stack": True}])
def test_modules_that_differ(options):
    def program(lib):
        return tuple(
            lib.TD.from_modules(net(lib, [2, 3]), net(lib, [2, 3], bias=False), **options).batch_size
        )

    agree(program)

    def sizes(lib):
        params = lib.TD.from_modules(net(lib, [2, 3]), net(lib, [2, 4]), **options)
        return tuple(params.batch_size), tuple(params[1]["0", "weight"].shape)

    agree(sizes)


def test_no_modules():
    assert agree(lambda lib: lib.TD.from_modules()) is RuntimeError


# -- EnsembleModule ---------------------------------------------------------------------------------


def ensemble(lib, sizes, n, expand, keys):
    module = lib.tdnn.TensorDictModule(net(lib, sizes), in_keys=[keys[0]], out_keys=[keys[1]])
    out = lib.tdnn.EnsembleModule(module, n, expand)
    fill(lib, [out.params_td])
    return out


@settings(max_examples=10)
@given(st.integers(1, 4), st.integers(1, 3))
@compared
def test_ensembles(lib, n, width):
    first = ensemble(lib, [2, width], n, True, ("a", "b"))
    second = ensemble(lib, [width, 1], n, False, ("b", "c"))
    td = lib.TD({"a": lib.ones(5, 2), "other": lib.ones(5)}, batch_size=[5])
    out = lib.tdnn.TensorDictSequential(first, second)(td)
    values = {key: np.round(raw(out[key]).astype(np.float64), 4).tolist() for key in ("a", "b", "c", "other")}
    names = [name for name, _ in first.named_parameters()]
    return tuple(out.batch_size), values, names, sorted(td.keys())


def test_wrong_sizes_of_ensembles():
    def program(lib):
        td = lib.TD({"a": lib.ones(5, 2)}, batch_size=[5])
        return ensemble(lib, [2, 1], 3, False, ("a", "b"))(td)

    assert agree(program) is ValueError
    given = ("a", "b")
    assert agree(lambda lib: ensemble(lib, [2, 1], 3, True, given).reset_parameters_recursive()) is ValueError


def test_extract_weights_and_buffers_works_here():
    theirs = getattr(tensordict.nn.functional_modules, "extract_weights_and_buffers", None)
    assert (theirs is None) is MENDED
    if theirs is not None:
        raises(RuntimeError, "removed", theirs, net(TORCH, [2, 3]))
    assert list(nn.extract_weights_and_buffers(net(LITE, [2, 3])).keys()) == ["0"]


def numbers(value):
    """Results of a computation, which two libraries round differently."""
    return np.round(raw(value).astype(np.float64), 4).tolist()


# -- to_module --------------------------------------------------------------------------------------


@settings(max_examples=10)
@given(SIZES, st.booleans(), st.booleans(), st.sampled_from([None, False, True]), st.booleans())
@compared
def test_swaps_restore(lib, sizes, plain, preserve, inplace, with_block):
    module = net(lib, sizes)
    before = [p for _, p in module.named_parameters()]
    params = lib.TD.from_module(module).data * 0 + 1
    if not plain:
        other = net(lib, sizes)
        lib.TD.from_module(other).data.fill_(("0", "weight"), 2.0)
        params = lib.TD.from_module(other)
    x = lib.ones(sizes[0])
    swap = params.to_module(module, inplace=inplace, preserve_module_state=preserve)
    inside = numbers(module(x)), [name for name, _ in module.named_parameters()]
    held = tree(lib, swap)[2]
    if with_block:
        with swap:
            pass
    else:
        swap.to_module(module, inplace=inplace)
    after = [p for _, p in module.named_parameters()]
    names = sorted(name for name, _ in module.named_parameters())
    return inside, [row[2:] for row in held], names, numbers(module(x)), len(after) == len(before)


@each_case("preserve", [True, False])
@each_case("inplace", [None, True])
@compared
def test_kinds_in_the_module(lib, preserve, inplace):
    class Custom(lib.nn.Module):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)

    found = []
    for cls in (lib.nn.Module, Custom) if preserve and not inplace else (lib.nn.Module,):
        module = cls()
        module.weight = lib.nn.Parameter(lib.ones(2), requires_grad=False)
        module.register_buffer("mean", lib.ones(2))
        weight = module.weight
        params = lib.TD({"weight": lib.ones(2) * 3, "mean": lib.nn.Parameter(lib.ones(2) * 4)})
        params.to_module(module, preserve_module_state=preserve, inplace=inplace)
        registered = [name for name, _ in module.named_parameters()], sorted(module.state_dict())
        grad = getattr(module.weight, "requires_grad", None) if lib.is_param(module.weight) else None
        # Without preserving, a Parameter in the place of a buffer is one in torch, an array in lite.
        found.append((registered if preserve or inplace else "weight" in registered[0], grad))
        found.append((raw(module.weight).tolist(), raw(module.mean).tolist(), module.weight is weight))
    return found


# -- differences on purpose -------------------------------------------------------------------------


def test_a_module_is_restored_when_the_body_raises():
    def program(lib):
        module = net(lib, [2, 3])
        weight = module[0].weight
        with pytest.raises(ValueError, match="body"), lib.TD.from_module(net(lib, [2, 3])).to_module(module):
            raise ValueError("body")
        return module[0].weight is weight

    assert outcome(program, LITE) is True
    assert outcome(program, TORCH) is MENDED


def test_sources_keep_their_kinds():
    def program(lib):
        module = net(lib, [2, 3])
        params = lib.TD.from_module(module).data
        with params.to_module(module):
            module(lib.ones(2))
        return kind(lib, params["0", "weight"])

    assert outcome(program, LITE) == "array"
    assert outcome(program, TORCH) == ("array" if MENDED else "param")
