"""TensorDictModule: keys, call, results, writing, errors."""

import copy
import pickle

import numpy as np
import pytest
from helpers.cases import noting, raises

import lite
from lite import TensorDict, nn
from lite.nn import TensorDictModule

F32 = np.float32


def add_one(x):
    return x + 1


def zeros(*shape):
    return np.zeros(shape, dtype=F32)


class TestKeys:
    def test_forms_of_one_key(self):
        for keys in ["a", ("a",), ["a"], [("a",)]]:
            with noting(keys):
                module = TensorDictModule(add_one, keys, keys)
                assert module.in_keys == ["a"]
                assert module.out_keys == ["a"]

    def test_a_tuple_is_one_nested_key(self):
        module = TensorDictModule(add_one, ("a", ("b",)), [("c", ("d", ("e",)))])
        assert module.in_keys == [("a", "b")]
        assert module.out_keys == [("c", "d", "e")]

    def test_wrong_types(self):
        for bad in [{"a"}, None, [1], [None], (x for x in "a"), 3, [("a", 1)]]:
            with noting(bad):
                raises(ValueError, "in_keys must be of type", TensorDictModule, add_one, bad, ["a"])
                raises(ValueError, "out_keys must be of type", TensorDictModule, add_one, ["a"], bad)

    def test_underscore_input_warns(self):
        with pytest.warns(UserWarning, match="_"):
            TensorDictModule(add_one, ["_"], ["a"])


class TestDictKeys:
    def f(self, x, *, y):
        return x - y

    def test_default_is_key_to_argument(self):
        module = TensorDictModule(self.f, {"1": "x", ("n", "2"): "y"}, ["z"])
        assert module.in_keys == ["1", ("n", "2")]
        assert module(TensorDict({"1": 5, "n": {"2": 3}}))["z"] == 2

    def test_signature_decides_when_only_one_direction_fits(self):
        module = TensorDictModule(self.f, {"x": "1", "y": "1"}, ["z"])
        assert module.in_keys == ["1", "1"]
        assert module(TensorDict({"1": 5}))["z"] == 0

    def test_both_directions_fit(self):
        module = TensorDictModule(self.f, {"x": "y", "y": "x"}, ["z"])
        assert module(TensorDict(x=1, y=10))["z"] == 9

    def test_explicit_direction_that_does_not_fit_is_a_type_error_at_the_call(self):
        module = TensorDictModule(self.f, {"1": "x", "2": "y"}, ["z"], out_to_in_map=True)
        raises(TypeError, "unexpected keyword", lambda: module(TensorDict(x=1, y=2)))

    def test_module_payload_and_values_win_over_caller(self):
        class Sub(nn.Module):
            def forward(self, x, scale=1):
                return x * scale

        module = TensorDictModule(Sub(), {"a": "x"}, ["z"])
        assert module(TensorDict(a=3), scale=2)["z"] == 6
        assert (
            TensorDictModule(Sub(), {"a": "x", "s": "scale"}, ["z"])(TensorDict(a=3, s=4), scale=2)["z"] == 12
        )

    def test_flag_without_dict_warns(self):
        with pytest.warns(UserWarning, match="out_to_in_map"):
            TensorDictModule(add_one, ["a"], ["b"], out_to_in_map=True)


class TestConstruction:
    def test_payload_must_be_callable(self):
        raises(ValueError, "not callable", lambda: TensorDictModule(3, ["a"], ["b"]))
        raises(ValueError, "not callable", lambda: TensorDictModule(nn.Linear, ["a"], ["b"]))

    def test_inplace_values(self):
        raises(ValueError, "inplace", lambda: TensorDictModule(add_one, ["a"], ["b"], inplace="full"))

    def test_module_payload_is_a_child_and_a_function_is_not(self):
        assert list(TensorDictModule(nn.Linear(1, 1), ["a"], ["b"]).state_dict()) == [
            "module.weight",
            "module.bias",
        ]
        assert list(TensorDictModule(add_one, ["a"], ["b"]).children()) == []

    def test_method_is_looked_up_at_the_call(self):
        class Holder:
            def shift(self, x, *, by):
                return x + by

        module = TensorDictModule(Holder(), ["a"], ["b"], method="shift", method_kwargs={"by": 2})
        assert module(TensorDict(a=1), by=100)["b"] == 3
        with pytest.raises(AttributeError, match="nope"):
            TensorDictModule(Holder(), ["a"], ["b"], method="nope")(TensorDict(a=1))


class TestCall:
    def test_values_are_passed_as_they_are(self):
        array = zeros(3, 2)
        seen = []
        module = TensorDictModule(lambda *args: seen.extend(args), ["a", "s", "gone", "n"], [])
        td = TensorDict({"a": array, "s": "text", "n": {"x": array}}, batch_size=[3])
        assert module(td) is td
        assert seen[0] is array
        assert seen[1] == "text"
        assert seen[2] is None
        assert seen[3] is td.get("n")

    def test_missing_input_is_named(self):
        with pytest.raises(KeyError, match=r"necessary for the module call.*gone") as info:
            TensorDictModule(add_one, ["gone"], ["b"])(TensorDict(a=1))
        assert isinstance(info.value.__cause__, TypeError)
        assert isinstance(info.value.__cause__.__cause__, RuntimeError)

    def test_other_errors_keep_their_type_and_say_where(self):
        def boom(x):
            raise ZeroDivisionError("boom")

        with pytest.raises(ZeroDivisionError) as info:
            TensorDictModule(boom, ["a"], ["b"])(TensorDict(a=1))
        text = str(info.value.__cause__)
        for part in ("TensorDictModule", "def boom", "in_keys=['a']", "out_keys=['b']"):
            assert part in text

    def test_caller_keywords_reach_the_payload(self):
        assert TensorDictModule(lambda x, k: x + k, ["a"], ["b"])(TensorDict(a=1), k=4)["b"] == 5


class TestResults:
    def run(self, result, out_keys, **kwargs):
        return TensorDictModule(lambda: result, [], out_keys, **kwargs)(TensorDict())

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
                out = TensorDictModule(add_one, ["a"], ["b"], inplace=inplace)(td)
                assert out is not td
                assert out.batch_size == ()
                assert list(out.keys()) == ["b"]
                assert list(td.keys()) == ["a"]

    def test_inplace_empty_keeps_the_batch(self):
        out = TensorDictModule(add_one, ["a"], ["b"], inplace="empty")(self.td())
        assert out.batch_size == (3,)
        assert list(out.keys()) == ["b"]

    def test_tensordict_out_wins(self):
        for inplace in [True, False, "empty"]:
            with noting(inplace):
                td, target = self.td(), TensorDict()
                assert (
                    TensorDictModule(add_one, ["a"], ["b"], inplace=inplace)(td, tensordict_out=target)
                    is target
                )
                assert list(target.keys()) == ["b"]
                assert list(td.keys()) == ["a"]

    def test_locked(self):
        td = self.td().lock_()
        raises(RuntimeError, "Cannot modify locked", lambda: TensorDictModule(add_one, ["a"], ["b"])(td))
        out = TensorDictModule(add_one, ["a"], ["b"], inplace="empty")(td)
        assert not out.is_locked


class TestAttributes:
    def test_public_names_are_forwarded(self):
        layer = nn.Linear(2, 3)
        mod = TensorDictModule(layer, ["a"], ["b"])
        assert mod.weight is layer.weight
        assert mod.in_features == 2
        with pytest.raises(AttributeError):
            _ = mod._nope
        with pytest.raises(AttributeError, match="nope"):
            _ = mod.nope
        assert not hasattr(mod, "__cuda_array_interface__")

    def test_copy_and_pickle(self):
        mod = TensorDictModule(nn.Linear(2, 3), ["a"], ["b"]).select_out_keys("b")
        x = np.ones((1, 2), dtype=F32)
        for other in (copy.deepcopy(mod), pickle.loads(pickle.dumps(mod))):
            assert other.module is not mod.module
            np.testing.assert_array_equal(other(x), mod(x))
        function = TensorDictModule(add_one, ["a"], ["b"])
        assert pickle.loads(pickle.dumps(function))(1) == 2

    def test_repr(self):
        assert repr(TensorDictModule(nn.Linear(3, 4), ["a"], ["b"])) == (
            "TensorDictModule(\n"
            "    module=Linear(in_features=3, out_features=4, bias=True),\n"
            "    in_keys=['a'],\n"
            "    out_keys=['b'])"
        )
        assert f"    module={add_one},\n" in repr(TensorDictModule(add_one, ["a"], ["b"]))


class TestContainers:
    def ragged(self):
        return lite.lazy_stack([TensorDict(a=zeros(2)), TensorDict(a=zeros(3))])

    def test_get_kwargs_reach_the_getter(self):
        module = TensorDictModule(len, ["a"], ["n"], get_kwargs={"as_list": True}, inplace=False)
        assert module(self.ragged())["n"] == 2
        strict = TensorDictModule(len, ["z"], ["n"], get_kwargs={"as_list": True}, strict=True)
        raises(KeyError, "z", lambda: strict(self.ragged()))

    def test_signature_that_cannot_be_read(self):
        module = TensorDictModule(lambda **kw: kw["x"] - kw["y"], {"1": "x", "2": "y"}, ["z"])
        assert module(TensorDict({"1": 5, "2": 3}))["z"] == 2
        with pytest.raises(TypeError):
            TensorDictModule(np.add, {"1": "x", "2": "y"}, ["z"])(TensorDict({"1": 5, "2": 3}))

    def test_keys_must_be_a_list(self):
        module = TensorDictModule(add_one, ["a"], ["b"])
        with pytest.raises(TypeError, match="in_keys must be a list"):
            module.in_keys = "a"
        assert module.in_keys == ["a"]
