"""Parameters and buffers without a shape: what they answer, and how they become arrays."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict, get_default_dtype, nn
from lite.nn import MetaArray, Parameter, UninitializedBuffer, UninitializedParameter


def test_materialize() -> None:
    parameter = UninitializedParameter(requires_grad=False, dtype="int64")
    parameter.materialize((2, 3))
    assert (type(parameter), parameter.shape, parameter.dtype) == (Parameter, (2, 3), np.int64)
    assert parameter.requires_grad is False
    parameter = UninitializedParameter()
    parameter.materialize([2], dtype="float16")
    assert (parameter.shape, parameter.dtype) == ((2,), np.float16)
    parameter = UninitializedParameter(device="meta")
    assert parameter.device == "meta"
    parameter.materialize(())
    assert (parameter.is_meta, parameter.dtype) == (True, get_default_dtype())
    made = UninitializedBuffer(dtype="float64").materialize((2,), dtype="int32")
    assert (type(made), made.shape, made.dtype) == (np.ndarray, (2,), np.int32)
    assert isinstance(UninitializedBuffer(device="meta").materialize((1,)), MetaArray)
    raises(RuntimeError, "floating or complex dtype, got int64", UninitializedParameter, dtype="int64")


@pytest.mark.parametrize("make", [UninitializedParameter, UninitializedBuffer])
def test_shapes_and_values_are_errors(make: Any) -> None:
    empty = make()
    assert repr(empty) == f"<{make.__name__}>"
    raises(RuntimeError, "has no shape: call the module once, or load a state dict", lambda: empty.shape)
    for use in (lambda: empty + 1, lambda: np.exp(empty), lambda: np.asarray(empty), lambda: empty[0]):
        raises(ValueError, "has no values: call the module once", use)
    assert empty.dtype == get_default_dtype()


@each_case("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(copied: Any) -> None:
    parameter = UninitializedParameter(requires_grad=False, dtype="float64", device="meta")
    other = copied(parameter)
    assert (type(other), other.dtype, other.device) == (UninitializedParameter, np.float64, "meta")
    assert (other is parameter, other.requires_grad) == (False, False)
    buffer = copied(UninitializedBuffer(dtype="float64"))
    assert (type(buffer), buffer.dtype) == (UninitializedBuffer, np.float64)
    tied = copied([parameter, parameter])
    assert tied[0] is tied[1]


def holder() -> nn.Module:
    module = nn.Module()
    module.w = UninitializedParameter()
    module.register_buffer("b", UninitializedBuffer(dtype="int64"))
    return module


def test_casts_reach_what_is_made_later() -> None:
    module = holder().double()
    module.w.materialize((1,))
    assert module.w.dtype == np.float64
    assert module.b.dtype == np.int64
    module = holder().to("meta")
    module.w.materialize((1,))
    assert module.w.is_meta


def test_state_dicts() -> None:
    source = holder()
    assert source.state_dict()["w"] is source.w
    given = {"w": np.ones((2, 1)), "b": np.arange(3.0)}
    for assign in (False, True):
        module = holder()
        assert module.load_state_dict(source.state_dict(), assign=assign) == ([], [])
        assert type(module.w) is UninitializedParameter
        weight = module.w
        module.load_state_dict(given, assign=assign)
        assert (module.w is weight, type(module.w)) == (not assign, Parameter)
        assert (module.w.dtype, module.b.dtype) == (
            (np.float64, np.float64) if assign else (np.float32, np.int64)
        )
        np.testing.assert_array_equal(module.w, given["w"])
        np.testing.assert_array_equal(module.b, given["b"])
        with pytest.raises(RuntimeError, match=r'"w": the state dict has an uninitialized .*\n.*"b":'):
            module.load_state_dict(source.state_dict(), assign=assign)


def test_a_failed_load_leaves_them_uninitialized() -> None:
    module = holder()
    before = module.w

    def fail(*_: Any) -> None:
        raise KeyError("hook")

    module.register_load_state_dict_post_hook(fail)
    raises(KeyError, "hook", lambda: module.load_state_dict({"w": np.ones(2), "b": np.ones(2)}))
    assert module.w is before
    assert type(module.w) is UninitializedParameter
    assert isinstance(module.b, UninitializedBuffer)


def test_trees() -> None:
    module = holder()
    td = TensorDict.from_module(module)
    assert td["w"] is module.w
    assert "w: UninitializedParameter(shape=(-1,), device=cpu, dtype=float32" in repr(td)
    params = nn.TensorDictParams(td, no_convert=True)
    params.load_state_dict({"w": np.ones(2), "b": np.ones(3, np.int64)})
    np.testing.assert_array_equal(module.w, [1, 1])
    with pytest.raises(RuntimeError, match="module 1 has an uninitialized 'w': call each module once"):
        TensorDict.from_modules(nn.Linear(1, 1, bias=False), holder())
