"""Rows of the checklist of reference tests on TensorDictModule and its kin, one test each.

Every case is written once and run with both libraries; what it returns, or the class of what it raises, must
be equal. `test_checklist.py` maps all rows to tests.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import MutableSequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the parity extra: torch")
tensordict = pytest.importorskip("tensordict", reason="needs the parity extra: tensordict")
reference = pytest.importorskip("tensordict.nn", reason="needs the parity extra: tensordict")

import lite  # noqa: E402
import lite.nn  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class Lib:
    """One of the two libraries under common names."""

    def __init__(self, base: Any, layers: Any, modules: Any, array: Any) -> None:
        self.base, self.layers, self.modules, self.array = base, layers, modules, array
        self.TD = base.TensorDict
        self.Mod, self.Seq = modules.TensorDictModule, modules.TensorDictSequential

    def zeros(self, *shape: int) -> Any:
        return self.array(np.zeros(shape, np.float32))

    def ones(self, *shape: int) -> Any:
        return self.array(np.ones(shape, np.float32))

    def raw(self, parameter: Any) -> np.ndarray:
        return np.array(parameter.detach() if self is TORCH else parameter)


LITE = Lib(lite, lite.nn, lite.nn, lambda array: array)
TORCH = Lib(tensordict, torch.nn, reference, torch.from_numpy)


def plain(value: Any) -> Any:
    """Arrays, tensors, TensorDicts and modules' keys as comparable Python values."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if hasattr(value, "batch_size"):
        keys = sorted(value.keys(True, True), key=str)
        return tuple(value.batch_size), {str(key): plain(value.get(key)) for key in keys}
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        array = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
        return str(array.dtype), array.shape, np.round(array.astype(float), 4).tolist()
    return value


def agree(case: Any) -> None:
    results = []
    for lib in (LITE, TORCH):
        try:
            results.append(plain(case(lib)))
        except Exception as error:
            results.append(type(error))
    assert results[0] == results[1]


class Keys(MutableSequence[Any]):
    """A list of another class."""

    def __init__(self, *keys: Any) -> None:
        self.keys = list(keys)

    def __getitem__(self, i: Any) -> Any:
        return self.keys[i]

    def __setitem__(self, i: Any, value: Any) -> None:
        self.keys[i] = value

    def __delitem__(self, i: Any) -> None:
        del self.keys[i]

    def __len__(self) -> int:
        return len(self.keys)

    def insert(self, i: int, value: Any) -> None:
        self.keys.insert(i, value)


# -- TensorDictModule ------------------------------------------------------------------------------


def test_module_method_and_kwargs() -> None:
    class Payload:
        def add(self, x: Any, number: int) -> Any:
            return x + number

    def case(lib: Any) -> Any:
        seq = lib.Seq(
            {
                "first": lambda td: td.set("x", td["x"] + 1),
                "method": lib.Mod(Payload(), ["x"], ["y"], method="add", method_kwargs={"number": 2}),
                "last": lambda td: td.set("y", td["y"] + 1),
            }
        )
        return seq(lib.TD({"x": lib.zeros()}, []))["y"]

    agree(case)
    assert LITE.Mod(Payload(), ["x"], ["y"], method="add", method_kwargs={"number": 4})(x=np.zeros(())) == 4


def test_repr() -> None:
    def function(x: Any) -> Any:
        return x

    def case(lib: Any) -> Any:
        texts = [
            repr(lib.Mod(lib.layers.Linear(1, 2), ["a"], ["b"])),
            repr(lib.Mod(function, [("a", "b")], ["c"])),
            repr(lib.Seq(lib.Mod(function, ["a"], ["b"]), lib.Mod(lib.layers.ReLU(), ["b"], ["c"]))),
        ]
        assert not any("device=" in text for text in texts)
        return texts

    agree(case)


@pytest.mark.parametrize("keys", [("a",), ("a", "b"), ("a", ("b", "c"))])
def test_mutable_sequence(keys: Any) -> None:
    def case(lib: Any) -> Any:
        module = lib.Mod(lambda *xs: tuple(xs), Keys(*keys), Keys(*[f"o{i}" for i in range(len(keys))]))
        return list(module.in_keys), list(module.out_keys)

    agree(case)


def test_auto_unravel() -> None:
    def case(lib: Any) -> Any:
        class OnClass(lib.modules.TensorDictModuleBase):  # type: ignore[name-defined]
            in_keys = [("a",), ("b", ("c",))]  # noqa: RUF012
            out_keys = ["d", ("e", (("f",),))]  # noqa: RUF012

        class Before(lib.modules.TensorDictModuleBase):  # type: ignore[name-defined]
            def __init__(self) -> None:
                self.in_keys = [("a",), ("b", ("c",))]
                self.out_keys = [("d", ("e",))]
                super().__init__()

        assigned = lib.Mod(lambda x: x, ["x"], ["y"])
        assigned.in_keys = [("a", ("b", "c"))]
        assigned.out_keys = [("d",)]
        made = lib.Mod(lambda x: x, [("a", ("b",))], [(("c",), "d")])
        modules = [OnClass(), OnClass(), Before(), assigned, made]
        return [[list(m.in_keys), list(m.out_keys)] for m in modules]

    agree(case)


@pytest.mark.parametrize(
    "keys",
    [
        {"x": "a", "y": "b"},
        {"x": "a", "y": ("n", "c")},
        {"x": ("n", ("c",)), "y": ("n", ("m", ("d",)))},
        {"x": "a", "y": "a"},
    ],
)
def test_input_keys_dict(keys: Any) -> None:
    def case(lib: Any) -> Any:
        td = lib.TD(
            {
                "a": lib.ones(2),
                "b": 2 * lib.ones(2),
                "n": {"c": 3 * lib.ones(2), "m": {"d": 4 * lib.ones(2)}},
            },
            [2],
        )
        module = lib.Mod(lambda x, y: x - y, keys, ["out"], out_to_in_map=True)
        return list(module.in_keys), module(td)["out"]

    agree(case)


@pytest.mark.parametrize("keys", [["a", ("n", "c")], [("n", ("c",)), ("n", "m", "d")], ["a", "a"]])
def test_input_keys_list(keys: Any) -> None:
    def case(lib: Any) -> Any:
        td = lib.TD({"a": lib.ones(2), "n": {"c": 3 * lib.ones(2), "m": {"d": 4 * lib.ones(2)}}}, [2])
        return lib.Mod(lambda x, y: x - y, keys, ["out"])(td)

    agree(case)


def test_unused_out_to_in_map() -> None:
    for lib in (LITE, TORCH):
        with pytest.warns(UserWarning, match="out_to_in_map"):
            lib.Mod(lambda x: x, ["a"], ["b"], out_to_in_map=False)


@pytest.mark.parametrize(
    ("keys", "flag"),
    [
        ({"1": "x", "2": "y"}, False),
        ({"x": "1", "y": "2"}, True),
        ({"x": "1", "y": "2"}, False),
        ({"1": "x"}, True),
    ],
)
def test_input_keys_directions(keys: Any, flag: bool) -> None:
    def case(lib: Any) -> Any:
        td = lib.TD({"1": lib.ones(), "2": 2 * lib.ones()}, [])
        return lib.Mod(lambda x, *, y: x + y, keys, ["z"], out_to_in_map=flag)(td)["z"]

    agree(case)


def test_reset() -> None:
    def case(lib: Any) -> Any:
        net = lib.layers.Sequential(
            lib.layers.Linear(2, 3), lib.layers.Sequential(lib.layers.Linear(3, 4), lib.layers.ReLU())
        )
        module = lib.Seq(lib.Mod(net, ["a"], ["b"]), lib.Mod(lib.layers.Linear(4, 1), ["b"], ["c"]))
        before = {name: lib.raw(p).copy() for name, p in module.named_parameters()}
        result = module.reset_parameters_recursive()
        return result, {
            name: bool((before[name] == lib.raw(p)).any()) for name, p in module.named_parameters()
        }

    agree(case)


def test_reset_warning() -> None:
    for lib in (LITE, TORCH):
        with pytest.warns(UserWarning, match="reset_parameters"):
            lib.Mod(lib.layers.ReLU(), ["a"], ["b"]).reset_parameters_recursive()


def test_reset_functional() -> None:
    def case(lib: Any) -> Any:
        module = lib.Mod(lib.layers.Sequential(lib.layers.Linear(2, 3)), ["a"], ["b"])
        own = {name: lib.raw(p).copy() for name, p in module.named_parameters()}
        params = lib.TD.from_module(module).data.clone()
        before = params.clone()
        new = module.reset_parameters_recursive(params)
        kept = all(np.array_equal(own[name], lib.raw(p)) for name, p in module.named_parameters())
        changed = {str(k): bool((before[k] == new[k]).any()) for k in new.keys(True, True)}
        leaf = new["module", "0", "weight"]
        (leaf.data if lib is TORCH else leaf)[...] = 7
        return kept, changed, float(params["module", "0", "weight"].max())

    agree(case)


def test_reset_extra_dims() -> None:
    def case(lib: Any) -> Any:
        module = lib.Mod(lib.layers.Linear(2, 3), ["a"], ["b"])
        module.reset_parameters_recursive(lib.TD.from_module(module).expand(2, 3))

    agree(case)


def test_reset_called_once() -> None:
    def case(lib: Any) -> Any:
        calls: list[int] = []

        class Layer(lib.layers.Linear):  # type: ignore[name-defined]
            def reset_parameters(self) -> None:
                calls.append(1)

        module = lib.Mod(lib.layers.Sequential(Layer(1, 1)), ["a"], ["b"])
        calls.clear()
        module.reset_parameters_recursive()
        return len(calls)

    agree(case)


@pytest.mark.parametrize("lazy", [False, True])
def test_stateful(lazy: bool) -> None:
    def case(lib: Any) -> Any:
        module = lib.Mod(lib.layers.Linear(3, 4), ["in"], ["out"])
        td = lib.TD({"in": lib.ones(3, 3)}, [3])
        if lazy:
            td = lib.base.LazyStackedTensorDict(
                *[lib.TD({"in": lib.ones(3)}, []) for _ in range(3)], stack_dim=0
            )
        out = module(td)
        return out is td, tuple(out.batch_size), tuple(out["out"].shape), type(out).__name__

    agree(case)


def test_stateful_tensorclass() -> None:
    def case(lib: Any) -> Any:
        @lib.base.tensorclass
        class Data:
            x: Any
            y: Any = None

        data = Data(x=lib.ones(2, 3), batch_size=[2])
        out = lib.Mod(lambda x: x + 1, ["x"], ["y"])(data)
        return type(out).__name__, out.y

    agree(case)


def test_nontensor() -> None:
    def case(lib: Any) -> Any:
        one = lib.Mod(lambda s: s + "!", ["s"], ["t"])(lib.TD({"s": "a"}, []))["t"]
        stacked = lib.base.stack([lib.TD({"s": "a"}, []), lib.TD({"s": "b"}, [])])
        seen: list[Any] = []
        lib.Mod(lambda s: seen.append(list(s)) or 0, ["s"], ["_"])(stacked)
        return one, seen

    agree(case)


def test_vmap_kwargs() -> None:
    def case(lib: Any) -> Any:
        module = lib.Mod(lambda x, *, y: x + y, {"x": "1", "y": "2"}, ["z"], out_to_in_map=True)
        td = lib.TD({"1": lib.ones(10), "2": 2 * lib.ones(10)}, [10])
        vmap = torch.vmap if lib is TORCH else lite.vmap
        out = vmap(module, (0,))(td)
        return out is td, sorted(td.keys()), out

    agree(case)


def test_deepcopy() -> None:
    def case(lib: Any) -> Any:
        module = lib.Mod(lib.layers.Linear(1, 1), ["a"], ["b"])
        again = copy.deepcopy(module)
        return (
            again.module is module.module,
            again.in_keys,
            hasattr(module, "__deepcopy__"),
            module.in_features,
        )

    agree(case)


def test_keyerr_msg() -> None:
    for lib in (LITE, TORCH):
        module = lib.Mod(lib.layers.Linear(2, 3), ["a"], ["b"])
        with pytest.raises(KeyError, match="Some tensors that are necessary for the module call"):
            module(lib.TD({"c": lib.ones(2)}, []))


@pytest.mark.parametrize(
    "keys", [{"a"}, None, 1, (k for k in "a"), [1], [None], "a", ("a", "b"), ["a", ("b", "c")]]
)
def test_input(keys: Any) -> None:
    agree(lambda lib: list(lib.Mod(lambda *x: x, keys, ["b"]).in_keys))


def test_method_forward() -> None:
    def case(lib: Any) -> Any:
        class Net(lib.layers.Module):  # type: ignore[name-defined]
            def forward(self, x: Any) -> Any:
                return x

            def double(self, x: Any) -> Any:  # type: ignore[override]
                return 2 * x

            def triple(self, x: Any) -> Any:
                return 3 * x

        module = lib.Mod(Net(), ["a"], ["b"])
        return module.triple(2), module.module.double(2)

    agree(case)


def test_serialization() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")

    def case(lib: Any) -> Any:
        module = lib.Seq(lib.Mod(lambda x: x + 1, ["a"], ["b"]), lib.Mod(lib.layers.ReLU(), ["b"], ["c"]))
        return pickle.loads(cloudpickle.dumps(module))(lib.TD({"a": lib.ones(2)}, [2]))

    agree(case)


# -- dispatch --------------------------------------------------------------------------------------


def test_dispatch_confusing() -> None:
    def case(lib: Any) -> Any:
        class Two(lib.modules.TensorDictModuleBase):  # type: ignore[name-defined]
            in_keys = [("a_1", "c"), ("a", "1", "d")]  # noqa: RUF012
            out_keys = ["a"]  # noqa: RUF012

            @lib.modules.dispatch  # type: ignore[misc]
            def forward(self, tensordict: Any) -> Any:
                total = tensordict["a_1", "c"] - tensordict["a", "1", "d"]
                return lib.TD({"a": total}, [])

        return Two()(a_1_c=3 * lib.ones(), a_1_d=lib.ones()), Two()(lib.ones(), a_1_d=lib.zeros())

    agree(case)


def test_dispatch_deactivate() -> None:
    def case(lib: Any) -> Any:
        module = lib.Mod(lambda x: x + 1, ["a"], ["b"])
        setting = (
            lite.nn._dispatch._set_dispatch_td_nn_modules
            if lib is LITE
            else tensordict.nn.utils._set_dispatch_td_nn_modules
        )
        with setting(False):
            try:
                module(a=lib.ones())
                off: Any = None
            except Exception as error:
                off = type(error)
        return off, module(a=lib.ones())

    agree(case)


def test_dispatch_module_with_additional_parameters() -> None:
    agree(lambda lib: lib.Mod(lambda x, scale=1: x * scale, ["a"], ["b"])(lib.ones(2), scale=3))


# -- TensorDictSequential --------------------------------------------------------------------------


def layers(lib: Any) -> Any:
    return lib.Seq(
        {
            "layer0": lib.Mod(lambda x: x + 1, ["x"], ["y"]),
            "layer1": lib.Mod(lambda x: x * 2, ["y"], ["z"]),
            "layer2": lib.Mod(lambda x: x - 3, ["x"], ["w"]),
        }
    )


def test_ordered_dict() -> None:
    def case(lib: Any) -> Any:
        first = lib.Mod(lambda x: x + 1, ["x"], ["y"])
        seq = lib.Seq({"layer0": first, "raw": lambda td: td.set("k", td["y"] + 1)})
        return seq["layer0"] is first, len(seq), seq(lib.TD({"x": lib.zeros()}, []))

    agree(case)


def test_ordered_dict_select() -> None:
    def case(lib: Any) -> Any:
        sub = layers(lib).select_subsequence(out_keys=["y", "w"])
        selected = layers(lib).select_out_keys("w", "z")(lib.TD({"x": lib.zeros()}, []))
        return list(sub.module), list(sub.in_keys), sorted(sub.out_keys), selected

    agree(case)


@pytest.mark.parametrize("selected", [None, ["w"], ["z", "y"]])
def test_key_exclusion(selected: Any) -> None:
    def case(lib: Any) -> Any:
        seq = lib.Seq(
            lib.Mod(lambda x: x + 1, ["x"], ["y"]),
            lib.Mod(lambda x: x + 1, ["y"], ["z"]),
            lib.Mod(lambda x: x + 1, ["z"], ["w"]),
            selected_out_keys=selected,
        )
        td = lib.TD({"x": lib.zeros(2), "kept": lib.ones(2)}, [2])
        return list(seq.in_keys), list(seq.out_keys), seq(td), td

    agree(case)


@pytest.mark.parametrize("selected", [None, ["w"]])
def test_tdseq_tdoutput(selected: Any) -> None:
    def case(lib: Any) -> Any:
        seq = layers(lib)
        if selected:
            seq.select_out_keys(*selected)
        td, out = lib.TD({"x": lib.zeros()}, []), lib.TD({}, [])
        returned = seq(td, tensordict_out=out)
        return returned is out, sorted(td.keys()), out

    agree(case)


@pytest.mark.parametrize("inplace", [None, True, False, "empty"])
@pytest.mark.parametrize("own", [True, False])
def test_tdseq_inplace(inplace: Any, own: bool) -> None:
    def case(lib: Any) -> Any:
        seq = lib.Seq(lib.Mod(lambda x: x + 1, ["a"], ["b"], inplace=own), inplace=inplace)
        td = lib.TD({"a": lib.zeros(2)}, [2])
        out = seq(td)
        return out is td, out, sorted(td.keys())

    agree(case)


@pytest.mark.parametrize("in_keys", [["a"], ["b"], ["a", "b"], ["c"], ["a", "c"], ["b", "d"]])
@pytest.mark.parametrize(
    "out_keys", [["e"], ["d"], ["c"], ["d", "e"], ["b", "c"], ["b"], ["c", "e"], ["b", "d"]]
)
def test_submodule_sequence_nested(in_keys: Any, out_keys: Any) -> None:
    def case(lib: Any) -> Any:
        def mods() -> list[Any]:
            chain = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")]
            return [lib.Mod(lambda x: x + 1, [i], [o]) for i, o in chain]

        m = mods()
        results = []
        for seq in (lib.Seq(*m), lib.Seq(lib.Seq(*m[:2]), lib.Seq(*m[2:]))):
            try:
                sub = seq.select_subsequence(in_keys=in_keys, out_keys=out_keys)
            except Exception as error:
                results.append(type(error))
                continue
            td = lib.TD({key: lib.zeros() for key in in_keys}, [])
            results.append([sorted(sub.in_keys), sorted(sub.out_keys), sub(td)])
        assert results[0] == results[1] or not isinstance(results[0], type)
        return results

    agree(case)


def test_subsequence_weight_update() -> None:
    def case(lib: Any) -> Any:
        first, last = (
            lib.Mod(lib.layers.Linear(1, 1), ["a"], ["b"]),
            lib.Mod(lib.layers.Linear(1, 1), ["b"], ["c"]),
        )
        seq = lib.Seq(first, last)
        sub = seq.select_subsequence(out_keys=["b"])
        seq[0].module.weight.data[...] = 3
        return len(sub), sub[0] is first, lib.raw(sub[0].module.weight)

    agree(case)


def test_stateful_list() -> None:
    def case(lib: Any) -> Any:
        mods = [lib.Mod(lib.layers.Linear(1, 1), [i], [o]) for i, o in ("ab", "bc", "cd")]
        seq = lib.Seq(*mods)
        log: list[Any] = [len(seq), seq[0] is mods[0], seq[-1] is mods[2]]
        new = lib.Mod(lib.layers.Linear(1, 1), ["c"], ["e"])
        seq[2] = new
        log += [len(seq), seq[2] is new]
        del seq[2]
        return [*log, len(seq), [m is mods[i] for i, m in enumerate(seq)]]

    agree(case)


# -- selection -------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [["c"], ["d"], ["c", "d"], [("n", "e")]])
@pytest.mark.parametrize("unpack", [True, False])
def test_selected_keys_of_a_module(keys: Any, unpack: bool) -> None:
    def case(lib: Any) -> Any:
        module = lib.Mod(lambda x: (x, x + 1, x + 2), ["a"], ["c", "d", ("n", "e")])
        td = lib.TD({"a": lib.zeros()}, [])
        module.select_out_keys(*keys) if unpack else module.select_out_keys(tuple(keys))
        first = module(td.clone())
        return first, list(module.out_keys), module(lib.zeros()), module.reset_out_keys()(td)

    agree(case)


@pytest.mark.parametrize("first_call", ["td", "arrays", "keywords"])
def test_selection_and_dispatch_in_any_order(first_call: str) -> None:
    def case(lib: Any) -> Any:
        module = lib.Mod(lambda x, y: (x + y, x - y), ["a", "b"], ["c", "d"])
        calls = {
            "td": lambda: module(lib.TD({"a": lib.ones(), "b": lib.ones()}, [])),
            "arrays": lambda: module(lib.ones(), lib.ones()),
            "keywords": lambda: module(a=lib.ones(), b=lib.ones()),
        }
        before = calls[first_call]()
        module.select_out_keys("d")
        return before, [call() for call in calls.values()]

    agree(case)


@pytest.mark.parametrize("inplace", [True, False])
def test_selection_of_a_base_class(inplace: bool) -> None:
    def case(lib: Any) -> Any:
        class Both(lib.modules.TensorDictModuleBase):  # type: ignore[name-defined]
            in_keys = ["a"]  # noqa: RUF012
            out_keys = ["b", "c"]  # noqa: RUF012

            def forward(self, tensordict: Any) -> Any:
                out = tensordict if inplace else tensordict.clone()
                return out.set("b", out["a"]).set("c", out["a"])

        first, second = Both(), Both()
        first.select_out_keys("c")
        td = lib.TD({"a": lib.zeros()}, [])
        return (
            first(td.clone()),
            second(td.clone()),
            list(first.out_keys),
            list(second.out_keys),
            list(Both().out_keys),
        )

    agree(case)


@pytest.mark.parametrize("dispatched", [True, False])
def test_selection_through_a_wrapper(dispatched: bool) -> None:
    def case(lib: Any) -> Any:
        wrapper = lib.modules.TensorDictModuleWrapper(lib.Mod(lambda x: (x, x + 1), ["a"], ["b", "c"]))
        wrapper.select_out_keys("c")
        first = wrapper(lib.zeros()) if dispatched else wrapper(lib.TD({"a": lib.zeros()}, []))
        return first, list(wrapper.out_keys), list(wrapper.reset_out_keys().out_keys)

    agree(case)


@pytest.mark.parametrize("keys", [["z"], ["y", "w"]])
@pytest.mark.parametrize("dispatched", [True, False])
def test_selection_of_a_sequence(keys: Any, dispatched: bool) -> None:
    def case(lib: Any) -> Any:
        seq = layers(lib).select_out_keys(*keys)
        first = seq(lib.zeros()) if dispatched else seq(lib.TD({"x": lib.zeros()}, []))
        return first, seq.reset_out_keys()(lib.TD({"x": lib.zeros()}, []))

    agree(case)


def test_decorated_functions() -> None:
    def case(lib: Any) -> Any:
        @lib.modules.as_tensordict_module(in_keys=["a", "b"], out_keys=["c"])  # type: ignore[misc]
        def add(x: Any, y: Any) -> Any:
            return x + y

        return add(lib.TD({"a": lib.ones(), "b": lib.ones()}, []))

    agree(case)
