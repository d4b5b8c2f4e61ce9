"""DiscreteSACLoss."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.nn.transitions import categorical, linear, transitions

from lite import nn
from lite.nn.losses import DiscreteSACLoss


def made(**options: Any) -> DiscreteSACLoss:
    critics = [nn.TensorDictModule(linear(4, 3, seed), ["observation"], ["action_value"]) for seed in (4, 5)]
    options = {"action_space": "categorical", "num_actions": 3, "delay_qvalue": False, **options}
    return DiscreteSACLoss(categorical(), critics, **options)


def test_by_hand() -> None:
    td = transitions(6, action=np.arange(6) % 3)
    out = made(alpha_init=0.5, reduction="sum")(td)
    dist = categorical().get_dist(td.copy())
    values = np.stack([linear(4, 3, seed)(td["observation"]) for seed in (4, 5)])
    expected = (dist.probs * (0.5 * dist.logits - values.min(0))).sum()
    np.testing.assert_allclose(out["loss_actor"], expected, rtol=1e-6)
    np.testing.assert_allclose(out["entropy"], dist.entropy().mean())


def test_errors() -> None:
    with pytest.warns(UserWarning, match="action_space is not given: 'one-hot' is taken"):
        assert made(action_space=None).action_space == "one_hot"
    raises(ValueError, "num_actions must be given for target_entropy='auto'", made, num_actions=None)
    td = transitions(6, action=np.zeros((6, 3)))
    raises(ValueError, "the actions must be ids", made(), td)
    assert "td_error" not in td
