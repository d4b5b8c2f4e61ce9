"""to_module against tensordict: swaps, blocks, kinds of what is put in."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.functional import (
    LITE,
    QUIET,
    SIZES,
    TORCH,
    Running,
    compared,
    fill,
    kind,
    net,
    outcome,
    raw,
    same,
    tree,
)

pytestmark = QUIET


def numbers(value):
    """Results of a computation, which two libraries round differently."""
    return np.round(raw(value).astype(np.float64), 4).tolist()


# -- to_module --------------------------------------------------------------------------------------


@settings(max_examples=25)
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


@settings(max_examples=10)
@given(SIZES, st.booleans())
def test_identities_after_the_block(sizes, lock):
    def program(lib):
        module = net(lib, sizes)
        before = dict(module.named_parameters())
        params = lib.TD.from_module(net(lib, sizes), lock=lock)
        leaves = dict(params.flatten_keys(".").items())
        with params.to_module(module) as swap:
            inside = all(p is leaves[name] for name, p in module.named_parameters())
            swapped = all(p is before[name] for name, p in swap.flatten_keys(".").items())
            with lib.TD.from_module(net(lib, sizes)).to_module(module):
                pass
            inside = inside and all(p is leaves[name] for name, p in module.named_parameters())
        return inside, swapped, all(p is before[name] for name, p in module.named_parameters())

    assert same(program) == (True, True, True)


@compared
def test_shared_layers(lib):
    module = net(lib, [2, 2], shared=True)
    params = lib.TD.from_module(module).data + 1
    with params.to_module(module) as swap:
        tied = module[0].weight is module[2].weight
        inside = raw(module(lib.ones(2))).tolist()
        held = swap["0", "weight"] is swap["2", "weight"]
    return tied, inside, held, raw(module(lib.ones(2))).tolist()


@pytest.mark.parametrize("preserve", [True, False])
@pytest.mark.parametrize("inplace", [None, True])
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


@pytest.mark.parametrize("content", [{"nothing": 1.0}, {"0": {"nothing": 1.0}}, {"7": {"weight": 1.0}}])
def test_names_the_module_lacks(content):
    def program(lib):
        return lib.TD(content).to_module(net(lib, [2, 3])) and None

    assert same(program) == "KeyError"


def test_options():
    def program(lib):
        module = net(lib, [2, 3])
        params = lib.TD.from_module(module)
        nothing = params.to_module(module, return_swap=False)
        dest = lib.TD.from_module(module).copy()
        into = params.to_module(module, swap_dest=dest) is dest
        try:
            params.to_module(module, use_state_dict=True, inplace=True)
        except RuntimeError as err:
            return nothing, into, type(err).__name__
        return None

    assert same(program) == (None, True, "RuntimeError")


def test_assigned_values_flow_back():
    def program(lib):
        module = Running(lib)
        params = lib.TD.from_module(module).data.clone()
        with params.to_module(module):
            module(lib.ones(1))
        return raw(params["steps"]).tolist(), raw(module.steps).tolist()

    assert same(program) == ([1], [0])


@compared
def test_meta_modules(lib):
    full, meta = lib.nn.Linear(3, 4), lib.nn.Linear(3, 4, device="meta")
    fill(lib, [full])
    with lib.TD.from_module(full).to_module(meta):
        out = raw(meta(lib.ones(3))).tolist()
    return out, meta.weight.is_meta


@compared
def test_detached_leaves(lib):
    module = net(lib, [2, 3])
    params = lib.TD.from_module(module).detach()
    count = len(list(module.parameters()))
    with params.to_module(module):
        return count == len(list(module.parameters())), [n for n, _ in module.named_parameters()]


# -- differences on purpose -------------------------------------------------------------------------


def test_a_module_is_restored_when_the_body_raises():
    def program(lib):
        module = net(lib, [2, 3])
        weight = module[0].weight
        with pytest.raises(ValueError, match="body"), lib.TD.from_module(net(lib, [2, 3])).to_module(module):
            raise ValueError("body")
        return module[0].weight is weight

    assert outcome(program, LITE) is True
    assert outcome(program, TORCH) is False


def test_sources_keep_their_kinds():
    def program(lib):
        module = net(lib, [2, 3])
        params = lib.TD.from_module(module).data
        with params.to_module(module):
            module(lib.ones(2))
        return kind(lib, params["0", "weight"])

    assert outcome(program, LITE) == "array"
    assert outcome(program, TORCH) == "param"
