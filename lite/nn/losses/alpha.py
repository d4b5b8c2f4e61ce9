"""The weight of entropy in soft actor-critic losses: fixed, or learned for an entropy to be reached."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lite import get_default_dtype
from lite.nn._modules.parameter import Parameter
from lite.nn.losses.base import LossModule
from lite.nn.values.detached import detached


class EntropyWeightedLoss(LossModule):
    """Base of losses with an entropy of weight alpha = exp(log_alpha), between limits."""

    _schedulable_buffers = frozenset({"alpha_init", "min_log_alpha", "max_log_alpha", "log_alpha"})

    def _set_alpha(
        self, alpha_init: float, min_alpha: float | None, max_alpha: float | None, fixed_alpha: bool
    ) -> None:
        """Make `log_alpha`, a Parameter or, if it is fixed, a buffer, and its limits.

        Raises:
            ValueError: an alpha that is not positive, or limits in the wrong order.
        """
        if alpha_init <= 0:
            raise ValueError(f"alpha_init must be positive, got {alpha_init}.")
        if max_alpha is not None and not max(min_alpha or 0.0, 0.0) < max_alpha:
            raise ValueError(f"max_alpha must be greater than 0 and min_alpha={min_alpha}, got {max_alpha}.")
        if min_alpha and max_alpha is None:
            max_alpha = 1e9
        dtype = get_default_dtype()
        self.register_coeff_buffer("alpha_init", alpha_init)
        for name, limit in (("min_log_alpha", min_alpha), ("max_log_alpha", max_alpha)):
            if limit:
                self.register_buffer(name, np.log(np.asarray(limit, dtype)))
            else:
                setattr(self, name, None)
        self.fixed_alpha = fixed_alpha
        start = np.asarray(math.log(alpha_init), dtype)
        if fixed_alpha:
            self.register_buffer("log_alpha", start)
        else:
            self.log_alpha = Parameter(start)

    @property
    def _alpha(self) -> Any:
        """The weight as a constant; `log_alpha` is brought between its limits."""
        low, high = self.min_log_alpha, self.max_log_alpha
        value = detached(self.log_alpha)
        if low is not None or high is not None:
            kept = np.clip(value, low, high)
            if type(value) is np.ndarray and value.flags.writeable:
                value[...] = kept
            value = kept
        return np.exp(value)

    def _alpha_loss(self, log_prob: Any) -> Any:
        """The loss of the weight, which decreases it if the entropy, the negative `log_prob`, exceeds the
        target.
        """
        log_alpha: Any = self.log_alpha
        return -log_alpha * (log_prob + self._number("target_entropy"))

    def alpha_loss(self, log_prob: Any) -> Any:
        """The loss of the weight for each log-prob, a constant."""
        return self._alpha_loss(log_prob)
