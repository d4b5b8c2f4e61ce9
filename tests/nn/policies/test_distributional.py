"""Actors over distributions of action values."""

import numpy as np
import pytest

from lite import TensorDict, grad, nn
from lite.data import Categorical, Composite

SUPPORT = np.array([0.0, 1.0, 4.0], np.float32)
# Probabilities of the atoms for two actions, worth 1.3 and 1.6 on average, and the other way round.
FIRST = np.array([[0.5, 0.3], [0.3, 0.4], [0.2, 0.3]], np.float32)
LOG_PROBS = np.log(np.stack([FIRST, FIRST[:, ::-1]]))


def test_largest_average() -> None:
    module = nn.DistributionalQValueModule("categorical", SUPPORT)
    td = module(TensorDict(action_value=LOG_PROBS, batch_size=[2]))
    np.testing.assert_array_equal(td["action"], [1, 0])
    np.testing.assert_array_equal(td["action_value"], LOG_PROBS)
    certain = np.log([[1.0, 1e-9], [1e-9, 1e-9], [1e-9, 1.0]])
    np.testing.assert_array_equal(module(certain)[0], 1)
    masked = nn.DistributionalQValueModule("one_hot", SUPPORT, action_mask_key="mask")
    td["mask"] = np.array([[True, False], [False, True]])
    np.testing.assert_array_equal(masked(td)["action"], [[1, 0], [0, 1]])


def test_actor() -> None:
    scores = nn.TensorDictModule(lambda x: x + 3, ["observation"], ["q"])
    actor = nn.DistributionalQValueActor(scores, SUPPORT, spec=Categorical(2), action_value_key="q")
    td = actor(TensorDict(observation=LOG_PROBS, batch_size=[2]))
    np.testing.assert_allclose(td["q"], LOG_PROBS, rtol=1e-5)
    np.testing.assert_array_equal(td["action"], [1, 0])
    assert actor.spec == Composite(action=Categorical(2))
    assert len(nn.DistributionalQValueActor(scores, SUPPORT, spec=Categorical(2), action_value_key="q",
                                            make_log_softmax=False)) == 2  # fmt: skip
    assert len(actor.select_subsequence(out_keys=["q"])) == 3


def test_derivative() -> None:
    def score(x: np.ndarray) -> np.ndarray:
        log_probs = nn.DistributionalDQNnet()(x)
        return nn.DistributionalQValueModule("categorical", SUPPORT)(log_probs)[1][:, 0].sum()

    got = grad(score)(LOG_PROBS)
    wanted = np.stack([np.eye(3)[0][:, None] - np.exp(row) for row in LOG_PROBS])
    np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_errors() -> None:
    module = nn.DistributionalQValueModule("categorical", SUPPORT)
    with pytest.raises(RuntimeError, match=r"must be \(\*batch, 3, actions\) for a support of 3 atoms, got"):
        module(LOG_PROBS[:, :2])
    with pytest.raises(ValueError, match="log-probabilities must not exceed 0, got 5"):
        module(LOG_PROBS * 0 + 5)
    with pytest.raises(RuntimeError, match=r"scores must be \(\*batch, atoms, actions\), got shape \(3,\)"):
        nn.DistributionalDQNnet()(SUPPORT)
    with pytest.raises(KeyError, match="DistributionalDQNnet reads the entry 'action_value'"):
        nn.DistributionalDQNnet()(TensorDict())
