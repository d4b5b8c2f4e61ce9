"""TensorDictModule: keys, call, results, writing, errors."""

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, noting, raises
from helpers.unchanged import F32, Hit, fail

import lite
from lite import TensorDict, lazy_stack, nn
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictSequential as Seq


def add_one(x):
    return x + 1


def zeros(*shape):
    return np.zeros(shape, dtype=F32)


class TestKeys:
    def test_forms_of_one_key(self):
        for keys in ["a", ("a",), ["a"], [("a",)]]:
            with noting(keys):
                module = Mod(add_one, keys, keys)
                assert module.in_keys == ["a"]
                assert module.out_keys == ["a"]

    def test_a_tuple_is_one_nested_key(self):
        module = Mod(add_one, ("a", ("b",)), [("c", ("d", ("e",)))])
        assert module.in_keys == [("a", "b")]
        assert module.out_keys == [("c", "d", "e")]

    def test_wrong_types(self):
        for bad in [{"a"}, None, [1], [None], (x for x in "a"), 3, [("a", 1)]]:
            with noting(bad):
                raises(ValueError, "in_keys must be of type", Mod, add_one, bad, ["a"])
                raises(ValueError, "out_keys must be of type", Mod, add_one, ["a"], bad)

    def test_underscore_input_warns(self):
        with pytest.warns(UserWarning, match="_"):
            Mod(add_one, ["_"], ["a"])


class TestDictKeys:
    def f(self, x, *, y):
        return x - y

    def test_default_is_key_to_argument(self):
        module = Mod(self.f, {"1": "x", ("n", "2"): "y"}, ["z"])
        assert module.in_keys == ["1", ("n", "2")]
        assert module(TensorDict({"1": 5, "n": {"2": 3}}))["z"] == 2

    def test_signature_decides_when_only_one_direction_fits(self):
        module = Mod(self.f, {"x": "1", "y": "1"}, ["z"])
        assert module.in_keys == ["1", "1"]
        assert module(TensorDict({"1": 5}))["z"] == 0

    def test_both_directions_fit(self):
        module = Mod(self.f, {"x": "y", "y": "x"}, ["z"])
        assert module(TensorDict(x=1, y=10))["z"] == 9

    def test_explicit_direction_that_does_not_fit_is_a_type_error_at_the_call(self):
        module = Mod(self.f, {"1": "x", "2": "y"}, ["z"], out_to_in_map=True)
        raises(TypeError, "unexpected keyword", lambda: module(TensorDict(x=1, y=2)))

    def test_module_payload_and_values_win_over_caller(self):
        class Sub(nn.Module):
            def forward(self, x, scale=1):
                return x * scale

        module = Mod(Sub(), {"a": "x"}, ["z"])
        assert module(TensorDict(a=3), scale=2)["z"] == 6
        assert Mod(Sub(), {"a": "x", "s": "scale"}, ["z"])(TensorDict(a=3, s=4), scale=2)["z"] == 12

    def test_flag_without_dict_warns(self):
        with pytest.warns(UserWarning, match="out_to_in_map"):
            Mod(add_one, ["a"], ["b"], out_to_in_map=True)


class TestConstruction:
    def test_payload_must_be_callable(self):
        raises(ValueError, "not callable", lambda: Mod(3, ["a"], ["b"]))
        raises(ValueError, "not callable", lambda: Mod(nn.Linear, ["a"], ["b"]))

    def test_inplace_values(self):
        raises(ValueError, "inplace", lambda: Mod(add_one, ["a"], ["b"], inplace="full"))

    def test_module_payload_is_a_child_and_a_function_is_not(self):
        assert list(Mod(nn.Linear(1, 1), ["a"], ["b"]).state_dict()) == [
            "module.weight",
            "module.bias",
        ]
        assert list(Mod(add_one, ["a"], ["b"]).children()) == []

    def test_method_is_looked_up_at_the_call(self):
        class Holder:
            def shift(self, x, *, by):
                return x + by

        module = Mod(Holder(), ["a"], ["b"], method="shift", method_kwargs={"by": 2})
        assert module(TensorDict(a=1), by=100)["b"] == 3
        with pytest.raises(AttributeError, match="nope"):
            Mod(Holder(), ["a"], ["b"], method="nope")(TensorDict(a=1))


class TestCall:
    def test_values_are_passed_as_they_are(self):
        array = zeros(3, 2)
        seen = []
        module = Mod(lambda *args: seen.extend(args), ["a", "s", "gone", "n"], [])
        td = TensorDict({"a": array, "s": "text", "n": {"x": array}}, batch_size=[3])
        assert module(td) is td
        assert seen[0] is array
        assert seen[1] == "text"
        assert seen[2] is None
        assert seen[3] is td.get("n")

    def test_missing_input_is_named(self):
        with pytest.raises(KeyError, match=r"necessary for the module call.*gone") as info:
            Mod(add_one, ["gone"], ["b"])(TensorDict(a=1))
        assert isinstance(info.value.__cause__, TypeError)
        assert isinstance(info.value.__cause__.__cause__, RuntimeError)

    def test_other_errors_keep_their_type_and_say_where(self):
        def boom(x):
            raise ZeroDivisionError("boom")

        with pytest.raises(ZeroDivisionError) as info:
            Mod(boom, ["a"], ["b"])(TensorDict(a=1))
        text = str(info.value.__cause__)
        for part in ("TensorDictModule", "def boom", "in_keys=['a']", "out_keys=['b']"):
            assert part in text

    def test_caller_keywords_reach_the_payload(self):
        assert Mod(lambda x, k: x + k, ["a"], ["b"])(TensorDict(a=1), k=4)["b"] == 5


class TestResults:
    def run(self, result, out_keys, **kwargs):
        return Mod(lambda: result, [], out_keys, **kwargs)(TensorDict())

    def test_tuple_and_list(self):
        assert self.run((1, 2), ["a", "b"])["b"] == 2
        np.testing.assert_array_equal(self.run([1, 2], ["a"])["a"], [1, 2])

    def test_dict_is_picked_by_key(self):
        td = self.run({"b": 2, ("c", ("d",)): 3, "e": 4}, [("c", "d"), "b"])
        assert sorted(td.keys(True, True), key=str) == [("c", "d"), "b"]
        assert td["c", "d"] == 3

    def test_dict_lacking_the_key_is_stored_whole(self):
        assert self.run({"x": 1}, ["a"])["a", "x"] == 1
        assert self.run({"b": {"c": 1}}, [("b", "c")])["b", "c", "b", "c"] == 1

    def test_tensordict_is_picked_by_nested_key(self):
        td = self.run(TensorDict({"b": {"c": 1}, "d": 2}), [("b", "c")])
        assert td["b", "c"] == 1
        assert "d" not in td

    def test_sink(self):
        td = self.run((1, 2, 3), ["a", "_", "b"])
        assert list(td.keys()) == ["a", "b"]
        assert self.run(zeros(2), ["_"]).is_empty()

    def test_conversion(self):
        td = self.run((1.5, "text", {"x": 1}), ["a", "s", "d"])
        assert td["a"].dtype == F32
        assert td["s"] == "text"
        assert td["d", "x"] == 1


class TestWriting:
    def td(self):
        return TensorDict(a=zeros(3, 2), batch_size=[3])

    def test_inplace_false_is_a_fresh_td_without_batch(self):
        for inplace in [False, None]:
            with noting(inplace):
                td = self.td()
                out = Mod(add_one, ["a"], ["b"], inplace=inplace)(td)
                assert out is not td
                assert out.batch_size == ()
                assert list(out.keys()) == ["b"]
                assert list(td.keys()) == ["a"]

    def test_inplace_empty_keeps_the_batch(self):
        out = Mod(add_one, ["a"], ["b"], inplace="empty")(self.td())
        assert out.batch_size == (3,)
        assert list(out.keys()) == ["b"]

    def test_tensordict_out_wins(self):
        for inplace in [True, False, "empty"]:
            with noting(inplace):
                td, target = self.td(), TensorDict()
                assert Mod(add_one, ["a"], ["b"], inplace=inplace)(td, tensordict_out=target) is target
                assert list(target.keys()) == ["b"]
                assert list(td.keys()) == ["a"]

    def test_locked(self):
        td = self.td().lock_()
        raises(RuntimeError, "Cannot modify locked", lambda: Mod(add_one, ["a"], ["b"])(td))
        out = Mod(add_one, ["a"], ["b"], inplace="empty")(td)
        assert not out.is_locked


class TestAttributes:
    def test_public_names_are_forwarded(self):
        layer = nn.Linear(2, 3)
        mod = Mod(layer, ["a"], ["b"])
        assert mod.weight is layer.weight
        assert mod.in_features == 2
        with pytest.raises(AttributeError):
            _ = mod._nope
        with pytest.raises(AttributeError, match="nope"):
            _ = mod.nope
        assert not hasattr(mod, "__cuda_array_interface__")

    def test_copy_and_pickle(self):
        mod = Mod(nn.Linear(2, 3), ["a"], ["b"]).select_out_keys("b")
        x = np.ones((1, 2), dtype=F32)
        for other in (copy.deepcopy(mod), pickle.loads(pickle.dumps(mod))):
            assert other.module is not mod.module
            np.testing.assert_array_equal(other(x), mod(x))
        function = Mod(add_one, ["a"], ["b"])
        assert pickle.loads(pickle.dumps(function))(1) == 2

    def test_repr(self):
        assert repr(Mod(nn.Linear(3, 4), ["a"], ["b"])) == (
            "TensorDictModule(\n"
            "    module=Linear(in_features=3, out_features=4, bias=True),\n"
            "    in_keys=['a'],\n"
            "    out_keys=['b'])"
        )
        assert f"    module={add_one},\n" in repr(Mod(add_one, ["a"], ["b"]))


class TestContainers:
    def ragged(self):
        return lite.lazy_stack([TensorDict(a=zeros(2)), TensorDict(a=zeros(3))])

    def test_get_kwargs_reach_the_getter(self):
        module = Mod(len, ["a"], ["n"], get_kwargs={"as_list": True}, inplace=False)
        assert module(self.ragged())["n"] == 2
        strict = Mod(len, ["z"], ["n"], get_kwargs={"as_list": True}, strict=True)
        raises(KeyError, "z", lambda: strict(self.ragged()))

    def test_signature_that_cannot_be_read(self):
        module = Mod(lambda **kw: kw["x"] - kw["y"], {"1": "x", "2": "y"}, ["z"])
        assert module(TensorDict({"1": 5, "2": 3}))["z"] == 2
        with pytest.raises(TypeError):
            Mod(np.add, {"1": "x", "2": "y"}, ["z"])(TensorDict({"1": 5, "2": 3}))

    def test_keys_must_be_a_list(self):
        module = Mod(add_one, ["a"], ["b"])
        with pytest.raises(TypeError, match="in_keys must be a list"):
            module.in_keys = "a"
        assert module.in_keys == ["a"]


def one() -> Any:
    return Mod(lambda x: x + 1, ["a"], ["b"])


def value(td: Any, key: Any = "b") -> int:
    return int(td[key])


class TestChangesAreSeen:
    def test_selection_and_skipping(self) -> None:
        module = Mod(lambda x: (x + 1, x + 2), ["a"], ["b", "c"])
        assert value(module(TensorDict(a=0)), "c") == 2
        module.select_out_keys("c")
        assert list(module(TensorDict(a=0, z=1)).keys()) == ["a", "c"]
        assert module(np.array([0])) == [2]
        module.reset_out_keys()
        assert list(module(TensorDict(a=0)).keys()) == ["a", "b", "c"]
        with nn.set_skip_existing():
            assert value(module(TensorDict(a=0, b=9, c=9))) == 9

    def test_sequences(self) -> None:
        seq = Seq(one(), Mod(lambda x: x * 2, ["b"], ["c"]))
        assert value(seq(TensorDict(a=0)), "c") == 2
        seq[1] = Mod(lambda x: x * 3, ["b"], ["d"])
        assert value(seq(TensorDict(a=0)), "d") == 3
        seq.append(Mod(lambda x: x + 1, ["d"], ["e"]))
        assert seq(a=np.array(0)) == (1, 3, 4)
        seq.partial_tolerant = True
        assert list(seq(TensorDict(z=0)).keys()) == ["z"]
        seq.inplace = "empty"
        assert set(seq(TensorDict(a=0)).keys()) == {"b", "d", "e"}


def test_other_containers() -> None:
    module = one()
    stack = lazy_stack([TensorDict(a=0), TensorDict(a=1)])
    np.testing.assert_array_equal(module(stack)["b"], [1, 2])
    with pytest.raises(KeyError, match="necessary for the module call"):
        module(TensorDict(z=0))


def test_copies_have_hooks_of_their_own() -> None:
    module = Mod(nn.Identity(), ["a"], ["b"])
    module(TensorDict(a=1))
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        other.register_forward_hook(lambda m, args, out: out.set("b", 7))
        assert value(other(TensorDict(a=1))) == 7
        assert value(module(TensorDict(a=1))) == 1


def test_inputs_are_not_written() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    module = Mod(lambda x: x + 1, ["a"], ["a"])
    td = TensorDict(a=array)
    np.testing.assert_array_equal(module(td)["a"], [1, 2, 3])
    np.testing.assert_array_equal(array, [0, 1, 2])


def add(x: Any) -> Any:
    return x + 1


CALLS: dict[str, tuple[Any, type[Exception], str]] = {
    "function": (Mod(fail, ["x"], ["y"]), Hit, "inside"),
    "more results": (Mod(lambda x: (x, x), ["x"], ["y"]), RuntimeError,
        r"more results \(2\) than out_keys"),
    "fewer results": (Mod(add, ["x"], ["y", "z"]), RuntimeError, r"fewer results \(1\) than out_keys"),
    "no result": (Mod(lambda x: None, ["x"], ["y"]), RuntimeError, r"fewer results \(0\) than out_keys"),
    "batch size": (Mod(lambda x: x[:2], ["x"], ["y"]), RuntimeError, "batch dimension mismatch"),
    "second result": (Mod(lambda x: (x, x[:2]), ["x"], ["y", ("n", "z")]), RuntimeError,
        "batch dimension mismatch"),
    "missing key": (Mod(lambda x, q: x + q, ["x", "q"], ["y"]), KeyError, r"inputs are None: \['q'\]"),
    "missing key, strict": (Mod(add, ["q"], ["y"], strict=True), KeyError, "q"),
    "method": (Mod(3, ["x"], ["y"], method="nope"), AttributeError, "nope"),
    "unknown keyword": (lambda td: Mod(add, ["x"], ["y"])(td, q=1), TypeError, "'q'"),
    "more arguments": (lambda td: Mod(add, ["x"], ["y"])(td, 1), ValueError, "got 1 more arguments"),
    "keyword of a sequence": (lambda td: Seq(Mod(add, ["x"], ["y"]))(td, q=1), RuntimeError, "'q'"),
    "selection of a sequence": (Seq(Mod(add, ["x"], ["y"]), Mod(fail, ["y"], ["z"])).select_out_keys("z"),
        Hit, "inside"),
    "other output": (lambda td: Seq(Mod(add, ["x"], ["y"]), Mod(fail, ["y"], ["z"]))(td, TensorDict()),
        Hit, "inside"),
}  # fmt: skip


@each_case(("name", "hooked_too"), itertools.product(CALLS, [False, True]))
def test_tensordicts(name: Any, hooked_too: Any) -> None:
    call, error, match = CALLS[name]
    td = TensorDict({"x": np.ones(3, F32), "n": {"k": np.ones((3, 2))}}, [3])
    before = [(key, value) for key, value in td.items(True, True)]
    if hooked_too and isinstance(call, nn.Module):  # the long way
        with call.register_forward_hook(lambda *args: None), pytest.raises(error, match=match):
            call(td)
    else:
        raises(error, match, call, td)
    after = list(td.items(True, True))
    assert [key for key, _ in after] == [key for key, _ in before]
    assert all(a is b for (_, a), (_, b) in zip(after, before, strict=True))
    np.testing.assert_array_equal(td["x"], np.ones(3, F32))
    assert td.batch_size == (3,)


@each_case("keys", [("q",), ("y", "q"), (["y"],)])
def test_selections_that_fail(keys: Any) -> None:
    module = Mod(lambda x: (x, x), ["x"], ["y", "z"]).select_out_keys("y")
    raises((ValueError, RuntimeError), "", module.select_out_keys, *keys)
    assert module.out_keys == ["y"]
    assert module.out_keys_source == ["y", "z"]
    assert sorted(module(TensorDict(x=np.ones(1))).keys()) == ["x", "y"]


def test_an_entry_that_is_none_is_not_called_missing() -> None:
    with pytest.raises(KeyError, match="the entry 'x' is None, in place of an array"):
        Mod(add, ["x"], ["y"], strict=True)(TensorDict(x=None))
