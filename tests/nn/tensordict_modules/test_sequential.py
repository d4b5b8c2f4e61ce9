"""TensorDictSequential: key flow, execution, selection, sub-sequences, list methods."""

import itertools
from collections import OrderedDict

import numpy as np
import pytest
from helpers.cases import noting, raises

from lite import TensorDict, lazy_stack, nn
from lite.nn import TensorDictModule, TensorDictSequential, WrapModule


def mod(reads, writes, fn=None, **kwargs):
    reads, writes = reads.split(), writes.split()

    def add(*values):
        total = sum(values)
        return tuple(total + i + 1 for i in range(len(writes)))

    return TensorDictModule(fn or add, reads, writes, **kwargs)


def chain():
    return TensorDictSequential(mod("a", "b"), mod("b", "c"), mod("c", "d"), mod("a", "e"))


class TestKeyFlow:
    def test_inputs_and_outputs(self):
        seq = TensorDictSequential(mod("a b", "c"), mod("c d", "b"), mod("b", "c"))
        assert seq.in_keys == ["a", "b", "d"]
        assert seq.out_keys == ["b", "c"]

    def test_nested_keys_match_exactly(self):
        produce = TensorDictModule(lambda x: x, ["x"], [("n", "b")])
        assert TensorDictSequential(produce, mod("n", "y")).in_keys == ["x", "n"]

    def test_empty(self):
        seq = TensorDictSequential()
        td = TensorDict(a=1)
        assert seq(td) is td
        assert seq.in_keys == seq.out_keys == []


class TestForms:
    def test_list_dict_and_names(self):
        first, second = mod("a", "b"), mod("b", "c")
        forms = [(first, second), ([first, second],), (nn.ModuleList([first, second]),)]
        for seq in (TensorDictSequential(*form) for form in forms):
            assert list(seq) == [first, second]
            assert isinstance(seq.module, nn.ModuleList)
        for kind in (dict, OrderedDict):
            named = TensorDictSequential(kind(one=first, two=second))
            assert isinstance(named.module, nn.ModuleDict)
            assert named["one"] is first
            assert named[1] is named[-1] is second

    def test_state_dict_names(self):
        layer = TensorDictModule(nn.Linear(1, 1, bias=False), ["a"], ["b"])
        assert list(TensorDictSequential(layer).state_dict()) == ["module.0.module.weight"]
        assert list(TensorDictSequential({"x": layer}).state_dict()) == ["module.x.module.weight"]
        raises(KeyError, "", lambda: TensorDictSequential({"x.y": layer}))

    def test_callables_are_wrapped(self):
        seq = TensorDictSequential(lambda td: td + 1, mod("a", "b"))
        assert isinstance(seq[0], WrapModule)
        assert seq(TensorDict(a=0))["b"] == 2

    def test_a_bare_layer_fails_at_the_call(self):
        with pytest.raises(RuntimeError, match="in_features") as info:
            TensorDictSequential(nn.Linear(1, 1))(TensorDict(a=1))
        assert "Failed while executing module '0'." in info.value.__notes__

    def test_unknown_inplace(self):
        raises(ValueError, "inplace", lambda: TensorDictSequential(inplace="full"))

    def test_repr(self):
        seq = TensorDictSequential(TensorDictModule(nn.ReLU(), ["a"], ["b"]))
        assert repr(seq) == (
            "TensorDictSequential(\n"
            "    module=ModuleList(\n"
            "      (0): TensorDictModule(\n"
            "          module=ReLU(),\n"
            "          in_keys=['a'],\n"
            "          out_keys=['b'])\n"
            "    ),\n"
            "    in_keys=['a'],\n"
            "    out_keys=['b'])"
        )


class TestCall:
    def test_each_module_gets_what_the_one_before_returned(self):
        seq = TensorDictSequential(lambda td: TensorDict(z=td["a"] + 1), mod("z", "y"))
        td = TensorDict(a=1)
        out = seq(td)
        assert out is not td
        assert set(out.keys()) == {"z", "y"}

    def test_tensordict_out(self):
        td, target = TensorDict(a=1), TensorDict()
        for call in (lambda: chain()(td, target), lambda: chain()(td, tensordict_out=target)):
            assert call() is target
            assert list(td.keys()) == ["a"]
            assert set(target.keys()) == {"b", "c", "d", "e"}

    def test_inplace(self):
        for module_inplace, inplace in itertools.product([True, False], [True, False, "empty", None]):
            with noting(module_inplace, inplace):
                td = TensorDict(a=np.zeros(3), batch_size=[3])
                seq = TensorDictSequential(
                    mod("a", "b", inplace=module_inplace),
                    mod("b", "c", inplace=module_inplace),
                    inplace=inplace,
                )
                out = seq(td)
                assert (out is td) == (inplace is True or (inplace is None and module_inplace))
                assert out is td or list(td.keys()) == ["a"]
                assert out.batch_size == ((3,) if inplace == "empty" or out is td else ())
                assert "c" in out
                # With modules that return a fresh td, only the last one's output travels to the end.
                assert ("b" in out) == module_inplace

    def test_later_module_does_not_see_the_input_of_a_fresh_td(self):
        seq = TensorDictSequential(mod("a", "b", inplace=False), mod("a b", "c"))
        raises(KeyError, "'a'", lambda: seq(TensorDict(a=1)))

    def test_errors_keep_their_type_and_name_the_module(self):
        for form in [list, lambda m: {"x": m[0], "y": m[1]}]:
            with noting(form):

                def boom(b):
                    raise ZeroDivisionError

                seq = TensorDictSequential(form([mod("a", "b"), mod("b", "c", boom)]))
                with pytest.raises(ZeroDivisionError) as info:
                    seq(TensorDict(a=1))
                name = "y" if isinstance(seq.module, nn.ModuleDict) else "1"
                assert info.value.__notes__ == [f"Failed while executing module '{name}'."]


class TestPartialTolerance:
    def test_modules_without_their_inputs_are_skipped(self):
        seq = TensorDictSequential(mod("a", "b"), mod("x", "y"), mod("b", "c"), partial_tolerant=True)
        assert set(seq(TensorDict(a=1)).keys()) == {"a", "b", "c"}
        raises(KeyError, "y", lambda: seq(a=1))
        assert set(seq(TensorDict(x=1)).keys()) == {"x", "y"}

    def test_nested_inputs(self):
        seq = TensorDictSequential(TensorDictModule(lambda x: x, [("n", "x")], ["y"]), partial_tolerant=True)
        assert "y" in seq(TensorDict({"n": {"x": 1}}))
        assert "y" not in seq(TensorDict({"n": {"z": 1}}))

    def test_elements_of_a_lazy_stack(self):
        stack = lazy_stack([TensorDict(a=1), TensorDict(z=1)])
        out = TensorDictSequential(mod("a", "b"), partial_tolerant=True)(stack)
        assert out is stack
        assert "b" in stack[0]
        assert "b" not in stack[1]


class TestSelection:
    def test_unrelated_entries_survive_and_intermediates_do_not(self):
        seq = chain().select_out_keys("d")
        td = TensorDict(a=0, other=5)
        assert seq(td) is td
        assert set(td.keys()) == {"a", "other", "d"}
        assert td["d"] == 3
        assert seq(a=0) == 3

    def test_rewritten_inputs_come_back(self):
        seq = TensorDictSequential(mod("a", "a"), mod("a", "b")).select_out_keys("b")
        td = TensorDict(a=0)
        seq(td)
        assert td["a"] == 1
        assert td["b"] == 2

    def test_constructor_and_reset(self):
        seq = TensorDictSequential(mod("a", "b"), mod("b", "c"), selected_out_keys=["c"])
        assert seq.out_keys == ["c"]
        assert set(seq(TensorDict(a=1)).keys()) == {"a", "c"}
        assert seq.reset_out_keys() is seq
        assert set(seq(TensorDict(a=1)).keys()) == {"a", "b", "c"}

    def test_unknown(self):
        for keys in (["z"], ["b", "z"]):
            raises(ValueError, "z", chain().select_out_keys, *keys)
            raises(ValueError, "z", TensorDictSequential, mod("a", "b"), selected_out_keys=keys)


class TestSubsequence:
    def keys(self, seq):
        return [(m.in_keys, m.out_keys) for m in seq]

    def test_documented_selections(self):
        seq = chain()
        every = seq.select_subsequence(in_keys=["a"])
        assert len(every) == 4
        assert every.out_keys == ["b", "c", "d", "e"]
        assert self.keys(seq.select_subsequence(in_keys=["c"])) == [(["c"], ["d"])]
        upto = seq.select_subsequence(out_keys=["c"])
        assert upto.out_keys == ["b", "c"]
        assert upto[0] is seq[0]
        assert self.keys(seq.select_subsequence(out_keys=["e"])) == [(["a"], ["e"])]

    def test_nested_sequences_are_narrowed(self):
        seq = TensorDictSequential(
            TensorDictSequential(mod("a", "b"), mod("b", "c")),
            TensorDictSequential(mod("b", "d"), mod("d", "e")),
        )
        out = seq.select_subsequence(in_keys=["b", "d"], out_keys=["e"])
        assert len(out) == 1
        assert self.keys(out[0]) == [(["b"], ["d"]), (["d"], ["e"])]
        assert out.in_keys == ["b"]
        assert out.out_keys == ["d", "e"]

    def test_names_are_kept_also_around_nested_sequences(self):
        seq = TensorDictSequential(
            {"x": mod("a", "b"), "y": TensorDictSequential(mod("b", "c"), mod("b", "d")), "z": mod("c", "e")}
        )
        out = seq.select_subsequence(out_keys=["e"])
        assert list(out.module) == ["x", "y", "z"]
        assert self.keys(out["y"]) == [(["b"], ["c"])]
        assert len(seq["y"]) == 2

    def test_subclasses_are_kept_whole(self):
        class Own(TensorDictSequential):
            pass

        inner = Own(mod("b", "c"), mod("b", "d"))
        out = TensorDictSequential(mod("a", "b"), inner).select_subsequence(out_keys=["c"])
        assert out[1] is inner
        assert type(Own(mod("a", "b")).select_subsequence()) is Own

    def test_modules_without_inputs_are_computable(self):
        seq = TensorDictSequential(TensorDictModule(lambda: 1, [], ["r"]), mod("r a", "b"))
        assert len(seq.select_subsequence(in_keys=["a"])) == 2

    def test_earlier_writers_stay(self):
        seq = TensorDictSequential(mod("a", "b"), mod("a", "b"))
        assert len(seq.select_subsequence(out_keys=["b"])) == 2

    def test_weights_are_shared_and_options_are_default(self):
        layer = TensorDictModule(nn.Linear(1, 1), ["a"], ["b"])
        seq = TensorDictSequential(layer, mod("a", "c"), partial_tolerant=True, inplace=True)
        out = seq.select_subsequence(out_keys=["b"])
        assert out[0].module.weight is layer.module.weight
        assert out.partial_tolerant is False
        assert out.inplace is None

    def test_errors(self):
        raises(ValueError, "No modules left", lambda: chain().select_subsequence(out_keys=["nothing"]))
        raises(TypeError, "string", lambda: chain().select_subsequence(in_keys="a"))
        given = ["a"]
        chain().select_subsequence(in_keys=given)
        assert given == ["a"]


class TestListMethods:
    def test_index_and_membership(self):
        seq = chain()
        assert len(seq) == 4
        assert seq[-1] is seq[3]
        assert seq[0] in seq
        assert mod("a", "b") not in seq
        part = seq[1:3]
        assert type(part) is TensorDictSequential
        assert part.in_keys == ["b"]
        assert part.out_keys == ["c", "d"]
        with pytest.raises(IndexError):
            _ = seq[4]

    def test_changes_refresh_the_keys(self):
        seq = chain()
        seq[3] = mod("a", "f")
        assert seq.out_keys == ["b", "c", "d", "f"]
        del seq[0]
        assert seq.in_keys == ["b", "a"]
        assert seq.insert(0, mod("a", "b")) is seq
        assert seq.in_keys == ["a"]
        assert seq.append(mod("f", "g")) is seq
        assert seq.extend([mod("q", "r"), lambda td: td]) is seq
        assert seq.in_keys == ["a", "q"]
        assert isinstance(seq.pop(), WrapModule)
        assert seq.pop(0).out_keys == ["b"]
        assert seq.in_keys == ["b", "a", "q"]
        del seq[1:]
        assert seq.out_keys == ["c"]
        assert list(seq.state_dict()) == []
        assert list(seq.module._modules) == ["0"]

    def test_named_form(self):
        seq = TensorDictSequential({"x": mod("a", "b"), "y": mod("b", "c"), "z": mod("c", "d")})
        seq["y"] = mod("b", "q")
        assert seq.out_keys == ["b", "q", "d"]
        assert seq.in_keys == ["a", "c"]
        seq["new"] = mod("q", "r")
        seq[0] = mod("aa", "b")
        assert list(seq.module) == ["x", "y", "z", "new"]
        assert seq.in_keys == ["aa", "c"]
        assert "z" in seq
        assert "zz" not in seq
        assert 2 not in seq
        del seq["z"]
        assert "z" not in seq
        assert seq.in_keys == ["aa"]
        part = seq[:2]
        assert list(part.module) == ["x", "y"]
        assert seq.pop("x").out_keys == ["b"]
        with pytest.raises(KeyError):
            del seq["x"]
        raises(TypeError, "name", lambda: seq.append(mod("a", "b")))
        raises(TypeError, "name", lambda: seq.extend([mod("a", "b")]))

    def test_a_selection_survives_where_its_keys_do(self):
        seq = chain().select_out_keys("d", "e")
        del seq[3]
        assert seq.out_keys == ["d"]
        assert seq.reset_out_keys().out_keys == ["b", "c", "d"]
