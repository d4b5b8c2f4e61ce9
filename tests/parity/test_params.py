"""TensorDictParams against tensordict: kinds, names, locks, hooks, state dicts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.functional import QUIET, compared, kind, raw, same

pytestmark = QUIET


DTYPES = ["float16", "float32", "float64", "int64", "bool", "complex64"]


@given(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=4), st.sampled_from([False, True, "skip"]))
@settings(max_examples=30)
@compared
def test_kinds_after_construction(lib, dtypes, no_convert):
    entries = {f"k{i}": lib.ones(2, dtype=dtype) for i, dtype in enumerate(dtypes)}
    td = lib.TD({**entries, "n": lib.TD({"p": lib.nn.Parameter(lib.ones(1))})})
    params = lib.tdnn.TensorDictParams(td, no_convert=no_convert)
    params["n", "late"] = lib.ones(1)
    params.set("later", lib.ones(1, dtype=np.int64))
    return (
        [name for name, _ in params.named_parameters()],
        sorted(name for name, _ in params.named_buffers()),
        list(params.state_dict()),
    )


def test_constructor_arguments():
    same(lambda lib: sorted(lib.tdnn.TensorDictParams(a=lib.ones(1), b=lib.ones(2)).keys()))
    same(lambda lib: sorted(lib.tdnn.TensorDictParams({"a": lib.ones(1)}).keys()))
    assert same(lambda lib: lib.tdnn.TensorDictParams(lib.TD(), a=1)) == "TypeError"

    def copies(lib):
        params = lib.tdnn.TensorDictParams(lib.TD({"a": lib.ones(1)}))
        again = lib.tdnn.TensorDictParams(params)
        return again["a"] is params["a"], [name for name, _ in again.named_parameters()]

    same(copies)


def make(lib, lock=False):
    td = lib.TD({"a": lib.ones(2), "n": {"b": lib.ones(3)}, "i": lib.ones(2, dtype=np.int64)})
    return lib.tdnn.TensorDictParams(td, lock=lock)


def parent(lib, params):
    module = lib.nn.Module()
    module.params = params
    return module


@pytest.mark.parametrize("lock", [True, False])
@compared
def test_names_assignment_and_locks(lib, lock):
    params = make(lib, lock)
    module = parent(lib, params)
    seen = [[name for name, _ in module.named_parameters()], params.is_locked]
    params["c"] = lib.ones(1)
    params["n", "d"] = lib.ones(1)
    seen.append([name for name, _ in module.named_parameters()])
    del params["c"]
    seen.append([name for name, _ in module.named_parameters()])
    params.lock_()
    for write in (
        lambda: params.set("x", lib.ones(1)),
        lambda: params.update({"x": lib.ones(1)}),
        lambda: params.del_("a"),
    ):
        try:
            write()
        except RuntimeError:
            seen.append("locked")
    return seen


@compared
def test_tied_wrappers(lib):
    td = lib.TD({"a": lib.ones(2)})
    module = parent(lib, lib.tdnn.TensorDictParams(td))
    module.again = lib.tdnn.TensorDictParams(td)
    return [name for name, _ in module.named_parameters()], list(module.state_dict())


def test_get_hooks():
    def program(lib):
        params = make(lib)
        params.register_get_post_hook(lambda self, leaf: leaf * 2)
        read = [
            params["a"], params.get("a"), params["n", "b"], dict(params.items())["a"],
            next(params.values()),
        ]  # fmt: skip
        return [raw(value).tolist() for value in read]

    same(program)
    assert same(lambda lib: make(lib).register_get_post_hook(1)) == "ValueError"


@compared
def test_clones(lib):
    tied = lib.nn.Parameter(lib.ones(2), requires_grad=False)
    params = lib.tdnn.TensorDictParams(
        lib.TD({"a": tied, "n": {"b": tied}, "i": lib.ones(1, dtype=np.int64)})
    )
    found = []
    for other in (params.clone(), params.copy()):
        found.append((type(other).__name__, [name for name, _ in other.named_parameters()]))
        found.append((other["a"] is other["n", "b"], other["a"] is tied, other["a"].requires_grad))
    return found


@compared
def test_results_of_operations(lib):
    td = lib.TD({"a": lib.ones(2, 3)}, batch_size=[2])
    params = lib.tdnn.TensorDictParams(td)
    results = [
        params.expand(4, 2),
        params.apply(lambda x: x + 1),
        params.unsqueeze(0),
        params.select("a"),
        params.detach(),
        params.to_tensordict(),
        params.data,
        params.half(),
    ]
    return [(type(r).__name__, tuple(r.batch_size), kind(lib, r["a"])) for r in results]


@compared
def test_casts_of_the_parent(lib):
    module = parent(lib, make(lib))
    leaf = module.params["a"]
    found = []
    for cast in ("half", "double", "float"):
        getattr(module, cast)()
        found.append([str(raw(p).dtype) for p in module.params.values(True, True)])
    return found, module.params["a"] is leaf


@compared
def test_value_operations(lib):
    params = make(lib)
    leaf = params["a"]
    found = [params.zero_() is params, raw(leaf).tolist()]
    found += [params.fill_("a", 3) is params, raw(leaf).tolist()]
    found += [params.copy_(make(lib).data) is params, raw(leaf).tolist()]
    params.apply_(lambda x: x * 5)
    found += [raw(leaf).tolist(), params["a"] is leaf, kind(lib, params["a"])]
    return found


@pytest.mark.parametrize("detach", [True, False])
@compared
def test_state_dicts(lib, detach):
    params = make(lib)
    if detach:
        params = lib.tdnn.TensorDictParams(params.data, no_convert=True)
    module = parent(lib, params)
    leaf = params["a"]
    state = module.state_dict()
    zeros = {name: value * 0 for name, value in state.items()}
    result = module.load_state_dict(zeros)
    flat = {name.removeprefix("params."): value + 2 for name, value in zeros.items()}
    params.load_state_dict(flat)
    return list(state), list(result), raw(leaf).tolist(), params["a"] is leaf, kind(lib, leaf)


def test_missing_state():
    def program(lib):
        module = lib.nn.Module()
        module.params, module.layer = make(lib), lib.nn.Linear(1, 1)
        state = {name: v for name, v in module.state_dict().items() if not name.startswith("params.")}
        missing = sorted(module.load_state_dict(state, strict=False).missing_keys)
        try:
            module.load_state_dict(state)
        except RuntimeError:
            return missing
        return None

    same(program)
    assert same(lambda lib: make(lib).load_state_dict({"a": lib.ones(2)})) == "RuntimeError"


@compared
def test_params_into_params(lib):
    module = parent(lib, make(lib))
    other = lib.TD.from_module(parent(lib, make(lib))).data * 3
    with other.to_module(module):
        inside = raw(module.params["a"]).tolist()
    with (make(lib).data * 4).to_module(module.params):
        alone = raw(module.params["a"]).tolist()
    return inside, alone, raw(module.params["a"]).tolist()


@pytest.mark.parametrize("name", ["map", "memmap_"])
def test_what_params_refuse(name):
    assert same(
        lambda lib: getattr(make(lib), name)(lambda x: x) if name == "map" else make(lib).memmap_()
    ) == ("RuntimeError")


def test_calling_params():
    assert same(lambda lib: make(lib)(1)) == "NotImplementedError"


def test_a_tensordict_as_buffer():
    def program(lib):
        module = lib.nn.Module()
        module.register_buffer("td", lib.TD({"a": lib.ones(2), "n": {"b": lib.ones(2)}}))
        found = []
        for cast in ("double", "float", "half"):
            getattr(module, cast)()
            found.append({str(raw(leaf).dtype) for leaf in module.td.values(True, True)})
        return found

    assert same(program) == [{"float64"}, {"float32"}, {"float16"}]
