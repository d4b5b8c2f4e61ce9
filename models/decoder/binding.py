"""One IOBinding of a decoder graph: inputs and outputs bound by pointer, rebound only on change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.adapters import AdapterValues
from lite.models.decoder.conventions import CacheTensor, Extra, GraphSpec, optional_inputs
from lite.models.decoder.device_logits import Logits
from lite.models.decoder.gather_logits import HIDDEN_OUTPUT
from lite.models.decoder.output_rows import OutputRows
from lite.models.decoder.states import States
from lite.models.graph.cuda_stream import CudaStream
from lite.models.graph.session import (
    FIRST_RUN_SECONDS,
    PointerBinding,
    SessionLike,
    is_the_programs,
    runtime_of,
)
from lite.models.graph.tensors import ELEMENT_TYPES

Reopen: TypeAlias = Callable[[Mapping[str, NDArray[Any]], Collection[str]], SessionLike]


@dataclass(frozen=True)
class PlacedGraph:
    """A decoder graph and where it runs: what bindings, buffers and caches are made for.

    Attributes:
        session: the onnxruntime session.
        spec: its convention.
        vocab_size: width of the logits.
        context_length: the largest number of positions of a row, None if unknown.
        device: `"cpu"` or `"cuda"`, where the cache lives.
        index: number of the GPU.
        prompts: the graph that reads rows without a past, where that is one of its own.
        adapter: values of optional inputs.
        output_rows: the output matrix, if the graph gives the hidden states that are multiplied with it.
        reopen: makes a session of the same graph with other weights, given by name, and with inputs for
            adapters beside projections; None if it cannot be reopened.
        stream: stream of a session on a GPU, None if unknown.
        cuda_graphs: the session captures steps of decoding.
        side: what graphs with limits are told when they are bound; of each cache its own.
        states: states of the rows of a cache, for graphs that have them.
    """

    session: SessionLike
    spec: GraphSpec
    vocab_size: int
    context_length: int | None
    device: str
    index: int
    prompts: PlacedGraph | None = None
    adapter: AdapterValues | None = None
    output_rows: OutputRows | None = None
    reopen: Reopen | None = None
    stream: CudaStream | None = None
    cuda_graphs: bool = False
    side: Side | None = None
    states: States | None = None

    def reopened(self, weights: Mapping[str, NDArray[Any]], adapter_inputs: Collection[str]) -> PlacedGraph:
        """The same graph in a new session, with other values of some weights and inputs for adapters.

        Raises:
            RuntimeError: the session was given, and cannot be opened again.
        """
        if self.reopen is None:
            raise RuntimeError(
                "only a model that was opened from its path takes other weights, not a session"
            )
        session = self.reopen(weights, adapter_inputs)
        spec = replace(self.spec, optional=tuple(sorted(optional_inputs(session))))
        rows = None if weights else self.output_rows
        return replace(self, session=session, spec=spec, output_rows=rows)


@dataclass
class Side:
    """On which side of a graph's limits the texts of a run are.

    Attributes:
        most: tokens of a text there; 0 before there is any.
    """

    most: int = 0


class RunInputs(NamedTuple):
    """What a run of a graph reads, beside its cache.

    Attributes:
        ids: new tokens, (n, S). Like the others not copied if it has the graph's own type
            (`BoundGraph.blank`): runs read what it holds at that moment.
        mask: 1 for positions that exist, (n, past + S) or wider.
        positions: position of each new token, (n, S).
        wanted: positions in `ids` whose logits are needed, (n, K) (a hint: graphs without a gather give
            them all); default: the last one or all.
        last: only one position's logits are needed of each row (a hint: graphs without a switch compute
            them all, and graphs with one of their own compute those of the run's last position).
        with_past: there is a past (merged graphs have a branch for each case).
    """

    ids: NDArray[Any]
    mask: NDArray[Any]
    positions: NDArray[Any]
    wanted: NDArray[Any] | None = None
    last: bool = False
    with_past: bool = True


class BoundGraph:
    """A binding of a graph on a CPU; `gpu_binding.py` has the one for GPUs.

    Args:
        graph: the graph.
        hidden: its runs give hidden states (n, S, width) in place of logits.
    """

    def __init__(self, graph: PlacedGraph, *, hidden: bool = False) -> None:
        spec = graph.spec
        self._spec = spec
        self._vocab_size = graph.vocab_size
        self._binding = PointerBinding(graph.session)
        self._cpu = self._binding.device("cpu", 0)
        self._device = self._binding.device(graph.device, graph.index)
        self._cache_type = ELEMENT_TYPES[spec.cache_type].bound if spec.cache else None
        self._cache_names = [(tensor.past, tensor.present) for tensor in spec.cache]
        self._reads_cache = all(tensor.past for tensor in spec.cache)
        self._logits_dtype = np.dtype(ELEMENT_TYPES[spec.logits_type].name)
        inputs = {arg.name: arg for arg in graph.session.get_inputs()}
        integers = {"input_ids", spec.mask, spec.positions, spec.branch, spec.keep, spec.gather}
        integers |= {name for name, _ in (*spec.extras, *spec.limits)}
        self._dtypes = {n: np.dtype(ELEMENT_TYPES[a.type].name) for n, a in inputs.items() if n in integers}
        self._keep_shape = (1,) * len(inputs[spec.keep].shape) if spec.keep else ()
        self._square_mask = bool(spec.mask) and len(inputs[str(spec.mask)].shape) == 4
        self._ranks = {name: len(inputs[name].shape) for name, _ in spec.extras}
        self._adapter = graph.adapter
        self._adapter_values: Any = None  # as they are bound
        self._hidden = graph.output_rows if hidden else None
        self._first = np.zeros((0, 1, 1), np.int64)
        self._side = graph.side or Side()
        self._states = graph.states or (States(spec.states, 1) if spec.states else None)
        self._held: dict[str, NDArray[Any]] = {}  # pointers do not keep arrays alive
        self._run = self._binding.runner()
        self._runtime = "NumPy" if runtime_of(graph.session) == "numpy" else "onnxruntime"
        self._limit: float | None = FIRST_RUN_SECONDS  # of the first run, in seconds

    def blank(self, name: str | None, shape: tuple[int, ...]) -> NDArray[Any]:
        """Zeros in the type of an integer input, which are bound without a copy."""
        return np.zeros(shape, np.int64 if name is None else self._dtypes[name])

    def bind_cache(
        self, tensor: CacheTensor, past: int, past_shape: list[int], present: int, present_shape: list[int]
    ) -> None:
        """Bind a cache tensor's input and output to addresses on the cache's device, with shapes."""
        if tensor.past:
            self._binding.bind_input(tensor.past, self._device, self._cache_type, past_shape, past)
        self._binding.bind_output(tensor.present, self._device, self._cache_type, present_shape, present)

    def bind_caches(
        self, pasts: Sequence[int], past_shape: list[int], presents: Sequence[int], present_shape: list[int]
    ) -> None:
        """`bind_cache` for all cache tensors, if they have one shape."""
        if not self._reads_cache:  # it reads prompts only
            for tensor, present in zip(self._spec.cache, presents, strict=True):
                self.bind_cache(tensor, 0, past_shape, present, present_shape)
            return
        self._binding.bind_pairs(
            self._cache_names, self._device, self._cache_type, pasts, past_shape, presents, present_shape
        )

    def bind_input(self, name: str, values: NDArray[Any], at: int | None = None) -> None:
        """Bind an integer input to `values`, in the graph's type; the same array need not be bound again.

        `at` is their address, which takes a while to ask for, if they are contiguous and of that type.
        """
        if self._held.get(name) is values:
            return
        if at is None:
            values = np.asarray(values, dtype=self._dtypes[name], order="C")
            at = values.__array_interface__["data"][0]
        self._held[name] = values
        self._binding.bind_input(name, self._cpu, values.dtype.type, list(values.shape), at)

    def bind_mask(self, mask: NDArray[Any], steps: int, at: int | None = None) -> None:
        """Bind what follows from the positions that there are: `mask` (n, past + steps), and other inputs.

        `at` is the mask's address, as for `bind_input`.
        """
        spec, (count, total) = self._spec, mask.shape
        if spec.mask and spec.static_length is not None:
            shown = static_mask(mask, steps, spec.static_length, square=self._square_mask)
            self.bind_input(spec.mask, shown)
        elif spec.mask:
            self.bind_input(spec.mask, mask, at)
        for name, kind in spec.extras:
            self.bind_input(name, extra_input(kind, count, steps, total, self._ranks[name]))

    def run_rows(self, inputs: RunInputs) -> list[Logits]:
        """Run the graph once; the logits (S or K, V) of each row, which stay where they are computed.

        Raises:
            RuntimeError, TimeoutError: as `BoundRun`.
        """
        bound = self.bind(inputs)
        bound()
        return list(bound.logits)

    def bind(self, inputs: RunInputs) -> BoundRun:
        """Bind everything but the cache, until something else is bound.

        Returns:
            What runs the graph. Its logits are float32 (n, S, V), (n, K, V) through a gather, or (n, 1, V)
            where the graph gives or was asked for the last position only.
        """
        ids = inputs.ids
        kept = self._bind_inputs(inputs)
        given = self._bind_given(self._spec.logits, (len(ids), kept, self._vocab_size), self._logits_dtype)
        if self._hidden is not None:  # no logits are computed
            given = self._bind_given(HIDDEN_OUTPUT, (*ids.shape, self._hidden.width), np.dtype(np.float32))
        return BoundRun(self._run_bound, given)

    def _bind_given(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Bind an output to new memory of the host; the binding does not keep it alive."""
        given = np.empty(shape, dtype)
        address = given.__array_interface__["data"][0]  # `ctypes` makes an object to ask
        self._binding.bind_output(name, self._cpu, given.dtype.type, list(shape), address)
        return given

    def bind_step(
        self, ids: NDArray[Any], mask: NDArray[Any], positions: NDArray[Any], *, with_past: bool = True
    ) -> tuple[Callable[[], None], Logits]:
        """Bind a step of one token per row, as `bind` does; its logits stay where they are computed.

        Returns:
            What runs the graph, and the logits (n, V) that each run fills. The binding does not keep them
            alive.
        """
        bound = self.bind(RunInputs(ids, mask, positions, last=True, with_past=with_past))
        return bound, bound.logits[:, 0]

    def _bind_inputs(self, inputs: RunInputs) -> int:
        """Bind the inputs of a run; returns the positions of a row that get logits."""
        spec, last = self._spec, inputs.last
        count, steps = inputs.ids.shape
        self.bind_input("input_ids", inputs.ids)
        self.bind_mask(inputs.mask, steps)
        if spec.positions:
            self.bind_input(spec.positions, inputs.positions)
        if spec.branch:
            self.bind_input(spec.branch, np.array([inputs.with_past]))
        for name, limit in spec.limits:
            self.bind_input(name, _SIDES[self._side.most > limit])
        if spec.keep:
            self.bind_input(spec.keep, np.full(self._keep_shape, int(last)))
        kept = 1 if spec.gives_last_only(last) else steps
        if spec.gather:
            gathered = self._gathered(count, steps, inputs.wanted, last)
            self.bind_input(spec.gather, gathered)
            kept = gathered.shape[1]
        return kept

    def _bind_adapter(self) -> None:
        """Bind the values of the adapter, unless they are those of the last run."""
        if self._adapter is None or self._adapter.values is self._adapter_values:
            return
        self._adapter_values = values = self._adapter.values  # pointers do not keep arrays alive
        for name, (array, kind) in values.items():
            self._binding.bind_input(name, self._cpu, kind, list(array.shape), array.ctypes.data)

    def _run_bound(self) -> None:
        self._bind_adapter()
        given = self._bind_states(self._states) if self._states else []
        try:
            if self._limit is None:
                self._run()
            else:
                self._binding.run(self._limit + self._held["input_ids"].size)
        except TimeoutError:
            raise
        except Exception as error:
            if is_the_programs(error):
                raise
            raise self._explained(error) from error
        self._limit = None
        if self._states:
            self._states.put(given)

    def _bind_states(self, states: States) -> list[NDArray[Any]]:
        """Bind the states of the run's rows, and room for new ones."""
        given = []
        for tensor, old in zip(self._spec.states, states.taken(), strict=True):
            if tensor.past:
                self.bind_input(tensor.past, old, old.__array_interface__["data"][0])
            given.append(self._bind_given(tensor.present, old.shape, old.dtype))
        return given

    def _explained(self, error: Exception) -> RuntimeError:
        """An error of onnxruntime, with the sizes of the run."""
        count, steps = self._held["input_ids"].shape
        sizes = ", ".join(f"{name} {list(array.shape)}" for name, array in self._held.items())
        hint = ". A graph that takes one token at a time must declare that: input_ids [batch, 1]"
        hint *= "Expected: 1" in str(error)
        return RuntimeError(
            f"{self._runtime} cannot run the graph on {count} row{'s' * (count > 1)} of {steps} new "
            f"token{'s' * (steps > 1)} ({sizes}): {error}{hint * (steps > 1)}"
        )

    def _gathered(self, count: int, steps: int, wanted: NDArray[Any] | None, last: bool) -> NDArray[np.int64]:
        """Positions whose logits are wanted, (n, K, 1); unless they are given, the last one or all."""
        if self._hidden is not None:
            return np.zeros((count, 0, 1), np.int64)
        if steps == 1:
            if len(self._first) != count:
                self._first = np.zeros((count, 1, 1), np.int64)
            return self._first  # the same array at every step of decoding: bound once
        if wanted is None:
            wanted = np.tile(np.arange(steps - 1 if last else 0, steps), (count, 1))
        return wanted.astype(np.int64)[:, :, None]


class BoundRun:
    """Runs a graph on bound inputs; bindings do not keep its logits alive.

    Attributes:
        logits: float32, filled by each run.

    Raises:
        RuntimeError: (when called) onnxruntime cannot run the graph on these sizes; the message has them.
        TimeoutError: (when called) the first run does not end.
    """

    def __init__(self, run: Callable[[], None], given: NDArray[Any]) -> None:
        self._run = run
        self._given = given
        self.logits = given if given.dtype == np.float32 else np.empty(given.shape, np.float32)

    def __call__(self) -> None:
        self._run()
        if self.logits is not self._given:
            self.logits[...] = self._given


_SIDES = np.array(False), np.array(True)


def static_mask(mask: NDArray[Any], steps: int, length: int, *, square: bool) -> NDArray[Any]:
    """The mask (n, past + steps) over the whole of a cache of `length` positions.

    With `square` it has a row for each new token, bool (n, 1, steps, length).
    """
    total = mask.shape[1]
    mask = np.pad(mask, ((0, 0), (0, length - total)))
    if not square:
        return mask
    seen = np.arange(length) <= np.arange(total - steps, total)[:, None]
    return mask[:, None, None].astype(np.bool_) & seen


def extra_input(kind: Extra, count: int, steps: int, total: int, rank: int) -> NDArray[np.int64]:
    """The value of an extra input, for `count` rows with `steps` new tokens among `total` positions."""
    if kind is Extra.ZEROS:
        return np.zeros((count, steps), np.int64)
    if kind is Extra.COLUMNS:
        return np.arange(total - steps, total)
    return np.full((1,) * rank, total - steps if kind is Extra.PAST else total)
