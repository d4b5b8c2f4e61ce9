"""State dicts of a TensorDictParams: its entries by dotted name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from lite._arrays.types import Path, raw
from lite.nn._modules.parameter import Parameter
from lite.nn._modules.state_dict import StateDictMethods
from lite.nn._modules.state_values import remember_values
from lite.nn._parameters.tree import flattened


class ParamsState(StateDictMethods):
    """Saving and loading; `TensorDictParams` is the public face."""

    data: Any
    _param_td: Any
    _as_node: Any
    _save: Any
    _reset: Any

    def _named_leaves(self) -> Iterator[tuple[str, Path, Any]]:
        for key, leaf in self._param_td.items(True, True):
            path = (key,) if isinstance(key, str) else key
            yield ".".join(path), path, leaf

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, _, leaf in self._named_leaves():
            destination[prefix + name] = leaf if keep_vars else raw(leaf)

    def _local_state(self) -> dict[str, Any]:
        return {name: leaf for name, _, leaf in self._named_leaves()}

    def _unexpected(self, state_dict: dict[str, Any], prefix: str, local: dict[str, Any]) -> list[str]:
        return [key for key in state_dict if key.startswith(prefix) and key[len(prefix) :] not in local]

    def _replace_entry(self, name: str, leaf: Any) -> None:
        path = next(path for found, path, _ in self._named_leaves() if found == name)
        node = self._param_td if len(path) == 1 else self._as_node(self._param_td._get_path(path[:-1]))
        node._put(path[-1], leaf)

    def _assign_entry(self, name: str, current: Any, value: Any) -> None:
        if isinstance(current, Parameter):
            self._replace_entry(name, Parameter(value, current.requires_grad))
        else:
            self._replace_entry(name, raw(value))

    def _copy_entry(self, name: str, current: Any, value: Any) -> None:
        array = raw(current)
        if isinstance(current, Parameter) or array.flags.writeable:
            super()._copy_entry(name, current, value)
        else:
            self._replace_entry(name, value.copy())

    def _restorer(self) -> Callable[[], None]:
        nodes_before = self._save()
        values = remember_values(self._local_state().values())

        def restore() -> None:
            self._reset(nodes_before)
            values()

        return restore

    def state_dict(  # type: ignore[override]
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = True
    ) -> Any:
        """The arrays by dotted name, in the order of the keys; or nested, if not `flatten`."""
        if not flatten:
            return self.data.state_dict(destination, prefix, keep_vars, False)
        return StateDictMethods.state_dict(self, destination=destination, prefix=prefix, keep_vars=keep_vars)

    def load_state_dict(  # type: ignore[override]
        self, state_dict: Any, strict: bool = True, assign: bool = False, from_flatten: bool | None = None
    ) -> Self:
        """Copy the values of a state dict, flat or nested, into the entries; returns self.

        Raises:
            RuntimeError: key sets differ (with `strict`), or shapes do; nothing is loaded then.
        """
        StateDictMethods.load_state_dict(self, flattened(state_dict, ""), strict, assign)
        return self
