"""The weight of entropy."""

from typing import Any

import numpy as np
import pytest
from helpers.nn.transitions import gaussian, q_network

from lite import enable_grad
from lite.nn import Parameter
from lite.nn.losses import SACLoss


def made(**options: Any) -> SACLoss:
    return SACLoss(gaussian(True), [q_network(), q_network(3)], target_entropy=-2.0, **options)


def test_it_is_learned_or_fixed() -> None:
    learned, fixed = made(alpha_init=0.5), made(alpha_init=0.5, fixed_alpha=True)
    assert isinstance(learned.log_alpha, Parameter)
    assert "log_alpha" not in dict(fixed.named_parameters())
    np.testing.assert_allclose([learned._alpha, fixed._alpha], 0.5, rtol=1e-6)
    with enable_grad():
        learned.alpha_loss(np.array([3.0])).sum().backward()
    np.testing.assert_allclose(learned.log_alpha.grad, -1.0)


def test_limits() -> None:
    loss = made(alpha_init=5.0, min_alpha=0.1, max_alpha=2.0)
    np.testing.assert_allclose(loss._alpha, 2.0, rtol=1e-6)
    np.testing.assert_allclose(loss.log_alpha.data, np.log(2.0), rtol=1e-6)
    loss.log_alpha.fill_(-9.0)
    np.testing.assert_allclose(loss._alpha, 0.1, rtol=1e-6)
    with pytest.raises(ValueError, match=r"alpha_init must be positive, got 0"):
        made(alpha_init=0.0)
    with pytest.raises(ValueError, match=r"max_alpha must be greater than 0 and min_alpha=1\.0, got 0\.5"):
        made(min_alpha=1.0, max_alpha=0.5)
