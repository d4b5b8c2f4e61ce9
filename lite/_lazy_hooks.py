"""Methods that a higher package implements: `from_module`, `to_module`, `Module.to_onnx` and their like.

`lite.nn`, `lite.envs` and `lite.data` register loaders of their functions when they are imported, and the
first call loads one: containers know nothing of modules, layers nothing of the exporter, modules nothing of
environments, and these nothing of buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lite._arrays.caller import warn
from lite._arrays.foreign import class_name

_loaders: dict[str, Callable[[], Callable[..., Any]]] = {}
_loaded: dict[str, Callable[..., Any]] = {}


def register(**loaders: Callable[[], Callable[..., Any]]) -> None:
    """Register functions that load the implementations, by the names of the methods."""
    _loaders.update(loaders)


def implementation(name: str, module: Any, package: str = "lite.nn") -> Callable[..., Any]:
    """The function that implements a method, loaded on first use.

    Args:
        name: name of the method.
        module: what it is a method of, or its argument.
        package: that registers the function.

    Raises:
        TypeError: no function is registered. Then `lite.nn` is not imported, and `module` is not a Module.
        ImportError: another package is not imported.
    """
    found = _loaded.get(name)
    if found is None:
        if name not in _loaders:
            if package != "lite.nn":
                raise ImportError(f"{name} needs {package}: import it first.")
            raise TypeError(f"module must be a Module, got {class_name(module)}.")
        found = _loaded[name] = _loaders[name]()
    return found


def from_module(
    cls: type[Any],
    module: Any,
    as_module: bool = False,
    lock: bool = False,
    use_state_dict: bool = False,
    filter_empty: bool = True,
) -> Any:
    """The parameters and buffers of a module, nested as its children are.

    Entries are the module's own objects (`lite.nn.Parameter`s, and the arrays of buffers), so that
    a value written into one shows in the module. A child registered twice appears twice.

    Args:
        module: the module.
        as_module: return a `TensorDictParams`.
        lock: lock the result.
        use_state_dict: run the state-dict hooks, and give plain arrays without non-persistent buffers.
        filter_empty: leave out children without any parameter or buffer.

    Returns:
        A TensorDict without batch size; a `TensorDictParams` is returned as it is.

    Raises:
        TypeError: `module` is not a Module.

    Example:
        >>> from lite import TensorDict, nn
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> params = TensorDict.from_module(net)
        >>> params["0", "weight"] is net[0].weight
        True
    """
    load = implementation("from_module", module)
    return load(module, as_module, lock, use_state_dict, filter_empty)


def from_modules(
    cls: type[Any],
    *modules: Any,
    as_module: bool = False,
    lock: bool = True,
    use_state_dict: bool = False,
    lazy_stack: bool = False,
    expand_identical: bool = False,
) -> Any:
    """The parameters of several modules of one structure, stacked along a new first dimension.

    Args:
        modules: the modules.
        as_module: return a `TensorDictParams`.
        lock: lock the result.
        use_state_dict: see `from_module`.
        lazy_stack: stack nothing, so that entries stay those of the modules; shapes may differ.
        expand_identical: expand what is the same object in all modules instead of copying it.

    Returns:
        A TensorDict of batch size (number of modules,). Dense stacks are copies, Parameters where
        the first module has Parameters.

    Raises:
        RuntimeError: no modules; different keys or shapes in a dense stack; `lazy_stack` together
            with `as_module`.
        ValueError: different keys with `expand_identical`.

    Example:
        >>> from lite import TensorDict, nn
        >>> TensorDict.from_modules(nn.Linear(2, 3), nn.Linear(2, 3))["weight"].shape
        (2, 3, 2)
    """
    if not modules:
        raise RuntimeError("from_modules needs at least one module.")
    load = implementation("from_modules", modules[0])
    return load(modules, as_module, lock, use_state_dict, lazy_stack, expand_identical)


def to_module(
    td: Any,
    module: Any,
    *,
    inplace: bool | None = None,
    return_swap: bool = True,
    swap_dest: Any = None,
    use_state_dict: bool = False,
    non_blocking: bool = False,
    memo: Any = None,
    preserve_module_state: bool | None = True,
) -> Any:
    """Put the entries into a module, by name; or for the time of a `with` statement.

    At the end of `with params.to_module(module):` the module has its own objects again, also when
    the body raised. What the body assigned to a parameter or buffer (a running mean, say) goes to
    `params`, unless that is locked or the body raised. The module is that of all threads: another one that
    calls it meanwhile computes with `params`, or a part of them, and of two blocks at once one may leave
    the other's behind. Give each thread a `copy.deepcopy` of the module.

    Args:
        module: a module with the names of self; names that self lacks stay as they are.
        inplace: write the values into the module's arrays instead of putting in self's entries.
        return_swap: return what the module had before.
        swap_dest: a TensorDict that gets what the module had before, and is returned.
        use_state_dict: run the module's load-state-dict pre-hooks on the entries first.
        non_blocking: accepted for compatibility.
        memo: not to be given.
        preserve_module_state: keep kinds: an array in the place of a parameter becomes a Parameter
            over the same memory with the old one's `requires_grad`, and buffers stay buffers. If
            false, an array becomes a plain attribute of the module; None means that too, and warns.

    Returns:
        What the module had before, to be given back with `swap.to_module(module)`; or None.

    Raises:
        KeyError: the module lacks a name of self. It is unchanged then.
        TypeError: `module` is neither a Module nor a `TensorDictParams`.
        RuntimeError: `inplace` together with `use_state_dict`, a `memo`, or a load hook reports an error.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> net = nn.Linear(2, 1)
        >>> zeros = TensorDict.from_module(net).apply(np.zeros_like)
        >>> with zeros.to_module(net):
        ...     net(np.ones(2, np.float32))
        array([0.], dtype=float32)
    """
    if memo is not None:
        raise RuntimeError("memo cannot be passed to to_module: shared modules are found without.")
    if preserve_module_state is None:
        warn(
            "preserve_module_state=None means False; pass False, or True to keep kinds.",
            FutureWarning,
        )
    put = implementation("to_module", module)
    return put(td, module, inplace, return_swap, swap_dest, use_state_dict, preserve_module_state)
