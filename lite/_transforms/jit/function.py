"""`jit`: a function as a graph that onnxruntime runs."""

from __future__ import annotations

import functools
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypedDict, Unpack, overload

from lite._arrays.caller import warn
from lite._arrays.settings import settings_now
from lite._transforms.grad.running import state
from lite._transforms.jit.arguments import Argument, joined, remember
from lite._transforms.jit.bound import Bound, is_object_type, object_key
from lite._transforms.jit.named import Named, accepted, checked_names, named_axes, parameters, written_to
from lite._transforms.jit.runner import Runner
from lite._transforms.jit.saved_state import in_file, no_state
from lite._transforms.jit.stateful import HELD, Keys, Restart, Stateful, stateful
from lite._transforms.jit.structure import ARRAY, DONATED, FIXED, Flattener, Structure, dynamic_shapes
from lite._transforms.jit.tracing import Program, added_entries, is_same_with_added_entries, trace_function
from lite._transforms.jit.view import GraphView

if TYPE_CHECKING:
    from lite._transforms.jit.saved import Lowered

_GRAPHS = 64  # kept of a function
_CHANGES = 8  # traces for other values of names after which a warning says so


class Options(TypedDict, total=False):
    """The options of `jit`, for type checkers."""

    static_argnames: str | Sequence[str]
    donate: str | Sequence[str]
    dynamic_axes: Mapping[str, Any] | None
    providers: Sequence[Any] | None
    threads: int | None
    fallback: bool


# Not generic in the function's types: of a function without annotations pyright would drop the decorator.
@overload
def jit(fn: Callable[..., Any], **options: Unpack[Options]) -> JitFunction: ...
@overload
def jit(fn: None = None, **options: Unpack[Options]) -> Callable[[Callable[..., Any]], JitFunction]: ...
def jit(
    fn: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Sequence[str] = (),
    donate: str | Sequence[str] = (),
    dynamic_axes: Mapping[str, Any] | None = None,
    providers: Sequence[Any] | None = None,
    threads: int | None = None,
    fallback: bool = False,
) -> Any:
    """A function that does what `fn` does, as one graph that onnxruntime runs; without `fn`, a decorator.

    `fn` is run on arrays without numbers for each new structure of the arguments, and what it does with
    NumPy's functions, `grad` and `vmap` included, becomes an ONNX graph.

    - Arguments and results are arrays, TensorDicts, tensorclasses, and lists, tuples, dicts and dataclasses
      of them. Floats of Python are inputs of the graph; ints, texts and all else are part of it. For each
      module, optimiser or other object among the arguments there are graphs of its own.
    - Writes to arguments (`td["loss"] = x`, `x += 1`, `optimizer.update_`) are made when it has run; what
      else `fn` does, such as to count, to print or to append, it does while it is traced alone.
    - Parameters that `fn` takes from elsewhere are read at each call, and so are arrays where they meet
      arrays of the graph; what `fn` computes from such arrays alone is part of the graph.
    - A step in torch's style (`loss.backward()`, `optimizer.step()`, `SoftUpdate.step()`) changes parameters,
      gradients, buffers, optimisers and targets at each call. Learning rates are inputs.
    - `fn` is traced again where the mode (`net.train()`) or parts of a module, or a setting of lite, changed,
      where a name, an item or an attribute that its code reads is another, in the functions and objects that
      it calls, too, and where an array of at most 64 KB that the graph does not read has other numbers.
    - Random numbers are drawn by the generator at each call, as `fn` itself would draw them.

    Args:
        static_argnames: names of arguments that are part of the graph: one graph for each value.
        donate: names of arguments that the caller does not use again; they stay in the session, overwritten.
        dynamic_axes: `{name: {axis: label}}`, axes whose size may change. By default batch dimensions of
            TensorDicts and first axes of arrays, if one graph serves all sizes, or a graph for each shape.
        providers: onnxruntime's execution providers; the CPU's by default. With `CUDAExecutionProvider`,
            donated values stay on the GPU, in Numba's arrays if there is numba-cuda, and products of float32
            are rounded to TF32 unless its options have `{"use_tf32": "0"}`.
        threads: threads inside one operator; by default one where no operator has enough to do for two at the
            sizes of the first call, or one per core that may be used.
        fallback: run `fn` itself, with one warning, where it has no graph.

    Raises:
        NotImplementedError: at a call, `fn` does something that graphs do not support.
        ImportError: at a call, onnxruntime is missing.
        RuntimeError: at a call, `fn` branches on numbers, or leaves arrays outside of its results.

    Source:
        The interface of jax.jit.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> step = lite.jit(lambda params, x: params - lite.grad(lambda p: (x @ p["w"]).sum())(params))
        >>> step(lite.TensorDict(w=np.ones(2)), np.eye(2))["w"]
        array([0., 0.])
    """
    options: dict[str, Any] = {
        "static_argnames": static_argnames,
        "donate": donate,
        "dynamic_axes": dynamic_axes,
        "providers": providers,
        "threads": threads,
        "fallback": fallback,
    }
    return functools.partial(jit, **options) if fn is None else JitFunction(fn, **options)


class JitFunction:
    """The result of `lite.jit`; see there."""

    def __init__(
        self,
        fn: Callable[..., Any],
        static_argnames: str | Sequence[str],
        donate: str | Sequence[str],
        dynamic_axes: Mapping[str, Any] | None,
        providers: Sequence[Any] | None,
        threads: int | None,
        fallback: bool,
    ) -> None:
        if not callable(fn):
            raise TypeError(f"fn must be a function, got {type(fn).__name__}.")
        self.fn = fn
        functools.update_wrapper(self, fn, updated=())
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self._names = parameters(fn)
        known = accepted(fn)
        self._static = checked_names(static_argnames, known, "static_argnames")
        self._donated = checked_names(donate, known, "donate")
        self._axes = None if dynamic_axes is None else named_axes(dynamic_axes, known)
        self._options = {"providers": providers, "threads": threads}
        self._fallback = fallback
        self._warned = False
        self._changes = 0  # of what names stand for, between two calls
        self._named: Named  # what the function takes from elsewhere
        self._is_current = False  # whether that is known
        self._writes = False  # whether the function itself writes to parameters or buffers
        # Of a function that changes such objects.
        self._stateful: tuple[Stateful, JitFunction] | None = None
        # Of the last call: the graph, the arguments, and the names of those that came by name.
        self._last: tuple[Runner, list[Argument], tuple[str, ...]] | None = None
        self._lock = threading.RLock()
        # The function with objects among arguments.
        self._with: OrderedDict[Any, JitFunction] = OrderedDict()
        self._with_last: JitFunction | None = None
        self._numbers: dict[Any, int] = {}  # of the forms of arguments that were met
        self._seen: OrderedDict[int, Argument] = OrderedDict()  # donated arguments by their identity
        self._levels: dict[Any, int] = {}  # how much of the shapes is dynamic, by the forms of the arguments
        self._kept: OrderedDict[Any, Runner] = OrderedDict()
        self._found: dict[Any, Runner] = {}  # the same by forms and shapes
        self._plan: _Plan | None = None  # of the last call

    def __repr__(self) -> str:
        return f"lite.jit({self.__name__})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()) if kwargs else args:
            if is_object_type[type(value)]:
                inner, args, kwargs = self._with_objects(args, kwargs)
                if inner is not self:
                    return inner(*args, **kwargs)
                break
        found = self._with_state()
        if found is not None and state.base is None:
            return self._call_with_state(*found, args, kwargs)
        plan = self._plan
        if plan is not None and state.leaf is state.base and plan.names == tuple(kwargs):
            leaves: list[Any] = []
            nodes: list[Any] = []
            like = self._like(plan, (*args, *kwargs.values()), leaves, nodes)
            if like is not None:
                if self._donated:
                    self._last = plan.runner, like, plan.names
                return plan.runner.run(leaves, nodes, like)
        given = self._given(args, kwargs)
        for argument in given:
            if argument.inside:
                return self.fn(*args, **kwargs)  # in another transformation, which sees what it does
        if state.leaf is not state.base:
            return self.fn(*args, **kwargs)
        try:
            runner = self._runner(given, tuple(kwargs))
        except Restart:
            return self(*args, **kwargs)
        except (NotImplementedError, RuntimeError) as error:
            if not self._fallback:
                raise
            self._warn(error)
            return self.fn(*args, **kwargs)
        self._named.settle()
        if self._donated:
            self._last = runner, given, tuple(kwargs)
        for argument in given:
            if not argument.donated:
                argument.note()
        self._plan = _Plan((settings_now(), self._named.modes), tuple(kwargs), given, runner)
        return runner.call(given)

    def _like(self, plan: _Plan, values: Any, leaves: list[Any], nodes: list[Any]) -> list[Argument] | None:
        """The arguments of a call like the last one, else None; what they hold is added to the lists.

        A donated argument is one that is known, in most calls a result of the last one.
        """
        if len(values) != len(plan.given):
            return None
        found = []
        for before, value in zip(plan.given, values, strict=True):
            now = before
            if before.donated:
                now = self._seen.get(id(value), before)
                is_known = now.value is value and now.number == before.number and not now.inside
                if not is_known or not now.is_unchanged():
                    return None
                leaves += now.leaves
                nodes += now.containers
            elif not before.is_like(value, leaves, nodes):
                return None
            found.append(now)
        return found if plan.settings == (settings_now(), self._named.modes) else None

    def _with_objects(self, args: Any, kwargs: Any) -> tuple[JitFunction, Any, Any]:
        """The function of the other arguments, and these; itself if no argument is an object."""
        key = (
            tuple([object_key(x) for x in args]),
            tuple([(name, object_key(x)) for name, x in kwargs.items()]),
        )
        places = {i: args[i] for i, one in enumerate(key[0]) if one is not None}
        keywords = {name: kwargs[name] for name, one in key[1] if one is not None}
        if not places and not keywords:
            return self, args, kwargs
        with self._lock:
            inner = self._with.get(key)
            if inner is None:
                fn = Bound(self.fn, places, keywords, self._names)
                options = self._given_options()
                for option in ("static_argnames", "donate"):
                    options[option] = [name for name in options[option] if name not in fn.given]
                inner = self._with[key] = JitFunction(fn, **options)
                inner.__name__ = self.__name__
                if len(self._with) > _GRAPHS:
                    self._with.popitem(last=False)
            self._with_last = inner
        rest = [x for i, x in enumerate(args) if i not in places]
        return inner, rest, {name: x for name, x in kwargs.items() if name not in keywords}

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__ = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Of a method each object has its own."""
        if instance is None:
            return self
        own = JitFunction(self.fn.__get__(instance), **self._given_options())
        own.__name__ = self.__name__
        return vars(instance).setdefault(self.__name__, own)

    def __reduce__(self) -> Any:
        """Pickles have the function and the options, copies trace again."""
        owner = getattr(self.fn, "__self__", None)
        if owner is not None and getattr(owner, "__dict__", {}).get(self.__name__) is self:
            return getattr, (owner, self.__name__)
        name = getattr(self.fn, "__qualname__", "")
        if getattr(sys.modules.get(str(self.fn.__module__)), name, None) is self:
            return name
        return functools.partial(jit, **self._given_options()), (self.fn,)

    def _given_options(self) -> dict[str, Any]:
        return {
            "static_argnames": sorted(self._static),
            "donate": sorted(self._donated),
            "dynamic_axes": self._axes,
            "fallback": self._fallback,
            **self._options,
        }

    def _given(self, args: Any, kwargs: Any, first: int = 0) -> list[Argument]:
        """The arguments of a call, whose first is that of the parameter of this number."""
        names = self._names[first:]
        given = [
            self._argument(names[i] if i < len(names) else f"args[{i}]", value)
            for i, value in enumerate(args)
        ]
        return given + [self._argument(name, value) for name, value in kwargs.items()]

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            warn(f"{self.__name__} runs without a graph: {error}")

    def _count_change(self, name: str) -> None:
        self._changes += 1
        if self._changes == _CHANGES:
            warn(
                f"{self.__name__} is traced again where what it takes from elsewhere is another, now for the "
                f"{_CHANGES}th time as {name} is: make it an argument.",
            )

    def _with_state(self) -> tuple[Stateful, JitFunction] | None:
        """The function of what the objects hold that it changes, and its graphs; None if there are none."""
        if self._is_current and not self._named.is_current():
            self._count_change(self._named.changed)
            self._is_current, self._stateful = False, None  # as where a cell of a notebook has run again
            self._kept.clear()
            self._found.clear()
            self._plan = None
        if not self._is_current:
            named = Named(self.fn)
            parts, buffers = stateful(named, self._writes)
            if parts:
                named.leave_buffers()
                held = Stateful(self.fn, parts, buffers, self._names)
                options: dict[str, Any] = {**self._options, "fallback": False}
                inner = JitFunction(held, [*self._static], [*self._donated], self._axes, **options)
                inner._named = named
                inner.__name__ = self.__name__
                self._stateful = held, inner
            self._named, self._is_current = named, True
        return self._stateful

    def _call_with_state(self, held: Stateful, inner: JitFunction, args: Any, kwargs: Any) -> Any:
        own = inner._given(args, kwargs, HELD)
        for argument in own:
            if argument.inside:
                return self.fn(*args, **kwargs)
        try:
            with self._lock:
                runner, given = inner._with_held(held, own, tuple(kwargs))
                self._named.settle()
                result, *found = runner.call(given)
                held.store(*found)
                return result
        except (NotImplementedError, RuntimeError) as error:
            if not self._fallback:
                raise
            self._warn(error)
            return self.fn(*args, **kwargs)

    def _with_held(
        self, held: Stateful, own: list[Argument], names: tuple[str, ...], gradients: bool = True
    ) -> tuple[Runner, list[Argument]]:
        """The graph, and the arguments with those that objects hold before those of the call."""
        while True:
            given = [*held.arguments((state.leaf is not None, gradients), self._numbered), *own]
            try:
                runner = self._runner(given, names)
            except Restart:
                continue
            self._last = runner, given, names
            return runner, given

    @property
    def state(self) -> Any:
        """The donated arguments by name, as the last call left them: a TensorDict.

        Its arrays are those that the next call reads: what is written into them counts.

        Raises:
            RuntimeError: there was no call, or nothing is donated.
        """
        if self._with_last is not None:
            return self._with_last.state
        if self._stateful is not None and self._donated:
            return self._stateful[1].state
        if self._last is None or not self._donated:
            raise no_state(self.__name__)
        runner, given, keywords = self._last
        return runner.state([*self._named_places(len(given) - len(keywords)), *keywords], given)

    def _named_places(self, count: int) -> list[str]:
        """Names of arguments that come by their place."""
        return [self._names[i] if i < len(self._names) else f"args[{i}]" for i in range(count)]

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The graph for some arguments, which are not changed: to look at, or to be saved as a file.

        Of a step in torch's style nothing is changed either, and the file has what its modules and optimisers
        hold when it is written.

        Example:
            >>> import numpy as np
            >>> import lite
            >>> lite.jit(np.tanh).lower(np.zeros(3)).graph.operators
            {'Tanh': 1}
        """
        from lite._transforms.jit.saved import Lowered  # files, digests: 10 ms of a program's first call

        inner, args, kwargs = self._with_objects(args, kwargs)
        if inner is not self:
            return inner.lower(*args, **kwargs)
        names = [*self._named_places(len(args)), *kwargs]
        found = self._with_state()
        if found is None:
            given = self._given(args, kwargs)
            try:
                runner = self._runner(given, tuple(kwargs))
            except Restart:
                return self.lower(*args, **kwargs)
            return Lowered(runner, names, given, self.__name__, self._adds(runner, given, kwargs))
        held, inner = found
        own = inner._given(args, kwargs, HELD)
        with self._lock:
            while True:
                runner, given = inner._with_held(held, own, tuple(kwargs), gradients=False)
                if held.is_settled(runner.program.structure):
                    break
        keys = Keys(self._named.names, self._named.objects, self._named.loose)

        def in_file_now() -> tuple[Any, Any]:
            now = held.arguments(given[3].value[0], inner._numbered)
            if now[3].value != given[3].value:
                raise NotImplementedError("is not written to a file: its objects have changed since lower.")
            return in_file(held, keys, runner.program, now)

        return Lowered(runner, names, own, self.__name__, inner._adds(runner, given, kwargs), in_file_now)

    def _adds(self, runner: Runner, given: list[Argument], names: Iterable[str]) -> Callable[[], Any]:
        """Gives the entries that a call adds to its arguments, and that may be there at the next call."""

        def find() -> list[tuple[int, str]]:
            structure, leaves = joined(given, tuple(names)), [x for one in given for x in one.leaves]
            found = added_entries(runner.program, structure)
            with self._named.drawing():
                same = found and is_same_with_added_entries(self.fn, runner.program, structure, leaves)
            return [(i, key) for i, key, *_ in found] if same else []

        return find

    def graph(self, *args: Any, **kwargs: Any) -> GraphView:
        """The program for some arguments: `print` shows it as text, a notebook as a table."""
        return self.lower(*args, **kwargs).graph

    def _argument(self, name: str, value: Any) -> Argument:
        """An argument taken apart; a donated one that is known, by looking whether it is as before."""
        donated = name in self._donated
        if donated:
            known = self._seen.get(id(value))
            if known is not None and known.value is value and known.is_unchanged():
                return known
        axes = None if self._axes is None else self._axes.get(name, {})
        argument = self._numbered(Argument(value, name, donated, name in self._static, axes))
        if donated:
            remember(self._seen, argument)
        return argument

    def _numbered(self, argument: Argument) -> Argument:
        """The argument, with the number of its form."""
        form = argument.form()
        number = self._numbers.get(form)
        if number is None:
            with self._lock:
                number = self._numbers.setdefault(form, len(self._numbers))
        argument.number = number
        return argument

    def _runner(self, given: list[Argument], names: tuple[str, ...]) -> Runner:
        """The graph for the arguments: one that is kept, or a new one."""
        forms = (settings_now(), self._named.modes, names, *[argument.number for argument in given])
        shapes = tuple(
            [leaf.shape for x in given if not x.donated for leaf in x.leaves if hasattr(leaf, "shape")]
        )
        runner = self._found.get((forms, shapes))
        if runner is not None:
            return runner
        with self._lock:
            flat = Flattener()
            for argument in given:
                flat.add(argument)
            first = 0 if self._axes is None else FIXED
            if self._levels and isinstance(self.fn, Stateful):  # the same function, with another state
                first = next(reversed(self._levels.values()))
            level = self._levels.get(forms, first)
            runner = self._kept.get((forms, dynamic_shapes(flat, level)))
            structure = joined(given, names)
            if runner is None:
                runner = self._trace_dynamic(forms, structure, flat, level)
            if not runner.fits(flat.leaves):
                key = (forms, tuple([getattr(leaf, "shape", ()) for leaf in flat.leaves]))
                runner = self._kept.get(key)
                if runner is None:
                    program = self._trace(structure, flat.leaves, key[1])
                    runner = self._keep(key, program, flat, structure)
            if len(self._found) > 64 * _GRAPHS:
                self._found.clear()
            self._found[forms, shapes] = runner
            return runner

    def _trace(self, *args: Any, **kwargs: Any) -> Program:
        with self._named.drawing():
            return trace_function(self.fn, *args, **kwargs)

    def _trace_dynamic(self, forms: Any, structure: Structure, flat: Flattener, level: int) -> Runner:
        """The graph with as many dynamic sizes as it can have."""
        first = level
        undo = functools.partial(Named.put_back, self._named.held())
        while True:
            shapes = dynamic_shapes(flat, level)
            labels = [tuple([f"n{-n}" if type(n) is int and n < 0 else n for n in shape]) for shape in shapes]
            dynamic = any(isinstance(n, str) for shape in labels for n in shape)
            contents: list[Any] = []
            try:
                self._named.watch(contents)
                program = self._trace(structure, flat.leaves, labels, undo=undo)
                break
            except Restart:
                raise
            except Exception as error:
                undo()
                if not dynamic or level == FIXED:  # there, what the caller named is dynamic
                    if self._named.may_write() and not isinstance(self.fn, Stateful):
                        self._restart()
                    if isinstance(error, ValueError) and "read-only" in str(error):
                        raise written_to("an array") from error
                    raise
                level += 1
            finally:
                self._refuse_written(contents)
        if dynamic or level > first:  # sizes of 0 and 1 say nothing about others
            self._levels[forms] = level
        return self._keep((forms, shapes), program, flat, structure)

    def _restart(self) -> NoReturn:
        """Try again, with parameters and buffers among what the function changes."""
        self._writes, self._is_current = True, False
        raise Restart

    def _refuse_written(self, contents: list[Any]) -> None:
        """Put back what a trace wrote to arrays from elsewhere, which each run would have to write."""
        try:
            written = [one for one in contents if one.put_back()]
        except KeyboardInterrupt:
            for one in contents:
                one.put_back()
            raise
        if any(one.owner is not None for one in written) and not isinstance(self.fn, Stateful):
            self._restart()
        if written:
            raise written_to(f"{written[0].name}, an array")

    def _keep(self, key: Any, program: Program, flat: Flattener, structure: Structure) -> Runner:
        held = self.fn.count if isinstance(self.fn, Stateful) else 0
        try:
            runner = Runner(program, _pairs(program, flat, held), flat.places, self._options, held=held)
        except ValueError as error:  # perhaps onnxruntime has no such operator for a type of numbers
            again = self._trace(structure, flat.leaves, program.argument_shapes, located=True)
            lines = [node.line for node in again.traced.nodes if f"{node.op}_" in str(error) and node.line]
            if not lines:
                raise
            at = " or".join(dict.fromkeys(lines))
            raise NotImplementedError(f"cannot be run: {error}. The function computes that{at}.") from error
        self._kept[key] = runner
        self._named.compare_contents([one.array for one in program.captured.values()])
        while len(self._kept) > _GRAPHS:
            self._kept.popitem(last=False)
            self._found.clear()
        return runner


class _Plan(NamedTuple):
    """The graph of the last call, for a call whose arguments have the same form: it needs no search."""

    settings: tuple[Any, ...]
    names: tuple[str, ...]
    given: list[Argument]
    runner: Runner


def _pairs(program: Program, flat: Flattener, held: int) -> dict[int, str]:
    """Donated leaves with the outputs that are their next values.

    These are what the function wrote to them, or put in their place in a TensorDict; of the others, the
    first result of the same shape and dtype that is not taken. The first `held` leaves, which belong to a
    `Stateful`, are what they were if they are not written.
    """
    set_entries = {(i, key): names[0] for i, key, form, names in program.entries if form == (ARRAY,)}
    known = {name: (shape, dtype) for name, shape, dtype in program.traced.outputs}
    free = list(program.results)
    used = {x.name for x in program.traced.inputs}
    pairs: dict[int, str] = {}
    for i, (leaf, place, (count, _)) in enumerate(zip(flat.leaves, flat.places, flat.batches, strict=True)):
        if count != DONATED or program.arguments[i] not in used:
            continue
        form = (tuple(leaf.shape), leaf.dtype)
        name = program.written.get(i) or set_entries.get(place)  # type: ignore[arg-type]
        if name is None and i >= held:
            name = next((name for name in free if known[name] == form), None)
            if name is not None:
                free.remove(name)
        if name is not None and known[name] == form and 0 not in form[0]:
            pairs[i] = name
    return pairs
