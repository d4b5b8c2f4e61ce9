"""Calls of NumPy as operators of ONNX: functions by their rules, ufuncs and their methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import lite._transforms.rules  # noqa: F401 - which registers them
from lite._arrays.types import ArrayHolder, Function, Names, Shape, computed
from lite._transforms.arrays import GIVING_ARRAYS
from lite._transforms.graphs.array import GraphArray, number_of, rules
from lite._transforms.graphs.graph import BOOL, Graph, graph_of
from lite._transforms.graphs.indexing import get_index, has_arrays, scatter, set_index, without_masks
from lite._transforms.graphs.operators import select, truth, unary
from lite._transforms.graphs.scan import scan
from lite._transforms.graphs.sizes import Quotient, Size
from lite._transforms.registry import ONNX, NoRule, name_of, without_out
from lite._transforms.rules.ufuncs import METHODS, UFUNCS
from lite._tree.batch_ops import BatchOp
from lite._tree.indexing import normalise, result_names

_COMPARISONS = frozenset(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"))
_COMPARING = {"Max": np.greater, "Min": np.less, "Sign": np.sign}  # operators, and what makes up for them
_LOGIC = frozenset(("And", "Or", "Xor", "Not"))
_OF_FLOATS = (np.floor, np.ceil, np.rint, np.reciprocal)  # ONNX has these for floats alone
_INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))  # ONNX has no arithmetic of most others
_OF_BOOLS: dict[np.ufunc, str] = {np.add: "Or", np.multiply: "And", np.maximum: "Or", np.minimum: "And"}

_SCALARS = {bool: bool, int: int, float: float, Size: int, Quotient: float}


def _python_scalar(x: object) -> type | None:
    """The type of a Python number, which takes the dtype of the arrays beside it; None for others."""
    if type(x) is GraphArray and x.weak:
        return float if x.dtype.kind == "f" else int
    return _SCALARS.get(type(x))


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: Any) -> Any:
    """`getattr(ufunc, method)(*inputs, **kwargs)` with symbolic arrays among the arguments."""
    graph = graph_of((inputs, kwargs))
    out = kwargs.get("out")
    out = None if out is None or all(target is None for target in out) else out
    kwargs = {key: value for key, value in kwargs.items() if key not in ("out", "casting", "order", "subok")}
    inputs = tuple(x.data if isinstance(x, ArrayHolder) else x for x in inputs)
    try:
        if method == "__call__":
            result = _call(graph, ufunc, inputs, kwargs)
        elif method == "outer":
            result = _outer(graph, ufunc, *inputs, **kwargs)
        elif method == "at":
            _at(graph, ufunc, *inputs)
            return None
        else:
            options = {"axis": 0, **kwargs} if len(inputs) == 1 else kwargs
            function: Any = METHODS.get((ufunc, method), (ufunc, method))
            result = ONNX.rules[function](graph, *inputs, **options)
    except (NoRule, KeyError):
        name = name_of(ufunc) + ("" if method == "__call__" else f".{method}")
        graph.fail(f"calls {name}, which has no rule for ONNX with these arguments")
    if out is None:
        return tuple(map(number_of, result)) if type(result) is tuple else number_of(result)
    return write(graph, out, result)


def write(graph: Graph, out: Any, result: object) -> Any:
    """Write results into `out`, if the caller gave it."""
    for target, value in zip(out, result if type(result) is tuple else (result,), strict=True):
        if target is None:
            continue
        if not isinstance(target, GraphArray):
            graph.fail("writes what it computed into an ndarray (out=, or +=): use the result instead")
        if not np.can_cast(value.dtype, target.dtype, "same_kind"):
            raise TypeError(f"cannot cast the result from {value.dtype} to {target.dtype} in place.")
        target.replace(graph.cast(graph.expand(value, target.shape), target.dtype))
    return out[0] if len(out) == 1 else out


def _call(graph: Graph, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if ufunc in ONNX.rules:
        return ONNX.rules[ufunc](graph, *inputs, **kwargs)
    wanted = kwargs.pop("dtype", None)
    where = kwargs.pop("where", True)
    if kwargs or where is not True:
        raise NoRule
    loop = list(resolved(ufunc, inputs, wanted))
    alike = _beyond_integers(graph, ufunc, inputs, loop)
    if alike is not None:
        return alike
    arrays = [graph.operand(x, dtype) for x, dtype in zip(inputs, loop, strict=False)]
    result = loop[len(inputs)]
    row = UFUNCS.get(ufunc)
    op = None if row is None else row.onnx
    if op is None:
        raise NoRule
    if not isinstance(op, str):
        return op(*arrays)
    if all(map(_python_scalar, inputs)):
        out = graph.emit(op, arrays, (), result)
        out.weak = result in (np.float64, np.int64)
        return out
    shape = graph.broadcast([x.shape for x in arrays])
    shorter = _shorter(graph, op, arrays, shape, result)
    return _node(graph, ufunc, op, arrays, shape, result) if shorter is None else shorter


def _beyond_integers(
    graph: Graph, ufunc: np.ufunc, inputs: tuple[Any, ...], loop: list[np.dtype[Any]]
) -> GraphArray | None:
    """The result if a Python number is not representable in its integer dtype; None if all are.

    Comparisons with it are the same for all integers of the dtype; for other ufuncs NumPy raises.
    """
    for number, dtype in zip(inputs, loop, strict=False):
        if type(number) is int and dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if not limits.min <= number <= limits.max:
                alike = ufunc(*[x if x is number else dtype.type(0) for x in inputs])
                return graph.expand(graph.operand(alike), graph.broadcast([np.shape(x) for x in inputs]))
    return None


def _shorter(
    graph: Graph, op: str, arrays: list[GraphArray], shape: Shape, result: np.dtype[Any]
) -> GraphArray | None:
    """x for x * 1, and Relu for max(x, 0), which onnxruntime fuses with the operator before; else None."""
    if op not in ("Mul", "Max", "Add"):
        return None
    for one, x in (arrays, arrays[::-1]):
        if op == "Add":  # of two constants onnxruntime 1.31 takes it out of the graph, with its result
            if x.shape == shape and graph.is_zero(x) and graph.is_zero(one):
                return x.copy()
        elif op == "Mul":
            value = graph.constants.get(one.name)
            if value is not None and value.size == 1 and value.reshape(-1)[0] == 1 and x.shape == shape:
                return x.copy()
        elif result.kind == "f" and graph.is_zero(one) and one.size == 1 and x.shape == shape:
            return graph.emit("Relu", [x], shape, result)
    return None


def _node(
    graph: Graph, ufunc: np.ufunc, op: str, arrays: list[GraphArray], shape: Shape, result: np.dtype[Any]
) -> GraphArray:
    """The node of an operator, with casts to and from a dtype that it has in ONNX."""
    arrays = list(graph.narrowed(arrays, shape))
    if op in _COMPARISONS:
        if arrays[0].dtype == BOOL and ufunc is not np.equal:
            arrays = [graph.cast(x, np.int32) for x in arrays]
        if arrays[0].dtype != arrays[1].dtype:  # NumPy compares int64 with uint64
            raise NoRule
        return graph.emit(op, arrays, shape, BOOL)
    if op in _LOGIC:
        return graph.emit(op, [truth(graph, x) for x in arrays], shape, BOOL)
    if op.startswith("Bitwise"):
        name = op.removeprefix("Bitwise") if arrays[0].dtype == BOOL else op
        return graph.emit(name, arrays, shape, result)
    if result == BOOL:  # sums and products of bools
        if ufunc not in _OF_BOOLS:
            raise NoRule
        return graph.emit(_OF_BOOLS[ufunc], arrays, shape, BOOL)
    if result.kind in "iu" and (ufunc in _OF_FLOATS or (ufunc is np.absolute and result.kind == "u")):
        if ufunc is np.reciprocal:
            raise NoRule
        return arrays[0].copy()
    if graph.exact_integers and op in _COMPARING and result in (np.int64, np.uint32, np.uint64):
        return _compared(graph, op, [graph.cast(x, result) for x in arrays], result)
    if graph.exact_integers and op == "Pow" and result.kind in "iu":
        base, exponent = (graph.cast(x, result) for x in arrays)
        return _power(graph, base, exponent, shape)
    if result.kind in "iu" and result not in _INTEGERS:
        wide = [graph.cast(x, np.int64) for x in arrays]
        return graph.cast(graph.emit(op, wide, shape, np.int64), result)
    return unary(graph, op, arrays[0], result) if len(arrays) == 1 else graph.emit(op, arrays, shape, result)


def _power(graph: Graph, base: GraphArray, exponent: Any, shape: Shape) -> Any:
    """A power of integers by repeated squares: onnxruntime computes it in float64, which rounds."""
    known, dtype = graph.constants.get(exponent.name), base.dtype
    if known is not None and (known < 0).any():
        raise ValueError("Integers to negative integer powers are not allowed.")
    if known is not None and known.size and known.max() == known.min() > 0:  # as of x**2: no loop
        out: Any = base
        for bit in f"{known.flat[0]:b}"[1:]:
            out = out * out * base if bit == "1" else out * out
        return graph.expand(out, shape)
    bits = graph.constant(np.left_shift(1, np.arange(8 * dtype.itemsize - (dtype.kind == "i"))).astype(dtype))
    masks = bits[bits <= np.max(exponent, initial=1)]

    def step(state: Any, mask: Any) -> Any:
        out, square = state
        return [np.where((exponent & mask[0]) != 0, out * square, out), square * square], []

    first = [graph.expand(x, shape) for x in (graph.constant(np.ones((), dtype)), base)]
    return scan(graph, step, first, [masks])[0][0]


def _compared(graph: Graph, op: str, arrays: list[Any], dtype: np.dtype[Any]) -> GraphArray:
    """A comparison of int64: onnxruntime 1.31 compares the lower halves as signed if the upper are equal."""
    if op == "Sign":
        (x,) = arrays
        return graph.cast(graph.cast(x > 0, np.int64) - graph.cast(x < 0, np.int64), dtype)
    a, b = arrays
    return select(graph, _COMPARING[op](a, b), a, b, dtype)


def resolved(ufunc: np.ufunc, inputs: tuple[Any, ...], wanted: Any = None) -> tuple[np.dtype[Any], ...]:
    """The dtypes that NumPy computes in, of inputs and outputs."""
    kinds: list[Any] = []
    for x in inputs:
        scalar = _python_scalar(x)
        if scalar is not None and scalar is not bool:
            kinds.append(scalar)
        else:
            kinds.append(x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype)
    if all(kind in (int, float) for kind in kinds):
        kinds[0] = np.dtype(kinds[0])
    asked = (*kinds, *[None] * ufunc.nout)
    if wanted is None:
        return ufunc.resolve_dtypes(asked)
    return ufunc.resolve_dtypes(asked, signature=(*[None] * ufunc.nin, np.dtype(wanted)))


_AT = {np.add: "add", np.subtract: "add", np.multiply: "mul", np.maximum: "max", np.minimum: "min"}


def _at(graph: Graph, ufunc: np.ufunc, a: Any, indices: Any, b: Any = None) -> None:
    if ufunc not in _AT or b is None:
        raise NoRule
    if not isinstance(a, GraphArray):
        graph.fail(f"writes what it computed into an ndarray (np.{ufunc.__name__}.at): use np.zeros_like")
    new = graph.operand(b, a.dtype)
    if ufunc is np.subtract:
        new = -new
    if has_arrays(a, indices):
        scatter(a, indices, new, _AT[ufunc])
    else:
        a[indices] = ufunc(a[indices], new)


def _outer(graph: Graph, ufunc: np.ufunc, a: ArrayLike, b: ArrayLike, **kwargs: Any) -> GraphArray:
    first = graph.operand(a)
    second = graph.operand(b)
    return ufunc(first[(..., *[None] * second.ndim)], second, **kwargs)


def call_function(func: Function, args: Any, kwargs: Any) -> Any:
    """Write the nodes of a function; NotImplementedError names the one that has no rule."""
    graph = graph_of((args, kwargs))
    args, kwargs, out = without_out(func, args, kwargs)
    if func not in ONNX.rules:
        graph.fail(f"calls {name_of(func)}, which has no rule for ONNX")
    try:
        result = ONNX.rules[func](graph, *args, **kwargs)
    except NoRule as error:
        graph.fail(f"calls {name_of(func)} with arguments that have no rule for ONNX{_because(error)}")
    if out is not None:
        return write(graph, (out,), result)
    return number_of(result, func not in GIVING_ARRAYS)


def call_elementwise(x: GraphArray, function: Function, *args: Any) -> Any:
    """Write the nodes of an elementwise function of lite."""
    if function not in ONNX.rules:
        x.graph.fail(f"calls {name_of(function)}, which has no rule for ONNX")
    return ONNX.rules[function](x.graph, *(args or (x,)))


class ComputedIndex(BatchOp):
    """Every entry indexed by something that has arrays of a graph in it."""

    __slots__ = ("alike", "graph", "items")
    keeps_lock = False

    def __init__(self, graph: Graph, batch_size: Shape, items: tuple[Any, ...]) -> None:
        self.graph = graph
        self.items = items if any(item is Ellipsis for item in items) else (*items, Ellipsis)
        zeros = tuple([np.zeros(x.shape, np.intp) if isinstance(x, GraphArray) else x for x in items])
        self.alike = normalise(zeros, batch_size)
        rows: Any = np.broadcast_to(graph.operand(False), batch_size)
        super().__init__(len(batch_size), rows[items].shape)

    def array(self, value: object) -> Any:
        found: Any = computed(value)
        return (self.graph.operand(found) if isinstance(found, np.ndarray) else found)[self.items]

    def names(self, names: list[str | None]) -> Names:
        return result_names(self.alike, names, len(self.shape))

    def on_stack(self, stack: Any) -> Any:
        return stack.contiguous()._run(self)


def _index_batch(td: Any, index: Any) -> Any:
    """`td[index]`, where computed arrays are in the index."""
    graph = graph_of((index,))
    return td._run(ComputedIndex(graph, td.batch_size, tuple(without_masks(graph, index))))


def _because(error: NoRule) -> str:
    return f": {error}" if str(error) else ""


rules.ufunc = call_ufunc
rules.function = call_function
rules.get_index = get_index
rules.set_index = set_index
rules.index_batch = _index_batch
rules.elementwise = call_elementwise
rules.cast = lambda x, dtype: x.graph.cast(x, dtype)
