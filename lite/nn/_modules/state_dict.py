"""State dicts: the module's arrays by dotted name, loading them back, or from a file.

Names and order are those of torch, so that weights trained there load by name. Loading checks the whole dict
before the first write: a dict that does not fit leaves the module unchanged.
"""

from __future__ import annotations

import itertools
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from lite._arrays.caller import warn
from lite._arrays.dtypes import is_inexact, is_numeric
from lite._arrays.types import raw
from lite._transforms.handles import assignments
from lite._tree.collection import TensorCollection
from lite._tree.protocol import Container
from lite.nn._modules.hooks import Hooks
from lite.nn._modules.initial import UninitializedParameter, is_uninitialized
from lite.nn._modules.meta import MetaArray
from lite.nn._modules.parameter import Parameter
from lite.nn._modules.registry import Registry

EXTRA_STATE = "_extra_state"
_PENDING = "pending"


class IncompatibleKeys(NamedTuple):
    """The result of `load_state_dict`: the names that did not match, in order."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class _Pending(NamedTuple):
    """The writes of a load, which run after the whole dict has been checked."""

    arrays: list[Callable[[], None]]
    states: list[Callable[[], None]]  # calls of set_extra_state, a method of subclasses that may raise


class StateDictMethods(Registry, Hooks):
    """Saving and loading, as a base class of `Module`."""

    # Version of the state dict's format; a subclass increments it when its names change.
    _version: ClassVar[int] = 1

    def get_extra_state(self) -> Any:
        """Extra state that a subclass saves under `<prefix>_extra_state`; override both methods or none."""
        raise RuntimeError(f"{type(self).__name__} does not define get_extra_state.")

    def set_extra_state(self, state: Any) -> None:
        """Restore what `get_extra_state` returned."""
        raise RuntimeError(
            f"{type(self).__name__} does not define set_extra_state, which loading '{EXTRA_STATE}' needs."
        )

    # -- saving --------------------------------------------------------------------------------

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Collect parameters, persistent buffers and extra state by dotted name.

        Args:
            destination: a dict to fill; a new ordered dict by default.
            prefix: put before every name.
            keep_vars: return the Parameter objects instead of their arrays.

        Returns:
            `destination`: own parameters, own buffers, extra state, then the children's. Arrays share
            memory with the module.

        Example:
            >>> from lite import nn
            >>> list(nn.Sequential(nn.Linear(2, 3), nn.ReLU()).state_dict())
            ['0.weight', '0.bias']
        """
        if args:
            warn(
                "pass destination, prefix and keep_vars of state_dict by keyword.",
                FutureWarning,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and not keep_vars else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = {}  # the format version of each module
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in tuple(self._state_dict_hooks.values()):
            if hook(self, destination, prefix, local_metadata) is not None:
                raise RuntimeError("a state_dict post-hook edits the dict in place and must return None.")
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, param in self._parameters.items():
            if param is not None:
                # An uninitialised one has no array, so the object itself is saved.
                itself = keep_vars or isinstance(param, UninitializedParameter)
                destination[prefix + name] = param if itself else param.data
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers:
                destination[prefix + name] = buffer
        if self._has_extra_state("get_extra_state"):
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _has_extra_state(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(StateDictMethods, method)

    # -- loading -------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any] | Container, strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Load arrays by dotted name.

        Args:
            state_dict: names to arrays (also arrays of other libraries that convert to NumPy). It may be a
                TensorDict with such names: `TensorDict.from_module(other).flatten_keys(".")`.
            strict: raise if names are missing or unexpected. Wrong shapes raise in any case.
            assign: take the given arrays (and their dtypes) instead of copying values into the
                module's own arrays, which keep their dtype.

        Returns:
            The missing and the unexpected names.

        Raises:
            TypeError: if `state_dict` is neither a mapping nor a TensorDict.
            RuntimeError: if names (with `strict`), shapes or types do not fit; the message lists all
                of them. After any error, also one of a hook or of `set_extra_state`, parameters and
                buffers are unchanged.

        Example:
            >>> import numpy as np
            >>> from lite import nn
            >>> m = nn.Linear(2, 1)
            >>> m.load_state_dict({"weight": np.array([[1.0, 2.0]]), "bias": np.array([3.0])})
            <All keys matched successfully>
            >>> m(np.array([1.0, 1.0], dtype=np.float32))
            array([6.], dtype=float32)
        """
        if not isinstance(state_dict, Mapping | Container):
            raise TypeError(f"state_dict must be a mapping, got {type(state_dict).__name__}.")
        metadata = getattr(state_dict, "_metadata", {})
        entries: dict[str, Any] = dict(state_dict.items())
        keys = IncompatibleKeys([], [])
        errors: list[str] = []
        pending = _Pending([], [])
        visited: list[StateDictMethods] = []
        self._plan_load(entries, "", metadata, assign, keys, errors, pending, visited)
        post_hooks = [
            (module, hook) for module in visited for hook in module._load_state_dict_post_hooks.values()
        ]
        # Without post-hooks nothing can clear the errors, so raise before writing.
        if errors or not post_hooks:
            self._raise_on_errors(strict, keys, errors)
        # Writing checked arrays cannot raise, but methods of subclasses can.
        may_fail = post_hooks or pending.states
        restores = [module._restorer() for module in visited] if may_fail else []
        try:
            for write in (*pending.arrays, *pending.states):
                write()
            for module, hook in post_hooks:
                if hook(module, keys) is not None:
                    raise AssertionError("a load_state_dict post-hook edits in place and must return None.")
            self._raise_on_errors(strict, keys, errors)
        except BaseException:  # an interrupt, too
            for restore in restores:
                restore()
            raise
        return keys

    def _restorer(self) -> Callable[[], None]:
        """A function that restores the current parameters and buffers of this module, with their values."""
        registries = [(registry, dict(registry)) for registry in (self._parameters, self._buffers)]
        values = remember_values(self._local_state().values())

        def restore() -> None:
            assignments[0] = object()
            for registry, entries in registries:
                registry.clear()
                registry.update(entries)
            values()

        return restore

    def _plan_load(
        self, entries: dict[str, Any], prefix: str, metadata: Mapping[str, Any], assign: bool,
        keys: IncompatibleKeys, errors: list[str], pending: _Pending, visited: list[StateDictMethods],
    ) -> None:  # fmt: skip
        """Check this module's entries and its children's, collecting the writes to make."""
        local_metadata = dict(metadata.get(prefix[:-1], {}))
        local_metadata["assign_to_params_buffers"] = assign
        local_metadata[_PENDING] = pending
        self._load_from_state_dict(entries, prefix, local_metadata, True, *keys, errors)
        children = {name: child for name, child in self._modules.items() if child is not None}
        # A child gets only its own entries, as its hooks and overrides expect. One pass finds those of all.
        found: dict[str, dict[str, Any]] = {name: {} for name in children}
        for key, value in entries.items():
            if key.startswith(prefix):
                name, dot, _ = key[len(prefix) :].partition(".")
                if dot and name in found:
                    found[name][key] = value
        for name, child in children.items():
            start = f"{prefix}{name}."
            child._plan_load(found[name], start, metadata, assign, keys, errors, pending, visited)
        visited.append(self)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load this module's own entries, without its children's; subclasses may override it.

        Writes are queued in `local_metadata` and run once the whole dict has been checked.
        """
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        pending: _Pending = local_metadata.get(_PENDING, _Pending([], []))
        local = self._local_state()
        for name, current in local.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            value, problem = checked(state_dict[key], current, assign)
            if problem is None:
                pending.arrays.append(self._write_of(name, current, value, assign))
            else:
                error_msgs.append(f'"{key}": {problem}')
        self._plan_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys, pending)
        if strict:
            unexpected_keys.extend(self._unexpected(state_dict, prefix, local))
        if _PENDING not in local_metadata:
            for write in (*pending.arrays, *pending.states):
                write()

    def _local_state(self) -> dict[str, Any]:
        buffers = (item for item in self._buffers.items() if item[0] not in self._non_persistent_buffers)
        pairs = itertools.chain(self._parameters.items(), buffers)
        return {name: value for name, value in pairs if value is not None}

    def _write_of(self, name: str, current: Any, value: Any, assign: bool) -> Callable[[], None]:
        if assign:
            return lambda: self._assign_entry(name, current, value)
        return lambda: self._copy_entry(name, current, raw(value))

    def _assign_entry(self, name: str, current: Any, value: Any) -> None:
        if isinstance(current, Parameter):
            param = value if isinstance(value, Parameter) else Parameter(value, requires_grad=False)
            self._set_parameter(name, param.requires_grad_(current.requires_grad))
        else:
            self._set_buffer(name, raw(value))

    def _copy_entry(self, name: str, current: Any, value: Any) -> None:
        array = raw(current)
        if is_uninitialized(value):
            return
        if isinstance(array, TensorCollection):
            array.update_(value)
            return
        if is_uninitialized(array):
            if not isinstance(current, Parameter):
                self._set_buffer(name, value.copy())
                return
            cast(Any, current).materialize(value.shape)
            array = current.data
        if isinstance(array, MetaArray):
            warn(
                f"'{name}' has no data (meta device), so nothing is copied into it; "
                "load with assign=True to take the given array.",
            )
            return
        if array.flags.writeable:
            np.copyto(array, value)
        elif isinstance(current, Parameter):
            current.data = value.copy()
        else:
            self._set_buffer(name, value.copy())

    def _plan_extra_state(
        self, state_dict: dict[str, Any], prefix: str, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], pending: _Pending,
    ) -> None:  # fmt: skip
        key = prefix + EXTRA_STATE
        if self._has_extra_state("set_extra_state"):
            if key in state_dict:
                state = state_dict[key]
                pending.states.append(lambda: self.set_extra_state(state))
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def _unexpected(self, state_dict: dict[str, Any], prefix: str, local: dict[str, Any]) -> list[str]:
        out = []
        for key in state_dict:
            if not key.startswith(prefix) or key == prefix + EXTRA_STATE:
                continue
            head, dot, _ = key[len(prefix) :].partition(".")
            if head not in (self._modules if dot else local):
                out.append(key)
        return out

    def _raise_on_errors(self, strict: bool, keys: IncompatibleKeys, errors: list[str]) -> None:
        problems = list(errors)
        if strict and keys.unexpected_keys:
            problems.insert(0, "Unexpected key(s) in state_dict: " + _quoted(keys.unexpected_keys))
        if strict and keys.missing_keys:
            problems.insert(0, "Missing key(s) in state_dict: " + _quoted(keys.missing_keys))
        if problems:
            details = "\n\t".join(problems)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{details}")


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys) + "."


def checked(value: Any, current: Any, assign: bool) -> tuple[Any, str | None]:
    """The value as an array (or Parameter) that can replace `current`, or the text of an error."""
    if is_uninitialized(value):
        if is_uninitialized(current):
            return value, None
        return None, "the state dict has an uninitialized parameter or buffer, which has no shape."
    wanted = None if is_uninitialized(current) else tuple(current.shape)
    if isinstance(current, TensorCollection) or isinstance(value, TensorCollection):
        return value, _tree_problem(value, current)
    if not isinstance(value, Parameter | np.ndarray | MetaArray):
        if not hasattr(value, "__array__") or not hasattr(value, "shape"):
            return None, f"expected an array, got {type(value).__name__}."
        value = value if getattr(value, "symbolic", False) else np.asarray(value)
    if not assign and isinstance(raw(value), MetaArray):
        return None, "the state dict has an array without data (meta device), which only assign=True takes."
    shape = tuple(value.shape)
    if shape == (1,) and wanted == ():
        value = value.reshape(())
    elif wanted is not None and shape != wanted:
        return None, f"size mismatch: the state dict has shape {shape}, the module has shape {wanted}."
    return _typed(value, current, assign)


def _typed(value: Any, current: Any, assign: bool) -> tuple[Any, str | None]:
    """The value cast to a dtype that can replace that of `current`, or the text of an error."""
    if value.dtype.kind != current.dtype.kind and not is_numeric(value.dtype):
        return None, f"expected an array of numbers, got the dtype {value.dtype}."
    if not assign:
        # Converted here, as an error must come before the first write.
        return raw(value).astype(current.dtype, copy=False), None
    if isinstance(current, Parameter) and current.requires_grad and not is_inexact(value.dtype):
        return None, f"a Parameter that requires_grad takes floating or complex arrays, got {value.dtype}."
    return value, None


def remember_values(leaves: Collection[Any]) -> Callable[[], None]:
    """A function that restores the current content of Parameters and arrays."""
    kept: list[tuple[Any, Any, Any]] = []
    kinds = [(leaf, type(leaf)) for leaf in leaves if is_uninitialized(leaf) and isinstance(leaf, Parameter)]
    for leaf in leaves:
        array = raw(leaf)
        if isinstance(array, TensorCollection):
            kept.append((leaf, array, array.clone()))
        else:
            written = isinstance(array, np.ndarray) and array.flags.writeable
            kept.append((leaf, array, array.copy() if written else None))

    def restore() -> None:
        for leaf, kind in kinds:
            leaf.__class__ = kind
        for leaf, array, content in kept:
            if isinstance(leaf, Parameter):
                leaf.data = array
            if isinstance(array, TensorCollection):
                array.update_(content)
            elif content is not None:
                np.copyto(array, content)

    return restore


def _tree_problem(value: Any, current: Any) -> str | None:
    """The text of an error if a TensorDict cannot replace a buffer that is a TensorDict; else None."""
    if not (isinstance(current, TensorCollection) and isinstance(value, TensorCollection)):
        return f"expected {_kind(current)}, got {_kind(value)}."
    shapes, wanted = (
        {key: tuple(leaf.shape) for key, leaf in tree.items(True, True)} for tree in (value, current)
    )
    if shapes != wanted:
        return f"size mismatch: the state dict has entries of shapes {shapes}, the module {wanted}."
    return None


def _kind(value: Any) -> str:
    return "a TensorDict" if isinstance(value, TensorCollection) else "an array"


def load_safetensors(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the arrays of a safetensors file, by name: the state dict, if the file holds a module's weights.

    Args:
        path: the file.

    Returns:
        names to arrays, for `Module.load_state_dict`. bfloat16 and float8 arrays have the dtypes of
        ml_dtypes; copied into a module's own arrays they take their dtype.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a damaged file, or one of another format.
        ImportError: without the package safetensors, or ml_dtypes for the dtypes that need it.

    Example:
        >>> import tempfile, numpy as np
        >>> from safetensors.numpy import save_file
        >>> from lite import nn
        >>> path = tempfile.mkdtemp() + "/model.safetensors"
        >>> save_file({"weight": np.ones((1, 2), np.float32), "bias": np.zeros(1, np.float32)}, path)
        >>> nn.Linear(2, 1).load_state_dict(nn.load_safetensors(path))
        <All keys matched successfully>
    """
    from lite._files.flat import read_safetensors  # imported on use, as most programs read no files

    os.stat(path)  # raises FileNotFoundError, where the next call would report a damaged file
    return read_safetensors(os.fspath(path))[0]
