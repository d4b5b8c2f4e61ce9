"""EGreedyModule: random actions with a probability that shrinks."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import NestedKey
from lite._arrays.public import belong_to
from lite.nn._modules.initial import Rng
from lite.nn.policies.exploration import ExplorationModule, is_exploring
from lite.nn.tensordict_modules.q_value import action_space_of
from lite.specs.base import TensorSpec


class EGreedyModule(ExplorationModule):
    """Replace actions by random ones with probability epsilon.

    It comes after a policy in a `TensorDictSequential`. Each element of the batch is replaced or kept as a
    whole. Nothing changes unless `interaction_type()` is RANDOM or None.

    Args:
        spec: spec of the action, from which random ones are drawn; a `Composite` has it at `action_key`.
        eps_init: the probability at first.
        eps_end: the probability in the end.
        annealing_num_steps: frames from the one to the other; see `step`.
        action_key: where the action is; "action" by default.
        action_mask_key: entry (*batch, n) that is True where an action is allowed, for specs of one choice
            of n; random actions are drawn among the allowed ones.
        device: None or "cpu".
        generator: a `numpy.random.Generator`, a seed, or None for fresh entropy.

    Attributes:
        eps, eps_init, eps_end: buffers, float32 without dimensions.
        spec: by key.

    Raises:
        RuntimeError: `eps_end` exceeds `eps_init`; in a call, there is no spec.
        KeyError: in a call, the action, its mask or its spec is missing.
        ValueError: in a call, shapes do not fit, or a mask allows no action.

    Source:
        torchrl.modules.EGreedyModule; Watkins (1989), Learning from delayed rewards.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Categorical
        >>> actor = nn.QValueActor(nn.MLP(3, 4, num_cells=[8]), spec=Categorical(4))
        >>> explore = nn.EGreedyModule(Categorical(4), annealing_num_steps=100, generator=0)
        >>> policy = nn.TensorDictSequential(actor, explore)
        >>> policy(TensorDict(observation=np.zeros((5, 3), np.float32), batch_size=[5]))["action"]
        array([2, 3, 2, 2, 3])
    """

    _amount = "eps"

    def __init__(
        self,
        spec: TensorSpec | None,
        eps_init: float = 1.0,
        eps_end: float = 0.1,
        annealing_num_steps: int = 1000,
        *,
        action_key: NestedKey | None = "action",
        action_mask_key: NestedKey | None = None,
        device: Any = None,
        generator: Rng = None,
    ) -> None:
        super().__init__(spec, (eps_init, eps_end), annealing_num_steps, action_key, device, generator)
        self._start(RuntimeError, (eps_init, eps_end))
        self.action_mask_key = action_mask_key
        self.in_keys = [self.action_key, *([] if action_mask_key is None else [action_mask_key])]
        self.out_keys = [self.action_key]

    def forward(self, tensordict: Any) -> Any:
        """Write the action, explored, and return `tensordict`."""
        if not is_exploring():
            return tensordict
        action = self._entry(tensordict, self.action_key)
        spec = self._action_spec()
        rng = self._generator()
        batch = tuple(tensordict.batch_size)
        chosen = rng.random(batch) < self.eps
        chosen = chosen.reshape(batch + (1,) * (action.ndim - len(batch)))
        drawn = self._drawn(tensordict, action, spec, rng)
        explored = np.where(chosen, drawn.astype(action.dtype, copy=False), action)
        return tensordict.set(self.action_key, explored)

    def _drawn(self, tensordict: Any, action: Any, spec: TensorSpec, rng: np.random.Generator) -> Any:
        """Random actions of the shape of `action`."""
        if self.action_mask_key is None:
            if action.shape[max(0, action.ndim - spec.ndim) :] != spec.shape:
                raise ValueError(f"the action must be of {spec!r}, got shape {action.shape}.")
            return spec.rand(action.shape[: action.ndim - spec.ndim], rng=rng)
        mask = np.asarray(self._entry(tensordict, self.action_mask_key), np.bool_)
        space = action_space_of(spec, "the spec of a masked action")
        if space == "mult_one_hot":
            raise ValueError(f"a mask needs a spec of one choice of n, got {spec!r}.")
        wanted = action.shape if space == "one_hot" else (*action.shape, *mask.shape[-1:])
        if mask.shape != wanted:
            raise ValueError(
                f"the mask must have shape {wanted}, one flag for each choice, got {mask.shape}."
            )
        if not mask.any(-1).all():
            raise ValueError(f"the mask {self.action_mask_key!r} allows no action in some rows.")
        ids = np.where(mask, rng.random(mask.shape), -1.0).argmax(-1)
        return ids if space == "categorical" else np.arange(mask.shape[-1]) == ids[..., None]


belong_to("lite.nn", EGreedyModule)
