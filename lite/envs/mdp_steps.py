"""`step_mdp`: from the TensorDict of a step to that of the next one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy import ndarray

from lite import (
    LazyStackedTensorDict,
    NestedKey,
    TensorDict,
    TensorDictBase,
    is_non_tensor,
    is_tensor_collection,
    lazy_stack,
)
from lite._tree.keys import require_path, to_path

_Tree = dict[str, Any]  # of keys: None at the end of each
_OTHER = object()


def step_mdp(
    tensordict: TensorDictBase,
    next_tensordict: TensorDictBase | None = None,
    keep_other: bool = True,
    exclude_reward: bool = True,
    exclude_done: bool = False,
    exclude_action: bool = True,
    reward_keys: NestedKey | list[NestedKey] = "reward",
    done_keys: NestedKey | list[NestedKey] = "done",
    action_keys: NestedKey | list[NestedKey] = "action",
) -> TensorDictBase:
    """The TensorDict that the next step starts from: what "next" has, at the root.

    Arrays are shared with the input; nested TensorDicts are new.

    Args:
        tensordict: the result of a step, with the entry "next".
        next_tensordict: a TensorDict to update and return instead of a new one.
        keep_other: keep the entries of the root that "next" does not have.
        exclude_reward: leave out `reward_keys`.
        exclude_done: leave out `done_keys`.
        exclude_action: leave out `action_keys`.
        reward_keys, done_keys, action_keys: a key, or a list of keys.

    Returns:
        The TensorDict of the next step; a lazy stack for a lazy stack.

    Raises:
        KeyError: there is no "next".

    Source:
        torchrl.envs.utils.step_mdp.

    Example:
        >>> from lite import TensorDict
        >>> from lite.envs import step_mdp
        >>> td = TensorDict(obs=1, action=0, next=TensorDict(obs=2, reward=1.0, done=False))
        >>> sorted(step_mdp(td).items())
        [('done', array(False)), ('obs', array(2))]
    """
    if isinstance(tensordict, LazyStackedTensorDict):
        dim = tensordict.stack_dim
        leave_out = (exclude_reward, exclude_done, exclude_action)
        kinds = (reward_keys, done_keys, action_keys)
        parts = [step_mdp(part, None, keep_other, *leave_out, *kinds) for part in tensordict.tensordicts]
        stacked = lazy_stack(parts, dim)
        return stacked if next_tensordict is None else next_tensordict.update(stacked)
    left_out: list[NestedKey] = []
    for leave, keys in (
        (exclude_reward, reward_keys),
        (exclude_done, done_keys),
        (exclude_action, action_keys),
    ):
        if leave:
            left_out += keys if isinstance(keys, list) else [keys]
    excluded = key_tree(left_out)
    following: Any = tensordict["next"]
    out: Any = following.empty()
    if keep_other:
        out = without({**excluded, "next": None}, tensordict, out)
    elif not exclude_action:
        wanted = action_keys if isinstance(action_keys, list) else [action_keys]
        out = copied(key_tree(wanted), tensordict, out)
    out = without(excluded, following, out)
    return out if next_tensordict is None else next_tensordict.update(out)


class StepMDP:
    """`step_mdp` for the keys of one environment, which are sorted once.

    Args:
        observation_keys, state_keys, action_keys, done_keys, reward_keys: those of the environment.
        keep_other, exclude_reward, exclude_done, exclude_action: as for `step_mdp`. A reward that is a
            state, too, is kept.
    """

    def __init__(
        self,
        observation_keys: Iterable[NestedKey],
        state_keys: Iterable[NestedKey],
        action_keys: Iterable[NestedKey],
        done_keys: Iterable[NestedKey],
        reward_keys: Iterable[NestedKey],
        *,
        keep_other: bool = True,
        exclude_reward: bool = True,
        exclude_done: bool = False,
        exclude_action: bool = True,
    ) -> None:
        states, actions, dones = list(state_keys), list(action_keys), list(done_keys)
        rewards = [key for key in reward_keys if key not in states]
        kept_rewards = [key for key in reward_keys if key in states or not exclude_reward]
        resets = [(*to_path(key)[:-1], "_reset") for key in dones]
        taken = [*observation_keys, *kept_rewards, *([] if exclude_done else dones)]
        dropped = ["next", *dones, *resets, *rewards, *(actions if exclude_action else ())]
        self.keep_other = keep_other
        self._taken = key_tree(taken)
        self._dropped = key_tree([*dropped, *(() if keep_other else states)])
        self._kept = key_tree([*([] if exclude_action else actions), *(states if keep_other else ())])
        self._is_flat = not any(self._taken.values()) and not any(self._dropped.values())

    def __call__(self, tensordict: Any) -> Any:
        """The TensorDict of the next step."""
        if self._is_flat and self.keep_other and type(tensordict) is TensorDict:
            found = self._flat_step(tensordict)
            if found is not None:
                return found
        if isinstance(tensordict, LazyStackedTensorDict):
            return lazy_stack([self(part) for part in tensordict.tensordicts], tensordict.stack_dim)
        following = tensordict.get("next")
        if self.keep_other:
            out = without(self._dropped, tensordict, None)
        else:
            out = copied(self._kept, tensordict, following.empty())
        if isinstance(following, LazyStackedTensorDict) and not isinstance(out, LazyStackedTensorDict):
            out = lazy_stack(list(out.unbind(following.stack_dim)), following.stack_dim)
        return copied(self._taken, following, out)

    def _flat_step(self, tensordict: TensorDict) -> TensorDict | None:
        """The TensorDict of the next step where there are arrays only; else None.

        A third of the time of walking along the trees of keys, which small environments notice.
        """
        dropped, following = self._dropped, tensordict._data.get("next")
        if type(following) is not TensorDict:
            return None
        source = following._data
        entries = {name: value for name, value in tensordict._data.items() if name not in dropped}
        entries.update({name: source[name] for name in self._taken if name in source})
        return tensordict._with(entries) if {*map(type, entries.values())} == {ndarray} else None


def key_tree(keys: Iterable[NestedKey]) -> _Tree:
    """Keys as nested dicts, with None where a key ends."""
    tree: _Tree = {}
    for key in keys:
        *outer, last = require_path(key)
        node = tree
        for name in outer:
            subtree = node.setdefault(name, {})
            if subtree is None:  # a shorter key covers this one
                break
            node = subtree
        else:
            node[last] = None
    return tree


def without(tree: _Tree, source: Any, out: Any) -> Any:
    """`out`, or a new TensorDict, with the entries of a source that a tree of keys lacks.

    Nested TensorDicts that would be empty are left out.
    """
    if isinstance(source, LazyStackedTensorDict):
        parts = source.tensordicts
        targets = [None] * len(parts) if out is None else out.unbind(source.stack_dim)
        made = [without(tree, part, target) for part, target in zip(parts, targets, strict=True)]
        return lazy_stack(made, source.stack_dim)
    entries = {}
    for name, value in source._items():
        subtree = tree.get(name, _OTHER)
        if type(value) is ndarray:
            if subtree is not None:
                entries[name] = value
        elif subtree is None:
            continue
        elif subtree is not _OTHER and is_tensor_collection(value) and not is_non_tensor(value):
            inner = without(subtree, value, None)
            if not inner.is_empty():
                entries[name] = inner
        elif not is_tensor_collection(value):
            entries[name] = value
        elif is_non_tensor(value) or not value.is_empty():
            entries[name] = value.copy()
    if out is None:
        return source._with(entries)
    return out.update(entries) if entries else out


def copied(tree: _Tree, source: Any, out: Any) -> Any:
    """`out` with the entries of a source that a tree of keys names; nested TensorDicts are joined."""
    if isinstance(source, LazyStackedTensorDict):
        pairs = zip(source.tensordicts, out.unbind(source.stack_dim), strict=True)
        return lazy_stack([copied(tree, part, target) for part, target in pairs], source.stack_dim)
    for name, subtree in tree.items():
        value = source.get(name, None)
        if value is None:
            continue
        if subtree is not None and is_tensor_collection(value):
            target = out.get(name, None)
            if target is None or target.batch_size != value.batch_size or -1 in value.batch_size:
                target = value.empty()
            # Fields, and not their values.
            value = source._rewrap(value, copied(subtree, source._as_node(value), out._as_node(target)))
        elif type(value) is not ndarray and is_tensor_collection(value):
            value = value.copy()
        out.set(name, value)
    return out
