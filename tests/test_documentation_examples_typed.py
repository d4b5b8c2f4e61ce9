"""The examples of the reference's pages on TypedTensorDict and on unbatched entries, one test each."""

from pathlib import Path
from typing import Any, NotRequired

import numpy as np
import pytest
from helpers.documentation_examples import ones, zeros

from lite import (
    LazyStackedTensorDict,
    TensorDict,
    TypedTensorDict,
    UnbatchedTensor,
    load_memmap,
    stack,
    tensorclass,
)


class PredictorState(TypedTensorDict):
    eta: np.ndarray
    X: np.ndarray
    beta: np.ndarray


class ObservedState(PredictorState):
    y: np.ndarray
    mu: np.ndarray
    noise: NotRequired[np.ndarray]


class SurvivalState(ObservedState):
    event_time: np.ndarray
    indicator: np.ndarray
    observed_time: np.ndarray


def predictor() -> PredictorState:
    return PredictorState(eta=zeros(5, 3), X=zeros(5, 4), beta=zeros(5, 1), batch_size=[5])


def test_typed_1_fields_are_attributes_and_entries():
    state = predictor()
    assert state.eta.shape == (5, 3)
    assert state["X"].shape == (5, 4)


def test_typed_2_a_pipeline_passes_all_fields_on():
    def gaussian(state: PredictorState, std: float) -> ObservedState:
        y = state.eta + ones(5, 3) * std
        return ObservedState(**state, y=y, mu=state.eta, batch_size=state.batch_size)

    out = gaussian(predictor(), 0.5)
    assert set(out.keys()) == {"eta", "X", "beta", "y", "mu"}
    np.testing.assert_array_equal(out.y, ones(5, 3) / 2)
    assert isinstance(out, PredictorState)


def test_typed_3_fields_accumulate():
    assert ObservedState.__required_keys__ == frozenset({"eta", "X", "beta", "y", "mu"})
    assert ObservedState.__optional_keys__ == frozenset({"noise"})
    assert len(SurvivalState.__required_keys__) == 8


def test_typed_4_what_is_not_required_may_be_absent():
    state = ObservedState(**predictor(), y=zeros(5), mu=zeros(5), batch_size=[5])
    assert "noise" not in state
    with pytest.raises(AttributeError, match="noise"):
        _ = state.noise


def test_typed_5_options():
    class MyModel(TypedTensorDict["shadow"]):
        data: np.ndarray

    class Immutable(TypedTensorDict["frozen"]):
        x: np.ndarray

    class Combined(TypedTensorDict["shadow", "frozen"]):
        data: np.ndarray

    assert MyModel(data=ones(3), batch_size=[3]).data.shape == (3,)
    assert Immutable(x=ones(3), batch_size=[3]).is_locked
    assert Combined(data=ones(3), batch_size=[3]).is_locked


def test_typed_6_wrapping_writes_through():
    td = TensorDict(eta=zeros(5, 3), X=zeros(5, 4), beta=zeros(5, 1), batch_size=[5])
    state = PredictorState.from_tensordict(td)
    state.eta = ones(5, 3)
    assert (td["eta"] == 1).all()


def test_typed_7_operations(tmp_path: Path):
    state = predictor()
    assert state.to("cpu").device == "cpu"
    assert state.clone()["eta"].shape == (5, 3)
    assert state[0:3].batch_size == (3,)
    assert stack([state, state], dim=0).batch_size == (2, 5)
    state.memmap(tmp_path)
    assert PredictorState.from_tensordict(load_memmap(tmp_path)).eta.shape == (5, 3)


def test_typed_8_lazy_stacks_keep_the_class_of_their_parts():
    rows = LazyStackedTensorDict(predictor(), predictor(), stack_dim=0)
    assert isinstance(rows[0], PredictorState)
    assert isinstance(PredictorState.from_tensordict(rows)[0], PredictorState)


def test_typed_9_filled_after_wrapping():
    state = PredictorState.from_tensordict(TensorDict(batch_size=[5]), check=False)
    with pytest.raises(AttributeError, match="declared but not set"):
        _ = state.eta
    state["eta"] = zeros(5, 3)
    assert state.eta.shape == (5, 3)


def config() -> TensorDict:
    return TensorDict(a=zeros(2, 3), config=UnbatchedTensor(np.array([1.0, 2.0, 3.0])), batch_size=[2, 3])


def test_unbatched_1_shape_operations_share_the_memory():
    td = config()
    assert np.shares_memory(td.reshape(6)["config"], td["config"])
    parts = td.unbind(0)
    assert np.shares_memory(parts[0]["config"], parts[1]["config"])


def test_unbatched_2_arithmetic_and_numbers():
    np.testing.assert_array_equal((config() * 2)["config"], [2, 4, 6])
    assert int(UnbatchedTensor(np.array([3])).item()) == 3
    assert f"{UnbatchedTensor(np.array(1.25)):.1f}" == "1.2"


def test_unbatched_3_what_reading_gives():
    td = config()
    assert type(td.get("config")) is type(td["config"]) is UnbatchedTensor

    @tensorclass
    class MyClass:
        config: Any
        value: Any

    tc = MyClass(config=UnbatchedTensor(np.array([1.0, 2.0])), value=zeros(3), batch_size=[3])
    assert type(tc.config) is type(tc.get("config")) is UnbatchedTensor


def test_unbatched_4_limits(tmp_path: Path):
    with pytest.raises(NotImplementedError):
        config().memmap(tmp_path)
    other = config().set("config", UnbatchedTensor(np.zeros(3)))
    with pytest.warns(UserWarning, match="different data storage"):
        out = stack([config(), other])
    np.testing.assert_array_equal(out["config"], [1, 2, 3])
