"""A function as a graph: its inputs and outputs, and how they belong to arguments and results."""

from __future__ import annotations

import functools
import gc
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain
from operator import is_
from typing import Any, NoReturn

import numpy as np

from lite._arrays.caller import caller_line
from lite._arrays.types import ArrayHolder, DtypeLike, HostArray, Shape, raw
from lite._transforms.grad.running import state
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.sizes import Comparison, Size, asked_of
from lite._transforms.graphs.trace import Input, Traced, TracesDifferError, difference, trace
from lite._transforms.jit.draws import Draw, Seeded, traced_generator_class, with_seeds
from lite._transforms.jit.size_inputs import size_inputs
from lite._transforms.jit.structure import (
    ARRAY,
    Builder,
    Flattener,
    Structure,
    containers_of,
    memory_of,
    plain_part,
)
from lite._transforms.jit.threads import threads_for
from lite._transforms.vmap.running import maps


@dataclass(frozen=True)
class Captured:
    """An array that is not an argument, such as a parameter, and is read again at each call.

    Attributes:
        holder: the parameter that has it, or the array itself.
    """

    holder: Any

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The array as it is now."""
        array: np.ndarray[Any, Any] = raw(self.holder)
        return array


NAN = "nan"  # the output that says whether a loss is NaN


@dataclass
class Program:
    """A traced function.

    Attributes:
        traced: its graph.
        arguments: the input of each leaf of the arguments; None for a leaf that is not an input.
        argument_shapes: the shape of each of these leaves, with names for dynamic sizes.
        captured: the captured arrays, by input.
        draws: the random numbers, by input.
        structure: structure of the results.
        results: the output of each leaf of the results.
        written: leaves of the arguments that the function writes, with the outputs of their new values.
        labels: where to read each dynamic size: a leaf of the arguments and its axis.
        primes: the prime that stands for each dynamic size in the shapes of draws.
        comparisons: the comparisons of dynamic sizes that the function made.
        shapes: shapes of the values of the graph; None for a dynamic size.
        threads: inside one operator, by default: 1, or None for one per core.
        entries: entries of the arguments' containers that it sets: the number of the container, the key,
            the structure of the entry (None if it is removed), and its outputs.
        refuses: names of the losses that must not be NaN; if there are any, the output `NAN` is True for NaN.
    """

    traced: Traced
    arguments: list[str | None]
    argument_shapes: Sequence[tuple[Any, ...]]
    captured: dict[str, Captured]
    draws: dict[str, Draw]
    structure: Structure
    results: list[str]
    written: dict[int, str]
    entries: list[tuple[int, str, Structure | None, list[str]]]
    labels: dict[str, tuple[int, int]]
    primes: dict[int, str]
    comparisons: frozenset[Comparison]
    shapes: dict[str, tuple[int | None, ...]]
    threads: int | None
    refuses: tuple[str, ...] = ()

    @property
    def fixed_shapes(self) -> dict[str, Shape]:
        """The shapes without dynamic sizes."""
        return {name: shape for name, shape in self.shapes.items() if None not in shape}  # type: ignore[misc]


def measured(number: int, primes: Mapping[int, str], size: Callable[[str], int]) -> int | None:
    """A size that primes stand for, from the sizes of a call; None if it is not a product of them."""
    rest, out = number, 1
    for prime, label in primes.items():
        while rest and rest % prime == 0:
            rest //= prime
            out *= size(label)
    return None if out == 1 and rest == number and abs(number) > 1 else rest * out


class JitGraph(Graph):
    """The graph of a function: arrays that it takes from elsewhere are inputs, and so are its draws.

    Args:
        dimensions: as of `Graph`.
        known: memory that exists before the function runs: arrays in it are read at each call.
        located: whether to note the line of code that makes each value.
    """

    made = "traced"
    refuses = exact_integers = True

    def __init__(self, dimensions: dict[str, int], known: frozenset[Any], located: bool) -> None:
        super().__init__(dimensions)
        self.known = known
        self._located = located
        self.seen: dict[Any, np.ndarray[Any, Any]] = {}
        self.replaced: dict[Any, str] = {}  # the line that writes to a memory
        self.captured: dict[str, Captured] = {}
        self.draws: dict[str, Draw] = {}
        self.found: dict[str, Any] = {}  # other attributes of the `Program`
        self.starts: dict[int, Any] = {}  # copies of generators before their first draws
        self.track = []
        self._losses: list[tuple[GraphArray, str]] = []
        self._holders: dict[int, GraphArray] = {}

    def fail(self, what: str, error: type[Exception] = NotImplementedError) -> NoReturn:
        """Raise `error`, and say in which line of the caller's code."""
        self._refuse_threads()
        raise error(f"cannot be traced: the function {what}{caller_line()}.")

    def refuse_nan(self, value: GraphArray, name: str) -> None:
        """As of `Graph`."""
        self._losses.append((value, name))

    def is_nan(self) -> tuple[GraphArray | None, tuple[str, ...]]:
        """A boolean, whether a loss is NaN, and the names of the losses; losses in a loop are left out."""
        made = {name for node in self.nodes for name in node.outputs}
        found = [(np.isnan(value), name) for value, name in self._losses if value.name in made]
        flag: Any = functools.reduce(np.logical_or, [flag for flag, _ in found]) if found else None
        return flag, tuple(dict.fromkeys(name for _, name in found))

    def note_length(self, n: int) -> None:
        """Refuse `len` of a dynamic dimension, an int whose comparisons would not be recorded."""
        if self.size(n) is not None:
            self.fail("takes the len of a dynamic dimension, which is a number of this call: use x.shape[0]")

    def line(self) -> str:
        """As of `Graph`."""
        return caller_line() if self._located else ""

    def capture(self, holder: Any) -> Any:
        """The symbolic array of a parameter, or of an array that is read at each call."""
        data = holder if isinstance(holder, np.ndarray) else holder.data
        if not isinstance(data, np.ndarray):
            return data
        found = self._holders.get(id(holder))
        if found is None:
            found = self._holders[id(holder)] = self._captured(Captured(holder))
        return found

    def _captured(self, captured: Captured) -> GraphArray:
        name = f"captured_{len(self.captured)}"
        self.captured[name] = captured
        array = captured.array
        return self.input(name, array.shape, array.dtype)

    def operand(self, value: Any, dtype: DtypeLike = None) -> GraphArray:
        """As of `Graph`; a parameter is an input."""
        if isinstance(value, ArrayHolder):
            value = self.capture(value)
        return super().operand(value, dtype)

    def constant(self, value: object, dtype: DtypeLike = None) -> GraphArray:
        """As of `Graph` for arrays that the function makes; arrays that existed before are inputs."""
        if type(value) is np.ndarray and value.size and not value.dtype.hasobject:
            memory = memory_of(value)
            if memory in self.known:
                found = self._arrays.get(id(value))
                if found is None:
                    found = self._arrays[id(value)] = self._captured(Captured(value))
                    self._kept.append(value)
                return found if dtype is None else self.cast(found, dtype)
            self.seen[memory] = value
        return super().constant(value, dtype)

    def note_replaced(self, array: np.ndarray[Any, Any]) -> None:
        """As of `Graph`; an array that existed before would be changed for other readers, too."""
        self.replaced.setdefault(memory_of(array), caller_line())
        self._kept.append(array)

    def draw(self, draw: Draw, shape: Shape) -> GraphArray:
        """The input for random numbers."""
        name = f"draw_{len(self.draws)}"
        # NumPy's functions of shapes give plain numbers for dynamic sizes.
        self.draws[name] = replace(draw, shape=None if draw.shape is None else self.dynamic(draw.shape))
        return self.input(name, self.dynamic(shape), draw.dtype)

    def reads(self, what: str) -> None:
        """Refuse to read `what`, which would become a constant of the graph."""
        self.fail(f"reads {what}: pass what it gives as an argument")

    def generator(self, rng: Any) -> Any:
        """The stand-in for a generator that is not an argument."""
        kind = traced_generator_class()
        if isinstance(rng, kind):
            return rng
        self.starts.setdefault(id(rng.bit_generator), deepcopy(rng))
        return kind(rng, self)

    def forget(self) -> None:
        """Drop all arrays."""
        self.track, self.inputs = None, []
        caches: Any = (self._arrays, self._holders, self._expanded, self._losses)
        for cache in caches:
            cache.clear()


@contextmanager
def _tracing(graph: JitGraph) -> Iterator[None]:
    """A context in which parameters and generators are replaced by those of the graph."""
    leaf, base = state.leaf, state.base
    state.leaf = state.base = graph.capture
    maps.running.append(graph)
    try:
        yield
    finally:
        maps.running.pop()
        state.leaf, state.base = leaf, base


def trace_function(
    fn: Callable[..., Any],
    structure: Structure,
    leaves: Sequence[Any],
    labels: Sequence[tuple[Any, ...]],
    located: bool = False,
    undo: Callable[[], None] = lambda: None,
) -> Program:
    """Trace a function for arguments of a structure.

    Args:
        fn: the function.
        structure: structure of `(args, kwargs)`.
        leaves: the arrays, numbers and generators in it.
        labels: the shape of each leaf, with names for dynamic sizes.
        located: whether nodes have the lines of code that make them.
        undo: restores attributes that a failed trace has written.

    Raises:
        NotImplementedError: the function does something that graphs cannot, or depends on a dynamic size.
        RuntimeError: it branches on numbers, or stores arrays of the trace.
    """
    inputs: list[Input] = []
    arguments: list[str | None] = []
    for i, (leaf, shape) in enumerate(zip(leaves, labels, strict=True)):
        if hasattr(leaf, "bit_generator"):
            arguments.append(None)
            continue
        dtype = np.dtype(np.float64) if type(leaf) is float else raw(leaf).dtype.newbyteorder("=")
        inputs.append(Input(f"input_{i}", tuple(shape), dtype))
        arguments.append(f"input_{i}")
    run = functools.partial(_run, fn, structure, leaves)
    traced, first, second = _traced_twice(run, inputs, labels, located, undo)
    if not traced.outputs:
        raise NotImplementedError("cannot be traced: the function neither returns an array nor writes one.")
    if first.form != second.form:
        raise TracesDifferError(
            "cannot be traced: the function returns or sets other numbers, texts or keys from call to call."
        )
    traced = size_inputs(traced)
    return Program(
        traced,
        arguments,
        labels,
        labels=_labels(labels),
        primes={n: name for name, n in second.dimensions.items()},
        shapes=_shapes(first, second, traced),
        threads=threads_for(traced.nodes, _shapes_now(first, traced, leaves, _labels(labels))),
        draws=_draws(first, second),
        **second.found,
    )


def _run(
    fn: Callable[..., Any],
    structure: Structure,
    leaves: Sequence[Any],
    graph: JitGraph,
    arrays: list[GraphArray],
) -> dict[str, Any]:
    """Run the function on arrays of a graph; returns the outputs, and sets `graph.found`."""
    found = graph.found
    given = iter(arrays)
    inside: list[Any] = []
    for i, leaf in enumerate(leaves):
        if hasattr(leaf, "bit_generator"):
            inside.append(traced_generator_class()(i, graph))
        else:
            array = next(given)
            array.weak, array.is_number = type(leaf) is float, isinstance(leaf, float | np.generic)
            inside.append(array)
    names = [x.name if isinstance(x, GraphArray) else "" for x in inside]
    builder = Builder(iter(inside))
    args, kwargs = builder.build(structure)
    containers = builder.containers
    before = [dict(node._data) if node._parts() is None else None for node in containers]
    others = [(x, _items(x)) for x in builder.others]
    with _tracing(graph):
        value = fn(*args, **kwargs)
        found["comparisons"] = asked_of(graph.dimensions.values())
    for x, items in others:
        _refuse_changed(x, items, graph)
    outputs: dict[str, Any] = {}

    def noted(flat: Flattener) -> list[str]:
        """Make leaves outputs, and return their names."""
        arrays = [graph.operand(_without_gradient(leaf)) for leaf in flat.leaves]
        out = [f"output_{n}" for n in range(len(outputs), len(outputs) + len(arrays))]
        outputs.update(zip(out, arrays, strict=True))
        return out

    flat = Flattener({id(node): i for i, node in enumerate(containers)})
    found["structure"] = flat.structure(value, "the result")
    found["results"] = noted(flat)
    written: dict[int, str] = {}
    for i, (x, name) in enumerate(zip(inside, names, strict=True)):
        if isinstance(x, GraphArray) and x.name != name:
            written[i] = f"output_{len(outputs)}"
            outputs[written[i]] = x.copy()
    found["written"] = written
    found["entries"] = _entries(containers, before, noted)
    if found["entries"] and not outputs:  # a graph has outputs
        outputs["nothing"] = graph.operand(np.zeros(1, np.float32))
    flag, found["refuses"] = graph.is_nan()
    if flag is not None:
        outputs[NAN] = flag
    found["captured"] = dict(graph.captured)
    entries = [(i, key, form and plain_part(form)) for i, key, form, _ in found["entries"]]
    graph.form = plain_part(found["structure"]), written, entries
    return outputs


def _traced_twice(
    run: Callable[..., dict[str, Any]],
    inputs: list[Input],
    labels: Sequence[tuple[Any, ...]],
    located: bool,
    undo: Callable[[], None],
) -> tuple[Any, JitGraph, JitGraph]:
    """The graph, and its two traces, which have different primes for dynamic sizes.

    It is traced again until all arrays that existed before are known: both traces find them.
    """
    known: frozenset[Any] = frozenset()
    while True:
        graphs: list[JitGraph] = []

        def make(
            dimensions: dict[str, int], known: Any = known, graphs: Any = graphs, located: bool = located
        ) -> JitGraph:
            graphs.append(JitGraph(dimensions, known, located))
            return graphs[-1]

        def both(graphs: list[JitGraph] = graphs) -> frozenset[Any]:
            return frozenset(graphs[0].seen) & frozenset(graphs[1].seen)

        try:
            traced = trace(run, inputs, _sizes(labels), make, repeats=both, undo=undo)
        except TracesDifferError:
            if not any(isinstance(n, str) for shape in labels for n in shape):  # the last attempt
                trace(run, inputs, _sizes(labels), functools.partial(make, located=True))  # says where
            raise
        if not both():
            break
        known |= both()  # what is in the same memory in both was there before
    first, second = graphs[:2]
    for memory in first.replaced.keys() & second.replaced.keys():  # there before, too
        what = "writes to an array from elsewhere, which a graph would not: pass it as an argument"
        raise RuntimeError(f"cannot be traced: the function {what}{first.replaced[memory]}.")
    if _kept(graphs[-1]) is not None:  # once more, to say where
        trace(run, inputs, _sizes(labels), functools.partial(make, located=True))
        _refuse_kept(graphs[-1])
    return traced, first, second


def _draws(first: JitGraph, second: JitGraph) -> dict[str, Draw]:
    """The draws of two traces.

    Raises:
        TracesDifferError: the traces draw in other ways.
    """
    primes = {n: name for name, n in first.dimensions.items()}

    def sizes(shape: Shape) -> tuple[Any, ...]:
        """The sizes of the second trace that stand for those of the first one."""
        of = second.dimensions.__getitem__
        return tuple(measured(int(n), primes, of) if type(n) is Size else int(n) for n in shape)

    for name, draw in first.draws.items():
        other = second.draws.get(name)
        if other is None or not draw.is_like(other, sizes):
            raise TracesDifferError(
                f"cannot be traced: a draw ({draw.method}) has other arguments from call to call, or "
                "computes them from a dynamic size."
            )
    return with_seeds(second.draws, first.draws, second.starts, first.starts)


def _items(value: Any) -> list[Any]:
    """The items of a list; the keys and values of a dict or a dataclass."""
    if type(value) is list:
        return list(value)
    return list(chain(*(value if type(value) is dict else vars(value)).items()))


def _refuse_changed(value: Any, before: list[Any], graph: JitGraph) -> None:
    """NotImplementedError if a list, a dict or a dataclass among the arguments holds something else."""
    now = _items(value)
    if len(now) != len(before) or not all(map(is_, now, before)):
        raise NotImplementedError(
            f"cannot be traced: the function changes a {type(value).__name__} among its arguments, which a "
            "graph would not: return what is new, or pass a TensorDict, whose entries a graph sets."
        )


def _entries(
    containers: list[Any], before: list[Any], noted: Callable[[Flattener], list[str]]
) -> list[tuple[int, str, Structure | None, list[str]]]:
    """The entries of its arguments that the function set or removed; see `Program.entries`."""
    out: list[tuple[int, str, Structure | None, list[str]]] = []
    given = {id(node): i for i, node in enumerate(containers)}
    for i, (node, old) in enumerate(zip(containers, before, strict=True)):
        if old is None:
            continue
        for key in old:
            if key not in node._data:
                out.append((i, key, None, []))
        for key, entry in node._data.items():
            if entry is not old.get(key):
                flat = Flattener(given)
                structure = flat.structure(entry, repr(key))
                out.append((i, key, structure, noted(flat)))
    return out


def added_entries(program: Program, structure: Structure) -> list[tuple[int, str, Structure, list[str]]]:
    """The items of `Program.entries` that the function adds to its arguments."""
    before = list(containers_of(structure))
    return [
        (i, key, form, names)
        for i, key, form, names in program.entries
        if form is not None and key not in before[i]
    ]


def is_same_with_added_entries(
    fn: Callable[..., Any], program: Program, structure: Structure, leaves: Sequence[Any]
) -> bool:
    """Whether a function does the same if its arguments already have the entries that it adds.

    It may not, as with `if "value" not in td`. To find out, it is traced again.

    Args:
        fn: the function.
        program: its result of `trace_function`.
        structure: structure of `(args, kwargs)`.
        leaves: in it.
    """
    added = added_entries(program, structure)
    outputs = {name: (shape, dtype) for name, shape, dtype in program.traced.outputs}
    sizes: dict[Any, Any] = {label: leaves[i].shape[axis] for label, (i, axis) in program.labels.items()}
    more: list[tuple[Any, Any]] = [outputs[name] for *_, names in added for name in names]
    if any(None in shape for shape, _ in more):  # a size that is computed, of which no argument is
        return False

    def on_its_results(*args: Any, arrays: list[Any], **kwargs: Any) -> Any:
        flat, results = Flattener(), iter(arrays)
        flat.structure((args, kwargs), "the arguments")
        for i, key, form, _ in added:
            flat.containers[i].set(key, Builder(results, flat.containers).build(form))
        return fn(*args, **kwargs)

    arrays = [np.zeros([sizes.get(n, n) for n in shape], dtype) for shape, dtype in more]
    shapes = [*program.argument_shapes, *[shape for shape, _ in more]]
    _, args, (_, names, *values) = structure
    kwargs = ("dict", (*names, "arrays"), *values, ("list", *[(ARRAY,)] * len(more)))
    try:
        again = trace_function(on_its_results, ("tuple", args, kwargs), [*leaves, *arrays], shapes)
    except Exception:  # a second call of the caller's function raises it, too
        return False
    return (
        not difference(program.traced, again.traced)
        and {x.name for x in again.traced.inputs} <= {x.name for x in program.traced.inputs}
        and _beside_the_graph(program) == _beside_the_graph(again)
    )


def _beside_the_graph(program: Program) -> Any:
    """A value that is equal for two traces if their calls do the same outside of the graph."""
    holders = [id(one.holder) for one in program.captured.values()]
    draws = []
    for name, draw in program.draws.items():
        arguments = [(key, np.asarray(value).tolist()) for key, value in draw.arguments.items()]
        source = pickle.dumps(draw.source.start) if isinstance(draw.source, Seeded) else draw.source
        draws.append((name, source, draw.method, draw.shape, arguments))
    done = program.structure, program.results, program.written, program.entries, program.comparisons
    return holders, draws, done


def _without_gradient(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, HostArray) and not leaf.symbolic else leaf


def _labels(labels: Sequence[tuple[Any, ...]]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for i, shape in enumerate(labels):
        for axis, n in enumerate(shape):
            if isinstance(n, str):
                found.setdefault(n, (i, axis))
    return found


def _shapes(first: JitGraph, second: JitGraph, traced: Traced) -> dict[str, tuple[int | None, ...]]:
    """The shapes of all values by name, also of outputs; None for dynamic sizes."""
    shapes: dict[str, tuple[int | None, ...]] = {}
    for name, shape in first.shapes.items():
        other = second.shapes.get(name, ())
        if len(other) == len(shape):
            sizes = zip(shape, other, strict=True)
            shapes[name] = tuple([int(n) if type(n) is not Size and n == m else None for n, m in sizes])
    for name, sizes_of, _ in traced.outputs:
        shapes[name] = tuple([n if isinstance(n, int) else None for n in sizes_of])
    return shapes


def _shapes_now(
    graph: JitGraph, traced: Traced, leaves: Sequence[Any], labels: dict[str, tuple[int, int]]
) -> dict[str, Shape]:
    """The shapes of all values in the call that is traced; 0 for sizes that are not known."""
    sizes = {label: leaves[i].shape[axis] for label, (i, axis) in labels.items()}
    primes = {n: name for name, n in graph.dimensions.items()}

    def now(n: Any) -> int:
        if type(n) is Size:
            return measured(int(n), primes, sizes.__getitem__) or 0
        if n is None:
            return 0
        return sizes[n] if isinstance(n, str) else int(n)

    shapes = {name: tuple(map(now, shape)) for name, shape in graph.shapes.items()}
    return shapes | {name: tuple(map(now, shape)) for name, shape, _ in traced.outputs}


def _sizes(labels: Sequence[tuple[Any, ...]]) -> list[int]:
    return [n for shape in labels for n in shape if isinstance(n, int)]


def _kept(graph: JitGraph) -> GraphArray | None:
    """An array of the trace that is still referred to, as by an attribute; None if there is none."""
    references = graph.track or []
    graph.forget()
    if any(ref() is not None for ref in references):
        gc.collect()
        time.sleep(0.001)  # another thread, such as one that collects, may look at them right now
    return next((array for ref in references if (array := ref()) is not None), None)


def _refuse_kept(graph: JitGraph) -> None:
    """Raise RuntimeError if an array of the trace is still referred to."""
    references, array = graph.track, _kept(graph)
    if array is not None:
        owners = [type(x).__name__ for x in gc.get_referrers(array) if x is not references] or ["frame"]
        name = array._name  # of the array itself the expression below would make another owner, a cell
        line = next((node.line for node in graph.nodes if name in node.outputs), "")
        raise RuntimeError(
            f"cannot be traced: the function keeps an array of shape {tuple(map(int, array.shape))} and "
            f"dtype {array.dtype} outside of its arguments and results (in a {owners[0]}), where a graph "
            f"would leave nothing: return it{line}."
        )
