"""Functional parameters against tensordict: from_module, from_modules, EnsembleModule, and what differs.



Differences on purpose, each with a test: a module is restored when the body raises, and sources keep their
kinds (`test_to_module.py`); `extract_weights_and_buffers` works (here).
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.functional import LITE, QUIET, SIZES, TORCH, Running, compared, fill, kind, net, raw, same, tree

import lite
import lite.nn

pytestmark = QUIET


# -- from_module ------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(SIZES, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
@compared
def test_from_module(lib, sizes, bias, shared, lock, as_module, filter_empty):
    module = net(lib, sizes, bias, shared)
    params = lib.TD.from_module(module, as_module, lock, False, filter_empty)
    identical = all(leaf is module.get_parameter(".".join(key)) for key, leaf in params.items(True, True))
    return tree(lib, params), identical, type(params).__name__, sorted(params.keys(True), key=str)


@compared
def test_from_module_by_state_dict(lib):
    module = lib.nn.Sequential(net(lib, [2, 3]), Running(lib))
    calls = []
    module[1].register_state_dict_pre_hook(lambda m, prefix, keep: calls.append((prefix, keep)))
    params = lib.TD.from_module(module, use_state_dict=True)
    flat = params.flatten_keys(".")
    shares = flat["1.steps"].__array__().ctypes.data == raw(module[1].steps).ctypes.data
    return tree(lib, params), calls, sorted(flat.keys()) == sorted(module.state_dict()), shares


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


@settings(max_examples=20)
@given(SIZES, st.integers(1, 3), st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
@compared
def test_from_modules(lib, sizes, n, lock, as_module, lazy, expand, state):
    modules = [net(lib, sizes) for _ in range(n)]
    params = lib.TD.from_modules(
        *modules,
        lock=lock,
        as_module=as_module,
        lazy_stack=lazy,
        expand_identical=expand,
        use_state_dict=state,
    )
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

    same(program)

    def sizes(lib):
        params = lib.TD.from_modules(net(lib, [2, 3]), net(lib, [2, 4]), **options)
        return tuple(params.batch_size), tuple(params[1]["0", "weight"].shape)

    same(sizes)


@compared
def test_expanded(lib):
    shared = lib.nn.Linear(2, 2)
    fill(lib, [shared])
    modules = [lib.nn.Sequential(shared, net(lib, [2, 1])) for _ in range(3)]
    params = lib.TD.from_modules(*modules, expand_identical=True)
    weight = params["0", "weight"]
    strides = weight.strides if lib is LITE else tuple(4 * s for s in weight.stride())
    same_memory = raw(weight).ctypes.data == raw(shared.weight).ctypes.data
    return tree(lib, params), strides, same_memory


def test_no_modules():
    assert same(lambda lib: lib.TD.from_modules()) == "RuntimeError"


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

    assert same(program) == "ValueError"
    assert same(lambda lib: ensemble(lib, [2, 1], 3, True, ("a", "b")).reset_parameters_recursive()) == (
        "ValueError"
    )


@pytest.mark.parametrize("name", ["make_functional", "get_functional", "is_functional", "repopulate_module"])
def test_removed_functions_raise(name):
    arguments = 2 if name == "repopulate_module" else 1
    assert same(lambda lib: getattr(lib.tdnn, name)(*[net(lib, [1, 1])] * arguments)) == "RuntimeError"


def test_extract_weights_and_buffers_works_here():
    from tensordict.nn.functional_modules import extract_weights_and_buffers

    with pytest.raises(RuntimeError, match="removed"):
        extract_weights_and_buffers(net(TORCH, [2, 3]))
    assert list(lite.nn.extract_weights_and_buffers(net(LITE, [2, 3])).keys()) == ["0"]
