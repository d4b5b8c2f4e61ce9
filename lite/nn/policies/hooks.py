"""Forward hooks that choose actions from the output of a network of action values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lite import NestedKey
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn.policies.distributional import DistributionalQValueModule
from lite.nn.tensordict_modules.q_value import QValueModule


class QValueHook:
    """A forward hook of a network of action values: returns the action, the values, and the action's value.

    Args:
        action_space, var_nums, action_value_key, action_mask_key, out_keys: as for `QValueModule`.

    Raises:
        ValueError, RuntimeError: as `QValueModule`.

    Source:
        torchrl.modules.QValueHook.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> net = nn.MLP(3, 4, num_cells=[8])
        >>> handle = net.register_forward_hook(nn.QValueHook("categorical"))
        >>> [array.shape for array in net(np.zeros((5, 3), np.float32))]
        [(5,), (5, 4), (5, 1)]
    """

    def __init__(
        self,
        action_space: str,
        var_nums: int | Sequence[int] | None = None,
        action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        self.qvalue_model = QValueModule(action_space, action_value_key, action_mask_key, out_keys, var_nums)

    def __call__(self, net: Any, observation: Any, values: Array) -> Any:
        """The outputs that replace `values`."""
        return self.qvalue_model(values)


class DistributionalQValueHook(QValueHook):
    """A forward hook of a network of action-value distributions: returns the action and the distributions.

    Args:
        action_space: as for `QValueModule`.
        support: the values of the atoms, (atoms,).
        var_nums, action_value_key, action_mask_key, out_keys: as for `DistributionalQValueModule`.

    Raises:
        ValueError, RuntimeError: as `DistributionalQValueModule`.

    Source:
        torchrl.modules.DistributionalQValueHook.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> net = nn.Sequential(nn.MLP(3, out_features=(2, 4)), nn.LogSoftmax(-2))
        >>> hook = nn.DistributionalQValueHook("one_hot", np.array([0.0, 1.0], np.float32))
        >>> handle = net.register_forward_hook(hook)
        >>> [array.shape for array in net(np.zeros((5, 3), np.float32))]
        [(5, 4), (5, 2, 4)]
    """

    def __init__(
        self,
        action_space: str,
        support: Array,
        var_nums: int | Sequence[int] | None = None,
        action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        self.qvalue_model = DistributionalQValueModule(
            action_space, support, action_value_key, action_mask_key, out_keys, var_nums
        )


belong_to("lite.nn", DistributionalQValueHook, QValueHook)
