"""Functions in torch's style: `backward()`, `optimizer.step()` and the like change objects that they name.

Such a function becomes one of what these objects hold: arrays that are donated (parameters, buffers, states
of optimisers), and inputs (learning rates, numbers of steps, gradients from before the call). While it is
traced the objects hold the arrays of the graph; after each run they get the new ones.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import is_
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from lite._arrays.caller import caller_line
from lite._arrays.device import move
from lite._transforms.grad.mode import enable_grad, functional
from lite._transforms.jit.arguments import Argument
from lite._transforms.jit.structure import memory_of

Arrays = list[Any]
HELD = 4  # arguments of a `Stateful` before those of its function


class Restart(Exception):
    """Raised by a part whose assumption about the function failed; it has recorded that for the next try."""


class HeldPart(Protocol):
    """Some of the state of an object, from call to call."""

    def held(self) -> tuple[Arrays, list[Any], Any]:
        """Donated arrays, other inputs (floats, arrays that are read), and a hashable key of the graph."""

    def store(self, arrays: Arrays, given: Arrays, same: Any) -> None:
        """Store the results of a run."""


class Part(HeldPart, Protocol):
    """Some of the state of an object that a function changes.

    An optimiser gives one by its method `in_graphs`; those of modules are below.
    """

    def installed(self, arrays: Arrays, inputs: list[Any]) -> Any:
        """A context in which the object holds the arrays of a graph. It gives a function of no arguments.

        That is called when the traced function has run. It returns what each run gives beside the donated
        arrays: some arrays, and what is the same for each run.
        """

    def in_file(self, keys: Keys, same: Any) -> tuple[list[list[Key]], list[Advanced]]:
        """Where a file has the donated arrays, and the inputs with what a run makes of them.

        Raises:
            NotImplementedError: the graph of the next call is another one.
        """


Key = tuple[str, str]  # of an object that the function names, and of what it holds, as in a state dict
Advanced = tuple[list[Key], int | None]  # an input, and what a run adds to it; None where it gives the next


class Keys:
    """By which keys parameters, buffers and objects are found in the state of a step that is a file.

    Args:
        names: names of the objects that the function names, by their identity.
        objects: these.
        parameters: those that it names, and their names: "average.0.weight" in a TensorDict `average`.

    Attributes:
        arrays: arrays of the state dicts of modules.
    """

    def __init__(
        self, names: dict[int, str], objects: Iterable[Any], parameters: Iterable[tuple[Any, str]]
    ) -> None:
        self._found: dict[int, list[Key]] = {}
        self.arrays: dict[Key, Any] = {}
        named = [(one, names[id(one)]) for one in objects]
        named += [
            (one.loss_module, f"{name}.loss_module")
            for one, name in named
            if is_updater(one) and id(one.loss_module) not in names
        ]
        for one, name in named:
            self._found.setdefault(id(one), []).append((name, ""))
            for key, x in one.state_dict(keep_vars=True).items() if is_module(one) else ():
                self._found.setdefault(id(x), []).append((name, key))
                if isinstance(x, np.ndarray):
                    self.arrays[name, key] = x
        for one, name in named:
            params = [x for group in one.param_groups for x in group["params"]] if is_optimizer(one) else []
            for number, x in enumerate(params):
                self._found.setdefault(id(x), [(name, f"params.{number}")])

        for x, name in parameters:
            first, _, rest = name.partition(".")
            if rest:
                self._found.setdefault(id(x), [(first, rest)])

    def __getitem__(self, x: Any) -> list[Key]:
        return self._found.setdefault(id(x), [("unnamed", str(len(self._found)))])


class Unread(NDArrayOperatorsMixin):
    """In place of gradients from before the call, where the function clears them: nothing reads it.

    Args:
        of: those to which gradients of the call were added: the function may clear the sum, too.
    """

    def __init__(self, of: Unread | None = None) -> None:
        self.was_read = self.was_added = ""  # the line that does so first
        self._first = self if of is None else of
        self.sum = Unread(self) if of is None else self

    def _read(self, *args: Any, **kwargs: Any) -> NoReturn:
        first = self._first
        line = caller_line() if self is first else first.was_added
        first.was_read = first.was_read or line or " "
        raise Restart

    def accumulated(self) -> Unread:
        """The sum with a gradient."""
        first = self._first
        first.was_added = first.was_added or caller_line() or " "
        return first.sum

    __getattr__ = __array__ = __array_ufunc__ = __bool__ = __len__ = __iter__ = __getitem__ = _read
    __class__ = property(_read)  # what isinstance asks


class Parameters:
    """The arrays of parameters, and their gradients.

    Args:
        holders: the parameters.
        clears: whether the function seems to clear gradients before it computes others. Then those from
            before the call are not inputs; a trace that reads one is repeated.
        aliases: of parameters whose memory other arrays have, too, by identity: what puts arrays there. These
            parameters are written in place, so that the memory stays one.
    """

    def __init__(
        self, holders: list[Any], clears: bool, aliases: dict[int, list[Callable[[Any], Any]]]
    ) -> None:
        self.holders = holders
        self.aliases = aliases
        self.clears: bool | None = clears or None  # None before there are gradients
        self._reads = ""  # in which line, if it does not clear them

    def held(self) -> tuple[Arrays, list[Any], Any]:
        holders = self.holders
        grads: list[Any] = []
        if not self.clears:
            grads = [holder.grad for holder in holders if holder.grad is not None]
            if grads and self.clears is None:
                self.clears, grads = True, []
        given = tuple([holder.grad is not None for holder in holders]) if grads else ()
        return (
            [x.data for x in holders],
            grads,
            (self.clears, given, tuple([x.requires_grad for x in holders])),
        )

    @contextmanager
    def installed(self, arrays: Arrays, inputs: list[Any]) -> Iterator[Callable[[], tuple[Arrays, Any]]]:
        before = [(holder, holder.data, holder.grad) for holder in self.holders]
        places = [(x, memory_of(x.data)) for x in self.holders if type(x.data) is np.ndarray and x.size]
        learnt = {place for x, place in places if x.requires_grad}
        if sum(place in learnt for _, place in places) > len(learnt):
            raise RuntimeError(
                "cannot be traced: two parameters have one memory, and would have two: make them one."
            )
        unread, grads = Unread(), iter(inputs)
        for holder, array in zip(self.holders, arrays, strict=True):
            self._put(holder, array)
            if self.clears:
                holder.grad = unread
            elif holder.grad is not None:
                holder.grad = next(grads)

        def finish() -> tuple[Arrays, Any]:
            for holder, array in zip(self.holders, arrays, strict=True):
                if holder.data is not array:
                    array[...] = holder.data
            grads = [holder.grad for holder in self.holders]
            if any(grad is unread.sum for grad in grads):
                unread.was_read = unread.was_read or unread.was_added
            if unread.was_read:  # and the function caught what that raised
                raise Restart
            there = tuple([None if g is unread else g is not None for g in grads])
            return [g for g, is_there in zip(grads, there, strict=True) if is_there], there

        try:
            yield finish
        except Exception as error:
            if unread.was_read:
                self.clears, self._reads = False, unread.was_read
                raise Restart from error
            raise
        finally:
            for holder, data, grad in before:
                self._put(holder, data)
                holder.grad = grad

    def _put(self, holder: Any, array: Any) -> None:
        """Let a parameter, and what shares its memory, have another array."""
        holder.data = array
        for put in self.aliases.get(id(holder), ()):
            put(array)

    def store(self, arrays: Arrays, given: Arrays, same: Any) -> None:
        found, put = iter(given), object.__setattr__  # quicker than that of parameters
        for holder, array, is_there in zip(self.holders, arrays, same, strict=True):
            if id(holder) in self.aliases:
                np.copyto(holder.data, move(array, "cpu"))
            else:
                put(holder, "data", array)
            if is_there is not None:  # else the function left its gradient
                put(holder, "grad", np.asarray(next(found)) if is_there else None)

    def is_settled(self, same: Any) -> bool:
        """Whether the next call has the same gradients from before; if not, a trace finds out who reads."""
        if self.clears is None and any(same):
            self.clears = True
            return False
        return True

    def in_file(self, keys: Keys, same: Any) -> tuple[list[list[Key]], list[Advanced]]:
        if not self.clears and (any(same) or any(holder.grad is not None for holder in self.holders)):
            raise NotImplementedError(
                "is not written to a file, which keeps no gradients: it reads those from before the call"
                f"{self._reads.rstrip()}: clear them first (zero_grad(), which leaves None)."
            )
        found = []
        for holder in self.holders:
            own = memory_of(holder.data) if id(holder) in self.aliases else None
            found.append(keys[holder] + [key for key, x in keys.arrays.items() if memory_of(x) == own])
        return found, []


class Buffers:
    """Arrays of modules that are not parameters, among them targets.

    They are written in place, as modules that the function does not name may share them.

    Args:
        places: the dicts and keys where an array is: of each array one or more.
    """

    def __init__(self, places: list[list[tuple[Any, str]]]) -> None:
        self.places = places

    def arrays(self) -> Arrays:
        """The arrays as they are now."""
        return [same[0][0][same[0][1]] for same in self.places]

    @contextmanager
    def installed(self, arrays: Arrays) -> Iterator[None]:
        """The modules hold arrays of a graph; what they hold in the end is written to these."""
        before = self.arrays()
        self.put(arrays)
        try:
            yield
            for array, same in zip(arrays, self.places, strict=True):
                for entries, key in same:
                    new = entries[key]
                    if new is not array and np.shape(new) != array.shape:
                        raise RuntimeError(
                            f"cannot be traced: the function gives the buffer {key!r} of shape {array.shape} "
                            f"the shape {np.shape(new)}."
                        )
                    if new is not array:
                        array[...] = new
        finally:
            self.put(before)

    def put(self, arrays: Arrays) -> None:
        """Let the places have other arrays."""
        for array, same in zip(arrays, self.places, strict=True):
            for entries, key in same:
                entries[key] = array


class Attributes:
    """Numbers and texts of objects: those that a class names in `_graph_numbers` are inputs, others stay."""

    def __init__(self, objects: list[Any]) -> None:
        self.objects = objects
        self.numbers = [(one, name) for one in objects for name in getattr(one, "_graph_numbers", ())]

    def _now(self) -> list[tuple[Any, dict[str, Any]]]:
        kinds = (bool, int, float, str)
        return [
            (one, {name: x for name, x in vars(one).items() if isinstance(x, kinds)}) for one in self.objects
        ]

    def held(self) -> tuple[Arrays, list[Any], Any]:
        return [], [np.array(getattr(one, name)) for one, name in self.numbers], None

    @contextmanager
    def installed(self, arrays: Arrays, inputs: list[Any]) -> Iterator[Callable[[], tuple[Arrays, Any]]]:
        before, numbers = self._now(), {(id(one), name) for one, name in self.numbers}
        for (one, name), number in zip(self.numbers, inputs, strict=True):
            setattr(one, name, number)

        def finish() -> tuple[Arrays, Any]:
            given = [getattr(one, name) for one, name in self.numbers]
            for (one, old), (_, new) in zip(before, self._now(), strict=True):
                for name, x in old.items():  # a seed may have become its generator
                    if (id(one), name) not in numbers and name in new and new[name] != x:
                        raise RuntimeError(
                            f"cannot be traced: the function changes {name} of a {type(one).__name__}, which "
                            "a graph would not: do that outside of it."
                        )
            return given, None

        try:
            yield finish
        finally:
            for (one, old), (_, new) in zip(before, self._now(), strict=True):
                vars(one).update({k: x for k, x in old.items() if k in new or (id(one), k) in numbers})

    def store(self, arrays: Arrays, given: Arrays, same: Any) -> None:
        for (one, name), number in zip(self.numbers, given, strict=True):
            setattr(one, name, number.item())

    def in_file(self, keys: Keys, same: Any) -> tuple[list[list[Key]], list[Advanced]]:
        return [], [([(keys[one][0][0], name)], None) for one, name in self.numbers]


@dataclass(frozen=True)
class Same:
    """Values that are the same for each run of a graph, as one item of its result."""

    values: tuple[Any, ...]


class Held:
    """The state of objects that a graph reads and writes.

    Args:
        parts: the arrays that are donated, and inputs.
        buffers: arrays that are written in place.
    """

    def __init__(self, parts: Sequence[HeldPart], buffers: Buffers) -> None:
        self.parts = parts
        self.buffers = buffers
        self._given: list[Argument] = []  # in the last call
        self._ends: list[list[int]] = []

    @property
    def count(self) -> int:
        """How many arrays are donated, which are the first leaves of the arguments."""
        return self._ends[0][-1]

    def arguments(self, modes: tuple[bool, ...], number: Callable[[Argument], Argument]) -> list[Argument]:
        """The arguments of the state, in front of the function's own; the last call's objects if unchanged.

        Args:
            modes: whether the caller is under `enable_grad`, and whether gradients are left for it.
            number: gives an argument the number of its form.
        """
        arrays, inputs, options = zip(*[part.held() for part in self.parts], strict=True)
        self._ends = [list(itertools.accumulate(map(len, found), initial=0)) for found in (arrays, inputs)]
        now: list[Any] = [
            list(itertools.chain(*arrays)),
            self.buffers.arrays(),
            list(itertools.chain(*inputs)),
            (modes, *options),
        ]
        last = self._given
        if not last or now[3] != last[3].value:
            last = self._given = [number(Argument(x, *form)) for x, form in zip(now, _FORMS, strict=True)]
            return last
        for k in (0, 1):
            leaves = last[k].leaves
            if len(leaves) != len(now[k]) or not all(map(is_, now[k], leaves)):
                last[k] = number(Argument(now[k], *_FORMS[k]))
        if list(map(_form, now[2])) == list(map(_form, last[2].leaves)):
            last[2].leaves = now[2]
        else:
            last[2] = number(Argument(now[2], *_FORMS[2]))
        return last

    def store(self, given: Arrays, same: Same) -> None:
        """Give the objects what a run gave."""
        shares, found = self._shares(self._given[0].leaves), iter(given)
        for part, share, (count, constant) in zip(self.parts, shares, same.values, strict=True):
            part.store(share, list(itertools.islice(found, count)), constant)

    def _shares(self, values: list[Any], k: int = 0) -> list[list[Any]]:
        """The values of each part: of the donated arrays, or of the inputs."""
        return [values[start:end] for start, end in itertools.pairwise(self._ends[k])]


class Stateful(Held):
    """A function, and the objects that it changes.

    Args:
        fn: the function.
        parts: what these objects hold.
        buffers: arrays that are written in place.
        names: names of the positional parameters of the function.
    """

    parts: list[Part]

    def __init__(self, fn: Callable[..., Any], parts: list[Part], buffers: Buffers, names: list[str]) -> None:
        super().__init__(parts, buffers)
        self.fn = fn
        functools.update_wrapper(self, fn, updated=())
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, kind) for name in [*_NAMES, *names]]
            + ([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)] if not names else [])
        )

    def is_settled(self, structure: Any) -> bool:
        """Whether the graph of a structure of results is that of the next call, too."""
        first, (_, gradients) = self.parts[0], structure[3][2].values[0]
        return not isinstance(first, Parameters) or first.is_settled(gradients)

    def __call__(
        self, arrays: Arrays, buffers: Arrays, inputs: list[Any], options: Any, *args: Any, **kwargs: Any
    ) -> Any:
        with functional(), ExitStack() as stack:
            stack.enter_context(self.buffers.installed(buffers))
            own = zip(self.parts, self._shares(arrays), self._shares(inputs, 1), strict=True)
            ends = [stack.enter_context(part.installed(share, given)) for part, share, given in own]
            with_gradients, leaves_them = options[0]
            if with_gradients:
                stack.enter_context(enable_grad())
            result = self.fn(*args, **kwargs)
            found = [end() for end in ends]
            if not leaves_them:
                found[0] = [], found[0][1]
            given = [array for arrays, _ in found for array in arrays]
            return result, given, Same(tuple([(len(arrays), same) for arrays, same in found]))


def _form(value: Any) -> Any:
    return float if type(value) is float else (type(value), value.shape, value.dtype)


_NAMES = ("held_arrays", "held_buffers", "held_inputs", "held_options")
# The arguments of `Argument` after its value.
_FORMS: Any = [(name, k == 0, k == 3, None if k == 3 else {}) for k, name in enumerate(_NAMES)]


def stateful(named: Any, writes: bool) -> tuple[list[Part], Buffers]:
    """The parts of modules, optimisers over parameters, and updaters of targets.

    Args:
        named: what a function takes from elsewhere. With `backward` among its words modules have other
            gradients afterwards; with running statistics they have other buffers.
        writes: whether the function writes to these, or to buffers, by itself.

    Returns:
        The parts, none if the function changes nothing of these objects, and the buffers.
    """
    objects, words = named.objects, named.words
    optimizers = [one for one in objects if is_optimizer(one)]
    updaters = [one for one in objects if is_updater(one)]
    modules = [one for one in objects if is_module(one)]
    tracks = any(getattr(x, "track_running_stats", False) for one in modules for x in one.modules())
    if not optimizers and not updaters and not tracks and "backward" not in words and not writes:
        return [], Buffers([])
    modules += [one.loss_module for one in updaters]
    holders = {id(holder): holder for holder in named.parameters}
    places: dict[int, list[tuple[Any, str]]] = {}
    seen: dict[int, Any] = {}
    for root in modules:
        for holder in root.parameters():
            holders.setdefault(id(holder), holder)
        for module in root.modules():
            if seen.setdefault(id(module), module) is module:
                _collect(module, places)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for holder in group["params"]:
                holders.setdefault(id(holder), holder)
    watched = [*seen.values(), *updaters, *[one for one in objects if is_schedule(one)]]
    parts = [one.in_graphs() for one in optimizers]
    firsts = [word for word in words if word in ("zero_grad", "backward")]
    clears = firsts[:1] == ["zero_grad"]
    aliases = _aliases(holders, places, named.arrays)
    parts = [Parameters(list(holders.values()), clears, aliases), *parts, Attributes(watched)]
    return parts, Buffers(list(places.values()))


def _aliases(
    holders: dict[int, Any],
    places: dict[int, list[tuple[Any, str]]],
    arrays: Iterable[tuple[Any, Callable[[Any], Any], str]],
) -> dict[int, list[Callable[[Any], Any]]]:
    """Where else the memory of parameters is, as of `params.data` that is kept; these leave `places`.

    Raises:
        RuntimeError: something is a view of a part of a parameter that learns, or of another shape.
    """
    plain = {number: x.data for number, x in holders.items() if type(x.data) is np.ndarray and x.size}
    known = {memory_of(x): number for number, x in plain.items()}
    views = [("a parameter", x) for x in plain.values() if x.base is not None]
    found: dict[int, list[Callable[[Any], Any]]] = {}
    for number, same in list(places.items()):
        array = same[0][0][same[0][1]]
        holder = known.get(memory_of(array))
        if holder is None:
            views.append((f"the buffer {same[0][1]!r}", array))
        else:
            found.setdefault(holder, []).extend(
                functools.partial(x.__setitem__, key) for x, key in places.pop(number)
            )
    for x, put, name in arrays:
        if memory_of(x) in known:
            found.setdefault(known[memory_of(x)], []).append(put)
        else:
            views.append((name, x))
    learnt = [(memory_of(x), x) for number, x in plain.items() if holders[number].requires_grad]
    for name, view in views:
        own = memory_of(view)
        if any(np.shares_memory(view, x) and memory != own for memory, x in learnt):
            raise RuntimeError(
                f"cannot be traced: {name} is a view of a parameter that changes, whose memory a graph would "
                "not share: take it from the parameter within the function."
            )
    return found


def is_module(value: Any) -> bool:
    """Whether an object has a mode, parameters and buffers."""
    return isinstance(getattr(value, "training", None), bool) and hasattr(value, "_buffers")


def is_optimizer(value: Any) -> bool:
    """Whether an object is an optimiser over parameters of its own."""
    return hasattr(type(value), "in_graphs") and bool(value.param_groups)


def is_updater(value: Any) -> bool:
    """Whether an object moves the targets of a loss."""
    return is_module(getattr(value, "loss_module", None))


def is_schedule(value: Any) -> bool:
    """Whether an object changes the learning rates of an optimiser."""
    return is_optimizer(getattr(value, "optimizer", None))


def _collect(module: Any, places: dict[int, list[tuple[Any, str]]]) -> None:
    """The arrays among the buffers of a module, or of a container of parameters."""
    held = [vars(module)["_buffers"]]
    nodes = [vars(module).get("_param_td")]
    while nodes:
        node = nodes.pop()
        if node is not None:
            held.append(node._data)
            nodes += [x for x in node._data.values() if hasattr(x, "_data")]
    for entries in held:
        for key, x in list(entries.items()):
            if isinstance(x, np.generic):  # what NumPy's functions give of an array without dimensions
                x = entries[key] = np.array(x)
            if isinstance(x, np.ndarray):
                found = places.setdefault(id(x), [])
                if not any(old is entries and name == key for old, name in found):
                    found.append((entries, key))
