"""Trace a function: run it on symbolic arrays and record its operations as a graph."""

from __future__ import annotations

import gc
import itertools
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import lite._transforms.graphs.ufuncs  # noqa: F401 - the rules
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph, Node, OneSizeError
from lite._transforms.graphs.sizes import MOVED, Size, comparisons, primes

# The first dynamic sizes of the two traces: different, larger than most, small enough for `np.zeros(size)`.
_FROM = (503, 1009)
_SMALL = range(2, 32)  # where those of the third one are: what has fewer entries is not cut by them
_ATTEMPTS = 3


@dataclass(frozen=True)
class Input:
    """An input of a graph.

    Attributes:
        name: name of the input.
        shape: its sizes; a name for a dynamic one.
        dtype: dtype of its elements.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Traced:
    """A graph that is complete.

    Attributes:
        inputs: its inputs.
        outputs: its outputs, dynamic sizes by name, or None where they are computed from others.
        nodes: what leads to the outputs, in order.
        arrays: constants and weights that the nodes use.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[tuple[str, tuple[int | str | None, ...], np.dtype[Any]], ...]
    nodes: tuple[Node, ...]
    arrays: dict[str, np.ndarray[Any, Any]]


class TracesDifferError(OneSizeError):
    """Two traces of a function are different graphs."""


Run = Callable[[Graph, list[GraphArray]], Mapping[str, Any]]


def trace(
    run: Run,
    inputs: Sequence[Input],
    avoid: Sequence[int] = (),
    make: Callable[..., Graph] = Graph,
    *,
    repeats: Callable[[], Any] = lambda: False,
    undo: Callable[[], None] = lambda: None,
) -> Traced:
    """The graph of a function.

    It is traced twice, with different sizes for the dynamic dimensions. The graphs must be equal: code that
    depends on a size (a loop over it, a branch, an array made for it) is an error, not a graph for one size.
    A third trace has small sizes, which cut constant tables that large sizes leave whole.

    Args:
        run: called with the graph and an array for each input; returns the outputs by name.
        inputs: the inputs.
        avoid: sizes that no dynamic dimension may be mistaken for, such as those of weights.
        make: makes the graph of each trace from its dynamic dimensions; it may add inputs while `run` runs.
        repeats: whether the caller traces it once more; there is no third trace before.
        undo: called where a third trace raised.

    Raises:
        NotImplementedError: a function has no rule; the graph depends on a size (TracesDifferError).
        ValueError: two values have one name.
        RuntimeError: Python branches on numbers.
    """
    names = list(dict.fromkeys(n for x in inputs for n in x.shape if isinstance(n, str)))
    taken = set(avoid) | {n for x in inputs for n in x.shape if isinstance(n, int)}
    found = []
    for start in _FROM:
        numbers = _apart(p for p in primes(start) if not any(n and n % p == 0 for n in taken))
        graph = make(dict(zip(names, itertools.islice(numbers, len(names)), strict=True)))
        graph.unused = numbers
        found.append((_traced(run, inputs, graph), graph))
    (first, graph), (second, _) = found
    found_apart = difference(first, second)
    if not found_apart and names and not graph.refuses:  # there, each call looks whether the answers hold
        _refuse_other_answers(graph)
    if not found_apart and names and not repeats():
        found_apart = _difference_if_small(run, inputs, first, graph, make, undo)
    if not found_apart:
        return first
    if not names:
        raise TracesDifferError(
            f"cannot be {graph.made}: {found_apart} from call to call, so a graph would be one call of many. "
            "Random numbers do this, but for those that layers and distributions draw, and those of a "
            "generator that is an argument of the function."
        )
    raise TracesDifferError(
        f"cannot be {graph.made}: {found_apart} with the sizes, so the graph would fit one size of the "
        f"dynamic dimensions {', '.join(names)} alone. Loops in Python over such a dimension do this, "
        "and branches on its size; leave it out of dynamic_axes to have it fixed."
    )


def _difference_if_small(
    run: Run,
    inputs: Sequence[Input],
    traced: Traced,
    graph: Graph,
    make: Callable[..., Graph],
    undo: Callable[[], None],
) -> str:
    """The difference from a graph for small sizes; empty if there is none, or no such graph.

    Raises OneSizeError if it has numbers of one size.

    There is none where small sizes have other answers (`if x.shape[0] > 64`), and where they are mistaken for
    others, as a sum may be. So several are tried.
    """
    fixed = _sizes_of(graph, int)
    small = (p for p in primes(_SMALL[0]) if not any(n and n % p == 0 for n in fixed | graph.factors))
    for _ in range(_ATTEMPTS):
        # The first dimension is the largest one here, and the smallest one in the other traces.
        numbers = list(itertools.islice(small, len(graph.dimensions)))[::-1]
        if numbers[0] not in _SMALL:
            break
        sizes = dict(zip(graph.dimensions, numbers, strict=True))
        other = make(sizes)
        other.moves = set(graph.moves)
        try:
            again = _traced(run, inputs, other)
        except Exception as error:  # a rule or the function wants larger ones
            if isinstance(error, OneSizeError) and _is_alike(graph, other):
                raise
            undo()
            continue
        as_many = len(_sizes_of(other, Size)) == len(_sizes_of(graph, Size))
        if _is_alike(graph, other) and as_many and other.factors == graph.factors:
            what = "" if graph.form == other.form else "what the function returns changes"
            return difference(traced, again) or what
    return ""


def _is_alike(graph: Graph, other: Graph) -> bool:
    """Whether no size of a trace is mistaken for another, and its answers are those of the first one."""
    fixed, answers = _sizes_of(graph, int), _answers(other)
    return (
        _sizes_of(other, Size).isdisjoint(fixed)
        and (0 in fixed or 0 not in _sizes_of(other, int))  # as n - 3 may be
        and other.moves == graph.moves
        and other.factors <= graph.factors
        and answers == _answers(graph)[: len(answers)]
    )


def _answers(graph: Graph) -> list[Any]:
    """The comparisons of sizes and their answers, without the sizes, which differ from trace to trace."""
    return [(one.operator, type(one.other) is Size or one.other, one.answer) for one in graph.asked]


def _sizes_of(graph: Graph, kind: type[int]) -> set[int]:
    """The sizes of values: those that are fixed, or those that are not."""
    return {int(n) for shape in graph.shapes.values() for n in shape if type(n) is kind}


@contextmanager
def _noted(graph: Graph) -> Iterator[None]:
    """A context that records the comparisons of dynamic sizes that a function makes, for the graph.

    Raises:
        NotImplementedError: the function went on after an operation that graphs do not have.
    """
    before = dict(vars(comparisons))
    comparisons.found, comparisons.computed, comparisons.refused = {}, set(), None
    comparisons.refuses, comparisons.dimensions = graph.refuses, graph.dimensions.values()
    try:
        yield
        if comparisons.refused is not None:
            raise comparisons.refused
    finally:
        graph.asked = [one for one, own in (comparisons.found or {}).items() if own]
        vars(comparisons).update(before)


class _Collections:
    """Disables Python's garbage collection: a trace makes a million objects and keeps nearly all of them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._traces = 0  # of all threads
        self._enabled = False  # before the first of them

    def __enter__(self) -> None:
        with self._lock:
            self._enabled = self._enabled if self._traces else gc.isenabled()
            self._traces += 1
            gc.disable()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._traces = max(self._traces - 1, 0)
            if self._enabled and not self._traces:
                gc.enable()

    def after_fork(self) -> None:
        """In the child, where no other thread goes on to trace."""
        if self._traces and self._enabled:
            gc.enable()
        self._lock, self._traces = threading.RLock(), 0


_collections = _Collections()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_collections.after_fork)


def _refuse_other_answers(graph: Graph) -> None:
    """NotImplementedError if a size from 1 to 2**31 has another answer than those of the trace."""
    for one in graph.asked:
        prime = min(graph.dimensions.values(), key=lambda p: (one.size % p > 0, abs(one.size - p)))
        times = (one.size + prime // 2) // prime
        rest = one.size - times * prime
        near = int(one.other - rest) // times if times and math.isfinite(one.other) else 1
        others = [n for n in (near - 1, near, near + 1, near + 2) if 0 < n < 2**31]
        if not all(one.holds(n * times + rest) for n in (1, *others)):
            graph.fail(
                f"asks whether a dynamic size is {one.operator} {one.other}, where a graph has one answer "
                "for all sizes: use np.where, or leave the size out of dynamic_axes to have it fixed"
            )


def _apart(numbers: Iterator[int]) -> Iterator[int]:
    """The numbers that are more than 2 * MOVED apart, so that sums and differences of them differ, too."""
    last = 0
    for n in numbers:
        if n > last + 2 * MOVED:
            last = n
            yield n


def _traced(run: Run, inputs: Sequence[Input], graph: Graph) -> Traced:
    dimensions = graph.dimensions
    arrays = [
        graph.input(x.name, [Size(dimensions[n]) if isinstance(n, str) else n for n in x.shape], x.dtype)
        for x in inputs
    ]
    try:
        with _noted(graph), _collections:
            results = {name: graph.operand(value) for name, value in run(graph, arrays).items()}
    except Exception as error:
        if type(error) is ValueError and isinstance(error.__cause__, NotImplementedError):
            error = error.__cause__  # of a number that NumPy wanted to write, and that has none
        if dimensions:
            sizes = ", ".join(f"{size} is {name!r}" for name, size in dimensions.items())
            error.add_note(f"Sizes that stand for dynamic dimensions while a graph is traced: {sizes}.")
        raise error
    labels = {size: name for name, size in dimensions.items()}
    added = [
        Input(x.name, tuple(_label(x, axis, labels) for axis in range(x.ndim)), x.dtype)
        for x in graph.inputs[len(inputs) :]
    ]
    return _finished(graph, (*inputs, *added), results)


def _label(x: GraphArray, axis: int, labels: dict[int, str]) -> int | str:
    size = x.shape[axis]
    return labels.get(int(size), f"{x.name}.{axis}") if type(size) is Size else size


def _finished(graph: Graph, inputs: tuple[Input, ...], results: dict[str, GraphArray]) -> Traced:
    """The nodes that lead to the results, which get the names of the outputs."""
    sizes = {size: name for name, size in graph.dimensions.items()}
    fixed = {x.name for x in inputs} | graph.constants.keys() | graph.weights.keys()
    taken: dict[str, str] = {}
    nodes = list(graph.nodes)
    for name, array in results.items():
        if array.name in fixed or array.name in taken:
            nodes.append(Node("Identity", (array.name,), (name,)))
        else:
            taken[array.name] = name
    renamed = [node.renamed(taken) for node in nodes]
    needed, kept = set(results), []
    for node in reversed(renamed):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(node.reads)
    outputs = tuple(
        (name, tuple(sizes.get(n) if type(n) is Size else int(n) for n in array.shape), array.dtype)
        for name, array in results.items()
    )
    stored = {**graph.weights, **graph.constants}
    used = {name: array for name, array in stored.items() if name in needed}
    made = [name for node in kept for name in node.outputs]
    twice = [name for name, count in Counter([x.name for x in inputs] + [*used] + made).items() if count > 1]
    if twice:
        raise ValueError(
            f"several values of the graph would be called {twice[0]!r}, such as an input and a parameter: "
            "give the inputs or outputs other names (input_names, output_names)."
        )
    return Traced(inputs, outputs, tuple(kept[::-1]), used)


def difference(a: Traced, b: Traced) -> str:
    """The differences between two graphs; empty if they are equal."""
    for one, other in zip(a.inputs, b.inputs, strict=False):
        if one.shape != other.shape:
            return f"an array from elsewhere, of shape {one.shape}, is cut to {other.shape}: its size changes"
    for x, y in itertools.zip_longest(a.nodes, b.nodes):
        if x is None or y is None or _written(x) != _written(y):
            node = x if x is not None else y
            where = f" in the module {node.path!r}" if node.path else ""
            return f"what is computed{where} (at the operator {node.op}{node.line}) changes"
        for name in x.reads:
            if name in a.arrays and not _same(a.arrays[name], b.arrays.get(name)):
                where = f"the module {x.path!r}" if x.path else "it"
                return f"{where} has other numbers for the operator {x.op}{x.line}"
    return "" if [o[1:] for o in a.outputs] == [o[1:] for o in b.outputs] else "the form of an output changes"


def _written(node: Node) -> Any:
    inner = None if node.body is None else list(map(_written, node.body.nodes))
    return node.op, node.inputs, node.outputs, node.attributes, inner


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any] | None) -> bool:
    return a is b or (
        b is not None and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    )
