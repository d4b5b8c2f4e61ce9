"""Functional parameters against tensordict: from_module(s), to_module, TensorDictParams, EnsembleModule.

Rows of the checklist of reference tests, and where they are:

| reference test | here |
|---|---|
| TestTDParams.test_td_params | test_names_assignment_and_locks |
| test_constructors | test_kinds_after_construction, test_constructor_arguments |
| test_td_params_cast | test_casts_of_the_parent |
| test_td_params_tying | test_tied_wrappers |
| test_td_params_post_hook | test_get_hooks |
| test_tdparams_clone, test_tdparams_clone_tying | test_clones |
| test_func_on_tdparams | test_params_into_params |
| test_load_state_dict, test_load_state_dict_missing_entries, TestStateDict.test_sd_params, test_sd_module | \
test_state_dicts, test_missing_state |
| test_inplace_ops | test_value_operations |
| TestToModule.test_plain_tensor_to_module_preserves..., test_preserve_module_state_with_custom_setattr | \
test_kinds_in_the_module |
| test_static, test_cm | test_swaps_restore, test_shared_layers |
| test_cm_meta | test_meta_modules |
| test_params_detach | test_detached_leaves |
| TestEnsemble.* | test_ensembles |
| test_module_buffer | test_a_tensordict_as_buffer |
| GE test_from_module, test_from_module_state_dict | test_from_module, test_from_module_by_state_dict |
| GE test_from_modules, test_from_modules_expand | test_from_modules, test_expanded |
| FT test_vmap_names and the other vmap rows | tests of vmap |

Differences on purpose, each with a test at the end: a module is restored when the body raises; sources keep
their kinds; `extract_weights_and_buffers` works.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the parity extra: torch")
tensordict = pytest.importorskip("tensordict", reason="needs the parity extra: tensordict")
reference = pytest.importorskip("tensordict.nn", reason="needs the parity extra: tensordict")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import lite  # noqa: E402
import lite.nn  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


class Lib:
    """One of the two libraries under common names."""

    def __init__(self, base: Any, nn: Any, tdnn: Any, array: Any) -> None:
        self.base, self.nn, self.tdnn, self.array = base, nn, tdnn, array
        self.TD = base.TensorDict

    def ones(self, *shape: int, dtype: Any = np.float32) -> Any:
        return self.array(np.ones(shape, dtype))

    def is_param(self, value: Any) -> bool:
        return isinstance(value, self.nn.Parameter)


LITE = Lib(lite, lite.nn, lite.nn, lambda a: a)
TORCH = Lib(tensordict, torch.nn, reference, torch.from_numpy)
LIBS = (LITE, TORCH)

SIZES = st.lists(st.integers(1, 4), min_size=2, max_size=4)


def net(lib: Lib, sizes: list[int], bias: bool = True, shared: bool = False) -> Any:
    """A stack of Linear layers with the same weights in both libraries."""
    layers = [lib.nn.Linear(n, m, bias=bias) for n, m in itertools.pairwise(sizes)]
    fill(lib, layers)
    modules: list[Any] = []
    for layer in layers:
        modules += [layer, lib.nn.ReLU()]
    if shared:
        modules += [layers[0]]
    return lib.nn.Sequential(*modules)


def fill(lib: Lib, modules: list[Any], seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for module in modules:
        for _, param in module.named_parameters():
            values = rng.normal(size=tuple(param.shape)).astype(np.float32)
            if lib is LITE:
                param.data[...] = values
            else:
                param.data.copy_(torch.from_numpy(values))


def raw(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(value.detach() if isinstance(value, torch.Tensor) else getattr(value, "data", value))


def kind(lib: Lib, value: Any) -> str:
    return "param" if lib.is_param(value) else "array"


def numbers(value: Any) -> Any:
    """Results of a computation, which two libraries round differently."""
    return np.round(raw(value).astype(np.float64), 4).tolist()


def tree(lib: Lib, td: Any) -> Any:
    """Keys in order, with kinds, shapes, dtypes and values."""
    found = []
    for key, leaf in td.items(True, True):
        array = raw(leaf)
        found.append((key, kind(lib, leaf), array.shape, str(array.dtype), array.tolist()))
    return tuple(td.batch_size), td.is_locked, found


def outcome(function: Any, lib: Lib) -> Any:
    try:
        return function(lib)
    except Exception as err:
        # NumPy and torch differ in the class for a shape that does not fit; lite's container errors do not.
        return type(err).__name__


def same(function: Any) -> Any:
    mine, theirs = (outcome(function, lib) for lib in LIBS)
    assert mine == theirs
    return mine


class Running:
    """A module with a buffer that each call assigns anew, for either library."""

    def __new__(cls, lib: Lib) -> Any:
        class Module(lib.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.scale = lib.nn.Parameter(lib.ones(1))
                self.register_buffer("steps", lib.array(np.zeros(1, np.int64)))
                self.register_buffer("scratch", lib.ones(1), persistent=False)

            def forward(self, x: Any) -> Any:
                self.steps = self.steps + 1
                return x * self.scale

        return Module()


# -- from_module ------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(SIZES, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_from_module(
    sizes: Any, bias: bool, shared: bool, lock: bool, as_module: bool, filter_empty: bool
) -> None:
    def program(lib: Lib) -> Any:
        module = net(lib, sizes, bias, shared)
        params = lib.TD.from_module(module, as_module, lock, False, filter_empty)
        identical = all(leaf is module.get_parameter(".".join(key)) for key, leaf in params.items(True, True))
        return tree(lib, params), identical, type(params).__name__, sorted(params.keys(True), key=str)

    same(program)


def test_from_module_by_state_dict() -> None:
    def program(lib: Lib) -> Any:
        module = lib.nn.Sequential(net(lib, [2, 3]), Running(lib))
        calls: list[Any] = []
        module[1].register_state_dict_pre_hook(lambda m, prefix, keep: calls.append((prefix, keep)))
        params = lib.TD.from_module(module, use_state_dict=True)
        flat = params.flatten_keys(".")
        shares = flat["1.steps"].__array__().ctypes.data == raw(module[1].steps).ctypes.data
        return tree(lib, params), calls, sorted(flat.keys()) == sorted(module.state_dict()), shares

    same(program)


def test_free_functions_lock() -> None:
    def program(lib: Lib) -> Any:
        module = net(lib, [2, 3])
        return (
            lib.base.from_module(module).is_locked,
            lib.base.from_modules(module, module).is_locked,
            lib.TD.from_module(module).is_locked,
            lib.TD.from_modules(module, module, lock=False).is_locked,
        )

    same(program)


# -- from_modules -----------------------------------------------------------------------------------


@settings(max_examples=20)
@given(SIZES, st.integers(1, 3), st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_from_modules(
    sizes: Any, n: int, lock: bool, as_module: bool, lazy: bool, expand: bool, state: bool
) -> None:
    def program(lib: Lib) -> Any:
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

    same(program)


@pytest.mark.parametrize("options", [{}, {"expand_identical": True}, {"lazy_stack": True}])
def test_modules_that_differ(options: Any) -> None:
    def program(lib: Lib) -> Any:
        return tuple(
            lib.TD.from_modules(net(lib, [2, 3]), net(lib, [2, 3], bias=False), **options).batch_size
        )

    same(program)

    def sizes(lib: Lib) -> Any:
        params = lib.TD.from_modules(net(lib, [2, 3]), net(lib, [2, 4]), **options)
        return tuple(params.batch_size), tuple(params[1]["0", "weight"].shape)

    same(sizes)


def test_expanded() -> None:
    def program(lib: Lib) -> Any:
        shared = lib.nn.Linear(2, 2)
        fill(lib, [shared])
        modules = [lib.nn.Sequential(shared, net(lib, [2, 1])) for _ in range(3)]
        params = lib.TD.from_modules(*modules, expand_identical=True)
        weight = params["0", "weight"]
        strides = weight.strides if lib is LITE else tuple(4 * s for s in weight.stride())
        same_memory = raw(weight).ctypes.data == raw(shared.weight).ctypes.data
        return tree(lib, params), strides, same_memory

    same(program)


def test_no_modules() -> None:
    assert same(lambda lib: lib.TD.from_modules()) == "RuntimeError"


# -- to_module --------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(SIZES, st.booleans(), st.booleans(), st.sampled_from([None, False, True]), st.booleans())
def test_swaps_restore(sizes: Any, plain: bool, preserve: bool, inplace: Any, with_block: bool) -> None:
    def program(lib: Lib) -> Any:
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

    same(program)


@settings(max_examples=10)
@given(SIZES, st.booleans())
def test_identities_after_the_block(sizes: Any, lock: bool) -> None:
    def program(lib: Lib) -> Any:
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


def test_shared_layers() -> None:
    def program(lib: Lib) -> Any:
        module = net(lib, [2, 2], shared=True)
        params = lib.TD.from_module(module).data + 1
        with params.to_module(module) as swap:
            tied = module[0].weight is module[2].weight
            inside = raw(module(lib.ones(2))).tolist()
            held = swap["0", "weight"] is swap["2", "weight"]
        return tied, inside, held, raw(module(lib.ones(2))).tolist()

    same(program)


@pytest.mark.parametrize("preserve", [True, False])
@pytest.mark.parametrize("inplace", [None, True])
def test_kinds_in_the_module(preserve: bool, inplace: Any) -> None:
    def program(lib: Lib) -> Any:
        class Custom(lib.nn.Module):  # type: ignore[misc, name-defined]
            def __setattr__(self, name: str, value: Any) -> None:
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

    same(program)


@pytest.mark.parametrize(
    "content",
    [{"nothing": 1.0}, {"0": {"nothing": 1.0}}, {"7": {"weight": 1.0}}],
)
def test_names_the_module_lacks(content: Any) -> None:
    def program(lib: Lib) -> Any:
        return lib.TD(content).to_module(net(lib, [2, 3])) and None

    assert same(program) == "KeyError"


def test_options() -> None:
    def program(lib: Lib) -> Any:
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


def test_assigned_values_flow_back() -> None:
    def program(lib: Lib) -> Any:
        module = Running(lib)
        params = lib.TD.from_module(module).data.clone()
        with params.to_module(module):
            module(lib.ones(1))
        return raw(params["steps"]).tolist(), raw(module.steps).tolist()

    assert same(program) == ([1], [0])


def test_meta_modules() -> None:
    def program(lib: Lib) -> Any:
        full, meta = lib.nn.Linear(3, 4), lib.nn.Linear(3, 4, device="meta")
        fill(lib, [full])
        with lib.TD.from_module(full).to_module(meta):
            out = raw(meta(lib.ones(3))).tolist()
        return out, meta.weight.is_meta

    same(program)


def test_detached_leaves() -> None:
    def program(lib: Lib) -> Any:
        module = net(lib, [2, 3])
        params = lib.TD.from_module(module).detach()
        count = len(list(module.parameters()))
        with params.to_module(module):
            return count == len(list(module.parameters())), [n for n, _ in module.named_parameters()]

    same(program)


# -- TensorDictParams -------------------------------------------------------------------------------

DTYPES = ["float16", "float32", "float64", "int64", "bool", "complex64"]


@given(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=4), st.sampled_from([False, True, "skip"]))
@settings(max_examples=30)
def test_kinds_after_construction(dtypes: Any, no_convert: Any) -> None:
    def program(lib: Lib) -> Any:
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

    same(program)


def test_constructor_arguments() -> None:
    same(lambda lib: sorted(lib.tdnn.TensorDictParams(a=lib.ones(1), b=lib.ones(2)).keys()))
    same(lambda lib: sorted(lib.tdnn.TensorDictParams({"a": lib.ones(1)}).keys()))
    assert same(lambda lib: lib.tdnn.TensorDictParams(lib.TD(), a=1)) == "TypeError"

    def copies(lib: Lib) -> Any:
        params = lib.tdnn.TensorDictParams(lib.TD({"a": lib.ones(1)}))
        again = lib.tdnn.TensorDictParams(params)
        return again["a"] is params["a"], [name for name, _ in again.named_parameters()]

    same(copies)


def make(lib: Lib, lock: bool = False) -> Any:
    td = lib.TD({"a": lib.ones(2), "n": {"b": lib.ones(3)}, "i": lib.ones(2, dtype=np.int64)})
    return lib.tdnn.TensorDictParams(td, lock=lock)


def parent(lib: Lib, params: Any) -> Any:
    module = lib.nn.Module()
    module.params = params
    return module


@pytest.mark.parametrize("lock", [True, False])
def test_names_assignment_and_locks(lock: bool) -> None:
    def program(lib: Lib) -> Any:
        params = make(lib, lock)
        module = parent(lib, params)
        seen: list[Any] = [[name for name, _ in module.named_parameters()], params.is_locked]
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

    same(program)


def test_tied_wrappers() -> None:
    def program(lib: Lib) -> Any:
        td = lib.TD({"a": lib.ones(2)})
        module = parent(lib, lib.tdnn.TensorDictParams(td))
        module.again = lib.tdnn.TensorDictParams(td)
        return [name for name, _ in module.named_parameters()], list(module.state_dict())

    same(program)


def test_get_hooks() -> None:
    def program(lib: Lib) -> Any:
        params = make(lib)
        params.register_get_post_hook(lambda self, leaf: leaf * 2)
        read = [
            params["a"],
            params.get("a"),
            params["n", "b"],
            dict(params.items())["a"],
            next(params.values()),
        ]
        return [raw(value).tolist() for value in read]

    same(program)
    assert same(lambda lib: make(lib).register_get_post_hook(1)) == "ValueError"


def test_clones() -> None:
    def program(lib: Lib) -> Any:
        tied = lib.nn.Parameter(lib.ones(2), requires_grad=False)
        params = lib.tdnn.TensorDictParams(
            lib.TD({"a": tied, "n": {"b": tied}, "i": lib.ones(1, dtype=np.int64)})
        )
        found = []
        for other in (params.clone(), params.copy()):
            found.append((type(other).__name__, [name for name, _ in other.named_parameters()]))
            found.append((other["a"] is other["n", "b"], other["a"] is tied, other["a"].requires_grad))
        return found

    same(program)


def test_results_of_operations() -> None:
    def program(lib: Lib) -> Any:
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

    same(program)


def test_casts_of_the_parent() -> None:
    def program(lib: Lib) -> Any:
        module = parent(lib, make(lib))
        leaf = module.params["a"]
        found = []
        for cast in ("half", "double", "float"):
            getattr(module, cast)()
            found.append([str(raw(p).dtype) for p in module.params.values(True, True)])
        return found, module.params["a"] is leaf

    same(program)


def test_value_operations() -> None:
    def program(lib: Lib) -> Any:
        params = make(lib)
        leaf = params["a"]
        found = [params.zero_() is params, raw(leaf).tolist()]
        found += [params.fill_("a", 3) is params, raw(leaf).tolist()]
        found += [params.copy_(make(lib).data) is params, raw(leaf).tolist()]
        params.apply_(lambda x: x * 5)
        found += [raw(leaf).tolist(), params["a"] is leaf, kind(lib, params["a"])]
        return found

    same(program)


@pytest.mark.parametrize("detach", [True, False])
def test_state_dicts(detach: bool) -> None:
    def program(lib: Lib) -> Any:
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

    same(program)


def test_missing_state() -> None:
    def program(lib: Lib) -> Any:
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


def test_params_into_params() -> None:
    def program(lib: Lib) -> Any:
        module = parent(lib, make(lib))
        other = lib.TD.from_module(parent(lib, make(lib))).data * 3
        with other.to_module(module):
            inside = raw(module.params["a"]).tolist()
        with (make(lib).data * 4).to_module(module.params):
            alone = raw(module.params["a"]).tolist()
        return inside, alone, raw(module.params["a"]).tolist()

    same(program)


@pytest.mark.parametrize("name", ["map", "memmap_"])
def test_what_params_refuse(name: str) -> None:
    assert same(
        lambda lib: getattr(make(lib), name)(lambda x: x) if name == "map" else make(lib).memmap_()
    ) == ("RuntimeError")


def test_calling_params() -> None:
    assert same(lambda lib: make(lib)(1)) == "NotImplementedError"


def test_a_tensordict_as_buffer() -> None:
    def program(lib: Lib) -> Any:
        module = lib.nn.Module()
        module.register_buffer("td", lib.TD({"a": lib.ones(2), "n": {"b": lib.ones(2)}}))
        found = []
        for cast in ("double", "float", "half"):
            getattr(module, cast)()
            found.append({str(raw(leaf).dtype) for leaf in module.td.values(True, True)})
        return found

    assert same(program) == [{"float64"}, {"float32"}, {"float16"}]


# -- EnsembleModule ---------------------------------------------------------------------------------


def ensemble(lib: Lib, sizes: list[int], n: int, expand: bool, keys: tuple[str, str]) -> Any:
    module = lib.tdnn.TensorDictModule(net(lib, sizes), in_keys=[keys[0]], out_keys=[keys[1]])
    out = lib.tdnn.EnsembleModule(module, n, expand)
    fill(lib, [out.params_td])
    return out


@settings(max_examples=10)
@given(st.integers(1, 4), st.integers(1, 3))
def test_ensembles(n: int, width: int) -> None:
    def program(lib: Lib) -> Any:
        first = ensemble(lib, [2, width], n, True, ("a", "b"))
        second = ensemble(lib, [width, 1], n, False, ("b", "c"))
        td = lib.TD({"a": lib.ones(5, 2), "other": lib.ones(5)}, batch_size=[5])
        out = lib.tdnn.TensorDictSequential(first, second)(td)
        values = {
            key: np.round(raw(out[key]).astype(np.float64), 4).tolist() for key in ("a", "b", "c", "other")
        }
        names = [name for name, _ in first.named_parameters()]
        return tuple(out.batch_size), values, names, sorted(td.keys())

    same(program)


def test_wrong_sizes_of_ensembles() -> None:
    def program(lib: Lib) -> Any:
        td = lib.TD({"a": lib.ones(5, 2)}, batch_size=[5])
        return ensemble(lib, [2, 1], 3, False, ("a", "b"))(td)

    assert same(program) == "ValueError"
    assert same(lambda lib: ensemble(lib, [2, 1], 3, True, ("a", "b")).reset_parameters_recursive()) == (
        "ValueError"
    )


# -- differences on purpose -------------------------------------------------------------------------


def test_a_module_is_restored_when_the_body_raises() -> None:
    def program(lib: Lib) -> Any:
        module = net(lib, [2, 3])
        weight = module[0].weight
        with pytest.raises(ValueError, match="body"), lib.TD.from_module(net(lib, [2, 3])).to_module(module):
            raise ValueError("body")
        return module[0].weight is weight

    assert outcome(program, LITE) is True
    assert outcome(program, TORCH) is False


def test_sources_keep_their_kinds() -> None:
    def program(lib: Lib) -> Any:
        module = net(lib, [2, 3])
        params = lib.TD.from_module(module).data
        with params.to_module(module):
            module(lib.ones(2))
        return kind(lib, params["0", "weight"])

    assert outcome(program, LITE) == "array"
    assert outcome(program, TORCH) == "param"


@pytest.mark.parametrize("name", ["make_functional", "get_functional", "is_functional", "repopulate_module"])
def test_removed_functions_raise(name: str) -> None:
    arguments = 2 if name == "repopulate_module" else 1
    assert same(lambda lib: getattr(lib.tdnn, name)(*[net(lib, [1, 1])] * arguments)) == "RuntimeError"


def test_extract_weights_and_buffers_works_here() -> None:
    from tensordict.nn.functional_modules import extract_weights_and_buffers

    with pytest.raises(RuntimeError, match="removed"):
        extract_weights_and_buffers(net(TORCH, [2, 3]))
    assert list(lite.nn.extract_weights_and_buffers(net(LITE, [2, 3])).keys()) == ["0"]
