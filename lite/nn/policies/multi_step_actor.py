"""MultiStepActorWrapper: actors that plan several actions at once, which are taken one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite import NestedKey
from lite._arrays.public import belong_to
from lite._arrays.types import Array, is_symbolic
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.module import listed


class MultiStepActorWrapper(TensorDictModuleBase):
    """Takes one action at each step from an actor that plans several at once.

    The actor is called where an episode begins, and where its plan is used up. The plan goes from step to
    step in the TensorDict, as "action_orig", beside "counter", int32: how many of its actions were taken.

    Args:
        actor: a TensorDictModule, whose actions have a dimension of time behind the batch.
        n_steps: the number of actions of a plan. If None, the actor is called only where episodes begin,
            and its plan starts again after the last action.
        action_keys: keys of the actions; by default the actor's outputs named "action", or keys of the plans
            without "_chunk".
        chunk_keys: keys of the plans, if these are not those of the actions; outputs of the actor that end in
            "_chunk", or ("vla_action", "chunk"). They stay where they are then: there is no "action_orig".
        init_key: key of the flags that say where an episode begins, (*batch, 1); "is_init" by default.
        keep_dim: keep the dimension of time, of size 1.
        replan_interval: call the actor after this number of steps, before its plan is used up.

    Raises:
        ValueError: `replan_interval` is not from 1 to `n_steps`, `init_key` is a list, no output is a plan by
            its name, or there are not as many `action_keys` as `chunk_keys`.
        KeyError: in a call, the flags are missing.
        RuntimeError: in a call, a plan has another length than `n_steps` or is shorter than
            `replan_interval`, or there is none yet where no episode begins.
        NotImplementedError: in a graph; `actor` can be exported.

    Source:
        torchrl.modules.MultiStepActorWrapper.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> steps = np.arange(3.0)[:, None]
        >>> plan = nn.TensorDictModule(lambda obs: steps + obs[:, None], ["obs"], ["action"])
        >>> actor = nn.MultiStepActorWrapper(plan, n_steps=3)
        >>> td = actor(TensorDict(obs=np.ones((1, 1)), is_init=np.ones((1, 1), bool), batch_size=[1]))
        >>> td["is_init"] = np.zeros((1, 1), bool)
        >>> actor(td)["action"]
        array([[2.]])
    """

    def __init__(
        self,
        actor: Any,
        n_steps: int | None = None,
        *,
        action_keys: NestedKey | Sequence[NestedKey] | None = None,
        chunk_keys: NestedKey | Sequence[NestedKey] | None = None,
        init_key: NestedKey | None = None,
        keep_dim: bool = False,
        replan_interval: int | None = None,
    ) -> None:
        super().__init__()
        if replan_interval is not None and not 1 <= replan_interval <= (n_steps or replan_interval):
            raise ValueError(f"replan_interval must be from 1 to n_steps={n_steps}, got {replan_interval}.")
        if isinstance(init_key, list):
            raise ValueError(f"init_key must be one key, got {init_key}.")
        self.actor = actor
        self.n_steps = n_steps
        self.keep_dim = keep_dim
        self.replan_interval = replan_interval
        self.init_key: NestedKey = "is_init" if init_key is None else init_key
        self.counter_key = _renamed(self.init_key, "counter")
        self.chunk_keys = _plans_of(actor) if chunk_keys is None else listed(chunk_keys)
        if not self.chunk_keys:
            raise ValueError(
                f"none of the actor's outputs is a plan by its name, got {list(actor.out_keys)}: give "
                "chunk_keys and action_keys."
            )
        if action_keys is None:
            self.action_keys = [_action_of(key) for key in self.chunk_keys]
        else:
            self.action_keys = listed(action_keys)
        if len(self.action_keys) != len(self.chunk_keys):
            raise ValueError(
                f"action_keys must be as many as chunk_keys, got {self.action_keys} and {self.chunk_keys}."
            )
        self._kept = [
            _renamed(action, f"{_last(action)}_orig") if action == chunk else chunk
            for action, chunk in zip(self.action_keys, self.chunk_keys, strict=True)
        ]
        self.in_keys = [*actor.in_keys, self.init_key]
        own = [*self.action_keys, *self._kept, self.counter_key]
        self.out_keys = list(dict.fromkeys([*actor.out_keys, *own]))

    def forward(self, tensordict: Any) -> Any:
        """Write the actions of this step, the plans and the count; return `tensordict`."""
        taken = self._plan(tensordict)
        for action_key, kept_key in zip(self.action_keys, self._kept, strict=True):
            plan = tensordict.get(kept_key, None)
            if plan is None:
                raise RuntimeError(self._no_plan(kept_key))
            holder = tensordict if isinstance(kept_key, str) else tensordict.get(kept_key[:-1])
            tensordict.set(action_key, self._action(plan, holder.ndim, taken))
        return tensordict

    def _plan(self, tensordict: Any) -> Array:
        """Call the actor where a new plan is needed; returns the number of actions taken from each plan."""
        starts = self._entry(tensordict, self.init_key)
        if is_symbolic(starts):
            raise NotImplementedError(
                "a graph would plan at each step, also where no plan is wanted: export its actor, whose "
                f"plans {self.chunk_keys} the program takes action by action."
            )
        count = tensordict.get(self.counter_key, None)
        if count is None:
            count = starts.astype(np.int32)
        interval = self.n_steps if self.replan_interval is None else self.replan_interval
        wanted = starts if interval is None else starts | (count >= interval)
        if wanted.any():
            count = np.where(wanted, count.dtype.type(0), count)
            self._call_actor(tensordict, wanted.reshape(tuple(tensordict.batch_size)))
        tensordict.set(self.counter_key, count + count.dtype.type(1))
        return count

    def _no_plan(self, key: NestedKey) -> str:
        return f"there is no plan {key!r}; {self.init_key!r} must be True for all where it is missing."

    def _call_actor(self, tensordict: Any, wanted: Array) -> None:
        found = self.actor(tensordict[wanted])
        for chunk_key, kept_key in zip(self.chunk_keys, self._kept, strict=True):
            fresh = found.get(chunk_key)
            kept = tensordict.get(kept_key, None)
            if kept is None:
                if not wanted.all():
                    raise RuntimeError(self._no_plan(kept_key))
                fresh = fresh.reshape(*wanted.shape, *fresh.shape[1:])
            else:
                rows, fresh = fresh, kept.copy()
                fresh[wanted] = rows
            tensordict.set(kept_key, fresh)

    def _action(self, plan: Array, ndim: int, taken: Array) -> Array:
        length = plan.shape[ndim]
        if self.n_steps is not None and length != self.n_steps:
            raise RuntimeError(f"a plan must have n_steps={self.n_steps} actions, got shape {plan.shape}.")
        if self.replan_interval is not None and length < self.replan_interval:
            raise RuntimeError(
                f"a plan must have replan_interval={self.replan_interval} actions at least, got {plan.shape}."
            )
        index = taken.reshape(plan.shape[:ndim])
        if self.n_steps is None and self.replan_interval is None:
            index = index % length
        index = index.reshape(*plan.shape[:ndim], *(1,) * (plan.ndim - ndim))
        action = np.take_along_axis(plan, index, ndim)
        return action if self.keep_dim else action.squeeze(ndim)


def _last(key: NestedKey) -> Any:
    return key if isinstance(key, str) else key[-1]


def _renamed(key: NestedKey, name: str) -> NestedKey:
    return name if isinstance(key, str) else (*key[:-1], name)


def _is_vla(key: NestedKey) -> bool:
    return not isinstance(key, str) and tuple(key[-2:]) == ("vla_action", "chunk")


def _is_chunk(key: NestedKey) -> bool:
    return _is_vla(key) or str(_last(key)).endswith("_chunk")


def _plans_of(actor: Any) -> list[NestedKey]:
    """Outputs that are plans by their names, or else actions."""
    keys = list(actor.out_keys)
    for is_plan in (_is_vla, _is_chunk, lambda key: _last(key) == "action"):
        found = [key for key in keys if is_plan(key)]
        if found:
            return found
    return []


def _action_of(chunk: NestedKey) -> NestedKey:
    """The name of the actions of a plan."""
    if _is_vla(chunk):
        return "action"
    name = str(_last(chunk))
    return _renamed(chunk, name.removesuffix("_chunk") or name)


belong_to("lite.nn", MultiStepActorWrapper)
