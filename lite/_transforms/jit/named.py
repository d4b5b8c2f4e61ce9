"""What a function takes from closures and globals: the names in its code, and their values."""

from __future__ import annotations

import dis
import functools
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.types import ArrayHolder, HostArray
from lite._transforms.handles import assignments
from lite._transforms.jit.bound import Bound
from lite._transforms.jit.draws import traced_generator_class
from lite._transforms.jit.stateful import is_module, is_optimizer, is_schedule, is_updater
from lite._transforms.vmap.running import maps
from lite._tree.protocol import Container


class _Content(NamedTuple):
    """An array that a function takes from elsewhere.

    Attributes:
        owner: the parameter, the dict of buffers, or None.
        key: of the array in the dict.
        name: for errors.
        array: it.
        before: its numbers; None if it is read-only while the function is traced.
    """

    owner: Any
    key: str
    name: str
    array: Any
    before: Any = None

    def put_back(self) -> bool:
        """Undo what was written to it; whether something was."""
        owner, array = self.owner, self.array
        if self.before is None:
            array.flags.writeable = True
            return False
        now = array if owner is None else owner[self.key] if type(owner) is dict else owner.data
        if now is array and array.tobytes() == self.before.tobytes():
            return False
        if array.flags.writeable:
            np.copyto(array, self.before)
        if type(owner) is dict:
            owner[self.key] = array
        elif owner is not None:
            owner.data = array
        return True


class _Traced:
    """The graph that is traced now."""

    def __getattr__(self, name: str) -> Any:
        graph = next(one for one in reversed(maps.running) if hasattr(one, "draw"))
        return getattr(graph, name)


def _writer(read: Any) -> Callable[[Any], Any] | None:
    """A function that lets a name stand for something else, from the one that reads it; None if none can."""
    if not isinstance(read, functools.partial):
        (cell,) = read.__defaults__
        return functools.partial(setattr, cell, "cell_contents")
    func, args = read.func, read.args
    if func is getattr or func is _of_class:
        return functools.partial(setattr, *args[:2])
    if func is _item:
        return functools.partial(args[0].__setitem__, args[1]) if type(args[0]) is list else None
    entries = getattr(func, "__self__", None)
    return functools.partial(entries.__setitem__, args[0]) if type(entries) is dict else None


class Named:
    """The modules, optimisers and updaters that a function takes from closures and globals.

    A graph is valid as long as the names in the function's code, and in the code that it calls, have the same
    values, which `is_current` compares in each call: numbers, arrays, generators, functions, items of lists,
    dicts, sets and TensorDicts, attributes of objects, of their classes and of the caller's modules.

    Args:
        fn: the function.

    Attributes:
        objects: the modules, optimisers and updaters.
        names: their names in the code, by identity.
        words: all names in the code, in their order.
        modes: whether each module of `objects`, with those in it, is in training mode.
        changed: the name whose value is another one, after `is_current` gave False.
    """

    def __init__(self, fn: Any) -> None:
        self.words: dict[str, None] = {}
        self.changed = ""
        self._attributes: set[str] = set()  # names of attributes in the caller's code
        count = -1
        while count < len(self._attributes):  # each function that is found may name more of them
            count = len(self._attributes)
            self.names: dict[int, str] = {}
            self._found: dict[int, Any] = {}
            self._sources: list[tuple[Callable[[], Any], Any, str]] = []
            self._seen: dict[int, Any] = {}
            self._look(fn, _DEPTH, "function")
        self.objects = list(self._found.values())
        self._modules = [one for one in self.objects if is_module(one)]
        self._with_buffers = True
        self._counters: frozenset[tuple[int, str]] = frozenset()
        self._note_modules()
        self._settled = False
        self._contents: list[tuple[np.ndarray[Any, Any], bytes, str]] = []

    def is_current(self) -> bool:
        """Whether the names have the values, and the modules the parts, that they had."""
        for read, value, name in self._sources:
            now = read()
            if now is not value and not _is_equal(now, value):
                self.changed = name
                return False
        for array, content, name in self._contents:
            if array.tobytes() != content:
                self.changed = name
                return False
        if self._assigned is not assignments[0]:  # to some module, perhaps to one of these
            before = self._tree
            self._note_modules()
            self.changed = "a part of a module"
            return len(before) == len(self._tree) and all(map(_is_same_part, before, self._tree))
        return True

    def compare_contents(self, captured: Iterable[Any]) -> None:
        """From now on compare the numbers in small arrays that are constants of the graph.

        Args:
            captured: arrays that the graph reads in each run, so that their numbers may change.
        """
        bases = [x if x.base is None else x.base for x in captured]
        read, known = {id(x) for x in bases}, {id(x) for x, *_ in self._contents}
        for _, x, name in [*self._sources, *[(None, x, key) for _, key, x in self._tree]]:
            if type(x) is not np.ndarray or x.nbytes > _COMPARED or x.dtype.hasobject or id(x) in known:
                continue
            if id(x if x.base is None else x.base) not in read:
                known.add(id(x))
                self._contents.append((x, x.tobytes(), name))

    @property
    def parameters(self) -> list[Any]:
        """The parameters of the modules, and those that names stand for."""
        found = [x for one in self._modules for x in one.parameters()]
        return list({id(x): x for x in [*found, *(x for x, _ in self.loose)]}.values())

    @property
    def loose(self) -> list[tuple[Any, str]]:
        """The parameters that names stand for, or entries of what they stand for, with their names."""
        return [(x, name) for _, x, name in self._sources if isinstance(x, ArrayHolder)]

    @property
    def arrays(self) -> list[tuple[Any, Callable[[Any], Any], str]]:
        """The arrays that names stand for, what lets these stand for others, and their names."""
        found = [(x, _writer(read), name) for read, x, name in self._sources if type(x) is np.ndarray]
        return [(x, put, name) for x, put, name in found if put is not None]

    def may_write(self) -> bool:
        """Whether the function may write to buffers, or by one of its names to parameters."""
        buffers = any(vars(x)["_buffers"] for one in self._modules for x in one.modules())
        return buffers or bool(self.parameters)

    def watch(self, watched: list[_Content]) -> None:
        """Append the arrays that the function might write to while it is traced.

        Large ones are read-only until they are put back, or copied where code may write to views of them.
        """
        found = [_Content(x, "data", "a parameter", x.data) for x in self.parameters]
        for module in {id(x): x for one in self._modules for x in one.modules()}.values():
            buffers = vars(module)["_buffers"]
            found += [_Content(buffers, key, "a buffer", x) for key, x in buffers.items()]
        found += [_Content(None, "", name, x) for _, x, name in self._sources]
        limit = _COMPARED if _WRITING.isdisjoint(self.words) else math.inf
        found = [x for x in found if type(x.array) is np.ndarray and not x.array.dtype.hasobject]
        watched += [one._replace(before=one.array.copy()) for one in found if one.array.nbytes <= limit]
        large = {id(x.array): x for x in found if x.array.nbytes > limit and x.array.flags.writeable}
        watched += sorted(large.values(), key=lambda one: one.array.base is not None)  # views last
        for one in large.values():
            one.array.flags.writeable = False

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Let the generators that names stand for draw what each run of a graph draws."""
        found = [(_writer(read), x) for read, x, _ in self._sources if hasattr(x, "bit_generator")]
        before = [(put, x) for put, x in found if put is not None]
        made = {id(x): traced_generator_class()(x, _Traced()) for _, x in before}
        for put, x in before:
            put(made[id(x)])
        try:
            yield
        finally:
            for put, x in before:
                put(x)

    def leave_buffers(self) -> None:
        """Let the buffers of modules be other arrays than before: the function has them as arguments."""
        self._with_buffers = False
        self._note_modules()

    def held(self) -> list[tuple[Any, Any]]:
        """The entries of all lists, dicts, TensorDicts and objects that the function may write to, and a copy
        of each.
        """
        found: list[tuple[Any, Any]] = []
        for x in self._seen.values():
            node = Container._as_node(x)
            entries: Any = x
            if node is not None:
                entries = getattr(node, "_data", None)
            elif not isinstance(x, dict | list):
                entries = getattr(x, "__dict__", None)
            if type(entries) in (dict, list):
                found.append((entries, entries.copy()))
        buffers = [module._buffers for root in self._modules for module in root.modules()]
        return found + [(entries, entries.copy()) for entries in buffers]

    @staticmethod
    def put_back(held: list[tuple[Any, Any]]) -> None:
        """Undo what a failed trace wrote: arrays without numbers."""
        for entries, before in held:
            now = entries.values() if isinstance(entries, dict) else entries
            if any(isinstance(x, HostArray) for x in now):
                entries.clear()
                entries.update(before) if isinstance(entries, dict) else entries.extend(before)

    def settle(self) -> None:
        """Stop comparing the numbers that the function itself changed in its first trace."""
        if not self._settled:
            self._settled = True
            self._sources = [
                (read, read() if value is _ABSENT else value, name)  # as what is cached at the first call
                for read, value, name in self._sources
                if type(value) not in _PLAIN or _is_equal(read(), value)
            ]
            before = {(id(one), key): x for one, key, x in self._tree}
            self._note_modules()
            self._counters = frozenset(
                (id(one), key)
                for one, key, x in self._tree
                if type(x) is int and before.get((id(one), key), x) != x
            )
            self._note_modules()

    def _note_modules(self) -> None:
        """The modes and parts of the modules as they are now."""
        self._assigned = assignments[0]
        self._tree = [
            one
            for one in _parts(self._modules, self._attributes, self._with_buffers)
            if (id(one[0]), one[1]) not in self._counters
        ]
        alone = [x for x in self.objects if not is_module(x) and isinstance(_mode(x), bool)]
        found = [*alone, *[x for one in self._modules for x in one.modules()]]
        self.modes = tuple([_mode(x) for x in found])

    def _follow(self, read: Callable[[], Any], depth: int, name: str) -> None:
        try:
            value = read()
        except ValueError:  # a cell whose name has no value yet
            return
        if not isinstance(value, types.ModuleType):
            self._sources.append((read, value, name))
        self._look(value, depth, name)

    def _look(self, value: Any, depth: int, name: str) -> None:
        """Follow a value: its entries, its code, and the attributes that the caller's code names."""
        kind = type(value)
        if kind in _PLAIN or kind is np.ndarray or value is _ABSENT or not depth:
            return
        holds_state = _holds_state(value)
        if holds_state:
            while id(value) not in self.names and name in self.names.values():
                name += "_"  # of another object, as in another function
            self.names.setdefault(id(value), name)
        if inspect.ismethod(value):  # made at each access, so that it has no identity
            self._look(value.__self__, depth - 1, "self")
            self._look(value.__func__, depth - 1, name)
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if holds_state:
            self._state(value, depth, name)
        elif hasattr(kind, "_runner"):  # a function under `lite.jit`
            self._look(value.fn, depth, name)
        elif isinstance(value, functools.partial | Bound):
            self._look(value.func, depth - 1, name)
            for key, item in (value.given if isinstance(value, Bound) else _bound(value)).items():
                self._look(item, depth - 1, key)
        elif isinstance(value, list | tuple | dict | set) or Container._as_node(value) is not None:
            self._collection(value, depth, name)
        elif inspect.isfunction(value):
            self._function(value, depth, name)
        elif isinstance(value, property):
            self._look(value.fget, depth - 1, name)
        elif isinstance(value, classmethod | staticmethod):
            self._look(value.__func__, depth - 1, name)
        elif isinstance(value, types.ModuleType):
            if not _is_library(value.__name__):
                self._entries(vars(value), depth - 1, name)
        elif isinstance(value, type):
            self._class(value, depth, name)
        else:
            self._attributes_of(value, depth, name)

    def _state(self, value: Any, depth: int, name: str) -> None:
        """A module, optimiser, schedule or updater, with its hooks and the functions among its attributes."""
        self._found[id(value)] = value
        for one in value.modules() if is_module(value) else (value,):
            self._attributes_of(one, depth - 1, name)
            for key, x in vars(one).items():
                hooks = x.values() if key.endswith("_hooks") and isinstance(x, dict) else ()
                for called in (x, *[hook[0] if isinstance(hook, tuple) else hook for hook in hooks]):
                    if inspect.isfunction(called) or isinstance(called, functools.partial):
                        self._look(called, depth - 1, f"{name}.{key}")

    def _collection(self, value: Any, depth: int, name: str) -> None:
        """A list, tuple, set, dict or TensorDict: its length and its first entries."""
        if isinstance(value, set):
            self._sources.append((functools.partial(frozenset, value), frozenset(value), name))
            return
        entries = value
        if not isinstance(value, list | tuple | dict):
            entries = getattr(Container._as_node(value), "_data", {})
        if not isinstance(value, tuple):
            self._sources.append((entries.__len__, len(entries), name))
        if isinstance(value, list | tuple):
            for place in range(min(len(value), _ENTRIES)):
                self._follow(functools.partial(_item, value, place), depth - 1, f"{name}.{place}")
        else:
            for key in list(entries)[:_ENTRIES]:
                self._follow(functools.partial(entries.get, key, _ABSENT), depth - 1, f"{name}.{key}")

    def _function(self, value: Any, depth: int, name: str) -> None:
        own = not _is_library(str(value.__globals__.get("__name__")))
        codes = [value.__code__]
        for code in codes:
            codes += [x for x in code.co_consts if isinstance(x, types.CodeType)]
            self.words.update(dict.fromkeys(code.co_names))
        for key, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            self._follow(lambda cell=cell: cell.cell_contents, depth - 1, key)  # type: ignore[misc]
        if own:
            taken, attributes = _names_of(tuple(codes))
            self._attributes |= attributes
            self._entries(value.__globals__, depth - 1, "", taken)
            for key in ("__code__", "__defaults__", "__kwdefaults__"):  # autoreload changes them in place
                if getattr(value, key) is not None:
                    self._follow(functools.partial(getattr, value, key), depth - 1, name)

    def _attributes_of(self, value: Any, depth: int, name: str) -> None:
        """The attributes of an object that the caller's code names: its own, and those of its class."""
        own = getattr(value, "__dict__", {})
        if type(own) is dict:
            every = own if self._attributes & _ALL else None
            if every is not None:
                self._sources.append((own.__len__, len(own), name))
            self._entries(own, depth - 1, "" if name == "self" else name, every)
        self._class(type(value), depth, name, own, value)

    def _class(self, kind: type, depth: int, name: str, own: Any = (), value: Any = None) -> None:
        """The attributes of the caller's classes that the caller's code names."""
        for base in kind.__mro__:
            if _is_library(base.__module__):
                continue
            for key, x in list(vars(base).items()):
                special = key == "forward" or (key[:2] == "__" and key not in _UNCALLED)
                if key not in self._attributes and not special:
                    continue
                word = f"{name}.{key}"
                if isinstance(x, types.MemberDescriptorType):  # of a slot
                    if value is not None:
                        self._follow(functools.partial(getattr, value, key, _ABSENT), depth - 1, word)
                elif callable(x) or isinstance(x, property | classmethod | staticmethod):
                    self._look(x, depth - 1, word)
                elif key in self._attributes:
                    self._follow(functools.partial(_of_class, base, key), depth - 1, word)
                    if type(own) is dict and key not in own:
                        self._follow(functools.partial(own.get, key, _ABSENT), depth - 1, word)

    def _entries(self, entries: Any, depth: int, name: str, words: Any = None) -> None:
        """The values of names in a dict: attributes of a module or an object, or globals."""
        for key in sorted(entries.keys() & (self._attributes if words is None else words)):
            read = functools.partial(entries.get, key, _ABSENT)
            self._follow(read, depth, f"{name}.{key}" if name else key)


def written_to(what: str) -> RuntimeError:
    """The error of a trace that writes to an array that is not an argument."""
    return RuntimeError(
        f"cannot be traced: the function writes to {what} from elsewhere, which a graph would not: pass it "
        "as an argument."
    )


_PLAIN = frozenset(
    (bool, int, float, complex, str, bytes, type(None), slice, range, frozenset, type(Ellipsis))
)  # compared by their values
_ABSENT = object()  # the value of a name that has none
_DEPTH = 12  # how many calls, entries and attributes are followed from the function on
_ALL = frozenset(("vars", "__dict__", "asdict", "astuple"))  # where code names these, it reads all attributes
_WRITING = frozenset(("data", "numpy", "state_dict", "load_state_dict"))  # by which a parameter is written to
_COMPARED = 1 << 16  # bytes of an array that are compared at each call
_ENTRIES = 256  # of a list or a dict that are compared
# Methods that expressions do not call: changes to these are not looked for.
_UNCALLED = frozenset(
    f"__{name}__"
    for name in (
        *("init", "new", "repr", "str", "reduce", "getstate", "setstate", "del", "eq", "hash", "dict", "doc"),
        *("weakref", "module", "annotations", "init_subclass", "slots", "qualname"),
    )
)


@functools.lru_cache(maxsize=1024)
def _is_library(name: str) -> bool:
    """Whether a module is lite's, NumPy's, of the standard library or installed: not the caller's own."""
    top = name.partition(".")[0]
    if top in ("lite", "numpy", "builtins") or (top in sys.stdlib_module_names and top != "__main__"):
        return True
    file = str(getattr(sys.modules.get(name), "__file__", None) or "")
    return any(folder in Path(file).parts for folder in ("site-packages", "dist-packages"))


@functools.lru_cache(maxsize=4096)
def _names_of(codes: tuple[types.CodeType, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """The globals and the attributes that code names; a text may be the name of an attribute, too."""
    taken, attributes = set(), set()
    for code in codes:
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                taken.add(step.argval)
                attributes |= {step.argval} & _ALL
            elif step.argval in code.co_names and isinstance(step.argval, str):
                attributes.add(step.argval)
        attributes |= {x for x in code.co_consts if type(x) is str and x.isidentifier()}
    return frozenset(taken), frozenset(attributes)


def _holds_state(value: Any) -> bool:
    """Whether it is a module, or another object with a training mode, an optimiser, schedule or updater."""
    if isinstance(value, type):
        return False
    return isinstance(_mode(value), bool) or is_optimizer(value) or is_updater(value) or is_schedule(value)


def _mode(value: Any) -> Any:
    return getattr(value, "training", None)


def _is_equal(one: Any, other: Any) -> bool:
    """Whether two objects that are not identical are equal constants of a graph."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is tuple:
        return len(one) == len(other) and all(
            a is b or _is_equal(a, b) for a, b in zip(one, other, strict=True)
        )
    return bool((kind in _PLAIN or kind is types.MethodType) and one == other)


def _is_same_part(one: tuple[Any, str, Any], other: tuple[Any, str, Any]) -> bool:
    (owner, key, x), (other_owner, other_key, y) = one, other
    return owner is other_owner and key == other_key and (x is y or _is_equal(x, y))


def _item(items: Any, place: int) -> Any:
    return items[place] if place < len(items) else _ABSENT


def _of_class(kind: type, key: str) -> Any:
    return vars(kind).get(key, _ABSENT)


def _bound(value: functools.partial[Any]) -> dict[str, Any]:
    """The arguments that a partial function has, by name."""
    names = parameters(value.func)
    places = [names[i] if i < len(names) else f"args[{i}]" for i in range(len(value.args))]
    return {**dict(zip(places, value.args, strict=True)), **value.keywords}


_REGISTRIES = frozenset(("_modules", "_parameters", "_buffers", "training"))


def _parts(modules: list[Any], attributes: set[str], with_buffers: bool) -> list[tuple[Any, str, Any]]:
    """What graphs know of modules: parts, parameters, buffers, hooks and attributes, by owner and name."""
    parts: list[tuple[Any, str, Any]] = []
    for one in modules:
        parts += [(one, "", x) for walk in (one.modules, one.parameters) for x in walk()]
    for _, _, one in list(parts):
        if is_module(one):
            numbers = getattr(one, "_graph_numbers", ())
            parts += [
                (one, key, tuple(x.values())) for key, x in vars(one).items() if key.endswith("_hooks") and x
            ]
            if with_buffers:
                parts += [(one, key, x) for key, x in vars(one)["_buffers"].items()]
            parts += [
                (one, key, x)
                for key, x in vars(one).items()
                if (key in attributes or type(x) in _KEPT) and key not in _REGISTRIES and key not in numbers
            ]
    return parts


_KEPT = _PLAIN | {tuple, types.FunctionType, np.ndarray}


def _parameters_of(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return [*inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):
        return []


def accepted(fn: Callable[..., Any]) -> list[str]:
    """Names of all parameters of a function; none if it takes any name."""
    found = _parameters_of(fn)
    return [] if any(x.kind in (x.VAR_POSITIONAL, x.VAR_KEYWORD) for x in found) else [x.name for x in found]


def parameters(fn: Callable[..., Any]) -> list[str]:
    """Names of the positional parameters of a function."""
    return [x.name for x in _parameters_of(fn) if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]


def named_axes(given: Mapping[str, Any], names: list[str]) -> dict[str, dict[int, str]]:
    """The names of axes by argument.

    Raises:
        ValueError: there is no such argument, an axis is negative, or a name is empty.
    """
    unknown = sorted(set(given) - set(names)) if names else []
    if unknown:
        raise ValueError(f"dynamic_axes has {unknown}, the function has the parameters {names}.")
    found = {name: dict(axes) for name, axes in given.items()}
    for name, axes in found.items():
        for axis, label in axes.items():
            if not isinstance(axis, int) or axis < 0 or not isinstance(label, str) or not label:
                raise ValueError(
                    f"dynamic_axes[{name!r}] must name axes from 0 on, got {{{axis!r}: {label!r}}}."
                )
    return found


def checked_names(given: str | Sequence[str], names: list[str], argument: str) -> frozenset[str]:
    """Names that an argument of `jit` has; ValueError if the function has not."""
    found = frozenset([given] if isinstance(given, str) else given)
    unknown = sorted(found - set(names)) if names else []
    if unknown:
        raise ValueError(f"{argument} has {unknown}, the function has the parameters {names}.")
    return found
