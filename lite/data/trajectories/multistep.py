"""MultiStep: rewards summed, and observations taken, n steps ahead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lite import NestedKey, TensorDictBase
from lite._arrays.public import belong_to
from lite.data.trajectories.n_step import DEFAULT_DONE_KEYS, check_gamma, n_step
from lite.kernels._integer import integer
from lite.nn import Module


class MultiStep(Module):
    """Rewrite one-step transitions as n-step ones.

    Time is the last batch dimension. At step t, with s the smaller of `n_steps` and the number of steps
    to the end of the episode (or of the batch):

    - `("next", "reward")` becomes r(t) + gamma r(t+1) + ... over the s steps; what it was goes to
      `("next", "original_reward")`;
    - everything else in `"next"`, except `done_keys`, becomes what it was at step t + s - 1;
    - new entries at the root, of the shape of done (without a last dimension of 1): `"steps_to_next_obs"`
      is s, `"gamma"` is gamma ** s, `"nonterminal"` tells whether s is larger than 1 and the step is not
      masked.

    A bootstrapped target is thus `reward + gamma * value(next)`. Beware that `("next", "done")` and its like
    stay where they are (torchrl does the same): a target that multiplies by `1 - terminated` bootstraps from
    terminal states up to n - 1 steps before them. `shift_done=True` moves them along with the observations.

    Args:
        gamma: discount per step, in (0, 1].
        n_steps: rewards per sum; 0 keeps all values, and the new entries are those of 1.
        done_key, done_keys: where an episode ends; what is not shifted. Keys are in "next".
        reward_keys: what is summed; `"original_reward"` holds the last one's.
        mask_key: a boolean entry at the root that is False at padding; None, or a missing entry, for none.
            It only clears `"nonterminal"`.
        shift_done: shift `done_keys` too. All arguments are attributes, which may be changed at any time.

    Raises:
        ValueError, TypeError: gamma or n_steps out of range; n_steps is no integer.

    Source:
        Sutton (1988), Learning to predict by the methods of temporal differences.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import MultiStep
        >>> after = {"reward": np.ones(5, np.float32), "done": np.array([0, 0, 0, 1, 0], bool)}
        >>> out = MultiStep(gamma=0.5, n_steps=3)(TensorDict(next=after, batch_size=[5]))
        >>> out["next", "reward"], out["steps_to_next_obs"]
        (array([1.75, 1.75, 1.5 , 1.  , 1.  ], dtype=float32), array([3, 3, 2, 1, 1]))
    """

    def __init__(
        self,
        gamma: float,
        n_steps: int,
        *,
        done_key: NestedKey = "done",
        done_keys: Sequence[NestedKey] = DEFAULT_DONE_KEYS,
        reward_keys: Sequence[NestedKey] = ("reward",),
        mask_key: NestedKey | None = ("collector", "mask"),
        shift_done: bool = False,
    ) -> None:
        super().__init__()
        steps = integer("n_steps", n_steps, least=0)
        self.gamma = check_gamma(gamma)
        self.n_steps = n_steps
        self.done_key = done_key
        self.done_keys = done_keys
        self.reward_keys = reward_keys
        self.mask_key = mask_key
        self.shift_done = shift_done
        # Not read: it keeps the state dict that of torchrl's class.
        powers = float(gamma) ** np.arange(steps + 1.0)
        self.register_buffer("gammas", powers.astype(np.float32).reshape(1, 1, -1))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The transformed data, in new containers; the input stays as it is.

        Args:
            tensordict: at least one batch dimension, the last of which is time. Under `"next"`, done is
                boolean (or integers 0 and 1), of the shape of the batch, that and a last dimension of 1, or
                the batch and more dimensions (of agents, say): then every entry must have these
                dimensions too. Rewards have the shape of done and any feature dimensions.

        Raises:
            ValueError: there is no batch dimension.
            KeyError: done, or a reward, is missing.
            RuntimeError: shapes do not fit.
            TypeError: done or the mask is not boolean, a reward is no array, or the input no TensorDict.
        """
        return n_step(tensordict, "MultiStep", self)


belong_to("lite.data", MultiStep)
