"""AdditiveGaussianModule: actions with normal noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import NestedKey
from lite._arrays.public import belong_to
from lite.nn._modules.initial import Rng
from lite.nn.policies.exploration import ExplorationModule, is_exploring
from lite.specs.base import TensorSpec


class AdditiveGaussianModule(ExplorationModule):
    """Add normal noise, times sigma, to actions, and project the sum to the action's spec.

    It comes after a policy in a `TensorDictSequential`. Nothing changes unless `interaction_type()` is RANDOM
    or None.

    Args:
        spec: spec of the action, such as `lite.data.Bounded`; a `Composite` has it at `action_key`. It may be
            given later, as the attribute `spec`.
        sigma_init: the factor of the noise at first.
        sigma_end: the factor in the end.
        annealing_num_steps: frames from the one to the other; see `step`.
        mean: mean of the noise.
        std: standard deviation of the noise, before it is multiplied with sigma.
        action_key: where the action is; "action" by default.
        safe: kept as an attribute; actions are always projected.
        device: None or "cpu".
        generator: a `numpy.random.Generator`, a seed, or None for fresh entropy.

    Attributes:
        sigma, sigma_init, sigma_end, mean, std: buffers, float32 without dimensions.
        spec: by key.

    Raises:
        RuntimeError: `sigma_end` exceeds `sigma_init`; in a call, there is no spec.
        KeyError: in a call, the action or its spec is missing.

    Source:
        torchrl.modules.AdditiveGaussianModule.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Bounded
        >>> explore = nn.AdditiveGaussianModule(Bounded(-1, 1, (2,)), sigma_init=0.5, generator=0)
        >>> td = TensorDict(action=np.ones((3, 2), np.float32), batch_size=[3])
        >>> explore(td)["action"].max()
        np.float32(1.0)
    """

    _amount = "sigma"

    def __init__(
        self,
        spec: TensorSpec | None = None,
        sigma_init: float = 1.0,
        sigma_end: float = 0.1,
        annealing_num_steps: int = 1000,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        action_key: NestedKey | None = "action",
        safe: bool = False,
        device: Any = None,
        generator: Rng = None,
    ) -> None:
        super().__init__(spec, (sigma_init, sigma_end), annealing_num_steps, action_key, device, generator)
        self.register_buffer("mean", np.array(mean, np.float32))
        self.register_buffer("std", np.array(std, np.float32))
        self._start(RuntimeError, (sigma_init, sigma_end))
        self.safe = safe
        self.in_keys = self.out_keys = [self.action_key]

    def forward(self, tensordict: Any) -> Any:
        """Write the action, with noise and projected, and return `tensordict`."""
        if not is_exploring():
            return tensordict
        action = self._entry(tensordict, self.action_key)
        spec = self._action_spec()
        noise = self._generator().normal(self.mean, self.std, action.shape).astype(action.dtype)
        return tensordict.set(self.action_key, spec.project(action + noise * self.sigma.astype(action.dtype)))


belong_to("lite.nn", AdditiveGaussianModule)
