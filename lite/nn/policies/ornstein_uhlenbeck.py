"""OrnsteinUhlenbeckProcessModule: actions with noise that depends on the noise before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lite import NestedKey
from lite._arrays.public import belong_to
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn.policies.exploration import ExplorationModule, is_exploring
from lite.nn.tensordict_modules.entry_specs import projected
from lite.specs.base import TensorSpec

NOISE, STEPS = "_ou_prev_noise", "_ou_steps"


class OrnsteinUhlenbeckProcessModule(ExplorationModule):
    """Add noise to actions that pulls back to `mu` and drifts at random, and project the sum to their spec.

    The noise of a step is n' = n + theta (mu - n) dt + sigma sqrt(dt) w, with w from the standard normal
    distribution; the action gets eps n'. The entries "_ou_prev_noise", n' - x0, and "_ou_steps", int64 of the
    batch's shape, go from step to step in the TensorDict, and restart where `is_init_key` is True. It
    comes after a policy in a `TensorDictSequential`. Nothing changes unless `interaction_type()` is RANDOM
    or None.

    Args:
        spec: spec of the action, such as `lite.data.Bounded`; a `Composite` has it at `action_key`.
        eps_init: the factor of the noise at first.
        eps_end: the factor in the end.
        annealing_num_steps: frames from the one to the other; see `step`.
        theta, mu, sigma, dt: parameters of the noise.
        x0: the noise before the first step, a number or an array that broadcasts to the action; 0 by default.
        sigma_min: what sigma shrinks to within an episode; None: it stays as it is.
        n_steps_annealing: steps of an episode from `sigma` to `sigma_min`.
        action_key: where the action is.
        is_init_key: where the flags are that an episode begins, (*batch, 1) or (*batch); no episode begins if
            there is no such entry.
        safe: whether a spec is needed. A spec that is given is projected to, in any case.
        device: None or "cpu".
        generator: a `numpy.random.Generator`, a seed, or None for fresh entropy.

    Raises:
        RuntimeError, KeyError: there is no spec; in a call, the action or its spec is missing.
        ValueError: `eps_end` exceeds `eps_init`; in a call, flags of another shape.

    Source:
        torchrl.modules.OrnsteinUhlenbeckProcessModule; Lillicrap et al. (2015), arXiv:1509.02971.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Bounded
        >>> explore = nn.OrnsteinUhlenbeckProcessModule(Bounded(-1, 1, (2,)), generator=0)
        >>> td = TensorDict(action=np.zeros((3, 2), np.float32), batch_size=[3])
        >>> explore(explore(td))["_ou_steps"]
        array([2, 2, 2])
    """

    _amount = "eps"

    def __init__(
        self,
        spec: TensorSpec | None,
        eps_init: float = 1.0,
        eps_end: float = 0.1,
        annealing_num_steps: int = 1000,
        theta: float = 0.15,
        mu: float = 0.0,
        sigma: float = 0.2,
        dt: float = 0.01,
        x0: Any = None,
        sigma_min: float | None = None,
        n_steps_annealing: int = 1000,
        *,
        action_key: NestedKey = "action",
        is_init_key: NestedKey = "is_init",
        safe: bool = True,
        device: Any = None,
        generator: Rng = None,
    ) -> None:
        super().__init__(spec, (eps_init, eps_end), annealing_num_steps, action_key, device, generator)
        if spec is None and safe:
            raise RuntimeError("spec must be given for safe=True, got None.")
        self._start(ValueError, (eps_init, eps_end))
        self.ou = _Process(theta, mu, sigma, dt, x0, sigma_min, n_steps_annealing)
        self.is_init_key = is_init_key
        self.safe = safe
        self.in_keys = [self.action_key]
        self.out_keys = [self.action_key, NOISE, STEPS]

    def forward(self, tensordict: Any) -> Any:
        """Write the action, with noise and projected, and the state of the noise; return `tensordict`."""
        action = self._entry(tensordict, self.action_key)
        spec = None if self._spec is None else self._action_spec()
        if not is_exploring():
            return tensordict if spec is None else tensordict.set(self.action_key, projected(spec, action))
        batch = tuple(tensordict.batch_size)
        noise, steps = tensordict.get(NOISE, None), tensordict.get(STEPS, None)
        noise = np.zeros_like(action) if noise is None else noise
        steps = np.zeros(batch, np.int64) if steps is None else steps
        starts = tensordict.get(self.is_init_key, None)
        if starts is not None:
            if starts.shape not in (batch, (*batch, 1)):
                raise ValueError(f"{self.is_init_key!r} must have shape {(*batch, 1)}, got {starts.shape}.")
            starts = starts.reshape(batch)
            steps = np.where(starts, 0, steps)
            noise = np.where(_over(starts, noise), noise.dtype.type(0), noise)
        drawn = self._generator().standard_normal(action.shape).astype(action.dtype)
        shift, after = self.ou(noise, _over(steps, noise), drawn)
        explored = action + self.eps.astype(action.dtype) * shift
        tensordict.set(self.action_key, explored if spec is None else spec.project(explored))
        return tensordict.set(NOISE, after).set(STEPS, steps + 1)


class _Process(Module):
    """The noise itself. A child, and with a buffer of nothing, as state dicts of TorchRL have both."""

    def __init__(
        self,
        theta: float,
        mu: float,
        sigma: float,
        dt: float,
        x0: Any,
        sigma_min: float | None,
        n_steps_annealing: int,
    ) -> None:
        super().__init__()
        self.theta = theta
        self.mu = mu
        self.sigma = sigma
        self.dt = dt
        self.sigma_min = sigma if sigma_min is None else sigma_min
        self.n_steps_annealing = n_steps_annealing
        self.register_buffer("_empty_tensor_device", np.zeros(0, np.float32))
        if isinstance(x0, np.ndarray):
            self.register_buffer("x0", x0.astype(np.float32))
        else:
            self.x0 = 0.0 if x0 is None else x0

    def forward(self, noise: Any, steps: Any, drawn: Any) -> tuple[Any, Any]:
        """The noise that is added to an action, and the new state of the process."""
        shrunk = self.sigma - (self.sigma - self.sigma_min) / self.n_steps_annealing * steps
        sigma = np.maximum(self.sigma_min, shrunk).astype(noise.dtype)
        before = noise + self.x0
        drift = self.theta * (self.mu - before) * self.dt
        shift = (before + drift + sigma * math.sqrt(self.dt) * drawn).astype(noise.dtype, copy=False)
        return shift, (shift - self.x0).astype(noise.dtype, copy=False)


def _over(flags: Any, like: Any) -> Any:
    """With dimensions behind, as many as `like` has."""
    return flags.reshape(flags.shape + (1,) * (like.ndim - flags.ndim))


belong_to("lite.nn", OrnsteinUhlenbeckProcessModule)
