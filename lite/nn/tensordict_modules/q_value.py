"""Modules for the values of actions and states: QValueModule, QValueActor, ValueOperator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lite import NestedKey
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite._transforms.vmap.running import require_ids
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.entry_specs import joined_specs, project_entries, specs_by_key
from lite.nn.tensordict_modules.module import TensorDictModule, listed
from lite.nn.tensordict_modules.sequential import TensorDictSequential
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite

_SPACES = {
    "one_hot": "one_hot", "one-hot": "one_hot", "categorical": "categorical", "mult_one_hot": "mult_one_hot",
    "mult-one-hot": "mult_one_hot", "multi_one_hot": "mult_one_hot", "multi-one-hot": "mult_one_hot",
    "OneHot": "one_hot", "Categorical": "categorical", "MultiOneHot": "mult_one_hot",
}  # fmt: skip


def action_space_of(space: Any, argument: str = "action_space") -> str:
    """How actions are written, "one_hot", "categorical" or "mult_one_hot", given by name or by a spec.

    Raises:
        ValueError: none of these.
        KeyError: a `Composite` without an entry "action", which may be a nested one.
    """
    name = space if isinstance(space, str) else type(space).__name__
    if isinstance(space, Composite):
        ends = [key for key in space.keys(True, True) if isinstance(key, tuple) and key[-1] == "action"]
        return action_space_of(space["action" if "action" in space or not ends else ends[0]], argument)
    if name not in _SPACES:
        raise ValueError(f"{argument} must be 'one-hot', 'categorical' or a spec of one, got {space!r}.")
    return _SPACES[name]


def space_of_loss(space: Any) -> str:
    """`action_space_of`; where there is none it is "one-hot", with a warning, as in torchrl's losses."""
    if space is None:
        warn("action_space is not given: 'one-hot' is taken.")
        space = "one-hot"
    return action_space_of(space)


def value_of_action(values: Any, action: Any, space: str) -> Any:
    """The values of the actions that were taken, (*batch, 1), out of those of all actions, (*batch, n).

    Args:
        values: what each action is worth.
        action: ids, (*batch) or (*batch, 1), or rows of 0 and 1, (*batch, n).
        space: "categorical" for ids, else "one_hot" or "mult_one_hot".

    Raises:
        ValueError: actions of another shape, or ids that are not integers.
        IndexError: an id of no action.
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
        require_ids(ids, values.shape[-1], "the actions")
        return np.take_along_axis(values, ids, -1)
    if action.shape != values.shape:
        raise ValueError(f"one-hot actions must have the values' shape {values.shape}, got {action.shape}.")
    return (values * action.astype(values.dtype)).sum(-1, keepdims=True)


class QValueModule(TensorDictModuleBase):
    """Choose the action with the largest value.

    Reads what each action is worth, (*batch, n), and writes the action, the values again, and the value of
    that action, (*batch, 1).

    Args:
        action_space: "categorical" for ids of shape (*batch), int64; "one-hot" for rows, (*batch, n), of 0
            and 1; "mult-one-hot" for several such rows side by side, whose sizes are `var_nums`. None: as
            `spec` says.
        action_value_key: key of the values; "action_value" by default.
        action_mask_key: entry that is True where an action is allowed; the others count as the lowest number
            of the dtype.
        out_keys: keys of action, values and value of the action; "action", `action_value_key` and
            "chosen_action_value" by default.
        var_nums: for "mult-one-hot": sizes of the rows, or one size of all of them.
        spec: spec of the action, such as `lite.data.Categorical`; a `Composite` has it at "action".
        safe: whether an action that is not in the spec is replaced by the nearest one that is.
        strict_shape: whether an action must have the shape of the spec, as None says, too; "auto" reshapes
            it.

    Raises:
        ValueError: another action space, one that is not the spec's, or no `var_nums`.
        RuntimeError: `action_value_key` is not among `out_keys`, or `safe` without a spec; in a call, an
            action of another shape than the spec's.
        KeyError: a `Composite` without "action".

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
        out_keys: NestedKey | Sequence[NestedKey] | None = None,
        var_nums: int | Sequence[int] | None = None,
        spec: TensorSpec | None = None,
        safe: bool = False,
        strict_shape: bool | str | None = True,
    ) -> None:
        super().__init__()
        known = spec
        if isinstance(spec, Composite) and out_keys:
            known = spec.get(out_keys[0], spec)
        self.action_space = action_space_of(known if action_space is None else action_space)
        if known is not None and action_space_of(known) != self.action_space:
            raise ValueError(f"action_space must be that of the spec, {spec!r}, got {action_space!r}.")
        if var_nums is None:
            var_nums = getattr(known, "nvec", None)
        self.var_nums = var_nums
        if self.action_space == "mult_one_hot" and var_nums is None:
            raise ValueError(
                "var_nums must be given for action_space='mult-one-hot': the size of each choice."
            )
        self.action_value_key = "action_value" if action_value_key is None else action_value_key
        self.action_mask_key = action_mask_key
        self.in_keys = [self.action_value_key]
        if action_mask_key is not None:
            self.in_keys = [self.action_value_key, action_mask_key]
        if out_keys is None:
            out_keys = self._default_out_keys()
        elif self.action_value_key not in out_keys:
            raise RuntimeError(
                f"out_keys must have {self.action_value_key!r}, the key of the values, got {out_keys}."
            )
        self.out_keys = list(out_keys)
        self._spec = specs_by_key(
            spec, self.out_keys if isinstance(spec, Composite) else self.out_keys[:1], self
        )
        self.safe = safe
        if safe and self._spec.is_empty():
            raise RuntimeError(f"{type(self).__name__}: safe=True needs a spec to project to, got {spec!r}.")
        self.strict_shape = strict_shape

    @property
    def spec(self) -> Composite:
        """The specs of outputs by key."""
        return self._spec

    def _default_out_keys(self) -> list[NestedKey]:
        return ["action", self.action_value_key, "chosen_action_value"]

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any) -> Any:
        """Write action, values and value of the action, and return `tensordict`.

        Raises:
            KeyError: the values or the mask are missing.
        """
        values = self._masked(tensordict, self._entry(tensordict, self.action_value_key))
        action = self._best(values)
        if self.action_space == "categorical":  # checks of ids would take a seventh of a small actor's time
            chosen = np.take_along_axis(values, action[..., None], -1)
        else:
            chosen = value_of_action(values, action, self.action_space)
        return self._written(tensordict, (self._shaped(action), values, chosen))

    def _masked(self, tensordict: Any, values: Any) -> Any:
        """Values of which those of actions that are not allowed are the lowest number."""
        if self.action_mask_key is None:
            return values
        allowed = self._entry(tensordict, self.action_mask_key)
        return np.where(allowed, values, np.finfo(values.dtype).min)

    def _best(self, values: Any) -> Any:
        """The actions that are worth most."""
        if self.action_space == "categorical":
            return np.argmax(values, axis=-1)
        if self.action_space == "one_hot":
            return _rows_of_best(values)
        total, sizes = values.shape[-1], self.var_nums
        if isinstance(sizes, int):
            sizes = [sizes] * (total // sizes)
        if sizes is None or sum(sizes) != total:
            raise ValueError(f"var_nums must add up to the {total} action values, got {self.var_nums}.")
        ends = np.cumsum(sizes)[:-1].tolist()
        return np.concatenate([_rows_of_best(part) for part in np.split(values, ends, -1)], -1)

    def _shaped(self, action: Any) -> Any:
        """The action in the shape of the spec."""
        key = self.out_keys[0]
        spec = self._spec.get(key, None)
        if spec is None or self.strict_shape is False:
            return action
        batch = action.shape if self.action_space == "categorical" else action.shape[:-1]
        node = self._spec[key[:-1]] if isinstance(key, tuple) and len(key) > 1 else self._spec
        wanted = (*batch, *spec.shape[node.ndim :])
        if action.shape == wanted:
            return action
        if self.strict_shape == "auto" and math.prod(wanted) == math.prod(action.shape):
            return action.reshape(wanted)
        raise RuntimeError(
            f"the action must have shape {wanted}, as its spec {spec!r} is of one element of the batch; got "
            f"{action.shape}. strict_shape='auto' reshapes it where that can be done."
        )

    def _written(self, tensordict: Any, results: tuple[Any, ...]) -> Any:
        for key, value in zip(self.out_keys, results, strict=True):
            tensordict.set(key, value)
        if self.safe:
            project_entries(self._spec, tensordict)
        return tensordict


def _rows_of_best(values: Any) -> Any:
    return (values == values.max(axis=-1, keepdims=True)).astype(np.int64)


class QValueActor(TensorDictSequential):
    """A network of action values that acts: it takes the action that is worth most.

    Args:
        module: gives the values (*batch, n) of observations; or a TensorDictModule that writes them.
        in_keys: keys of the inputs of `module`; "observation" by default.
        spec, safe, action_space, action_mask_key, strict_shape: as for `QValueModule`.
        action_value_key: key of the values; "action_value" by default.
        action_key: key of the action; "action" by default.
        chosen_action_value_key: key of its value; "chosen_action_value" by default.

    Attributes:
        action_space, spec: as for `QValueModule`.

    Raises:
        KeyError: `module` does not write `action_value_key`.
        ValueError: another action space.
        RuntimeError: as `QValueModule`.

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

    _sequence = TensorDictSequential

    def __init__(
        self,
        module: Any,
        *,
        in_keys: NestedKey | Sequence[NestedKey] | None = None,
        spec: TensorSpec | None = None,
        safe: bool = False,
        action_space: str | None = None,
        action_value_key: NestedKey | None = None,
        action_key: NestedKey | None = None,
        chosen_action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
        strict_shape: bool | str | None = True,
    ) -> None:
        values = "action_value" if action_value_key is None else action_value_key
        action = "action" if action_key is None else action_key
        if isinstance(spec, TensorSpec) and not isinstance(spec, Composite):
            # The dimensions before the last one are the batch of an environment.
            spec = Composite({action: spec}, shape=spec.shape[:-1])
        choice = QValueModule(
            action_space,
            values,
            action_mask_key,
            [
                action,
                values,
                "chosen_action_value" if chosen_action_value_key is None else chosen_action_value_key,
            ],
            spec=spec,
            safe=safe,
            strict_shape=strict_shape,
        )
        super().__init__(value_network(module, in_keys, values), choice)
        self.action_space = choice.action_space
        self.safe = False  # the choice projects

    @property
    def spec(self) -> Composite:
        """The specs of outputs by key."""
        return joined_specs(self)


def value_network(module: Any, in_keys: Sequence[NestedKey] | None, values: NestedKey) -> Any:
    """A TensorDictModule that writes action values, around a network if it is not one already.

    Raises:
        KeyError: it does not write them.
    """
    if not isinstance(module, TensorDictModuleBase):
        return TensorDictModule(module, ["observation"] if in_keys is None else listed(in_keys), [values])
    if values not in module.out_keys:
        raise KeyError(f"the module must write {values!r}, the action values, got {module.out_keys}.")
    return module


class ValueOperator(TensorDictModule):
    """A network of values: of states, or of actions if it reads "action".

    Args:
        module: gives values (*batch, 1).
        in_keys: keys of its inputs; "observation" by default. Several inputs are given one after the other.
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
        in_keys: NestedKey | Sequence[NestedKey] | None = None,
        out_keys: NestedKey | Sequence[NestedKey] | None = None,
    ) -> None:
        reads = ["observation"] if in_keys is None else listed(in_keys)
        if out_keys is None:
            out_keys = ["state_action_value" if "action" in reads else "state_value"]
        super().__init__(module, reads, listed(out_keys))


belong_to("lite.nn", QValueActor, QValueModule, ValueOperator)
