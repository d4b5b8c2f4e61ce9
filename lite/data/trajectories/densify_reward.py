"""DensifyReward: sparse rewards as returns-to-go."""

from __future__ import annotations

from lite import NestedKey, TensorDictBase, get_default_dtype
from lite._arrays.public import belong_to
from lite._tree.keys import require_path
from lite.kernels import reward_to_go
from lite.nn import TensorDictModuleBase
from lite.nn.values.entries import require_array, require_tensordict, require_time

_NAME = "DensifyReward"


class DensifyReward(TensorDictModuleBase):
    """Give each step the discounted sum of the rewards from it to the end of its episode.

    Meant for episodes that are rewarded at their end only: each step then has that reward. Other rewards
    are summed, too. The end of the batch ends the last episode.

    Args:
        reward_key: what is summed; this and the following two are relative to `"next"`, also in `in_keys` and
            `out_keys`.
        done_key: key of the flags that end episodes.
        reward_key_out: key of the sums. None: `reward_key`.
        time_dim: the dimension of done that is time, counted from the last if negative. None: the last
            batch dimension.
        discount: in [0, 1].

    `time_dim` and `discount` are attributes and may be changed at any time.

    Raises:
        ValueError: discount out of range.

    Source:
        `DensifyReward` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import DensifyReward
        >>> reward, done = np.zeros((6, 1), np.float32), np.zeros((6, 1), bool)
        >>> reward[2], done[2], reward[4], done[4] = 3, True, 7, True
        >>> td = TensorDict({"next": {"reward": reward, "done": done}}, batch_size=[6])
        >>> DensifyReward()(td)["next", "reward"].ravel()
        array([3., 3., 3., 7., 7., 0.], dtype=float32)
    """

    def __init__(
        self,
        *,
        reward_key: NestedKey = "reward",
        done_key: NestedKey = "done",
        reward_key_out: NestedKey | None = None,
        time_dim: int | None = None,
        discount: float = 1.0,
    ) -> None:
        super().__init__()
        if not 0 <= discount <= 1:
            raise ValueError(f"discount must be in [0, 1], got {discount}.")
        self.in_keys = [reward_key, done_key]
        self.out_keys = [reward_key if reward_key_out is None else reward_key_out]
        self.time_dim = time_dim
        self.discount = discount

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the sums to `tensordict`, and return it.

        The array of the rewards is left as it is; the sums are another, of the same shape and floating
        type. Those of integers are of the default floating type.

        Args:
            tensordict: under `"next"`, rewards and done of one shape, done boolean or of integers. At least
                one batch dimension unless `time_dim` is given.

        Raises:
            KeyError: done or the reward is missing.
            RuntimeError: rewards and done differ in shape, or the TensorDict is locked.
            TypeError: an entry is not an array or of another type, or the input is not a TensorDict.
            ValueError: there is no such dimension, or discount is out of range.
        """
        require_tensordict(tensordict, _NAME)
        time_dim = self.time_dim
        if time_dim is None:
            require_time(tensordict, _NAME)
            time_dim = tensordict.ndim - 1
        reward_path, done_path = [("next", *require_path(key)) for key in self.in_keys]
        reward = require_array(tensordict, reward_path, _NAME)
        done = require_array(tensordict, done_path, _NAME)
        if reward.shape != done.shape:
            raise RuntimeError(
                f"{_NAME} needs rewards of the shape of done, got {reward_path} of shape {reward.shape} and "
                f"{done_path} of shape {done.shape}."
            )
        if reward.dtype.kind in "biu":
            reward = reward.astype(get_default_dtype())
        sums = reward_to_go(reward, done, gamma=self.discount, time_dim=time_dim)
        tensordict.set(("next", *require_path(self.out_keys[0])), sums)
        return tensordict


belong_to("lite.data", DensifyReward)
