"""A call of an ONNX graph with arrays: dtypes, batch dimensions, bindings."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from lite._arrays.device import DeviceArray
from lite._arrays.types import HostArray
from lite._files.onnx.batch_axes import from_rows, row_axes, to_rows
from lite._transforms.vmap.level import batched_in, level_of
from lite.kernels.backends.compiler import import_numba
from lite.models.graph.runtime import parse_device
from lite.models.graph.session import FIRST_RUN_SECONDS, PointerBinding, SharedSession, is_the_programs
from lite.models.graph.tensors import GraphTensor
from lite.nn._modules.parameter import Parameter

Shape = tuple[int, ...]


class GraphCall:
    """What `OnnxModule` calls: arrays in the order of the graph's inputs to arrays in that of its outputs.

    Leading dimensions of the inputs are the batch, however many; they are one dimension for the graph, at
    the axis where it has its batch, and lead the outputs again. A graph of one row, without a batch, takes
    a frame without that row, too, and gives the outputs without it. Safe from any number of threads; all that
    changes is that the first run, which may take no longer than two minutes, has been.

    Args:
        session: session of the graph.
        inputs: its inputs.
        outputs: its outputs.
        states: names of inputs that a step hands to the next one.
        start: the number of the input that says where an episode starts; None if there is none.
    """

    def __init__(
        self, session: SharedSession, inputs: tuple[GraphTensor, ...], outputs: tuple[GraphTensor, ...],
        states: frozenset[str], start: int | None,
    ) -> None:  # fmt: skip
        self.session = session
        self.inputs = inputs
        self.outputs = outputs
        self.states = states
        self.start = start
        self._device = parse_device(session.options.device)
        self._limit: float | None = FIRST_RUN_SECONDS  # of the first run
        named = [[(tensor.name, tensor.shape) for tensor in tensors] for tensors in (inputs, outputs)]
        self._rows = row_axes(*named) if all(x.batch is None for x in inputs) else {}
        self._vectors_last = sorted(range(len(inputs)), key=lambda i: len(inputs[i].shape) == 1)
        self._beyond_numpy = any(tensor.dtype.kind == "V" for tensor in outputs)  # bfloat16

    def __call__(self, *arrays: Any) -> Any:
        if len(arrays) != len(self.inputs):
            raise TypeError(
                f"the graph has {len(self.inputs)} inputs ({', '.join(map(str, self.inputs))}), "
                f"got {len(arrays)} arrays."
            )
        mapped = batched_in(arrays, [])
        if mapped:  # inside vmap: the mapped dimension is one more of the batch
            level = level_of(mapped)
            results = self(*[x if x is None else level.full(x) for x in arrays])
            return level.wrap_all(results) if isinstance(results, tuple) else level.wrap(results)
        missing = self.states if any(x is None for x in arrays) and self.starts_with(arrays) else ()
        values = [
            None if value is None and missing else _as_array(tensor, value)
            for tensor, value in zip(self.inputs, arrays, strict=True)
        ]
        frame = self._adds_rows(values) if self._rows else False
        lead = self._lead(values)
        if missing:
            values = [
                _zeros(tensor, lead) if value is None else value
                for tensor, value in zip(self.inputs, values, strict=True)
            ]
        results = self._run(values, lead)
        if frame:
            results = tuple(
                [_without_row(y, self._rows[x.name]) for x, y in zip(self.outputs, results, strict=True)]
            )
        return results[0] if len(results) == 1 else results

    def starts_with(self, arrays: Sequence[Any]) -> bool:
        """Whether the states alone are None, all of them, and an episode starts: then they are zeros."""
        if self.start is None or arrays[self.start] is None:
            return False
        lacks = {tensor.name for tensor, x in zip(self.inputs, arrays, strict=True) if x is None}
        known = all(type(n) is int for x in self.inputs if x.name in lacks for n in _features(x))
        return known and lacks == self.states and bool(np.all(np.asarray(arrays[self.start])))

    def _adds_rows(self, values: list[Any]) -> bool:
        """Give the inputs of one frame the row that the graph is of; whether any lacked it."""
        lacking = [
            i
            for i, (x, value) in enumerate(zip(self.inputs, values, strict=True))
            if value is not None
            and (row := self._rows[x.name]) is not None
            and value.shape == x.shape[:row] + x.shape[row + 1 :]
        ]
        for i in lacking:
            values[i] = values[i].reshape(self.inputs[i].shape)
        return bool(lacking)

    def _lead(self, values: list[Any]) -> Shape | None:
        """The batch dimensions, which all inputs share; None if the graph has no batch.

        An input of one number a row may have a dimension of one behind, as flags of environments have.
        """
        lead: Shape | None = None
        first = ""
        for i in self._vectors_last:
            tensor, value = self.inputs[i], values[i]
            if value is None:
                continue
            if tensor.batch is None:
                _check_sizes(tensor, value.shape, value.shape)
                continue
            if lead is not None and len(tensor.shape) == 1 and value.shape == (*lead, 1):
                values[i] = value.reshape(lead)
                continue
            extra = value.ndim - (len(tensor.shape) - 1)
            if extra < 0:
                raise ValueError(
                    f"{tensor}: got an array of shape {value.shape}, too few dimensions: the batch, of any "
                    f"number of dimensions, and {len(tensor.shape) - 1} more."
                )
            own = value.shape[:extra]
            _check_sizes(tensor, value.shape, _graph_shape(tensor, value.shape[extra:], prod(own)))
            if lead is not None and own != lead:
                raise ValueError(
                    "the inputs differ in their batch dimensions, which come first in every array: "
                    f"{first!r} has {lead}, {tensor.name!r} has {own} (shape {value.shape} for {tensor})."
                )
            lead, first = own, tensor.name
        return lead

    def _run(self, values: list[Any], lead: Shape | None) -> tuple[Any, ...]:
        """Run the graph, and return its outputs with the batch dimensions `lead` in place of its rows."""
        rows = None if lead is None else prod(lead)
        binding = PointerBinding(self.session.get())
        host = here = binding.device("cpu", 0)
        if any(isinstance(value, DeviceArray) for value in values):
            here = binding.device(*self._device)
            _finish_writes()
        held: list[Any] = []  # onnxruntime keeps addresses, not arrays
        try:
            for tensor, value in zip(self.inputs, values, strict=True):
                value = _to_graph(tensor, value, lead)
                held.append(value)
                if isinstance(value, DeviceArray):
                    place, pointer = here, value.leaf.__cuda_array_interface__["data"][0]
                else:
                    place, pointer = host, value.__array_interface__["data"][0]
                binding.bind_input(tensor.name, place, tensor.element_type, list(value.shape), pointer)
            for tensor in self.outputs:
                binding.bind_new_output(tensor.name, here)
            binding.run(self._limit)
            self._limit = None
        except TimeoutError:
            raise
        except Exception as error:
            if is_the_programs(error):
                raise
            given = ", ".join(
                [f"{t.name} {v.dtype}{list(v.shape)}" for t, v in zip(self.inputs, held, strict=False)]
            )
            raise RuntimeError(f"{self.session.path}: the graph failed with {given}: {error}") from error
        if here is host and not self._beyond_numpy:
            outputs = binding.outputs_on_cpu()
        elif here is host:
            outputs = [_copied(v, t) for v, t in zip(binding.outputs(), self.outputs, strict=True)]
        else:
            outputs = [_on_gpu(v, t) for v, t in zip(binding.outputs(), self.outputs, strict=True)]
        return tuple(
            [_from_graph(tensor, out, lead, rows) for tensor, out in zip(self.outputs, outputs, strict=True)]
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphCall:
        return self

    def __copy__(self) -> GraphCall:
        return self

    def __reduce__(self) -> Any:
        return GraphCall, (self.session, self.inputs, self.outputs, self.states, self.start)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, tensors)) for tensors in (self.inputs, self.outputs))
        return f"Graph({str(self.session.path)!r}, ({inputs}) -> ({outputs}))"


def _as_array(tensor: GraphTensor, value: Any) -> Any:
    """An array in the graph's dtype: a NumPy array, or a `DeviceArray` around one on a GPU."""
    if isinstance(value, Parameter):
        value = value.data
    if not isinstance(value, np.ndarray):
        if isinstance(value, HostArray) and value.symbolic:
            value.graph.fail(f"runs another graph (for its {tensor}), which a graph has no place for")  # type: ignore[attr-defined]
        if value is None:
            raise ValueError(f"{tensor}: got None.")
        value = DeviceArray(value) if hasattr(value, "__cuda_array_interface__") else np.asarray(value)
    wanted = tensor.dtype
    if value.dtype == wanted:
        return value
    # Numbers of the same kind, or wider: floats from integers and floats, integers from integers.
    if wanted.kind != "V" and not np.can_cast(value.dtype, wanted, "same_kind"):
        raise TypeError(f"{tensor}: got dtype {value.dtype}, which does not cast to {wanted}.")
    if isinstance(value, DeviceArray):
        return value.astype(wanted)
    if wanted.kind in "iu" and value.size and not np.can_cast(value.dtype, wanted):
        limits = np.iinfo(wanted)
        low, high = value.min(), value.max()
        if low < limits.min or high > limits.max:
            raise ValueError(f"{tensor}: got values from {low} to {high}, beyond {wanted}.")
    return value.astype(wanted)


def _features(tensor: GraphTensor) -> tuple[Any, ...]:
    """The sizes that are no batch."""
    return tuple(size for axis, size in enumerate(tensor.shape) if axis != tensor.batch)


def _without_row(value: Any, row: int | None) -> Any:
    if row is None or value.shape[row : row + 1] != (1,):
        return value
    return value.reshape(value.shape[:row] + value.shape[row + 1 :])


def _zeros(tensor: GraphTensor, lead: Shape | None) -> Any:
    """A state as it is before the first step."""
    shape = _features(tensor)
    return np.zeros(shape if tensor.batch is None or lead is None else (*lead, *shape), tensor.dtype)


def _graph_shape(tensor: GraphTensor, features: Shape, rows: int) -> Shape:
    axis = tensor.batch or 0
    return (*features[:axis], rows, *features[axis:])


def _check_sizes(tensor: GraphTensor, got: Shape, shape: Shape) -> None:
    """Compare the shapes of the inputs with the graph's fixed sizes."""
    if not tensor.shape and tensor.batch is None:
        return  # a scalar, or a graph that does not say
    fits = len(shape) == len(tensor.shape) and all(
        not isinstance(want, int) or want == have for want, have in zip(tensor.shape, shape, strict=True)
    )
    if fits:
        return
    if tensor.batch is None:
        raise ValueError(
            f"{tensor}: got an array of shape {got}; the graph has no batch here that can change. "
            "Export it with one: dynamic_shapes (or dynamic_axes) of torch.onnx.export. As it is, "
            "lite.nn.from_onnx runs it with more rows where it folds none."
        )
    fixed = tensor.shape[tensor.batch]
    if isinstance(fixed, int) and fixed != shape[tensor.batch]:
        raise ValueError(
            f"{tensor}: got {shape[tensor.batch]} rows (shape {got}), the graph's batch is fixed at {fixed}. "
            "Export it with a dynamic one: dynamic_shapes (or dynamic_axes) of torch.onnx.export."
        )
    raise ValueError(
        f"{tensor}: got an array of shape {got}, expected batch dimensions and then {_features(tensor)}."
    )


def _to_graph(tensor: GraphTensor, value: Any, lead: Shape | None) -> Any:
    """The array as the graph takes it: one batch dimension at its place, contiguous."""
    if tensor.batch is not None and lead is not None:
        features = value.shape[len(lead) :]
        rows = prod(lead)
        if rows == 0:
            # Some operators end the process on empty batches: one row of zeros tells the outputs' shapes.
            return np.zeros(_graph_shape(tensor, features, 1), value.dtype)
        value = to_rows(value, len(lead), tensor.batch)
    if isinstance(value, DeviceArray):
        return value if value.flags.c_contiguous else value.copy()
    return np.asarray(value, order="C")


def _from_graph(tensor: GraphTensor, value: Any, lead: Shape | None, rows: int | None) -> Any:
    """An output with the batch dimensions in front."""
    if tensor.batch is None or lead is None:
        return value
    if value.shape[tensor.batch] != (rows or 1):
        raise ValueError(
            f"{tensor}: the graph gave {value.shape[tensor.batch]} rows for a batch of {rows}; name its "
            "batch axis, or None, in batch_axes."
        )
    if rows == 0:
        kept = value.shape[: tensor.batch] + value.shape[tensor.batch + 1 :]
        return np.empty((*lead, *kept), value.dtype)
    value = from_rows(value, lead, tensor.batch)
    return value.leaf if isinstance(value, DeviceArray) else value


def _copied(value: Any, tensor: GraphTensor) -> Any:
    """An output of a dtype that onnxruntime does not hand to NumPy."""
    out = np.empty(value.shape(), tensor.dtype)
    ctypes.memmove(out.ctypes.data, value.data_ptr(), out.nbytes)
    return out


class _GpuMemory:
    """Memory of onnxruntime on a GPU, to be seen by Numba."""

    def __init__(self, value: Any, dtype: np.dtype[Any]) -> None:
        self.owner = value
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": tuple(value.shape()),
            "typestr": dtype.str,
            "data": (value.data_ptr(), False),
            "strides": None,
        }


def _on_gpu(value: Any, tensor: GraphTensor) -> DeviceArray:
    memory = _GpuMemory(value, tensor.dtype)
    return DeviceArray(_cuda().as_cuda_array(memory))


def _finish_writes() -> None:
    """onnxruntime works on a stream of its own: what Numba has queued must be there first."""
    _cuda().synchronize()


def _cuda() -> Any:
    import_numba("what a graph computes on a GPU", extra="cuda")
    from numba import cuda

    return cuda
