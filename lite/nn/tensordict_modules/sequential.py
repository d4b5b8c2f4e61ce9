"""TensorDictSequential: modules that pass one TensorDict along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence
from functools import partial
from typing import Any, Self

from lite import NestedKey, unravel_key_list
from lite._arrays.public import belong_to
from lite.nn._modules.module import Module
from lite.nn.layers.containers import ModuleDict, ModuleList
from lite.nn.settings import SKIP_EXISTING, all_present
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.module import TensorDictModule
from lite.nn.tensordict_modules.wrappers import WrapModule


class TensorDictSequential(TensorDictModule):
    """Run modules one after the other, each on the TensorDict that the one before returned.

    `in_keys` are what must be present before, in order of first use; `out_keys` are everything that
    is written. Called with arrays instead of a TensorDict, it returns the values of `out_keys`.

    Args:
        modules: modules, or one list of them, or one dict of names to modules. What has no
            `in_keys` and `out_keys` must be a callable from TensorDict to TensorDict.
        partial_tolerant: skip modules whose inputs are missing. On a lazy stack such a module runs
            on the elements that have its inputs.
        selected_out_keys: see `select_out_keys`.
        inplace: True copies the outputs into the input and returns it; False into a new TensorDict
            without batch size; "empty" into `tensordict.empty()`; None returns what the last module
            returned.

    Raises:
        ValueError: an unknown `inplace`, or a selected key that no module writes.

    Example:
        >>> from lite import TensorDict
        >>> from lite.nn import TensorDictModule, TensorDictSequential
        >>> seq = TensorDictSequential(
        ...     TensorDictModule(lambda x: x + 1, in_keys=["x"], out_keys=["y"]),
        ...     TensorDictModule(lambda y: y * 2, in_keys=["y"], out_keys=["z"]),
        ... )
        >>> seq.in_keys, seq.out_keys, int(seq(TensorDict(x=1))["z"])
        (['x'], ['y', 'z'], 4)
    """

    def __init__(
        self,
        *modules: Any,
        partial_tolerant: bool = False,
        selected_out_keys: Iterable[NestedKey] | None = None,
        inplace: bool | str | None = None,
    ) -> None:
        source: Any = modules
        if len(modules) == 1 and isinstance(modules[0], Mapping | MutableSequence):
            source = modules[0]
        elif len(modules) == 1 and isinstance(modules[0], ModuleList):
            source = list(modules[0])
        container: ModuleDict | ModuleList
        if isinstance(source, Mapping):
            container = ModuleDict({name: _as_td_module(module) for name, module in source.items()})
        else:
            container = ModuleList(_as_td_module(module) for module in source)
        in_keys, out_keys = infer_keys(container._modules.values())
        super().__init__(container, in_keys=in_keys, out_keys=out_keys, inplace=inplace)
        self.partial_tolerant = partial_tolerant
        if selected_out_keys:
            self.select_out_keys(*selected_out_keys)

    # -- the call ------------------------------------------------------------------------------

    @staticmethod
    def _chain(named: list[tuple[str, Any]], tensordict: Any) -> Any:
        name = ""
        try:
            for name, module in named:  # noqa: B007 - told in the note
                tensordict = module(tensordict)
        except Exception as err:
            err.add_note(f"Failed while executing module '{name}'.")
            raise
        return tensordict

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """Run the modules in order.

        Args:
            tensordict: the input. With `tensordict_out`, a selection of outputs, or an `inplace` of False or
                "empty" the modules run on a shallow copy of it.
            tensordict_out: receives `out_keys` and is returned; wins over `inplace`.

        Raises:
            RuntimeError: for any other keyword argument.
        """
        return self._forward(tensordict, tensordict_out, kwargs, self._execute)

    def _forward(
        self, tensordict: Any, tensordict_out: Any, kwargs: dict[str, Any], run: Callable[[Any], Any]
    ) -> Any:
        """Run the modules on the right TensorDict, and keep the selected outputs."""
        if SKIP_EXISTING.get() and all_present(tensordict, self.in_keys, self.out_keys):
            return tensordict
        if kwargs:
            raise RuntimeError(
                "TensorDictSequential does not support keyword arguments other than 'tensordict_out' or "
                f"in_keys: {self.in_keys}. Got {sorted(kwargs)} instead."
            )
        selected = "_out_keys_apparent" in self.__dict__
        apart = selected or tensordict_out is not None or self.inplace in (False, "empty")
        current = run(tensordict.copy() if apart else tensordict)
        if tensordict_out is None and self.inplace is not None:
            tensordict_out = self._target(tensordict)
        if tensordict_out is not None:
            return tensordict_out.update(current, keys_to_update=self.out_keys)
        if selected:
            # Entries of the input that the modules rewrote are part of the result too.
            keys = [*self.out_keys, *tensordict.keys(True, True)]
            return tensordict.update(current, keys_to_update=keys)
        return current

    def _execute(self, tensordict: Any, named: list[tuple[str, Any]] | None = None) -> Any:
        """Run the modules; with `partial_tolerant`, only those that have their inputs."""
        if named is None:
            named = self._named()
        if self.partial_tolerant:
            named = [(name, partial(self._run, module)) for name, module in named]
        return self._chain(named, tensordict)

    def _run(self, module: Any, tensordict: Any) -> Any:
        """Run a module on the TensorDict, on the parts of a lazy stack with its inputs, or not at all."""
        if all(key in tensordict for key in module.in_keys):
            return module(tensordict)
        for element in getattr(tensordict, "tensordicts", ()):
            if all(key in element for key in module.in_keys):
                module(element)
        return tensordict

    # -- selection -----------------------------------------------------------------------------

    _selection_error = ValueError

    def _selected(self, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # forward has already kept the selection apart; unrelated entries of the input stay.
        return out

    def select_subsequence(
        self, in_keys: Iterable[NestedKey] | None = None, out_keys: Iterable[NestedKey] | None = None
    ) -> Any:
        """Return a sequence of only the modules needed, which it shares with this one.

        A module is kept if it can be computed from `in_keys` (and from what kept modules write), and
        if it writes something that `out_keys` depend on. Nested sequences are narrowed likewise.

        Args:
            in_keys: the available keys; this sequence's `in_keys` by default.
            out_keys: the required keys; this sequence's `out_keys` by default.

        Raises:
            ValueError: if no module is left.
            TypeError: if the keys are one string instead of a list.

        Example:
            >>> from lite.nn import TensorDictModule as Mod, TensorDictSequential as Seq
            >>> seq = Seq(Mod(abs, ["a"], ["b"]), Mod(abs, ["b"], ["c"]), Mod(abs, ["a"], ["d"]))
            >>> seq.select_subsequence(out_keys=["d"]).out_keys
            ['d']
        """
        given = self.in_keys if in_keys is None else in_keys
        wanted = self.out_keys if out_keys is None else out_keys
        named = select_modules(self._named(), _listed(given), _listed(wanted), TensorDictSequential)
        if not named:
            raise ValueError(
                f"No modules left after selection: in_keys={list(given)}, out_keys={list(wanted)}. "
                "Make sure that in_keys and out_keys are coherent."
            )
        return self._like(named)

    def _named(self) -> list[tuple[str, Any]]:
        return list(self._modules["module"]._modules.items())

    def _like(self, named: list[tuple[str, Any]]) -> Any:
        """A sequence of the same class and form (list or dict)."""
        if isinstance(self._modules["module"], ModuleDict):
            return self._sequence(dict(named))
        return self._sequence(*[module for _, module in named])

    # The class of a sequence of other modules; one whose constructor takes other arguments has another.
    _sequence: Any = property(type)

    # -- the modules as a list -----------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._named())

    def __iter__(self) -> Iterator[Any]:
        return iter([module for _, module in self._named()])

    def __contains__(self, item: object) -> bool:
        return any(
            item is module or (item == name and isinstance(item, str)) for name, module in self._named()
        )

    def __getitem__(self, index: int | slice | str) -> Any:
        if isinstance(index, str):
            return self._modules["module"]._modules[index]
        if isinstance(index, slice):
            return self._like(self._named()[index])
        return self._named()[index][1]

    def __setitem__(self, index: int | str, module: Any) -> None:
        name = index if isinstance(index, str) else self._named()[index][0]
        self._container().add_module(name, _as_td_module(module))
        self._refresh_keys()

    def __delitem__(self, index: int | slice | str) -> None:
        if isinstance(index, str):
            drop = [index]
            if index not in self._container()._modules:
                raise KeyError(index)
        else:
            chosen = self._named()[index]
            drop = [name for name, _ in chosen] if isinstance(chosen, list) else [chosen[0]]
        self._rebuild([(name, module) for name, module in self._named() if name not in drop])

    def append(self, module: Any) -> Self:
        """Add a module at the end and update the keys; returns self."""
        return self.insert(len(self), module)

    def extend(self, modules: Iterable[Any]) -> Self:
        """Add modules at the end and update the keys; returns self."""
        self._require_list("extend")
        self._rebuild([*self._named(), *[("", _as_td_module(module)) for module in modules]])
        return self

    def insert(self, index: int, module: Any) -> Self:
        """Insert a module before `index` and update the keys; returns self.

        Raises:
            TypeError: for a sequence built from a dict, whose modules need names: use
                `seq["name"] = module`.
        """
        self._require_list("insert")
        named = self._named()
        named.insert(index, ("", _as_td_module(module)))
        self._rebuild(named)
        return self

    def pop(self, index: int | str = -1) -> Any:
        """Remove a module, update the keys, and return the module."""
        module = self[index]
        del self[index]
        return module

    def _container(self) -> Module:
        return self._modules["module"]

    def _require_list(self, method: str) -> None:
        if isinstance(self._container(), ModuleDict):
            raise TypeError(f"{method} needs unnamed modules; use seq['name'] = module instead.")

    def _rebuild(self, named: list[tuple[str, Any]]) -> None:
        """Change the container in place, so that other references to it have the same modules."""
        container = self._container()
        named_form = isinstance(container, ModuleDict)
        container._modules.clear()
        for position, (name, module) in enumerate(named):
            container.add_module(name if named_form else str(position), module)
        self._refresh_keys()

    def _refresh_keys(self) -> None:
        selected = self.__dict__.get("_out_keys_apparent")
        self.in_keys, self.out_keys = infer_keys(self)
        if selected is not None:
            self.__dict__["_out_keys_apparent"] = [key for key in selected if key in self.out_keys]


def _as_td_module(module: Any) -> Any:
    return module if TensorDictModuleBase.is_tdmodule_compatible(module) else WrapModule(module)


def _listed(keys: Iterable[NestedKey]) -> list[NestedKey]:
    if isinstance(keys, str):
        raise TypeError(f"keys must be a list of keys, got the string {keys!r}.")
    return unravel_key_list(list(keys))


def infer_keys(modules: Iterable[Any]) -> tuple[list[NestedKey], list[NestedKey]]:
    """The keys a sequence needs (in order of first use) and writes (each at its last writer)."""
    needed: dict[NestedKey, None] = {}
    written: dict[NestedKey, None] = {}
    for module in modules:
        for key in module.in_keys:
            if key not in written:
                needed.setdefault(key)
        for key in module.out_keys:
            written.pop(key, None)
            written[key] = None
    return list(needed), list(written)


def select_modules(
    named: list[tuple[str, Any]], in_keys: Iterable[Any], out_keys: Iterable[Any], nested_type: type
) -> list[tuple[str, Any]]:
    """The (name, module) pairs that lead from `in_keys` to `out_keys`.

    Args:
        named: the modules in order.
        in_keys: keys that are given.
        out_keys: keys that are wanted.
        nested_type: modules of exactly this type are narrowed by their own `select_subsequence`;
            subclasses are kept whole, as their behaviour is not known here.
    """
    available = set(in_keys)
    computable = []
    for name, module in named:
        if type(module) is nested_type:
            module = _narrowed(module, in_keys=available)
        if module is not None and all(key in available for key in module.in_keys):
            available.update(module.out_keys)
            computable.append((name, module))
    wanted = set(out_keys)
    kept = []
    for name, module in reversed(computable):
        if not any(key in wanted for key in module.out_keys):
            continue
        if type(module) is nested_type:
            module = _narrowed(module, out_keys=wanted)
        wanted.update(module.in_keys)
        kept.append((name, module))
    return kept[::-1]


def _narrowed(module: Any, **keys: Any) -> Any:
    try:
        return module.select_subsequence(**keys)
    except ValueError:
        return None


belong_to("lite.nn", TensorDictSequential)
