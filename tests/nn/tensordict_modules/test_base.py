"""TensorDictModuleBase: selection of outputs, resetting parameters, keys of the class."""

import numpy as np
import pytest
from helpers.cases import noting, raises

from lite import TensorDict, nn
from lite.nn import TensorDictModule, TensorDictModuleBase

F32 = np.float32


def two(x, y):
    return x + 2, y + 2


def zeros(*shape):
    return np.zeros(shape, dtype=F32)


class TestSelection:
    def mod(self):
        return TensorDictModule(two, ["a", "b"], ["c", "d"])

    def td(self):
        return TensorDict(a=zeros(), b=np.ones((), dtype=F32), other=zeros())

    def test_select_and_reset(self):
        mod = self.mod()
        assert mod.select_out_keys("d") is mod
        assert mod.out_keys == ["d"]
        assert mod.out_keys_source == ["c", "d"]
        td = self.td()
        assert mod(td) is td
        assert set(td.keys()) == {"a", "b", "d"}
        assert mod(zeros(), np.ones((), dtype=F32)) == 3
        assert mod.reset_out_keys() is mod
        assert set(mod(self.td()).keys()) == {"a", "b", "c", "d", "other"}

    def test_repeated_selection_narrows(self):
        mod = self.mod().select_out_keys("c", "d").select_out_keys("d")
        raises(ValueError, "'c'", lambda: mod.select_out_keys("c"))
        assert mod.out_keys == ["d"]
        assert mod.reset_out_keys().out_keys == ["c", "d"]

    def test_unknown(self):
        mod = self.mod()
        raises(ValueError, "Can't select", lambda: mod.select_out_keys("z"))
        raises(ValueError, "one by one", lambda: mod.select_out_keys(["c", "d"]))
        raises(ValueError, "one by one", lambda: mod.select_out_keys(("c", "d")))
        raises(RuntimeError, "'z'", lambda: mod.select_out_keys("c", "z"))
        assert mod.out_keys == ["c", "d"]

    def test_nested(self):
        for key in [("n", "c"), ("n", ("c",))]:
            with noting(key):
                mod = TensorDictModule(two, ["a", "b"], [("n", "c"), ("n", "d")]).select_out_keys(key)
                td = mod(self.td())
                assert ("n", "c") in td
                assert ("n", "d") not in td

    def test_assigning_out_keys_drops_the_selection(self):
        mod = self.mod().select_out_keys("d")
        mod.out_keys = ["x", "y"]
        assert mod.out_keys == mod.out_keys_source == ["x", "y"]

    def test_base_class_with_class_keys(self):
        class Mod(TensorDictModuleBase):
            in_keys = ["a"]  # noqa: RUF012
            out_keys = ["b", "c"]  # noqa: RUF012

            def forward(self, tensordict):
                return tensordict.replace({"b": tensordict["a"], "c": tensordict["a"] + 1})

        for mod in (Mod(), Mod()):
            mod.select_out_keys("c")
            td = TensorDict(a=0)
            out = mod(td)
            assert set(out.keys()) == {"a", "c"}
            assert set(td.keys()) == {"a"}


class TestParameters:
    def mod(self):
        return TensorDictModule(nn.Sequential(nn.Linear(2, 3, rng=0), nn.ReLU()), ["a"], ["b"])

    def test_reset(self):
        for method in ["reset_parameters_recursive", "reset_parameters"]:
            with noting(method):
                mod = self.mod()
                old = {k: v.copy() for k, v in mod.state_dict().items()}
                assert getattr(mod, method)() is None
                for name, value in mod.state_dict().items():
                    assert not (old[name] == value).any()

    def test_rng_makes_it_repeatable(self):
        first, second = self.mod(), self.mod()
        first.reset_parameters_recursive(rng=5)
        second.reset_parameters_recursive(rng=np.random.default_rng(5))
        np.testing.assert_array_equal(first.module[0].weight, second.module[0].weight)

    def test_each_layer_once(self):
        class Counting(nn.Module):
            calls = 0

            def reset_parameters(self):
                self.calls += 1

        layer = Counting()
        inner = TensorDictModule(nn.Sequential(layer), ["a"], ["b"])
        nn.TensorDictSequential(inner).reset_parameters_recursive()
        assert layer.calls == 1

    def test_nothing_to_reset_warns(self):
        with pytest.warns(UserWarning, match="no module"):
            TensorDictModule(nn.ReLU(), ["a"], ["b"]).reset_parameters_recursive()

    def test_parameters_given_as_a_td_are_reset_in_place(self):
        mod = self.mod()
        own = mod.module[0].weight.data.copy()
        params = TensorDict({"module": {"0": {"weight": own.copy(), "bias": mod.module[0].bias.data.copy()}}})
        array = params["module", "0", "weight"]
        out = mod.reset_parameters_recursive(params)
        assert out["module", "0", "weight"] is array
        assert (array != own).all()
        np.testing.assert_array_equal(mod.module[0].weight, own)
        raises(RuntimeError, "empty batch size", lambda: mod.reset_parameters_recursive(params.expand(2)))


class TestKeys:
    def test_keys_before_init_and_on_the_class(self):
        class Early(TensorDictModuleBase):
            out_keys = [("c", ("d",))]  # noqa: RUF012

            def __init__(self):
                self.in_keys = [("a", ("b",))]
                super().__init__()

        first, second = Early(), Early()
        assert first.in_keys == [("a", "b")]
        assert first.out_keys == first.out_keys_source == [("c", "d")]
        first.out_keys.append("e")
        assert second.out_keys == [("c", "d")]
        assert Early.is_tdmodule_compatible(first)

    def test_base_without_keys(self):
        with pytest.raises(AttributeError, match="in_keys"):
            _ = TensorDictModuleBase().in_keys
        assert not TensorDictModuleBase.is_tdmodule_compatible(TensorDictModuleBase())

    def test_key_property_in_a_subclass_is_left_alone(self):
        class Dynamic(TensorDictModuleBase):
            @property
            def in_keys(self):
                return ["dynamic"]

            out_keys = ["o"]  # noqa: RUF012

        assert Dynamic().in_keys == ["dynamic"]
        assert Dynamic().out_keys == ["o"]

    def test_overridden_out_keys_refuse_selection(self):
        class Fixed(TensorDictModuleBase):
            in_keys = []  # noqa: RUF012

            @property
            def out_keys(self):
                return ["a", "b"]

        raises(RuntimeError, "does not support select_out_keys", lambda: Fixed().select_out_keys("a"))
