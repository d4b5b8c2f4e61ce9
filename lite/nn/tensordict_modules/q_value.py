"""Modules for the values of actions and states: QValueModule, QValueActor, ValueOperator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite import NestedKey
from lite._arrays.public import belong_to
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.module import TensorDictModule
from lite.nn.tensordict_modules.sequential import TensorDictSequential

_SPACES = {
    "one_hot": "one_hot",
    "one-hot": "one_hot",
    "categorical": "categorical",
    "OneHot": "one_hot",
    "Categorical": "categorical",
}


def action_space_of(space: Any, argument: str = "action_space") -> str:
    """How actions are written, "one_hot" or "categorical", given by name or by a spec.

    Raises:
        ValueError: neither of the two.
    """
    name = space if isinstance(space, str) else type(space).__name__
    if name == "Composite":
        return action_space_of(space["action"], argument)
    if name not in _SPACES:
        raise ValueError(f"{argument} must be 'one-hot', 'categorical' or a spec of one, got {space!r}.")
    return _SPACES[name]


def value_of_action(values: Any, action: Any, space: str) -> Any:
    """The values of the actions that were taken, (*batch, 1), out of those of all actions, (*batch, n).

    Args:
        values: what each action is worth.
        action: ids, (*batch) or (*batch, 1), or rows of 0 and 1, (*batch, n).
        space: "categorical" for ids, else "one_hot".

    Raises:
        ValueError: actions of another shape, or ids that are no integers.
    """
    if space == "categorical":
        ids = action[..., None] if action.ndim == values.ndim - 1 else action
        if ids.shape != (*values.shape[:-1], 1):
            raise ValueError(
                f"the actions must be ids of shape {values.shape[:-1]}, one for each row of action values of "
                f"shape {values.shape}, got {action.shape}."
            )
        if ids.dtype.kind not in "iu":
            raise ValueError(f"the actions must be integers for action_space='categorical', got {ids.dtype}.")
        return np.take_along_axis(values, ids, -1)
    if action.shape != values.shape:
        raise ValueError(f"one-hot actions must have the values' shape {values.shape}, got {action.shape}.")
    return (values * action.astype(values.dtype)).sum(-1, keepdims=True)


class QValueModule(TensorDictModuleBase):
    """Take the action that is worth most.

    Reads what each action is worth, (*batch, n), and writes the action, the values again, and the value of
    that action, (*batch, 1).

    Args:
        action_space: "categorical" for ids of shape (*batch), int64, or "one-hot" for rows, (*batch, n), of 0
            and 1. None: as `spec` says.
        action_value_key: where the values are; "action_value" by default.
        action_mask_key: entry that is True where an action is allowed; the others count as the lowest number
            of the dtype.
        out_keys: of action, values and value of the action; "action", `action_value_key` and
            "chosen_action_value" by default.
        spec: of the action, such as `lite.data.Categorical`.

    Raises:
        ValueError: another action space.
        RuntimeError: `action_value_key` is not among `out_keys`.

    Source:
        torchrl.modules.QValueModule.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.nn import QValueModule
        >>> td = TensorDict({"action_value": np.array([[1.0, 3.0, 2.0]])}, batch_size=[1])
        >>> td = QValueModule(action_space="categorical")(td)
        >>> td["action"], td["chosen_action_value"]
        (array([1]), array([[3.]]))
    """

    def __init__(
        self,
        action_space: str | None = None,
        action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        spec: Any = None,
    ) -> None:
        super().__init__()
        self.action_space = action_space_of(spec if action_space is None else action_space)
        self.action_value_key = "action_value" if action_value_key is None else action_value_key
        self.action_mask_key = action_mask_key
        self.in_keys = [self.action_value_key]
        if action_mask_key is not None:
            self.in_keys = [self.action_value_key, action_mask_key]
        if out_keys is None:
            out_keys = ["action", self.action_value_key, "chosen_action_value"]
        elif self.action_value_key not in out_keys:
            raise RuntimeError(
                f"out_keys must have {action_value_key!r}, the key of the values, got {out_keys}."
            )
        self.out_keys = list(out_keys)
        self.__dict__["spec"] = spec

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any) -> Any:
        """Write action, values and value of the action, and return `tensordict`.

        Raises:
            KeyError: the values or the mask are missing.
        """
        values = self._read(tensordict, self.action_value_key)
        if self.action_mask_key is not None:
            allowed = self._read(tensordict, self.action_mask_key)
            values = np.where(allowed, values, np.finfo(values.dtype).min)
        if self.action_space == "categorical":
            action = np.argmax(values, axis=-1)
        else:
            action = (values == values.max(axis=-1, keepdims=True)).astype(np.int64)
        chosen = value_of_action(values, action, self.action_space)
        for key, value in zip(self.out_keys, (action, values, chosen), strict=True):
            tensordict.set(key, value)
        return tensordict

    def _read(self, tensordict: Any, key: NestedKey) -> Any:
        entry = tensordict.get(key, None)
        if entry is None:
            raise KeyError(f"QValueModule reads the entry {key!r}, which the TensorDict lacks.")
        return entry


class QValueActor(TensorDictSequential):
    """A network of action values that acts: it takes the action that is worth most.

    Args:
        module: gives the values (*batch, n) of observations; or a TensorDictModule that writes them.
        in_keys: what `module` reads; "observation" by default.
        spec, action_space, action_mask_key: as for `QValueModule`.
        action_value_key: where the values go; "action_value" by default.
        action_key: where the action goes; "action" by default.
        chosen_action_value_key: where its value goes; "chosen_action_value" by default.

    Raises:
        KeyError: `module` does not write `action_value_key`.
        ValueError: another action space.

    Source:
        torchrl.modules.QValueActor.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> actor = nn.QValueActor(nn.MLP(4, 2, num_cells=[8]), action_space="categorical")
        >>> action, values, value = actor(np.zeros((5, 4), np.float32))
        >>> action.shape, values.shape, value.shape
        ((5,), (5, 2), (5, 1))
    """

    def __init__(
        self,
        module: Any,
        *,
        in_keys: Sequence[NestedKey] | None = None,
        spec: Any = None,
        action_space: str | None = None,
        action_value_key: NestedKey | None = None,
        action_key: NestedKey | None = None,
        chosen_action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
    ) -> None:
        values = "action_value" if action_value_key is None else action_value_key
        if not isinstance(module, TensorDictModuleBase):
            module = TensorDictModule(module, ["observation"] if in_keys is None else list(in_keys), [values])
        elif values not in module.out_keys:
            raise KeyError(f"the module must write {values!r}, the action values, got {module.out_keys}.")
        choice = QValueModule(
            action_space,
            values,
            action_mask_key,
            [
                "action" if action_key is None else action_key,
                values,
                "chosen_action_value" if chosen_action_value_key is None else chosen_action_value_key,
            ],
            spec,
        )
        super().__init__(module, choice)
        self.action_space = choice.action_space
        self.__dict__["spec"] = spec


class ValueOperator(TensorDictModule):
    """A network of values: of states, or of actions if it reads "action".

    Args:
        module: gives values (*batch, 1).
        in_keys: what it reads; "observation" by default. Several inputs are given one after the other.
        out_keys: "state_value" by default, or "state_action_value" if "action" is among `in_keys`.

    Source:
        torchrl.modules.ValueOperator.

    Example:
        >>> from lite import nn
        >>> nn.ValueOperator(nn.Linear(4, 1)).out_keys
        ['state_value']
        >>> nn.ValueOperator(nn.MLP(6, 1, num_cells=[8]), in_keys=["observation", "action"]).out_keys
        ['state_action_value']
    """

    def __init__(
        self,
        module: Any,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        reads = ["observation"] if in_keys is None else list(in_keys)
        if out_keys is None:
            out_keys = ["state_action_value" if "action" in reads else "state_value"]
        super().__init__(module, reads, list(out_keys))


belong_to("lite.nn", QValueActor, QValueModule, ValueOperator)
