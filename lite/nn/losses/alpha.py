"""The weight of entropy in soft actor-critic losses: fixed, or learned for an entropy to be reached."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, get_default_dtype
from lite._arrays.types import Array
from lite._tree.keys import require_path
from lite.nn._modules.parameter import Parameter
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.log_prob_names import set_composite_lp_aggregate
from lite.nn.losses.ensembles import EnsembleLoss
from lite.nn.losses.policies import drawn
from lite.nn.values.entries import detached


class EntropyWeightedLoss(EnsembleLoss):
    """Base of soft actor-critic losses: entropy has the weight alpha = exp(log_alpha)."""

    _schedulable_buffers = frozenset({"alpha_init", "min_log_alpha", "max_log_alpha", "log_alpha"})

    def _set_alpha(
        self, alpha_init: float, min_alpha: float | None, max_alpha: float | None, fixed_alpha: bool
    ) -> None:
        """Make `log_alpha`, a Parameter or, if it is fixed, a buffer, and its limits; list the outputs.

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
        logged = [] if self.reduction == "none" else ["alpha", "entropy"]
        self.out_keys = ["loss_actor", "loss_qvalue", "loss_alpha", *logged]

    def _set_target_entropy(self, name: str, target_entropy: str | float, action_spec: Any) -> None:
        """Keep the entropy that the policy is to have as a buffer.

        Args:
            name: name of the buffer.
            target_entropy: a number; "auto" is the negative number of dimensions of an action.
            action_spec: that of actions, or of a Composite with them; None is the policy's.

        Raises:
            RuntimeError: "auto", and there is no spec.
        """
        if target_entropy == "auto":
            spec = getattr(self.actor_network, "spec", None) if action_spec is None else action_spec
            target_entropy = -float(_event_size(spec, self.tensor_keys.action))
        self.register_buffer(name, np.asarray(target_entropy, get_default_dtype()))

    def _dist(self, data: TensorDictBase, params: TensorDictBase) -> Any:
        """The policy's distribution in some states."""
        with params.to_module(self.actor_network):
            return self.actor_network.get_dist(data.copy())

    def _drawn(self, dist: Distribution) -> tuple[Array, Array]:
        """Actions of a policy, and their log-probs."""
        with set_composite_lp_aggregate(True):
            return drawn(dist, (), self._generator)

    def _constant_actions(self, data: TensorDictBase, params: TensorDictBase) -> tuple[Array, Array]:
        """Actions of the policy in some states, and their log-probs, without gradient."""
        action, log_prob = self._drawn(self._dist(data, detached(params)))
        return detached(action), detached(log_prob)

    def _soft_cost(self, data: TensorDictBase, action: Array, log_prob: Array) -> Array:
        """The objective of a policy: the weighted log-probs of its actions minus their least values."""
        acted = data.select(*self.qvalue_network.in_keys, strict=False).set(self.tensor_keys.action, action)
        least = self._values(detached(self.qvalue_network_params), acted).min(0)
        require_shape(log_prob, least)
        return self._alpha * log_prob - least

    @property
    def _alpha(self) -> Array:
        """The weight as a constant; `log_alpha` is brought between its limits."""
        limits = (self.min_log_alpha, self.max_log_alpha)
        low, high = (None if limit is None else detached(limit) for limit in limits)
        value = detached(self.log_alpha)
        if low is not None or high is not None:
            kept = np.clip(value, low, high)
            if type(value) is np.ndarray and value.flags.writeable:
                value[...] = kept
            value = kept
        return np.exp(value)

    def _alpha_loss(self, log_prob: Array) -> Array:
        """The loss of the weight, which decreases it if the entropy, the negative `log_prob`, exceeds the
        target.
        """
        return -self.log_alpha * (log_prob + self._number("target_entropy"))

    def alpha_loss(self, log_prob: Array) -> Array:
        """The loss of the weight for each log-prob, a constant."""
        return self._alpha_loss(log_prob)

    def _following(self, td: TensorDictBase) -> tuple[TensorDictBase, Array | None]:
        """The next entries, and with `skip_done_states` a mask of those to be kept, if some are not."""
        following: TensorDictBase = td.get("next")
        done = following.get(self.tensor_keys.done, None)
        skips = self.skip_done_states and done is not None and done.any()
        return following, ~done[..., 0] if skips else None

    def _with_alpha(self, out: TensorDict, td: TensorDictBase, log_prob: Array) -> TensorDict:
        """The losses with what is logged; or, of each element, with the batch size."""
        if self.reduction == "none":
            out.batch_size = td.batch_size
        else:
            out.set("alpha", self._alpha)
            out.set("entropy", -log_prob.mean())
        return out


def require_shape(log_prob: Array, values: Array) -> None:
    """Raise RuntimeError unless log-probs and values have one shape."""
    if log_prob.shape != values.shape:
        raise RuntimeError(f"log-probs and values must have one shape, got {log_prob.shape}, {values.shape}.")


def scattered(values: Array, where: Array) -> Array:
    """Values where the mask is True, and 0 elsewhere."""
    out = np.zeros((*where.shape, *values.shape[1:]), values.dtype)
    out[where] = values
    return out


def _event_size(spec: Any, key: NestedKey) -> int:
    """How many dimensions an action has."""
    container: tuple[int, ...] = ()
    for name in require_path(key):
        if hasattr(spec, "keys"):
            container, spec = tuple(spec.shape), dict(spec.items()).get(name)
    if spec is None:
        raise RuntimeError("target_entropy='auto' needs an action_spec, or a policy with a spec.")
    return math.prod(spec.shape[len(container) :])
