"""Distributional Q-learning: DistributionalDQNnet, DistributionalQValueModule, DistributionalQValueActor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite import NestedKey
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._transforms.vmap.running import everything
from lite.nn.layers.activations import LogSoftmax
from lite.nn.policies.safe import SafeSequential
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.module import listed
from lite.nn.tensordict_modules.q_value import QValueModule, value_network
from lite.specs.base import TensorSpec


class DistributionalDQNnet(TensorDictModuleBase):
    """Log-probabilities of atoms from their scores: the log-softmax over the second to last dimension.

    Args:
        in_keys: keys of scores, (*batch, atoms, n); "action_value" by default.
        out_keys: keys of log-probabilities; "action_value" by default.

    Raises:
        RuntimeError: in a call, scores of fewer than two dimensions.

    Source:
        torchrl.modules.DistributionalDQNnet; Bellemare et al. (2017), A distributional perspective on
        reinforcement learning (arXiv:1707.06887).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> np.exp(nn.DistributionalDQNnet()(np.zeros((4, 2)))).tolist()
        [[0.25, 0.25], [0.25, 0.25], [0.25, 0.25], [0.25, 0.25]]
    """

    def __init__(
        self, *, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None
    ) -> None:
        super().__init__()
        self.in_keys = ["action_value"] if in_keys is None else listed(in_keys, str)
        self.out_keys = ["action_value"] if out_keys is None else listed(out_keys, str)

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any) -> Any:
        """Write the log-probabilities, and return `tensordict`."""
        for key, written in zip(self.in_keys, self.out_keys, strict=True):
            scores = self._entry(tensordict, key)
            if scores.ndim < 2:
                raise RuntimeError(f"scores must be (*batch, atoms, actions), got shape {scores.shape}.")
            tensordict.set(written, LogSoftmax(-2)(scores))
        return tensordict


class DistributionalQValueModule(QValueModule):
    """Chooses the action whose value has the largest mean.

    Reads the log-probabilities of atoms for each of n actions, (*batch, atoms, n), and writes the action and
    the log-probabilities again.

    Args:
        action_space: as for `QValueModule`.
        support: the values of the atoms, (atoms,).
        action_value_key, action_mask_key, out_keys, var_nums, spec, safe: as for `QValueModule`; the mask is
            (*batch, n), and there is no value of the action among the outputs.

    Attributes:
        support: a buffer.
        action_space, spec: as for `QValueModule`.

    Raises:
        ValueError, RuntimeError, KeyError: as `QValueModule`; in a call, ValueError for numbers above 0,
            which are not log-probabilities, and RuntimeError for another number of atoms.

    Source:
        torchrl.modules.DistributionalQValueModule.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> module = nn.DistributionalQValueModule("categorical", np.array([0.0, 1.0]))
        >>> action, log_probs = module(np.log(np.array([[0.9, 0.5], [0.1, 0.5]])))
        >>> int(action)
        1
    """

    support: Array

    def __init__(
        self,
        action_space: str | None,
        support: Array,
        action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        var_nums: int | Sequence[int] | None = None,
        spec: TensorSpec | None = None,
        safe: bool = False,
    ) -> None:
        super().__init__(
            action_space,
            action_value_key,
            action_mask_key,
            out_keys,
            var_nums,
            spec,
            safe,
            strict_shape=False,
        )
        self.register_buffer("support", support)

    def _default_out_keys(self) -> list[NestedKey]:
        return ["action", self.action_value_key]

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any) -> Any:
        """Write action and log-probabilities, and return `tensordict`."""
        log_probs = self._entry(tensordict, self.action_value_key)
        atoms = self.support.shape[-1]
        if log_probs.ndim < 2 or log_probs.shape[-2] != atoms:
            raise RuntimeError(
                f"log-probabilities must be (*batch, {atoms}, actions) for a support of {atoms} atoms, got "
                f"shape {log_probs.shape}."
            )
        known = everything(log_probs)
        if (known > 0).any():
            raise ValueError(
                f"log-probabilities must not exceed 0, got {known.max()}: DistributionalDQNnet makes them."
            )
        weighted = np.exp(log_probs) * self.support.astype(log_probs.dtype)[:, None]
        values = self._masked(tensordict, weighted.sum(-2))
        return self._written(tensordict, (self._best(values), log_probs))


class DistributionalQValueActor(SafeSequential):
    """An actor: a network of distributions of action values, and the action with the largest mean value.

    Args:
        module: maps observations to scores (*batch, atoms, n), such as an `MLP` with `out_features=(atoms,
            n)`; or a TensorDictModule that writes them.
        support: the values of the atoms, (atoms,).
        in_keys: keys of the inputs of `module`; "observation" by default.
        spec, safe, var_nums, action_space, action_mask_key: as for `DistributionalQValueModule`.
        action_value_key: key of the log-probabilities.
        make_log_softmax: whether `module` returns scores, which become log-probabilities first.

    Attributes:
        support: a buffer.
        action_space, spec: as for `QValueModule`.

    Raises:
        ValueError, RuntimeError, KeyError: as `QValueActor` and `DistributionalQValueModule`.

    Source:
        torchrl.modules.DistributionalQValueActor.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import Categorical
        >>> net = nn.MLP(3, out_features=(5, 2), num_cells=[8])
        >>> support = np.linspace(-1, 1, 5, dtype=np.float32)
        >>> actor = nn.DistributionalQValueActor(net, support, spec=Categorical(2))
        >>> td = actor(TensorDict(observation=np.zeros((4, 3), np.float32), batch_size=[4]))
        >>> td["action"].shape, td["action_value"].shape
        ((4,), (4, 5, 2))
    """

    _sequence = SafeSequential

    support: Array

    def __init__(
        self,
        module: Any,
        support: Array,
        in_keys: Sequence[NestedKey] | None = None,
        spec: TensorSpec | None = None,
        safe: bool = False,
        var_nums: int | Sequence[int] | None = None,
        action_space: str | None = None,
        action_value_key: NestedKey = "action_value",
        action_mask_key: NestedKey | None = None,
        make_log_softmax: bool = True,
    ) -> None:
        choice = DistributionalQValueModule(
            action_space, support, action_value_key, action_mask_key, None, var_nums, spec, safe
        )
        modules = [value_network(module, in_keys, action_value_key)]
        if make_log_softmax:
            modules.append(DistributionalDQNnet(in_keys=[action_value_key], out_keys=[action_value_key]))
        super().__init__(*modules, choice)
        self.register_buffer("support", support)
        self.action_space = choice.action_space
        self.action_value_key = action_value_key
        self.make_log_softmax = make_log_softmax


belong_to("lite.nn", DistributionalDQNnet, DistributionalQValueActor, DistributionalQValueModule)
