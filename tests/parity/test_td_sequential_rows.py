"""Rows of the checklist of reference tests on TensorDictSequential and on selected keys, one test each.

`test_checklist.py` maps all rows to tests.
"""

from __future__ import annotations

from typing import Any

import pytest
from parity.rows import QUIET, agree, layers

pytestmark = QUIET


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
