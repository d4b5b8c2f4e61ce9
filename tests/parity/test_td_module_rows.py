"""Rows of the checklist of reference tests on TensorDictModule and `dispatch`, one test each.

`test_checklist.py` maps all rows to tests.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import MutableSequence
from typing import Any

import numpy as np
import pytest
import tensordict
import torch
from parity.rows import LITE, QUIET, TORCH, agree

import lite
import lite.nn

pytestmark = QUIET


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
            lite.nn.settings._set_dispatch_td_nn_modules
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
