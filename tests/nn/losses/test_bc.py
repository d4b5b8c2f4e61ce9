"""BCLoss."""

import numpy as np
import pytest
from helpers.cases import raises
from helpers.nn.transitions import categorical, gaussian, linear, transitions

from lite import nn
from lite.nn.losses import BCLoss


def test_log_probs_of_policies() -> None:
    for policy, action in ((gaussian(), np.zeros((6, 2))), (categorical(), np.arange(6) % 3)):
        td = transitions(6, action=action)
        expected = -policy.get_dist(td.copy()).log_prob(action)
        np.testing.assert_allclose(BCLoss(policy, reduction="none")(td)["loss_bc"], expected)
        assert BCLoss(policy)(observation=td["observation"], action=action) == expected.mean()


def test_classes() -> None:
    scores = nn.TensorDictModule(linear(4, 3), ["observation"], ["action"])
    td = transitions(6, action=np.arange(6) % 3)
    log_probs = nn.LogSoftmax(-1)(linear(4, 3)(td["observation"]))
    np.testing.assert_allclose(BCLoss(scores)(td)["loss_bc"], -log_probs[np.arange(6), td["action"]].mean())
    rows = td.reshape(3, 2).copy()  # episodes of two steps
    np.testing.assert_allclose(BCLoss(scores)(rows)["loss_bc"], BCLoss(scores)(td)["loss_bc"], rtol=1e-6)
    with pytest.raises(RuntimeError, match="ids must be one for each row of scores"):
        BCLoss(scores)(td.set("action", np.zeros((6, 2), int)))


def test_padding() -> None:
    policy = gaussian()
    td = transitions(6, action=np.zeros((6, 2)), is_pad=np.arange(6) > 3)
    expected = BCLoss(policy)(td[:4])["loss_bc"]
    loss = BCLoss(policy)
    loss.set_keys(pad_mask="is_pad")
    td["action"][4:] = np.nan
    np.testing.assert_allclose(loss(td)["loss_bc"], expected)
    td["is_pad"] = np.zeros((6, 2), bool)
    raises(RuntimeError, "to mask numbers, choose a loss_function that has one for each", lambda: loss(td))


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"loss_function must be one of .* or a function, got 'l5'"):
        BCLoss(gaussian(), loss_function="l5")
    silent = nn.TensorDictModule(linear(4, 2), ["observation"], ["other"])
    td = transitions(6, action=np.zeros((6, 2)))
    raises(RuntimeError, r"the policy must write 'action', got \['other'\]", lambda: BCLoss(silent)(td))
    raises(KeyError, "BCLoss reads the entry 'action'", lambda: BCLoss(silent)(td.exclude("action")))
    wide = nn.TensorDictModule(linear(4, 3), ["observation"], ["action"])
    raises(RuntimeError, "values and targets must have one shape", lambda: BCLoss(wide)(td))


def test_a_function_as_distance() -> None:
    policy = nn.TensorDictModule(linear(4, 2), ["observation"], ["action"])
    td = transitions(6, action=np.ones((6, 2)))
    out = BCLoss(policy, loss_function=lambda a, b: (a - b) ** 4, reduction="sum")(td)
    np.testing.assert_allclose(out["loss_bc"], ((linear(4, 2)(td["observation"]) - 1) ** 4).sum())
