"""`RenameTransform`, `SelectTransform` and `ExcludeTransform`: which entries there are, under which names."""

from __future__ import annotations

from typing import Any

from lite import NestedKey, TensorDictBase, unravel_key_list
from lite._arrays.public import belong_to
from lite.envs.transforms.base import Keys, Transform, TwoWayTransform, is_graph
from lite.specs.composite import Composite

_OUTPUTS = ("full_done_spec", "full_reward_spec", "full_observation_spec")


class RenameTransform(TwoWayTransform):
    """Gives entries other names, and takes those of inputs back.

    Args:
        in_keys: entries to rename.
        out_keys: their new names.
        in_keys_inv: entries that the environment reads; none by default.
        out_keys_inv: names under which they are given; `in_keys_inv` if None.
        create_copy: keep the entries under their old names, too.

    Raises:
        ValueError: the numbers of keys differ, or a key is in `in_keys` and in `out_keys`.

    Source:
        torchrl.envs.RenameTransform.

    Example:
        >>> from lite import TensorDict
        >>> from lite.envs import RenameTransform
        >>> list(RenameTransform(["a"], ["b"])(TensorDict(a=1)).keys())
        ['b']
    """

    def __init__(
        self,
        in_keys: Keys,
        out_keys: Keys,
        in_keys_inv: Keys = None,
        out_keys_inv: Keys = None,
        create_copy: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self.create_copy = create_copy
        for ending in ("", "_inv"):
            sources, targets = getattr(self, f"in_keys{ending}"), getattr(self, f"out_keys{ending}")
            if len(sources) != len(targets):
                raise ValueError(
                    f"out_keys{ending} must be as many as in_keys{ending}, got {targets} for {sources}."
                )
        if {*self.in_keys} & {*self.out_keys}:
            raise ValueError(
                "no key may be in in_keys and out_keys, as their order is not clear: use two transforms. Got "
                f"{self.in_keys} and {self.out_keys}."
            )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Rename the entries, in place."""
        return self._renamed(tensordict, self.in_keys, self.out_keys)

    _call = forward

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._renamed(tensordict, self.out_keys_inv, self.in_keys_inv)

    def _renamed(self, td: TensorDictBase, old: list[NestedKey], new: list[NestedKey]) -> TensorDictBase:
        for source, target in zip(old, new, strict=True):
            if source not in td:
                if self._missing_tolerance or is_graph(td):
                    continue
                raise KeyError(f"RenameTransform reads {source!r}, which is missing.")
            if self.create_copy:  # of rows of several shapes, too, which `get` does not give
                td.update(td.select(source).rename_key_(source, target))
            else:
                td.rename_key_(source, target)
        return td

    def _renamed_spec(self, spec: Composite, old: list[NestedKey], new: list[NestedKey]) -> None:
        for source, target in zip(old, new, strict=True):
            if source in spec:
                spec[target] = spec[source].clone()
                if not self.create_copy:
                    del spec[source]

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        output_spec = output_spec.clone()
        for name in _OUTPUTS:
            self._renamed_spec(output_spec[name], self.in_keys, self.out_keys)
        return output_spec

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        input_spec = input_spec.clone()
        for name in ("full_action_spec", "full_state_spec"):
            self._renamed_spec(input_spec[name], self.in_keys_inv, self.out_keys_inv)
        return input_spec


class ExcludeTransform(Transform):
    """Drops entries.

    Args:
        excluded_keys: their keys.
        inverse: drop them on the way in, in place of the way out.

    Raises:
        TypeError: a key is neither a string nor a tuple of strings.
        KeyError: in an environment, there is no spec of a key.

    Source:
        torchrl.envs.ExcludeTransform.

    Example:
        >>> from lite import TensorDict
        >>> from lite.envs import ExcludeTransform
        >>> list(ExcludeTransform("a")(TensorDict(a=1, b=2)).keys())
        ['b']
    """

    _transforms_reset = True

    def __init__(self, *excluded_keys: NestedKey, inverse: bool = False) -> None:
        super().__init__()
        self.excluded_keys = _checked(excluded_keys, "excluded_keys")
        self.inverse = inverse

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The TensorDict without the entries."""
        return tensordict if self.inverse else tensordict.exclude(*self.excluded_keys)

    _call = forward

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict.exclude(*self.excluded_keys) if self.inverse else tensordict

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        if self.inverse:
            return output_spec
        output_spec = output_spec.clone()
        for key in self.excluded_keys:
            holder = next((output_spec[name] for name in _OUTPUTS if key in output_spec[name]), None)
            if holder is None:
                raise KeyError(f"ExcludeTransform drops {key!r}, of which there is no spec.")
            del holder[key]
        return output_spec


class SelectTransform(Transform):
    """Keeps some entries, and drops the others.

    In an environment, what it takes as its state stays, too.

    Args:
        selected_keys: keys of entries to keep.
        keep_rewards: keep rewards, too.
        keep_dones: keep done entries, too.

    Raises:
        TypeError: a key is neither a string nor a tuple of strings.

    Source:
        torchrl.envs.SelectTransform.

    Example:
        >>> from lite import TensorDict
        >>> from lite.envs import SelectTransform
        >>> list(SelectTransform("a")(TensorDict(a=1, b=2, reward=3.0)).keys())
        ['a', 'reward']
    """

    _transforms_reset = True

    def __init__(self, *selected_keys: NestedKey, keep_rewards: bool = True, keep_dones: bool = True) -> None:
        super().__init__()
        self.selected_keys = _checked(selected_keys, "selected_keys")
        self.keep_reward_keys = keep_rewards
        self.keep_done_keys = keep_dones
        self.keeps_all = False  # in the graph of a file, which has states, and no entry that nothing reads

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The TensorDict with the kept entries alone."""
        if self.keeps_all:
            return tensordict
        parent = self.parent
        kept = [*self.selected_keys]
        if self.keep_reward_keys:
            kept += ["reward"] if parent is None else parent.reward_keys
        if self.keep_done_keys:
            kept += ["done"] if parent is None else parent.done_keys
        if parent is not None:
            kept += parent.full_state_spec.keys(True, True)
        return tensordict.select(*kept, strict=False)

    _call = forward

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        output_spec = output_spec.clone()
        for name, kept in zip(_OUTPUTS, (self.keep_done_keys, self.keep_reward_keys, False), strict=True):
            for key in output_spec[name]._leaf_keys():
                if not kept and key not in self.selected_keys:
                    del output_spec[name][key]
        return output_spec


belong_to("lite.envs", RenameTransform, ExcludeTransform, SelectTransform)


def _checked(keys: Any, name: str) -> list[NestedKey]:
    try:
        return unravel_key_list(list(keys))
    except (TypeError, RuntimeError) as error:
        raise TypeError(f"{name} must be strings or tuples of strings, got {keys!r}.") from error
