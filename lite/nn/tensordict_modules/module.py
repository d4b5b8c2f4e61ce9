"""TensorDictModule: a callable that reads its arguments from a TensorDict and writes its results there."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, unravel_key
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite._ops.access import dense_entry
from lite._tree.collection import TensorCollection
from lite._tree.keys import require_path
from lite._tree.nontensor import NonTensorBase, unwrap
from lite._tree.protocol import key_hint, missing_key
from lite.nn._modules.module import Module, indented
from lite.nn.settings import SKIP_EXISTING, all_present
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.sendable import packed, unpacked

_IN_KEYS_ERROR = "in_keys must be of type list, str or tuples of str, or dict."
_OUT_KEYS_ERROR = "out_keys must be of type list, str or tuples of str."


class TensorDictModule(TensorDictModuleBase):
    """Wrap a callable so that it reads `in_keys` of a TensorDict and writes `out_keys`.

    Called with arrays instead of a TensorDict, it returns the value of `out_keys` (see `dispatch`). Pickles
    take lambdas and other functions without a name of their own where cloudpickle is installed.

    Args:
        module: a Module, or any callable of arrays that returns an array, a tuple of arrays, or a
            dict or TensorDict that has all `out_keys`.
        in_keys: what to pass: one key or a list, by position; or a dict, by keyword. A tuple is one
            nested key.
        out_keys: where the results go: one key or a list; "_" drops a result.
        out_to_in_map: reads a dict of `in_keys` as {argument: key} if True, {key: argument} if
            False. By default {key: argument}, unless only the other direction fits the signature.
        inplace: True writes into the input; False (or None) into a new TensorDict without batch
            size; "empty" into `tensordict.empty()`.
        method: name of the method of `module` to call instead of the module itself, such as "predict" of
            an estimator of scikit-learn.
        method_kwargs: keyword arguments of every call; they win over those of the caller.
        strict: raise KeyError for a missing input instead of passing None.
        get_kwargs: keyword arguments of `TensorDict.get` (list form only), for ragged entries.

    Raises:
        ValueError: keys of another type, a `module` that is not callable, an unknown `inplace`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> module = nn.TensorDictModule(nn.Linear(3, 4), in_keys=["x"], out_keys=["y"])
        >>> module(TensorDict(x=np.zeros((2, 3), dtype=np.float32)))["y"].shape
        (2, 4)
        >>> module(x=np.zeros(3, dtype=np.float32)).shape
        (4,)
    """

    def __init__(
        self,
        module: Any,
        in_keys: NestedKey | MutableSequence[Any] | Mapping[Any, Any],
        out_keys: NestedKey | MutableSequence[Any],
        *,
        out_to_in_map: bool | None = None,
        inplace: bool | str | None = True,
        method: str | None = None,
        method_kwargs: Mapping[str, Any] | None = None,
        strict: bool = False,
        get_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        names: list[Any] | None = None
        if isinstance(in_keys, Mapping):
            function = getattr(module, method, None) if method is not None else module
            in_keys, names = split_key_map(in_keys, out_to_in_map, function)
        elif out_to_in_map is not None:
            warn("out_to_in_map has no effect unless in_keys is a dict.")
        self._kwarg_names = names
        self.in_keys = _key_list(in_keys, _IN_KEYS_ERROR)
        self.out_keys = _key_list(out_keys, _OUT_KEYS_ERROR)
        if "_" in self.in_keys:
            warn('in_keys has the key "_", which as an out_key drops a result.')
        if inspect.isclass(module):
            raise ValueError(f"module {module} is not callable as a module: it is a class, pass an instance.")
        if method is None and not callable(module):
            raise ValueError(f"Module {module!r} is not callable{_methods_of(module)}.")
        if inplace is not None and not isinstance(inplace, bool) and inplace != "empty":
            raise ValueError(f"inplace must be True, False, None or 'empty', got {inplace!r}.")
        self.module: Any = module
        self.inplace = inplace
        self.method = method
        self.method_kwargs = dict(method_kwargs or {})
        self.strict = strict
        self._get_kwargs = {} if names is not None else dict(get_kwargs or {})

    # -- the call ------------------------------------------------------------------------------

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any, *args: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """Read the inputs, call the module, write the outputs.

        Args:
            tensordict: where inputs are read and, with `inplace=True`, outputs are written.
            tensordict_out: where to write the outputs instead; wins over `inplace`.
            kwargs: passed to the module.

        Returns:
            The TensorDict that was written.

        Raises:
            KeyError: an input is missing, and `strict` is set or the module cannot take None.
            RuntimeError: the number of results is not that of `out_keys`, or a result does not start
                with the batch size.
        """
        if SKIP_EXISTING.get() and all_present(tensordict, self.in_keys, self.out_keys):
            return tensordict
        try:
            if args:
                raise ValueError(f"expected a TensorDict and keywords, got {len(args)} more arguments.")
            # Read directly: attribute access is slow on a class that has __getattr__.
            state = self.__dict__
            values = read(tensordict, state["_in_keys"], state["_get_kwargs"])
            if state["strict"]:
                self._require(tensordict, values)
            function = state["_modules"].get("module")
            if function is None:
                function = state["module"]
            if state["method"] is not None:
                function = getattr(function, state["method"])
            if state["_kwarg_names"] is not None:
                kwargs.update(zip(state["_kwarg_names"], values, strict=True))
                values = []
            if state["method_kwargs"]:
                kwargs.update(state["method_kwargs"])
            try:
                result = function(*values, **kwargs) if kwargs else function(*values)
            except Exception as err:
                if "None" in str(err) and any(value is None for value in values):
                    raise self._without_inputs(function, values, tensordict) from err
                raise
            target = tensordict_out
            if target is None:
                target = tensordict if state["inplace"] is True else self._target(tensordict)
            keys = state["_out_keys"]
            # Nearly always; to a call's 1.0 microseconds, `store` would add another 0.4.
            if (
                type(result) is np.ndarray
                and len(keys) == 1
                and type(target) is TensorDict
                and keys[0] != "_"
            ):
                (target._set_here if type(keys[0]) is str else target._set_path)(keys[0], result, False)
            else:
                store(target, keys, _outputs(result, keys))
            return target
        except Exception as err:
            self._explain(err)
            raise

    def _require(self, tensordict: Any, values: list[Any]) -> None:
        """Raise KeyError if a value is missing."""
        for key, value in zip(self.in_keys, values, strict=True):
            if value is None:
                node = _node_of(tensordict)
                if node.get(key, None) is not None:
                    raise KeyError(f"the entry {key!r} is None, in place of an array.")
                raise missing_key(node, require_path(key))

    def _target(self, tensordict: Any) -> Any:
        """The TensorDict that outputs are written to."""
        if self.inplace == "empty":
            return tensordict.empty()
        return tensordict if self.inplace else TensorDict()

    def _without_inputs(self, function: Any, values: list[Any], source: Any) -> KeyError:
        """The error of a call that got None for entries that are not there."""
        missing = [key for key, value in zip(self.in_keys, values, strict=False) if value is None]
        hints = "".join(key_hint(source, key) for key in missing if isinstance(key, str))
        return KeyError(
            "Some tensors that are necessary for the module call may not have been found in the "
            f"input tensordict: the following inputs are None: {missing}. {type(self).__name__} "
            f"reads in_keys={self.in_keys} for {_named(function)}; the keys that are there are "
            f"{sorted(source.keys(True, True), key=str)}{hints or '.'}"
        )

    def _explain(self, err: BaseException) -> None:
        """End the chain of causes with what this module is and reads and writes."""
        payload = _payload(self.__dict__)
        text = repr(payload)
        if not isinstance(payload, Module):
            with contextlib.suppress(OSError, TypeError):
                text = inspect.getsource(payload).strip()
        last = err
        while last.__cause__ is not None:
            last = last.__cause__
        last.__cause__ = RuntimeError(
            f"{type(self).__name__} failed with operation\n    {indented(text, 4)}\n"
            f"    in_keys={self.in_keys}\n    out_keys={self.out_keys}."
        )

    # -- copies and pickles -----------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return packed(self.__dict__, "module")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(unpacked(state, "module"))

    # -- attributes of the payload --------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            payload = _payload(self.__dict__)
            if name.startswith("_") or payload is None:
                raise
        return getattr(payload, name)


def _methods_of(module: Any) -> str:
    """For an error: which methods of an estimator (scikit-learn's) can be called in its place."""
    found = [
        name for name in ("predict", "predict_proba", "transform") if callable(getattr(module, name, None))
    ]
    return f"; of its methods {found} name the one to call: method={found[0]!r}" if found else ""


def _named(function: Any) -> str:
    """The name of a module or function in errors."""
    return getattr(function, "__name__", type(function).__name__)


def _outputs(result: Any, keys: Sequence[NestedKey]) -> tuple[Any, ...]:
    """The results in the order of out_keys."""
    values: tuple[Any, ...] = (result,)
    if isinstance(result, tuple):
        values = result
    elif result is None:
        values = ()
    elif isinstance(result, dict):
        flat = {unravel_key(key): value for key, value in result.items()}
        if all(key in flat for key in keys):
            values = tuple(flat[key] for key in keys)
    elif isinstance(result, TensorCollection):
        node = TensorDict._as_node(result)
        if node is not None and all(key in node for key in keys):
            values = tuple(node.get(key) for key in keys)
    if len(values) != len(keys):
        raise RuntimeError(
            f"There are {'more' if len(values) > len(keys) else 'fewer'} results ({len(values)}) than "
            f"out_keys ({keys})."
        )
    return values


def _payload(state: dict[str, Any]) -> Any:
    """The wrapped callable: a registered child if it is a module, else an attribute."""
    child = state["_modules"].get("module") if "_modules" in state else None
    return state.get("module") if child is None else child


def read(tensordict: Any, keys: Iterable[NestedKey], options: dict[str, Any] | None = None) -> list[Any]:
    """The entries under some keys: arrays and nodes as they are, objects unwrapped, None for missing ones.

    `options` are keyword arguments of `TensorDict.get`.
    """
    node = tensordict if type(tensordict) is TensorDict else _node_of(tensordict)
    own = node._data
    values = []
    for key in keys:
        entry = own.get(key) if type(key) is str else dense_entry(node, key)
        if type(entry) is not np.ndarray:  # an array is read without `get`, in four fifths of the time
            entry = node.get(key, None, **options) if options else node.get(key, None)
            if isinstance(entry, NonTensorBase):
                entry = unwrap(entry)
        values.append(entry)
    return values


def store(target: Any, keys: Sequence[NestedKey], values: Sequence[Any]) -> None:
    """Write entries into a TensorDict, none if one of them does not fit; "_" is dropped."""
    node = target if type(target) is TensorDict else _node_of(target)
    # Of several all are checked before the first is stored.
    convert = node._convert if len(keys) > 1 else None
    entries = []
    for i, key in enumerate(keys):
        if key != "_":
            value = values[i]
            if type(value) is not np.ndarray and isinstance(value, dict):
                value = TensorDict.from_dict(value)
            entries.append((key, value if convert is None else convert(value)))
    # What has been checked is put there without a second check, in three quarters of the time.
    checked = convert is not None and type(node) is TensorDict and not node._locked
    for key, entry in entries:
        if checked and type(key) is str:
            node._put(key, entry)
        else:
            node.set(key, entry)


def _node_of(tensordict: Any) -> Any:
    """The container, or the TensorDict of a tensorclass."""
    node = TensorDict._as_node(tensordict)
    if node is None:
        raise TypeError(f"expected a TensorDict, got {type(tensordict).__name__}.")
    return node


def listed(keys: NestedKey | Sequence[NestedKey], one: Any = (str, tuple)) -> list[NestedKey]:
    """Keys as a list: a string and a tuple are one key, or what `one` says."""
    return [keys] if isinstance(keys, one) else list(keys)


def _key_list(keys: Any, error: str) -> list[NestedKey]:
    if isinstance(keys, str | tuple):
        keys = [keys]
    elif not isinstance(keys, MutableSequence):
        raise ValueError(f"{error} Got {keys!r}.")
    try:
        return [unravel_key(key) for key in keys]
    except RuntimeError as err:
        raise ValueError(f"{error} Got {keys!r}.") from err


def split_key_map(
    in_keys: Mapping[Any, Any], out_to_in_map: bool | None, function: Callable[..., Any] | None
) -> tuple[list[Any], list[Any]]:
    """Read a dict of in_keys as (keys of the TensorDict, names of keyword arguments).

    `out_to_in_map=True` means {argument: key}, False means {key: argument}. With None the signature
    of `function` decides if it accepts the names of one direction only; otherwise {key: argument}.
    """
    first, second = list(in_keys), list(in_keys.values())
    if out_to_in_map is None:
        out_to_in_map = accepts(function, first) and not accepts(function, second)
    return (second, first) if out_to_in_map else (first, second)


def accepts(function: Callable[..., Any] | None, names: Iterable[Any]) -> bool:
    """Whether `function` can be called with these keyword arguments; False if that cannot be known."""
    target = function.forward if isinstance(function, Module) else function
    if target is None or not all(isinstance(name, str) for name in names):
        return False
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):
        return False
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return True
    return all(name in parameters and parameters[name].kind in by_name for name in names)


def as_tensordict_module(
    *, in_keys: NestedKey | list[NestedKey], out_keys: NestedKey | list[NestedKey]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function of arrays, or a method, so that it works on a TensorDict.

    A function becomes a `TensorDictModule`. A method (its first argument is called `self`) stays a
    method: each call runs with the object that it is called on.

    Args:
        in_keys: what to pass, one key or a list.
        out_keys: keys of the results.

    Example:
        >>> from lite import TensorDict
        >>> from lite.nn import as_tensordict_module
        >>> @as_tensordict_module(in_keys="c", out_keys="d")
        ... def add_one(c):
        ...     return c + 1
        >>> int(add_one(TensorDict(c=1))["d"])
        2
    """

    def decorator(func: Callable[..., Any]) -> Callable[..., Any]:
        if next(iter(inspect.signature(func).parameters), None) != "self":
            return TensorDictModule(func, in_keys, out_keys)

        @functools.wraps(func)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return TensorDictModule(types.MethodType(func, self), in_keys, out_keys)(*args, **kwargs)

        return method

    return decorator


belong_to("lite.nn", TensorDictModule)
