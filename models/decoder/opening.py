"""Opens the graph, or pair of graphs, of a language model; test runs tell what its inputs do not say."""

from __future__ import annotations

import functools
import mmap
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from numpy.typing import NDArray

from lite._files.onnx.reader import Graph, read_graph
from lite._files.onnx.rewriting import with_weights_outside
from lite.kernels._install import install
from lite.models.decoder.attention import replace_attention
from lite.models.decoder.attention_experiment import tried
from lite.models.decoder.binding import PlacedGraph, Reopen
from lite.models.decoder.cache import BlockCache, KVCache
from lite.models.decoder.conventions import GraphSpec, Padding, has_own_switch, query_heads
from lite.models.decoder.gather_logits import MAX_MODEL_BYTES, gather_before_projection
from lite.models.decoder.output_rows import OutputRows, output_rows
from lite.models.decoder.probe import check_causal, run_two_tokens
from lite.models.decoder.recompute import RecomputeCache
from lite.models.decoder.slots import SlotCache
from lite.models.graph.cuda_stream import CudaStream
from lite.models.graph.length_limits import with_limits_as_inputs
from lite.models.graph.model_config import ModelConfig
from lite.models.graph.runtime import check_cuda, import_onnxruntime, parse_device, refuse_on_numpy
from lite.models.graph.session import SessionLike, open_session

LARGE_WEIGHT = 1 << 20  # bytes; a weight of that size stays in its file when the graph is changed

CACHES: dict[Padding, Callable[[PlacedGraph, int], KVCache]] = {
    Padding.SLOTS: SlotCache,
    Padding.LEFT: BlockCache,
    Padding.EQUAL: BlockCache,
    Padding.RIGHT: RecomputeCache,
}

_SMALL = 1 << 24  # bytes of a graph whose runs take less than a millisecond


class Opening(NamedTuple):
    """The options of opening graphs.

    Attributes:
        config: the configuration of the model's directory; None for sessions that are given.
        device: `"cpu"`, `"cuda"` or `"cuda:N"`.
        num_threads: threads inside one operator, None for the default.
        stream: the CUDA stream of all sessions that are opened on a GPU.
        cuda_graphs: capture steps of decoding.
        cache_in_place: on a CPU, rewrite attention to read the cache in place.
        runtime: "onnxruntime" or "numpy".
    """

    config: ModelConfig | None
    device: str
    num_threads: int | None
    stream: CudaStream | None = None
    cuda_graphs: bool = False
    cache_in_place: bool = False
    runtime: str = "onnxruntime"

    @classmethod
    def on(
        cls, config: ModelConfig | None, device: str, num_threads: int | None, *, given: bool,
        cuda_graphs: bool, cache_in_place: bool, runtime: str,
    ) -> Opening:  # fmt: skip
        """The options, checked; on a GPU with a new stream, unless sessions are given.

        Raises:
            ValueError: `cuda_graphs` for a CPU or a session that is given, or an option that NumPy lacks.
            RuntimeError: there is no GPU build of onnxruntime, or the GPU makes no stream.
        """
        kind, index = parse_device(device)
        if runtime == "numpy":
            refuse_on_numpy(device=device, num_threads=num_threads, cuda_graphs=cuda_graphs)
        if cuda_graphs and (kind != "cuda" or given):
            raise ValueError(
                "cuda_graphs=True is for a model that is opened on a GPU, got "
                + ("a session" if given else f"device={device!r}")
            )
        if kind != "cuda" or given:
            return cls(config, device, num_threads, cache_in_place=cache_in_place, runtime=runtime)
        check_cuda(import_onnxruntime())
        try:
            stream = CudaStream.create(index)
        except RuntimeError as error:
            raise RuntimeError(
                f"device={device!r}: {error}. Check `nvidia-smi`; the libraries come with " + install("cuda")
            ) from error
        return cls(config, device, num_threads, stream, cuda_graphs)

    def graph(
        self, given: SessionLike | tuple[SessionLike, SessionLike] | None, *, gather_logits: bool
    ) -> PlacedGraph:
        """The model's graph; of a pair with the graph that reads prompts, if it is needed.

        If the graph that reads single tokens can read prompts, too, the other one is dropped, as it holds the
        weights a second time.

        Args:
            given: a session to use instead of opening one; or both of a pair, the one for prompts second.
            gather_logits: rewrite graphs to compute logits at chosen positions only, where that is possible.

        Raises:
            ValueError, TimeoutError, FileNotFoundError, RuntimeError, ImportError: see `OnnxDecoder`.
        """
        config = self.config
        reader = config if isinstance(given, tuple) else config.of_prompts() if config else None
        prompts = None
        if isinstance(given, tuple):
            given, second = given
            prompts = self._placed(second, reader, prompts=True)
        elif given is None and reader:
            read = self._session(reader, gather_logits)
            prompts = replace(self._placed(read.session, reader, prompts=True), reopen=read.reopen)
        opened = _Opened(given) if given else self._session(config, gather_logits)
        length = prompts.spec.static_length if prompts else config.context_length if config else None
        states = prompts.spec.states if prompts else ()
        graph = self._placed(
            opened.session, config, static_length=length, states=states, in_place=opened.in_place
        )
        graph = replace(graph, output_rows=opened.rows, reopen=opened.reopen)
        if self.cuda_graphs and graph.spec.padding is not Padding.SLOTS:
            raise ValueError(
                "cuda_graphs=True needs steps of one size, so a graph with GroupQueryAttention; the rows of "
                f"this one need the padding {graph.spec.padding.name}"
            )
        if self.cuda_graphs and graph.spec.states:
            names = ", ".join(repr(state.past) for state in graph.spec.states)
            raise ValueError(f"cuda_graphs=True: the graph's {names} are on the host between its steps")
        if prompts is None or graph.spec.padding is Padding.SLOTS:
            try:
                return self._probed(graph, config if given is None else None)
            except ValueError:
                if not graph.spec.in_place:
                    raise
                return self._replace(cache_in_place=False).graph(given, gather_logits=gather_logits)
        _check_pair(graph, prompts)
        if not graph.spec.one_token:
            try:
                return self._probed(graph, config if given is None else None)
            except ValueError:
                pass  # it cannot read a prompt without a past
        return self._probed(replace(graph, prompts=prompts), reader if given is None else None)

    def _session(self, config: ModelConfig | None, gather_logits: bool) -> _Opened:
        if config is None:
            raise ValueError("model must be a path, got None without a session")
        return _open(config, self, gather_logits)

    def _placed(self, session: SessionLike, config: ModelConfig | None, **options: Any) -> PlacedGraph:
        spec = GraphSpec.from_session(session, config, **options)
        vocab_size = spec.vocab_size or (config.vocab_size if config else None)
        if vocab_size is None:
            raise ValueError("neither the graph nor its configuration files say the vocabulary's size")
        limits = [config.context_length if config else None, spec.static_length]
        context_length = min((limit for limit in limits if limit is not None), default=None)
        if parse_device(self.device)[0] == "cuda" and spec.padding is Padding.SLOTS:
            _check_places(session, spec, self.cuda_graphs)
        return PlacedGraph(
            session,
            spec,
            vocab_size,
            context_length,
            *parse_device(self.device),
            stream=self.stream,
            cuda_graphs=self.cuda_graphs,
        )

    def _probed(self, graph: PlacedGraph, config: ModelConfig | None) -> PlacedGraph:
        """The graph, with facts from test runs: declared sizes may not say which positions have logits.

        If the rewritten graph fails, the graph that reads prompts is opened again from `config` as it is.
        """
        spec, reads = graph.spec, graph.prompts or graph
        # Exports with slots always give all logits.
        gives_all = spec.padding is Padding.SLOTS and not spec.in_place
        if not (gives_all or reads.spec.last_logits_only or reads.spec.one_token):
            try:
                run_two_tokens(CACHES[spec.padding](graph, 1))
            except (RuntimeError, MemoryError) as error:  # a hostile config may claim any vocabulary size
                if config is not None and reads.spec.gather:
                    opened = _open(config, self, gather_logits=False)
                    spec = replace(reads.spec, gather=None)
                    reads = replace(
                        reads, session=opened.session, spec=spec, output_rows=None, reopen=opened.reopen
                    )
                reads = replace(reads, spec=replace(reads.spec, last_logits_only=True))
                graph = replace(graph, prompts=reads) if graph.prompts else reads
                try:
                    run_two_tokens(CACHES[spec.padding](graph, 1))
                except (RuntimeError, MemoryError):
                    raise ValueError(str(error)) from error
        if spec.padding is Padding.RIGHT and not graph.spec.last_logits_only and graph.vocab_size > 1:
            try:
                check_causal(CACHES[spec.padding](graph, 2), graph.context_length)
            except RuntimeError as error:
                raise ValueError(str(error)) from error
        return graph


def _check_places(session: SessionLike, spec: GraphSpec, cuda_graphs: bool) -> None:
    """Raise ValueError if the operators that read a cache in slots do not run on the GPU.

    onnxruntime copies an input of a CPU operator when the input is bound. Slots and the inputs of captured
    steps are bound once and change afterwards, so the copies would be stale.
    """
    if not hasattr(session, "get_input_memory_infos"):  # an older onnxruntime
        return
    inputs = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
    elsewhere = {arg.name for arg, info in inputs if info.name == "Cpu"}
    cache = [tensor.past for tensor in spec.cache if tensor.past in elsewhere]
    if cache:
        raise ValueError(
            f"onnxruntime has no operator on the GPU that reads {cache[0]!r} ({spec.cache_type}): "
            "GroupQueryAttention needs float16 or bfloat16 there, as exports for GPUs have it"
        )
    if cuda_graphs and elsewhere:
        names = ", ".join(map(repr, sorted(elsewhere)))
        raise ValueError(
            f"cuda_graphs=True: the graph's {names} are read on the CPU, so its steps cannot be captured"
        )


def _check_pair(graph: PlacedGraph, prompts: PlacedGraph) -> None:
    """Raise ValueError unless both graphs of a pair have the same cache."""
    one, other = (
        [
            [(tensor.layer, tensor.kind) for tensor in spec.cache],
            spec.num_heads,
            spec.head_size,
            spec.cache_type,
        ]
        + [spec.static_length, placed.vocab_size]
        for placed in (graph, prompts)
        for spec in (placed.spec,)
    )
    if one != other:
        raise ValueError(
            "the graph that reads prompts gives another cache than the other one takes (layers, heads, head "
            f"size, type, fixed length, vocabulary): {other} and {one}"
        )


class _Opened(NamedTuple):
    """The session of a graph, and how the graph was rewritten.

    Attributes:
        session: the session.
        rows: the output matrix, if the graph also gives the hidden states that are multiplied with it.
        in_place: whether its attention was replaced.
        reopen: see `PlacedGraph`.
    """

    session: SessionLike
    rows: OutputRows | None = None
    in_place: bool = False
    reopen: Reopen | None = None


def _open(config: ModelConfig, opening: Opening, gather_logits: bool) -> _Opened:
    """Open the graph of a model, rewritten to compute logits at chosen positions where that is possible.

    On a CPU the graph also gives the hidden states before its output matrix, and its attention reads the
    cache in place, if `opening` wants that and trial runs give the same results.
    """
    flash = not (config.summary and config.summary.rounds_activations)
    how: dict[str, Any] = {
        "device": opening.device, "num_threads": opening.num_threads, "flash_attention": flash,
        "stream": opening.stream, "cuda_graphs": opening.cuda_graphs, "runtime": opening.runtime,
        "memory_pattern": _is_small(config),
    }  # fmt: skip
    for change in _changes(config, opening, gather_logits):
        try:
            session = open_session(config.graph, content=change.content, **how)
        except ValueError:
            if change.last:  # without the change, rows of a batch get the limits of the longest row
                raise
            continue  # the rewriting did not fit; the graph as it is comes last, and raises its own errors
        if not (change.gathers and has_own_switch(session)):
            reopen = functools.partial(_reopened, config, change.content, how)
            return _Opened(session, change.rows, change.in_place, reopen)
    reopen = functools.partial(_reopened, config, None, how)
    return _Opened(open_session(config.graph, **how), reopen=reopen)


def _is_small(config: ModelConfig) -> bool:
    """Whether arrays of a run take longer to be allocated one by one than in one piece.

    The plan of it is made once for each length and number of rows: 1.1 times as long for the embedded model,
    whose later runs of the same sizes take 0.86 of the time. A plan has some bytes for each array.
    """
    alone = config.summary is not None and not config.summary.external_files
    return alone and config.graph.stat().st_size < _SMALL


def _reopened(
    config: ModelConfig,
    content: bytes | None,
    how: Mapping[str, Any],
    weights: Mapping[str, NDArray[Any]],
    adapter_inputs: Collection[str],
) -> SessionLike:
    """A session of a graph with other weights, and with optional inputs for adapters beside projections.

    `content` is None for the graph as it is in its file.
    """
    if content is None:
        content = with_weights_outside(config.graph.read_bytes(), config.graph.name, LARGE_WEIGHT)
    if adapter_inputs:
        from lite.nn._lora.inputs import with_adapter_inputs  # loads all rules of operators

        content = with_adapter_inputs(content, adapter_inputs, config.graph.parent)
    return open_session(config.graph, content=content, weights=weights, **how)


class _Change(NamedTuple):
    """A rewritten graph: its bytes without large weights, and the attributes of `_Opened`.

    `last` says that the graph as it is must not be used instead, because its limits had to become inputs.
    """

    content: bytes
    rows: OutputRows | None = None
    in_place: bool = False
    gathers: bool = False
    last: bool = False


def _changes(config: ModelConfig, opening: Opening, gather_logits: bool) -> Iterator[_Change]:
    """Rewritten forms of a graph, the best first."""
    on_cpu = parse_device(opening.device)[0] == "cpu"
    in_place = on_cpu and opening.cache_in_place
    if not config.graph.is_file() or not config.graph.stat().st_size:
        return
    rows = None
    with open(config.graph, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as model:
        light = with_weights_outside(model, config.graph.name, LARGE_WEIGHT)
        nodes: Graph | None = read_graph(light)  # once, as it takes as long as all that is made of it
        if gather_logits and on_cpu:
            rows = output_rows(model, config.graph, light, nodes)
    limited = with_limits_as_inputs(light, nodes)
    if len(light) > MAX_MODEL_BYTES and limited is None:
        return
    if limited is not None:
        light, nodes = limited, None
    graphs = [_Change(light)]
    if in_place and (replaced := _with_cache_in_place(light, nodes, config, opening.runtime)) is not None:
        graphs.insert(0, _Change(replaced, in_place=True))
    for graph in graphs:
        if gather_logits:
            known = None if graph.in_place else nodes
            changed = gather_before_projection(graph.content, known, hidden_output=rows is not None)
            if changed is not None:
                yield graph._replace(content=changed, rows=rows, gathers=True)
        if graph.in_place:
            yield graph
    if limited is not None:
        yield _Change(limited, last=True)


def _with_cache_in_place(
    model: bytes, graph: Graph | None, config: ModelConfig, runtime: str
) -> bytes | None:
    """A model whose attention reads the cache in place; None unless trial runs give the same results."""
    if config.prompts is not None:  # a graph that continues a cache may be unable to read prompts
        return None
    replaced = replace_attention(model, query_heads(config), graph)
    if replaced is None:
        return None
    if all(tried(one, config.graph, config.context_length, runtime) for one in replaced.experiments):
        return replaced.model
    return None
