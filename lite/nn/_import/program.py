"""A graph as steps in order: each reads values by number, computes one node, and writes its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import CO_VARARGS
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.types import is_array, is_symbolic
from lite._files.onnx.model import (
    MAX_NODES,
    Model,
    Operation,
    OperationGraph,
    Reference,
    Value,
    in_order,
    reads_of,
)
from lite._files.onnx.reader import MAX_DEPTH
from lite.nn._import.integers import array_of
from lite.nn._import.joining import join
from lite.nn._import.limits import Memory, TooLarge, check_time, elements_limit, is_limited
from lite.nn._import.operators import Run, Spec, Step, Unsupported, rule_of
from lite.nn._import.segments import Segment, is_differentiated, measured, run_segments, segments_of

MAX_FOLDED = 1 << 20  # numbers of a constant that is computed when a graph is read
MAX_FOLDED_HELD = 1 << 28  # likewise, where there is memory to hold it
# What may give something else each time, or has an effect that a constant would not.
_NEVER_FOLDED = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
# How a file is made without operators that have no rule.
_HINTS = {
    **dict.fromkeys(_NEVER_FOLDED, " (choose outputs that need no draw, or export it as an input)"),
    "ZipMap": " (skl2onnx omits it with options={'zipmap': False})",
    "com.microsoft.nchwc": " (ORT_ENABLE_EXTENDED omits these, which are of one processor)",
}


@dataclass
class Program:
    """A graph that runs.

    Attributes:
        inputs: names of what it is called with.
        captures: names of values of the graph around it that it reads, after the inputs.
        constants: values that do not change, by number.
        weights: numbers of the values that are given again at each call, by name; they follow the inputs.
        outputs: numbers of the results.
        steps: in order.
        count: number of all values.
        types: what the graph says of its outputs.
    """

    inputs: tuple[str, ...]
    captures: tuple[str, ...] = ()
    constants: dict[int, Any] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    outputs: tuple[int, ...] = ()
    steps: list[Step] = field(default_factory=list)
    count: int = 1
    types: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        self.start: list[Any] = [None] * self.count
        for number, value in self.constants.items():
            self.start[number] = value
        self.segments: dict[int | None, list[Segment]] = {}

    def __call__(
        self, inputs: Sequence[Any], weights: Sequence[Any] = (), checkpoint: bool | int = False
    ) -> list[Any]:
        """The results for inputs with values of the captures after them, and for weights in their order.

        Args:
            inputs: see above.
            weights: see above.
            checkpoint: whether segments are computed again in the backward pass, or how many there are.
        """
        values, first = self.start.copy(), 1 + len(inputs)
        values[1:first] = inputs
        values[first : first + len(weights)] = weights
        if checkpoint and is_differentiated(values):
            run_segments(self._segments(checkpoint, values), values, _run)
        else:
            _run(self.steps, values)
        outputs = self.outputs
        return [values[outputs[0]]] if len(outputs) == 1 else [values[i] for i in outputs]

    def _segments(self, checkpoint: bool | int, values: list[Any]) -> list[Segment]:
        """The segments, which the first call decides on by the sizes that it meets."""
        count = None if checkpoint is True else int(checkpoint)
        if count not in self.segments:
            sizes = measured(self.steps, values, _run)
            self.segments[count] = segments_of(self.steps, sizes, self.outputs, count)
        return self.segments[count]


def _run(steps: Iterable[Step], values: list[Any] | dict[int, Any]) -> None:
    """Compute steps in order, from and into the values."""
    limited, ndarray = is_limited(), np.ndarray
    for step in steps:
        if limited:
            check_time()
        run, count, a, b, c, outputs, done, more = step.plan or step.planned()
        try:
            if count == 1:
                result = run(values[a])
            elif count == 2:
                result = run(values[a], values[b])
            elif count == 3:
                result = run(values[a], values[b], values[c])
            else:
                result = run(*a(values))
        except Exception as error:
            error.add_note(f"in the node {step.label}")
            raise
        if type(outputs) is int:
            values[outputs] = result if type(result) is ndarray else _array(result)
        else:
            for number, value in zip(outputs, _several(result), strict=False):
                values[number] = value if type(value) is ndarray else _array(value)
            values[0] = None  # where an output went that nobody reads
        values[done] = None
        for number in more:
            values[number] = None


def _several(result: Any) -> Any:
    """The outputs of a node with several; a rule may give the first alone where nobody reads the others."""
    return (result,) if is_array(result) else result


def _array(value: Any) -> Any:
    """A size of a trace, or a text, as an array of it; everything else as it is."""
    if isinstance(value, str):
        return np.array(value, object)
    return array_of((value,)).reshape(()) if isinstance(value, int) else value


@dataclass
class Options:
    """How a model is compiled.

    Attributes:
        model: the model, for its versions and functions.
        compute_dtype: what float16 and bfloat16 are computed in; None for themselves.
        memory: what may be held of constants, as large weights without their quantisation; None for little.
        as_runtime: compute as onnxruntime does: a cache that is given as a writable array is written in
            place, and activations are rounded where the graph allows it.
        missing: what no rule covers, as it is found.
        nodes: compiled so far.
    """

    model: Model
    compute_dtype: np.dtype[Any] | None
    memory: Memory | None = None
    as_runtime: bool = False
    missing: list[str] = field(default_factory=list)
    nodes: int = 0


class Compiler:
    """Makes a program of a graph.

    Args:
        options: for all graphs of the model.
        opsets: versions of the operators by domain.
        around: names of the values of the graphs around this one.
        arguments: values of the function's attributes, where this is the body of one.
        depth: the depth of nested graphs.
    """

    def __init__(
        self, options: Options, opsets: Mapping[str, int], around: frozenset[str] = frozenset(),
        arguments: Mapping[str, Any] | None = None, depth: int = 0,
    ) -> None:  # fmt: skip
        if depth > MAX_DEPTH:
            raise ValueError(f"graphs and functions nested deeper than {MAX_DEPTH}")
        self.options, self.opsets, self.around = options, opsets, around
        self.arguments, self.depth = arguments, depth
        self.numbers: dict[str, int] = {"": 0}
        self.captured: dict[str, int] = {}
        self.constants: dict[int, Any] = {}
        self.steps: list[Step] = []
        self.count = 1

    def program(
        self, nodes: Iterable[Operation], inputs: Sequence[str], outputs: Sequence[str],
        constants: Mapping[str, NDArray[Any]], weights: Sequence[str] = (),
    ) -> Program:  # fmt: skip
        """The steps of nodes, in an order in which they can run.

        Raises:
            ValueError: a node reads a value that nothing gives before it, or gives one for the second time.
        """
        nodes = in_order(list(nodes))
        for name in inputs:
            self._define(name)
        for name in weights:
            self._define(name)
        for name, value in constants.items():
            self.constants[self._define(name)] = value
        given = {name for node in nodes for name in node.outputs if name}
        self.read = {name for node in nodes for name in reads_of(node)}.union(outputs)
        for node in nodes:
            self._node(node, given)
        found = [self._number(name, given, "the graph's outputs") for name in outputs]
        read = {i for step in self.steps for i in step.inputs}.union(found)
        self.constants = {i: value for i, value in self.constants.items() if i in read}
        numbers = {self.numbers[name] for name in weights}
        join(self.steps, found, self.constants, _run, numbers, lambda: self._define(""))
        program = Program(
            tuple(inputs),
            tuple(self.captured),
            self.constants,
            {name: self.numbers[name] for name in weights},
            tuple(found),
            self.steps,
            self.count,
        )
        _place_captures(program, self.captured)
        _free(program)
        return program

    def _define(self, name: str) -> int:
        if name in self.numbers and name:
            raise ValueError(f"the value {name!r} is given twice")
        number = self.count
        self.count += 1
        if name:
            self.numbers[name] = number
        return number

    def _number(self, name: str, given: set[str], reader: str) -> int:
        """The number of a value, which may be one of the graph around."""
        if name in self.numbers:
            return self.numbers[name]
        if name in self.around and name not in given:
            self.captured[name] = self.numbers[name] = self.count
            self.count += 1
            return self.numbers[name]
        raise ValueError(f"{reader} reads {name!r}, which nothing before it gives")

    def _node(self, node: Operation, given: set[str]) -> None:
        check_time()
        self.options.nodes += 1
        if self.options.nodes > MAX_NODES:
            raise ValueError(f"a model has at most {MAX_NODES} nodes, with those of its functions")
        label = f"{node.name!r} ({node.op})" if node.name else node.op
        inputs = [self._number(name, given, label) for name in node.inputs]
        attributes = {key: self._argument(value) for key, value in node.attributes.items()}
        attributes = {key: value for key, value in attributes.items() if value is not None}
        graphs = {key: value for key, value in attributes.items() if isinstance(value, OperationGraph)}
        visible = self.around | frozenset(self.numbers) if graphs else self.around
        bodies: dict[str, Program] = {}
        for key, graph in sorted(graphs.items(), reverse=True):  # then_branch before else_branch
            bodies[key] = self._body(graph, visible)
        local = self.options.model.functions.get((node.domain, node.op))
        if local is not None:
            run = self._function(node, local, attributes)
        else:
            known = tuple(self.constants.get(i) for i in inputs)
            run = self._rule(node, label, attributes, bodies, known)
        for body in bodies.values():
            inputs += [self._number(name, given, label) for name in body.captures]
        numbers = tuple(self._define(name) if name else 0 for name in node.outputs)
        outputs: tuple[int, ...] | int = numbers
        if local is None and len(numbers) == 1 and node.op not in _SEVERAL:
            outputs = numbers[0]
        step = Step(run, tuple(inputs), outputs, label, "" if node.domain or local is not None else node.op)
        if not self._folded(step, node.op, bool(bodies)):
            self.steps.append(step)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Reference):
            return (self.arguments or {}).get(value.name)
        return value

    def _body(self, graph: OperationGraph, visible: frozenset[str]) -> Program:
        inner = Compiler(self.options, self.opsets, visible, self.arguments, self.depth + 1)
        return inner.graph(graph)

    def graph(self, graph: OperationGraph, weights: Sequence[str] = ()) -> Program:
        """The program of a graph, whose initializers are constants, except for `weights`."""
        inputs = [value.name for value in graph.inputs if value.name not in graph.weights]
        outputs = [value.name for value in graph.outputs]
        kept = {
            name: _cast_half(weight.array(), self.options.compute_dtype)
            for name, weight in graph.weights.items()
            if name not in weights
        }
        program = self.program(graph.nodes, inputs, outputs, kept, weights)
        program.types = graph.outputs
        return program

    def _function(self, node: Operation, local: Any, attributes: Mapping[str, Any]) -> Run:
        arguments = {**local.attributes, **attributes}
        inner = Compiler(self.options, local.opsets or self.opsets, frozenset(), arguments, self.depth + 1)
        program = inner.program(local.nodes, local.inputs, local.outputs, {})

        def run(*inputs: Any) -> list[Any]:
            return program([*inputs, *[None] * (len(local.inputs) - len(inputs))])

        return run

    def _rule(
        self, node: Operation, label: str, attributes: dict[str, Any], bodies: dict[str, Program],
        constants: tuple[Any, ...],
    ) -> Run:  # fmt: skip
        build = rule_of(node.domain, node.op)
        if build is None:
            domain = f" of {node.domain}" if node.domain else ""
            hint = _HINTS.get(node.op) or _HINTS.get(node.domain, "")
            self.options.missing.append(f"{label}: there is no rule for the operator {node.op}{domain}{hint}")
            return _nothing
        spec = Spec(
            node.op,
            node.domain,
            node.name,
            self.opsets.get(node.domain, 1),
            attributes,
            tuple(bool(name) for name in node.inputs),
            tuple(name != "" and name in self.read for name in node.outputs),
            bodies,
            self.options.compute_dtype,
            self.options.memory,
            self.options.as_runtime,
            constants,
        )
        try:
            run = build(spec)
            _check_count(run, len(node.inputs), label)
            return run
        except Unsupported as error:
            self.options.missing.append(f"{label}: {error} is not supported")
            return _nothing
        except (TypeError, AttributeError, KeyError, IndexError) as error:
            raise ValueError(f"{label}: invalid attributes of {node.op}: {error}") from error

    def _folded(self, step: Step, op: str, has_bodies: bool) -> bool:
        """Compute a node of constants once."""
        if op in _NEVER_FOLDED or has_bodies or step.run is _nothing:
            return False
        if any(i and i not in self.constants for i in step.inputs):
            return False
        memory = self.options.memory
        most = MAX_FOLDED if memory is None else MAX_FOLDED_HELD
        if sum(np.size(self.constants[i]) for i in step.inputs if i) > most:
            return False
        try:
            with elements_limit(most):
                result = step.run(*[self.constants.get(i) for i in step.inputs])
        except TooLarge:  # it may be in a branch that is not taken; a call says otherwise
            return False
        except (TypeError, LookupError, ArithmeticError, AttributeError) as error:  # of a damaged file
            raise ValueError(f"{step.label}: {error}") from error
        except Exception as error:
            error.add_note(f"in the node {step.label}")
            raise
        numbers, values = (
            (step.outputs, _several(result))
            if isinstance(step.outputs, tuple)
            else ((step.outputs,), (result,))
        )
        large = sum(x.nbytes for x in values if isinstance(x, np.ndarray) and x.size > MAX_FOLDED)
        if large and (memory is None or not memory.take(large)):
            return False
        for number, value in zip(numbers, values, strict=False):
            self.constants[number] = value if isinstance(value, list) else np.asarray(value)
        return True


def compiled(
    model: Model, graph: OperationGraph, weights: Sequence[str], compute_dtype: str | None, place: str, *,
    memory: Memory | None = None, as_runtime: bool = False,
) -> Program:  # fmt: skip
    """The program of a model's graph.

    Args:
        model: the model.
        graph: its graph, or what was made of that.
        weights: names of the initializers that are given again at each call.
        compute_dtype: name of the dtype that float16 and bfloat16 are computed in; None for themselves.
        place: what to call the model in messages.
        memory, as_runtime: see `Options`.

    Raises:
        NotImplementedError: operators have no rule; the message names them and their nodes.
        ValueError: the nodes are in no order, or nested too deeply.
    """
    options = Options(model, None if compute_dtype is None else np.dtype(compute_dtype), memory, as_runtime)
    try:
        program = Compiler(options, model.opsets).graph(graph, weights)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    if options.missing:
        shown = "; ".join(options.missing[:8])
        more = f"; and {len(options.missing) - 8} more" if len(options.missing) > 8 else ""
        raise NotImplementedError(f"{place} has nodes that are not supported: {shown}{more}.")
    return program


# Operators whose rules give a tuple, also where one output is asked for.
_SEVERAL = frozenset(
    {
        "BatchNormalization",
        "CausalConvWithState",
        "DynamicQuantizeLinear",
        "GRU",
        "GroupQueryAttention",
        "If",
        "LSTM",
        "LinearAttention",
        "Loop",
        "RNN",
        "Scan",
        "Split",
        "TopK",
        "Unique",
    }
)


def _nothing(*inputs: Any) -> Any:
    raise NotImplementedError


def _check_count(run: Run, count: int, label: str) -> None:
    """Raises ValueError if what computes a node does not take so many inputs."""
    most: int | None = getattr(run, "nin", None)  # of a NumPy function of single numbers
    least = most
    code = getattr(run, "__code__", None)
    if code is not None:
        own = isinstance(run, MethodType)  # whose first argument is given
        most = None if code.co_flags & CO_VARARGS else code.co_argcount - own
        least = code.co_argcount - own - len(run.__defaults__ or ())
    if (least is not None and count < least) or (most is not None and count > most):
        wanted = (
            str(least) if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        )
        raise ValueError(f"{label} has {count} inputs, and takes {wanted}")


def _cast_half(array: NDArray[Any], compute_dtype: np.dtype[Any] | None) -> NDArray[Any]:
    return (
        array.astype(compute_dtype)
        if compute_dtype is not None and array.dtype.name in ("float16", "bfloat16")
        else array
    )


def _place_captures(program: Program, captured: Mapping[str, int]) -> None:
    """Give the captures the numbers after the inputs, where a call puts their values."""
    first = 1 + len(program.inputs)
    order = list(range(program.count))
    taken = list(captured.values())
    rest = [i for i in order[first:] if i not in set(taken)]
    new = {old: i for i, old in enumerate([*order[:first], *taken, *rest])}
    if all(a == b for a, b in new.items()):
        return
    program.constants = {new[i]: value for i, value in program.constants.items()}
    program.__post_init__()
    program.weights = {name: new[i] for name, i in program.weights.items()}
    program.outputs = tuple(new[i] for i in program.outputs)
    for step in program.steps:
        step.inputs = tuple(new[i] for i in step.inputs)
        one = type(step.outputs) is int
        step.outputs = new[step.outputs] if one else tuple(new[i] for i in step.outputs)  # type: ignore[index, union-attr]


def _free(program: Program) -> None:
    """Note at each step which values are read there for the last time."""
    kept = {0, *program.outputs, *program.constants, *program.weights.values()}
    for step in reversed(program.steps):
        written = (step.outputs,) if isinstance(step.outputs, int) else step.outputs
        last = {i for i in (*step.inputs, *written) if i not in kept}
        step.done = tuple(sorted(last))
        kept |= last


def symbolic(values: Iterable[Any]) -> bool:
    """Whether some values are arrays of a graph that is being traced."""
    return any(map(is_symbolic, values))
