"""from_module and from_modules: what the trees of parameters share with their modules, and refuse."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.swapped import Counter, Parent, ones

from lite import LazyStackedTensorDict, TensorDict, from_module, from_modules, nn

# -- from_module ------------------------------------------------------------------------------------


def test_from_module_gives_the_modules_own_objects_in_order() -> None:
    module = Parent()
    params = TensorDict.from_module(module)
    assert list(params.keys(True, True)) == [
        ("first", "weight"), ("first", "bias"), ("second", "weight"), ("second", "bias"),
        ("counter", "scale"), ("counter", "steps"), ("counter", "scratch"),
    ]  # fmt: skip
    assert params["first", "weight"] is module.first.weight
    assert params["second", "bias"] is module.first.bias
    assert params["counter", "steps"] is module.counter.steps
    assert params.batch_size == ()
    assert not params.is_locked


def test_from_module_options() -> None:
    module = Parent()
    assert from_module(module).is_locked
    assert TensorDict.from_module(module, lock=True).is_locked
    assert "empty" not in TensorDict.from_module(module)
    assert TensorDict.from_module(module, filter_empty=False)["empty"].is_empty()
    assert TensorDict.from_module(nn.ReLU()).is_empty()
    assert isinstance(TensorDict.from_module(module, as_module=True), nn.TensorDictParams)
    raises(TypeError, "module must be a Module, got function", lambda: TensorDict.from_module(ones))


def test_from_module_by_state_dict_is_the_state_dict_without_copies() -> None:
    module = Parent()
    calls = []
    module.counter.register_state_dict_pre_hook(lambda m, prefix, keep: calls.append(prefix))
    module.counter.register_state_dict_post_hook(lambda m, sd, prefix, meta: sd.update(extra=np.ones(1)))
    params = TensorDict.from_module(module, use_state_dict=True)
    flat = params.flatten_keys(".")
    assert calls == ["counter."]
    assert set(flat.keys()) == {*module.state_dict(), "counter.extra"} - {"extra"}
    assert type(params["first", "weight"]) is np.ndarray
    assert np.shares_memory(params["first", "weight"], module.first.weight.data)


def test_a_td_params_child_is_returned_as_it_is() -> None:
    module = nn.Module()
    module.params = nn.TensorDictParams(TensorDict(a=ones(2)))
    assert TensorDict.from_module(module)["params"] is module.params
    assert TensorDict.from_module(module.params) is module.params


# -- from_modules -----------------------------------------------------------------------------------


def test_buffers_stay_arrays_when_stacked() -> None:
    params = from_modules(Counter(), Counter(), lock=False)
    assert type(params["steps"]) is np.ndarray
    assert params["steps"].dtype == np.int64
    assert isinstance(params["scale"], nn.Parameter)
    assert not params.is_locked


def test_lazy_stacks_keep_the_modules_objects() -> None:
    modules = [nn.Linear(2, 3, rng=i) for i in range(2)]
    params = from_modules(*modules, lazy_stack=True)
    assert isinstance(params, LazyStackedTensorDict)
    assert params.batch_size == (2,)
    assert params[1]["weight"] is modules[1].weight
    modules[0].weight.data[0, 0] = 42
    assert params.get("weight")[0, 0, 0] == 42


def test_lazy_stacks_take_modules_of_different_sizes() -> None:
    modules = [nn.Linear(2, 3), nn.Linear(2, 5)]
    params = from_modules(*modules, lazy_stack=True)
    with params[1].to_module(modules[0]):
        assert modules[0](ones(2)).shape == (5,)
    raises(RuntimeError, "shape", lambda: from_modules(*modules))


def test_identical_leaves_are_expanded() -> None:
    shared = nn.Linear(2, 2)
    params = from_modules(
        nn.Sequential(shared, nn.Linear(2, 1)), nn.Sequential(shared, nn.Linear(2, 1)), expand_identical=True
    )
    assert type(params["0", "weight"]) is np.ndarray
    assert params["0", "weight"].strides[0] == 0
    assert np.shares_memory(params["0", "weight"], shared.weight.data)
    assert isinstance(params["1", "weight"], nn.Parameter)


def test_what_does_not_stack() -> None:
    raises(RuntimeError, "at least one module", from_modules)
    raises(RuntimeError, "exclude each other", from_modules, nn.Linear(1, 1), lazy_stack=True, as_module=True)
    raises(RuntimeError, "exclusive", lambda: from_modules(nn.Linear(1, 1), nn.Linear(1, 1, bias=False)))
    with pytest.raises(ValueError, match="bias"):
        from_modules(nn.Linear(1, 1), nn.Linear(1, 1, bias=False), expand_identical=True)
    raises(RuntimeError, "one shape", from_modules, nn.Linear(1, 1), nn.Linear(1, 2), expand_identical=True)


@each_case("expand", [False, True])
def test_modules_without_data_cannot_be_stacked(expand: bool) -> None:
    modules = [nn.Linear(2, 3), nn.Linear(2, 3, device="meta")]
    with pytest.raises(RuntimeError, match=r"module 1 has no data for 'weight' \(meta device\)"):
        from_modules(*modules, expand_identical=expand)
    lazy = from_modules(*modules, lazy_stack=True)
    raises(RuntimeError, "no data", lambda: lazy.get("weight"))
    modules[1].load_state_dict(modules[0].state_dict(), assign=True)
    np.testing.assert_array_equal(from_modules(*modules)["weight"][1], modules[0].weight)


# -- what does not exist ----------------------------------------------------------------------------


def test_removed_functions_say_what_to_use() -> None:
    for name in ("make_functional", "get_functional", "is_functional", "repopulate_module"):
        raises(RuntimeError, f"{name} has been removed.*to_module", getattr(nn, name), nn.Linear(1, 1))


def test_extract_weights_and_buffers() -> None:
    cell = nn.TensorDictModule(nn.Linear(2, 3), in_keys=["x"], out_keys=["y"])
    params = nn.extract_weights_and_buffers(cell).expand(4)
    assert params["module", "weight"].shape == (4, 3, 2)
