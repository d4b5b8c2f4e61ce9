"""One interface over every kind of decoder graph: rows of tokens to extend, fork, cut and score.

Longer than 600 lines, as it is one public class: half of it documents methods of a few lines each.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite._arrays.caller import warn
from lite.models.decoder.adapters import (
    AdaptersByName,
    AdapterSource,
    AdapterValues,
    GivenAdapter,
    adapter_values,
    fitted,
    read_adapters,
    without_inputs,
)
from lite.models.decoder.binding import PlacedGraph, Side
from lite.models.decoder.cache import MAX_TOKENS, KVCache, line_bytes, similar_lengths
from lite.models.decoder.conventions import Padding
from lite.models.decoder.device_logits import Logits, stacked
from lite.models.decoder.memory import give_back_freed
from lite.models.decoder.new_weights import checked_weights, same_in_other
from lite.models.decoder.opening import CACHES, Opening
from lite.models.decoder.recompute import MAX_LOGITS_BYTES
from lite.models.decoder.rereading import RereadingCache
from lite.models.decoder.scoring import score
from lite.models.decoder.slots import shares_prompts
from lite.models.decoder.states import States
from lite.models.graph.model_config import ModelConfig
from lite.models.graph.runtime import choose_runtime, parse_device
from lite.models.graph.session import SessionLike, runtime_of

LOGITS_BYTES = 64 * 2**20  # most logits one run may produce: longer inputs run in chunks with the cache
MAX_CHUNK = 512  # tokens per run: bounds the activations
ROWS_PER_RUN = 8  # rows of similar length that share a run where the graph gains from it
SLOTS_PER_RUN = 32  # the same of slots, which take no more memory for it
_FORKED = (
    "an OnnxDecoder does not survive fork (the threads of its session stay behind): make one in the child "
    "process, or start processes with 'spawn'"
)
_WHOLE = 2**31  # more tokens than any row has
_NONE_OF_ITS_OWN = object()

P = ParamSpec("P")
R = TypeVar("R")


def _in_turn(method: Callable[Concatenate[OnnxDecoder, P], R]) -> Callable[Concatenate[OnnxDecoder, P], R]:
    """Lock a decoder for one thread: buffers are bound by address, and a second run would free them."""

    @functools.wraps(method)
    def turn(self: OnnxDecoder, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if os.getpid() != self._process:
            raise RuntimeError(_FORKED)
        with self._turn:
            self._swap_adapter()
            return method(self, *args, **kwargs)

    return turn


class OnnxDecoder:
    """A causal language model exported to ONNX, with a key/value cache for a batch of rows.

    Rows, from 0, are independent of each other, and as many as are asked for. Threads take turns; `acquire`
    gives each caller rows of its own. Pickling keeps path and arguments: the copy opens the model again, its
    rows are empty. A forked process needs a decoder of its own.

    Args:
        model: directory of the exported model, or its `.onnx` file.
        device: "cpu", "cuda" or "cuda:N".
        batch_size: rows to have from the start.
        num_threads: threads inside one operator; default: the physical cores this process may use.
        gather_logits: compute only the needed logits of a prompt, where the graph can be changed so.
        cache_in_place: on a CPU, change graphs that copy the cache at each step to read it in place, if a
            trial gives the same. Guesses of several rows are then checked one by one, not all at once.
        variant: which of a directory's graphs, see `ModelConfig.from_directory`.
        adapters: LoRA adapters by name, for `adapter`: onnxruntime's files (`.onnx_adapter`), folders of
            `lite learn` or PEFT, or arrays as for `set_adapter`. The graph gets inputs for them if need be.
        cuda_graphs: on a GPU, replay steps as CUDA graphs: for models with GroupQueryAttention that run there
            as a whole. Logits of a step hold until the next one. No GPU has run this to its end yet.
        reread: where factors change beyond a length (Phi's `longrope`), compute a row's tokens again when it
            gets there, as transformers does; otherwise each keeps the factors that it was computed with.
        runtime: "onnxruntime"; "numpy", slower, without a GPU; None for LITE_RUNTIME of the environment, or
            onnxruntime where it is installed, and NumPy, with a warning, where it is not.
        session: for tests: open sessions in place of the graph (the one that reads prompts second), with a
            `ModelConfig` or None in place of a path.

    Raises:
        FileNotFoundError: there is no such directory, no graph in it, or no such adapter.
        TimeoutError: a run of two tokens, which is tried on opening, does not end.
        ValueError: the graph has no supported convention (the message lists both) or the runtime refuses it;
            `variant` is needed; an adapter does not fit; NumPy lacks an option.
        RuntimeError: no usable GPU or GPU build of onnxruntime; in methods, after a fork.
        ImportError: with `runtime="onnxruntime"`, without it.

    Example:
        >>> from lite.models import OnnxDecoder, embedded_model_path
        >>> OnnxDecoder(embedded_model_path()).score([10, 20, 30]).shape  # log-prob of each token
        (3,)
    """

    def __init__(
        self,
        model: str | Path | ModelConfig | None,
        *,
        device: str = "cpu",
        batch_size: int = 1,
        num_threads: int | None = None,
        gather_logits: bool = True,
        cache_in_place: bool = True,
        variant: str | None = None,
        adapters: Mapping[str, AdapterSource] | None = None,
        cuda_graphs: bool = False,
        reread: bool = True,
        runtime: str | None = None,
        session: SessionLike | tuple[SessionLike, SessionLike] | None = None,
    ) -> None:
        kind, _ = parse_device(device)
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self._made_of: dict[str, Any] = {
            "batch_size": batch_size,
            "num_threads": num_threads,
            "gather_logits": gather_logits,
            "cache_in_place": cache_in_place,
            "variant": variant,
            "adapters": {
                name: Path(source).absolute() if isinstance(source, str | Path) else source
                for name, source in (adapters or {}).items()
            },
            "cuda_graphs": cuda_graphs,
            "reread": reread,
            "runtime": runtime,
        }
        self._model, self._given_session = model, session is not None
        self.device = device
        if session is None:
            self.runtime = choose_runtime(runtime)
        elif runtime is not None:
            raise ValueError(f"runtime={runtime!r} is for a model that is opened, got a session")
        else:
            self.runtime = runtime_of(session[0] if isinstance(session, tuple) else session)
        if isinstance(model, (str, Path)):
            self.config: ModelConfig | None = ModelConfig.from_directory(model, variant=variant)
        else:
            self.config = model
        opening = Opening.on(
            self.config,
            device,
            num_threads,
            given=session is not None,
            cuda_graphs=cuda_graphs,
            cache_in_place=cache_in_place,
            runtime=self.runtime,
        )
        placed = opening.graph(session, gather_logits=gather_logits)
        give_back_freed()
        summary = self.config.summary if self.config and self.runtime == "onnxruntime" else None
        if kind == "cpu" and self.config and summary and summary.half_weights:
            warn(
                f"{self.config.graph.name} has float16 weights, which onnxruntime converts at every run on a "
                "CPU: a float32 or int4 (MatMulNBits) variant is faster there",
                UserWarning,
            )
        self._vocab_size = placed.vocab_size
        self._chosen: str | None = None  # the adapter that runs use, unless a thread has its own
        self._set_graph(placed)
        self._weights: dict[str, NDArray[Any]] = {}  # those that are not the file's
        self._adapter_inputs: tuple[str, ...] = ()  # the projections that have got some
        self._family: weakref.WeakSet[OnnxDecoder] = weakref.WeakSet([self])  # all on this session
        self._empty(batch_size)
        self._process = os.getpid()
        self._load_adapters(adapters or {})

    def _load_adapters(self, adapters: Mapping[str, AdapterSource]) -> None:
        """Set the adapters, adding inputs for projections that have none."""
        self._adapters: AdaptersByName = {}
        given = self.read_adapters(adapters)
        missing = without_inputs(given.values(), self._sessions)
        if missing and not self._given_session:
            with suppress(ValueError):  # they are of another model, which the next error says better
                self.add_adapter_inputs(missing)
        self._adapters = fitted(given, self._sessions)

    def read_adapters(self, adapters: Mapping[str, AdapterSource]) -> dict[str, GivenAdapter]:
        """Read adapters as the constructor takes them; nothing is set."""
        config = self.config
        if config is not None and self.spec.prompts:
            config = config.of_prompts()
        return read_adapters(adapters, config.graph if config else None)

    def _empty(self, rows: int) -> None:
        """Begin with that many rows, all empty."""
        self._of_threads: dict[int, str | None] = {}  # adapters of `with_adapter`
        self._adapter = self._chosen  # that of `_cache`: a thread swaps in its own when it has the turn
        self._cache: KVCache = self._new_cache(self._adapter, rows)
        self._others: dict[str | None, KVCache] = {}  # what rows hold of adapters that are not in use now
        self._held = np.zeros(rows, np.bool_)
        self._turn = threading.RLock()

    def sibling(self) -> OnnxDecoder:
        """A decoder with rows of its own on the same session, so with the same weights in memory.

        The two may run at the same time in different threads: runs of one session may overlap, while several
        sessions would each hold the weights as onnxruntime rearranges them. A run is computed by the thread
        that asked for it, helped by the session's own threads, `num_threads - 1` for both.

        Example:
            >>> from lite.models import OnnxDecoder, embedded_model_path
            >>> one = OnnxDecoder(embedded_model_path(), num_threads=1)
            >>> other = one.sibling()
            >>> other.session is one.session, other.prefill(0, [1, 2]).shape == (one.vocab_size,), one.lengths
            (True, True, array([0]))
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._empty(1)
        self._family.add(other)
        if self._placed.cuda_graphs:  # a capture would take what the other queues for a part of it
            other._turn = self._turn
        return other

    def __reduce__(self) -> Any:
        if self._given_session:
            raise TypeError(
                "session: a decoder of a given session cannot be pickled; give the path of the model instead."
            )
        model = self._model
        path = Path(model).absolute() if isinstance(model, str | Path) else model
        arguments = {**self._made_of, "device": self.device}
        learnt = self._weights, self._adapter_inputs, arguments.pop("adapters")
        return _reopened, (type(self), path, arguments, self._chosen, learnt)

    def update_weights_(self, weights: Mapping[str, ArrayLike]) -> None:
        """Run with other values of some weights from now on, as do all siblings.

        The session is opened again, from the graph in memory and these values; its files stay as they are.
        Runs of other threads use the old values until then. A pickle has the values that are not the files'.

        Args:
            weights: values by the names that the weights have in the graph's file, of their shapes; of a pair
                of graphs in the file of the one that reads prompts.

        Raises:
            ValueError: there is no such weight, or it has another shape.
            RuntimeError: rows hold tokens, which were read with the old values, or a session was given to the
                decoder. Nothing has changed then.

        Example:
            >>> import numpy as np
            >>> from lite import nn
            >>> from lite.models import OnnxDecoder, embedded_model_path
            >>> decoder = OnnxDecoder(embedded_model_path())
            >>> before = decoder.score([10, 20, 30])
            >>> norm = dict(nn.from_onnx(decoder.config.graph).named_parameters())["model.norm.weight"]
            >>> decoder.update_weights_({"model.norm.weight": 2 * norm.data})
            >>> bool((decoder.score([10, 20, 30])[1:] == before[1:]).any())
            False
        """
        if self.config is None or self._placed.reopen is None:
            raise RuntimeError(
                "only a model that was opened from its path takes other weights, not a session"
            )
        config, new = self.config, dict(self._weights)
        read = config.of_prompts() if config and self.spec.prompts else config
        if read is not None:
            new |= checked_weights(read.graph, weights)
        self._reopen(new, self._adapter_inputs)

    def add_adapter_inputs(self, names: Collection[str]) -> None:
        """Add optional inputs for adapters to projections, as `lite.nn.add_adapter_inputs` does.

        The session is opened again, from the graph in memory. Until `set_adapter` has given an adapter and
        `adapter` has chosen it, the model computes what it did. Siblings and pickles have the inputs, too.

        Args:
            names: names of projections, as the graph has them: those of `LoraModule.adapter_inputs` up to
                ``.lora_A.weight``. Those that have inputs by this method are left alone.

        Raises:
            ValueError: the graph has no such projection, or such an input of its own.
            RuntimeError: as for `update_weights_`.
        """
        wanted = tuple(sorted({*self._adapter_inputs, *names}))
        if wanted != self._adapter_inputs:
            self._reopen(self._weights, wanted)

    def _reopen(self, weights: dict[str, NDArray[Any]], adapter_inputs: tuple[str, ...]) -> None:
        prompts, config, own = self._placed.prompts, self.config, weights
        if prompts is not None:
            read = config.of_prompts() if config else None
            if weights and read is not None and config is not None:
                there = same_in_other(read.graph, config.graph, weights)
                own = {name: weights[known] for name, known in there.items()}
            prompts = prompts.reopened(weights, adapter_inputs)
        placed = replace(self._placed.reopened(own, adapter_inputs), prompts=prompts)
        with self._all_turns() as family:
            if any(decoder.lengths.any() for decoder in family):
                raise RuntimeError(
                    "rows hold tokens that were read with the old weights: end or close streams, reset or "
                    "release rows"
                )
            for decoder in family:
                decoder._weights, decoder._adapter_inputs = weights, adapter_inputs
                decoder._set_graph(placed)
                decoder._cache, decoder._others = decoder._new_cache(decoder._adapter, decoder.num_rows), {}
        give_back_freed()

    @contextmanager
    def _all_turns(self) -> Iterator[list[OnnxDecoder]]:
        """Stop this decoder and its siblings between two runs; gives all of them."""
        with ExitStack() as turns:
            family = sorted(self._family, key=id)  # one order, so that no two updates wait for each other
            for decoder in family:
                turns.enter_context(decoder._turn)
            yield family

    def _set_graph(self, placed: PlacedGraph) -> None:
        """Run a graph from now on."""
        self._placed, self.session = placed, placed.session
        self.spec = spec = replace(placed.spec, prompts=placed.prompts.spec if placed.prompts else None)
        self._token_bytes = len(spec.cache) * line_bytes(spec, 1) if spec.cache else 0
        self._sessions = [placed.session] + ([placed.prompts.session] if placed.prompts else [])

    @property
    def vocab_size(self) -> int:
        """Number of token ids, the width of the logits."""
        return self._vocab_size

    @property
    def context_length(self) -> int | None:
        """Most tokens a row may hold, or None if neither the model's files nor the graph say."""
        return self._placed.context_length

    @property
    def adapters(self) -> tuple[str, ...]:
        """The names of the adapters that there are."""
        return tuple(self._adapters)

    @property
    def adapter(self) -> str | None:
        """The LoRA adapter that runs use, by its name in `adapters`; None for the model as it is.

        Setting it chooses for all threads but those in a block of `with_adapter`. Rows keep what they hold,
        and go on only under the adapter they began with.

        Raises:
            ValueError: when set to a name that is not in `adapters`.
        """
        return self._of_threads.get(threading.get_ident(), self._chosen)

    @adapter.setter
    def adapter(self, name: str | None) -> None:
        self._use_adapter(name)

    @contextmanager
    def with_adapter(self, name: str | None) -> Iterator[None]:
        """Run with an adapter in this thread until the end of the block; other threads use their own.

        A wrapper runs so with its `adapter`. What `stream` and `generate_each` begin within the block keeps
        the adapter, wherever its steps are taken.

        Raises:
            ValueError: there is no adapter of that name.

        Example:
            >>> from lite.models import GenerationConfig, OnnxDecoder, embedded_model_path, stream
            >>> decoder = OnnxDecoder(embedded_model_path())
            >>> with decoder.with_adapter(None):
            ...     steps = stream(decoder, [[10, 20]], GenerationConfig(max_new_tokens=3))
            >>> len(list(steps))
            3
        """
        self._require_adapter(name)
        thread = threading.get_ident()
        before = self._of_threads.get(thread, _NONE_OF_ITS_OWN)
        try:
            self._of_threads[thread] = name
            yield
        finally:
            if before is _NONE_OF_ITS_OWN:
                self._of_threads.pop(thread, None)
            else:
                self._of_threads[thread] = before  # type: ignore[assignment]

    @property
    def adapter_version(self) -> int:
        """How often `set_adapter` replaced the values of the adapter in use; 0 without one."""
        name = self.adapter
        return 0 if name is None else self._adapters[name][0].version

    def set_adapter(self, name: str, values: AdapterSource) -> None:
        """Give an adapter new values, or add one, while the model stays open.

        Runs that begin afterwards use them, of this decoder and its siblings; one that is under way ends with
        the old ones. What rows hold by then was computed with these, and they go on from there (so do the
        responses that `generate` is writing): `reset` the rows of an adapter that is to restart. A
        `PrefixCache` uses no row of older values. Pickles have the new values.

        Args:
            name: name of the adapter; it is not chosen by this (see `adapter`).
            values: arrays by the names of the graph's optional inputs, copied, or a file or folder, as for
                the constructor; of an adapter that there is, all that it has. The rank may be another one.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the graph has no such input, or it takes another type or shape; values of the adapter
                are missing.
            NotImplementedError: to replace values with `cuda_graphs`, which has captured the old ones.

        Example:
            >>> import numpy as np, tempfile
            >>> from lite import nn
            >>> from lite.models import OnnxDecoder, embedded_model_path
            >>> graph = embedded_model_path() / "model.onnx"
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     decoder = OnnxDecoder(nn.add_adapter_inputs(graph, f"{folder}/model.onnx"))
            >>> net = nn.lora(nn.from_onnx(graph, trainable=False), rng=0)
            >>> decoder.set_adapter("mine", net.adapter_inputs())
            >>> decoder.adapter = "mine"
        """
        given = self.read_adapters({name: values})[name]
        found = adapter_values(given.place, given.values, self._sessions, cast=given.cast)
        held = self._adapters.get(name)
        if held is not None:
            missing = {key for one in held for key in one.values} - given.values.keys()
            if missing:
                raise ValueError(f"adapter {name!r} has values of {sorted(missing)}, too: give all of them")
            if self._made_of["cuda_graphs"]:
                raise NotImplementedError("cuda_graphs=True: captured steps have the adapter's old values")
            for one, new in zip(held, found, strict=True):
                one.replace(new)
        else:
            self._adapters[name] = list(map(AdapterValues, found))
        arrays = {key: array for new in found for key, (array, _) in new.items()}
        self._made_of["adapters"][name] = arrays

    def delete_adapter(self, name: str) -> None:
        """Forget an adapter, so that its memory is free; siblings forget it, too.

        Raises:
            ValueError: there is no adapter of that name.
            RuntimeError: it is chosen, or rows hold tokens that were read under it. Nothing has changed then.

        Source:
            peft.PeftModel.delete_adapter.

        Example:
            >>> from lite import nn
            >>> from lite.models import OnnxDecoder, embedded_model_path
            >>> net = nn.lora(nn.from_onnx(embedded_model_path() / "model.onnx", trainable=False), rng=0)
            >>> decoder = OnnxDecoder(embedded_model_path())
            >>> decoder.add_adapter_inputs({key.split(".lora_")[0] for key in net.adapter_inputs()})
            >>> decoder.set_adapter("mine", net.adapter_inputs())
            >>> decoder.delete_adapter("mine")
            >>> decoder.adapters
            ()
        """
        with self._all_turns() as family:
            if name not in self._adapters:
                known = ", ".join(map(repr, self._adapters)) or "there are none"
                raise ValueError(f"name must be one of the decoder's adapters ({known}), got {name!r}")
            if any(name in (decoder._chosen, *decoder._of_threads.values()) for decoder in family):
                raise RuntimeError(f"adapter {name!r} is in use: choose another one before it is deleted")
            for decoder in family:
                decoder._swap_adapter()
                if name in decoder._others:
                    raise RuntimeError(
                        f"rows hold tokens that were read under adapter {name!r}: end or close streams, "
                        "reset or release rows, clear prefix caches"
                    )
            del self._adapters[name]
            self._made_of["adapters"].pop(name, None)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens in each row, (rows,)."""
        lengths = self._cache.lengths.copy()
        for cache in self._others.values():
            lengths[: len(cache.lengths)] += cache.lengths
        return lengths

    @property
    def num_rows(self) -> int:
        """Rows there are."""
        return len(self._held)

    @property
    def cache_bytes(self) -> int:
        """Bytes that the key/value cache takes; 0 for a graph without one."""
        return sum(cache.nbytes for cache in self._caches())

    @property
    def bytes_per_token(self) -> int:
        """Bytes of keys and values that each token takes in its row; 0 for a graph without a cache.

        Graphs that concatenate (every padding but `Padding.SLOTS`) have two sets of buffers, so that rows
        take twice as much while they run.
        """
        return self._token_bytes

    @property
    def rows_per_run(self) -> int:
        """The number of empty rows that `extend` runs fastest together."""
        if not self.spec.cache or self._reads_whole:  # of long rows, as `chunk_length` lets each be one chunk
            return max(1, min(ROWS_PER_RUN, MAX_LOGITS_BYTES // (4 * self._vocab_size * MAX_CHUNK)))
        if self.spec.padding is Padding.SLOTS:
            return SLOTS_PER_RUN if shares_prompts(self._placed) else 1
        return 1 if self.spec.one_row else ROWS_PER_RUN

    @property
    def continues_together(self) -> bool:
        """Whether rows that hold something share the runs of `extend`, too."""
        return self.rows_per_run > 1 and self.spec.padding is not Padding.SLOTS

    def prefill(self, row: int, ids: ArrayLike) -> NDArray[np.float32]:
        """Reset `row` with a prompt.

        Args:
            row: which row; rows are added if there are fewer.
            ids: the prompt's tokens, integers (L,), at least one.

        Returns:
            Logits of the token after the prompt, float32 (V,).

        Raises:
            ValueError: if the prompt is empty, longer than the model's context, or holds ids outside the
                vocabulary. The row is as before then.
        """
        return np.asarray(self.prefill_rows([row], [ids]))[0]

    @_in_turn
    def prefill_rows(self, rows: Sequence[int], prompts: Sequence[ArrayLike]) -> Logits:
        """`prefill` for several rows, in as few runs as possible; logits (n, V), which stay on a GPU."""
        return self._last_logits(*self._begun(rows, prompts))

    @_in_turn
    def prefill_chosen(
        self, rows: Sequence[int], prompts: Sequence[ArrayLike], tokens: Sequence[NDArray[np.int64]]
    ) -> list[NDArray[np.float32]]:
        """`prefill_rows`, for the logits of a few tokens of each row alone.

        Where the graph ends in a product with a float32 matrix of its file (and reads prompts itself), only
        these tokens' vectors of that matrix are read and multiplied; elsewhere all logits are computed.

        Args:
            rows, prompts: as for `prefill_rows`.
            tokens: ids whose logits are wanted, int64 (n_i,) for each row.

        Returns:
            Logits, float32 (n_i,) for each row.
        """
        matrix = self._placed.output_rows
        if matrix is None or self._placed.prompts is not None or matrix.count != self._vocab_size:
            logits = np.asarray(self.prefill_rows(rows, prompts))
            return [row[ids] for row, ids in zip(logits, tokens, strict=True)]
        at, checked = self._begun(rows, prompts)
        hidden = self._extend(at, checked, last=True, hidden=True) if at else []
        return [matrix.times(np.asarray(row)[-1], ids) for row, ids in zip(hidden, tokens, strict=True)]

    @_in_turn
    def continue_rows(self, rows: Sequence[int], ids: Sequence[ArrayLike]) -> Logits:
        """Append tokens to rows, as `prefill_rows` to empty ones; returns the logits after each, (n, V)."""
        return self._last_logits(*self._appended(rows, ids))

    @_in_turn
    def decode(self, tokens: ArrayLike, rows: Sequence[int] | None = None) -> NDArray[np.float32]:
        """Append one token to each row, all rows in one run.

        Args:
            tokens: integers (n,).
            rows: which rows, n different ones; default: the first n.

        Returns:
            Logits of the tokens that follow, float32 (n, V).

        Raises:
            ValueError: for ids outside the vocabulary, the wrong number of tokens, or a row whose context
                is full.
        """
        ids = np.asarray(tokens)
        if ids.ndim != 1:
            raise ValueError(f"tokens must have one dimension, got shape {ids.shape}")
        at = self._rows(range(len(ids)) if rows is None else rows)
        if len(at) != len(ids):
            raise ValueError(f"tokens must have one entry per row, got {len(ids)} for {len(at)} rows")
        if not at:
            return np.empty((0, self._vocab_size), np.float32)
        checked = self._checked(ids, 0, limit=False)
        self._check_adapter(at)
        self._check_room(at)
        return np.array(self._cache.step(at, checked), np.float32)

    def decode_unchecked(self, tokens: NDArray[np.int64], rows: list[int]) -> Logits:
        """`decode` without its checks, for a loop that knows its rows, tokens and lengths to be right.

        The logits stay as they are until the next step of the same rows, which may write into the same array.
        On a GPU they stay there (`__cuda_array_interface__`), for `np.asarray` to copy.
        """
        if os.getpid() != self._process:
            raise RuntimeError(_FORKED)
        with self._turn:  # as `_in_turn` does, whose two calls more are felt here
            self._swap_adapter()
            if self._others:
                self._check_adapter(rows)
            return self._cache.step(rows, tokens)

    @_in_turn
    def extend(self, rows: Sequence[int], ids: Sequence[ArrayLike]) -> list[Logits]:
        """Append tokens to rows and return the logits after each of them, one float32 (L_i, V) per row.

        All of it is held at once: give chunks of at most `chunk_length` tokens. On a GPU it stays there.
        """
        at, checked = self._appended(rows, ids)
        return self._extend(at, checked, last=False) if at else []

    def _appended(
        self, rows: Sequence[int], ids: Sequence[ArrayLike]
    ) -> tuple[list[int], list[NDArray[np.int64]]]:
        """Rows that exist and tokens that may follow in them; raises for others."""
        at = self._rows(rows)
        if len(at) != len(ids):
            raise ValueError(f"ids must have one entry per row, got {len(ids)} for {len(at)} rows")
        self._check_adapter(at)
        lengths = self._cache.lengths
        return at, [self._checked(new, int(lengths[row])) for row, new in zip(at, ids, strict=True)]

    def score(self, ids: ArrayLike, positions: ArrayLike | None = None) -> NDArray[np.float32]:
        """Log-probs of given tokens, each given those before it; other rows are left alone.

        Args:
            ids: tokens, integers (L,).
            positions: positions whose log-prob is wanted; default: all.

        Returns:
            float32 (len(positions),); position 0 has nothing before it and gives 0.
        """
        scores = score(self, [np.asarray(ids)])[0]
        return scores if positions is None else scores[np.asarray(positions)]

    @_in_turn
    def fork(self, source: int, target: int) -> None:
        """Make row `target` a copy of row `source`. Rows are added if there are fewer."""
        (source,) = self._rows([source])
        (target,) = self._rows([target], grow=True)
        if source != target:
            self._check_adapter([source])
            self._forget(target)
            self._cache.fork(source, target)

    @_in_turn
    def truncate(self, row: int, length: int) -> None:
        """Forget all but the first `length` tokens of `row`. Raises ValueError if it holds fewer."""
        (row,) = self._rows([row])
        held = int(self.lengths[row])
        if not 0 <= length <= held:
            raise ValueError(f"length must be between 0 and the row's {held} tokens, got {length}")
        if not length:
            self._forget(row)
        for cache in self._caches():
            if row < len(cache.lengths) and cache.lengths[row]:
                cache.truncate(row, length)

    def reset(self, row: int) -> None:
        """Empty `row`."""
        self.truncate(row, 0)

    @_in_turn
    def settle(self, row: int) -> int:
        """Shrink the memory of an idle row to what its tokens need; returns its bytes.

        In a cache of fixed length every row takes that length.
        """
        (row,) = self._rows([row])
        self._check_adapter([row])
        self._cache.settle(row)
        length = int(self._cache.lengths[row])
        return self.bytes_per_token * (self.spec.static_length or length if length else 0)

    @_in_turn
    def reserve(self, length: int, rows: int = 1) -> None:
        """Expect `rows` rows of up to `length` tokens, so that the cache is allocated once, not in steps.

        Holds until rows taken with `acquire` have all been released.
        """
        limit = self.context_length
        self._cache.reserve(max(0, length if limit is None else min(length, limit)), max(0, rows))

    @_in_turn
    def acquire(self, count: int) -> list[int]:
        """Reserve `count` empty rows, adding rows as needed; `release` returns them."""
        free: list[int] = (~self._held & (self.lengths == 0)).nonzero()[0].tolist()
        free = [*free, *range(len(self._held), len(self._held) + count - len(free))][:count]
        self._grow(max(free, default=-1) + 1)
        self._held[free] = True
        return free

    @_in_turn
    def release(self, rows: Sequence[int]) -> None:
        """Empty rows taken with `acquire` and let others have them."""
        for row in rows:
            self._forget(row)
            self._held[row] = False
        if not self._held.any():
            self._cache.reserve(0, 0)

    def check_ids(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Return `ids` as int64 (L,), or raise the ValueError that `prefill` would."""
        return self._checked(ids, 0)

    def chunk_length(self, rows: int = 1) -> int:
        """Tokens per row for which the logits of `rows` rows stay within the memory budget of one run."""
        if self._reads_whole:
            return _WHOLE if self.spec.prompts and not self.spec.prompts.last_logits_only else 1
        if self.spec.last_logits_only or self.spec.one_token:
            return 1
        if not self.spec.cache:  # each chunk runs all before it again, so there should be few
            budget = MAX_LOGITS_BYTES // (4 * self._vocab_size * max(1, rows))
            return max(1, budget) if self.spec.gather else _WHOLE
        return max(1, min(MAX_CHUNK, LOGITS_BYTES // (4 * self._vocab_size * max(1, rows))))

    @property
    def _reads_whole(self) -> bool:
        """Whether a graph of its own reads prompts, whole, and all else goes token by token."""
        return self.spec.prompts is not None and self.spec.one_token

    def _last_logits(self, rows: list[int], ids: list[NDArray[np.int64]]) -> Logits:
        """Append tokens to rows; the logits after each row's last, (n, V)."""
        if not rows:
            return np.empty((0, self._vocab_size), np.float32)
        return stacked([logits[-1:] for logits in self._extend(rows, ids, last=True)])

    def _extend(
        self, rows: list[int], ids: list[NDArray[np.int64]], *, last: bool, hidden: bool = False
    ) -> list[Logits]:
        if isinstance(self._cache, RereadingCache):  # has to know how long a text is before it reads a chunk
            return self._cache.extend(rows, ids, last=last, hidden=hidden)
        return self._read(self._cache, rows, ids, last=last, hidden=hidden)

    def _read(
        self, cache: KVCache, rows: list[int], ids: list[NDArray[np.int64]], *, last: bool,
        hidden: bool = False,
    ) -> list[Logits]:  # fmt: skip
        if self.spec.padding in (Padding.SLOTS, Padding.RIGHT):  # these say themselves which rows share a run
            return _in_chunks(cache, rows, ids, last, hidden, self._chunk(len(rows), last))
        out: list[Logits] = [np.empty(0, np.float32)] * len(rows)
        for group, whole in self._alike(cache, rows):
            bound = _WHOLE if whole else MAX_CHUNK
            most = functools.partial(_rows_of, bound)
            waves = similar_lengths([len(ids[i]) for i in group], most)
            for wave in waves:
                places = [group[i] for i in wave]
                chunk = _WHOLE if whole and last else self._chunk(len(wave), last)
                if self._reads_whole and not whole:
                    chunk = 1
                chosen = [rows[i] for i in places], [ids[i] for i in places]
                logits = _in_chunks(cache, *chosen, last, hidden, chunk)
                for i, row_logits in zip(places, logits, strict=True):
                    out[i] = row_logits
        return out

    def _begun(
        self, rows: Sequence[int], prompts: Sequence[ArrayLike]
    ) -> tuple[list[int], list[NDArray[np.int64]]]:
        """Rows, emptied, and what they are to begin with, checked."""
        if len(rows) != len(prompts):
            raise ValueError(f"prompts must have one entry per row, got {len(prompts)} for {len(rows)} rows")
        checked = [self._checked(ids, 0) for ids in prompts]
        at = self._rows(rows, grow=True)
        for row in at:
            self._forget(row)
        return at, checked

    def _alike(self, cache: KVCache, rows: list[int]) -> Iterator[tuple[list[int], bool]]:
        """Places in `rows` that may share runs, and whether a graph of its own reads their tokens at once."""
        if not self._reads_whole:
            yield list(range(len(rows))), False
            return
        empty = cache.lengths[rows] == 0
        for whole in (True, False):
            if (empty == whole).any():
                yield np.flatnonzero(empty == whole).tolist(), whole

    def _chunk(self, rows: int, last: bool) -> int:
        """Tokens of a row per run."""
        spec = self.spec
        if last and not spec.cache:
            return _WHOLE
        if last and not spec.one_token and (spec.keep or spec.gather or spec.last_logits_only):
            return MAX_CHUNK
        return self.chunk_length(rows)

    def _checked(self, ids: ArrayLike, past: int, *, limit: bool = True) -> NDArray[np.int64]:
        array = np.asarray(ids)
        if array.ndim != 1:
            raise ValueError(f"ids must have one dimension, got shape {array.shape}")
        if array.size == 0:
            raise ValueError("ids must hold at least one token, got an empty prompt")
        if array.dtype.kind not in "iu":
            raise ValueError(f"ids must be integers, got {array.dtype}")
        most = self._placed.context_length if limit else None
        if most is not None and past + array.size > most:
            has = f"{array.size} tokens after {past}" if past else f"a prompt of {array.size} tokens"
            raise ValueError(f"ids: {has} is longer than the model's context of {most}")
        checked = array.astype(np.int64, copy=False)
        if np.maximum.reduce(checked.view(np.uint64)) >= self._vocab_size:  # those below 0, too
            bad = int(array.min()) if array.min() < 0 else int(array.max())
            raise ValueError(f"ids must be between 0 and {self._vocab_size - 1} (the vocabulary), got {bad}")
        return checked

    def _check_room(self, rows: Sequence[int]) -> None:
        """Raise ValueError unless each row has room for one more token."""
        longest = int(self._cache.lengths[list(rows)].max()) + 1
        if self.context_length is not None and longest > self.context_length:
            raise ValueError(
                f"a row would hold {longest} tokens, the model's context is {self.context_length}"
            )

    def _rows(self, rows: Sequence[int], *, grow: bool = False) -> list[int]:
        at = [int(row) for row in rows]
        if len(set(at)) != len(at):
            raise ValueError(f"rows must be different, got {at}")
        last = max(at, default=-1)
        if (at and min(at) < 0) or (last >= len(self._held) and not grow):
            raise IndexError(f"rows must be between 0 and {self.num_rows - 1}, got {at}")
        if grow:
            self._grow(last + 1)
        return at

    def _caches(self) -> list[KVCache]:
        return [self._cache, *self._others.values()]

    def _forget(self, row: int) -> None:
        self._cache.truncate(row, 0)
        if self._others:
            for cache in self._others.values():
                if row < len(cache.lengths):
                    cache.truncate(row, 0)
            self._others = {name: cache for name, cache in self._others.items() if cache.lengths.any()}

    @_in_turn
    def _use_adapter(self, name: str | None) -> None:
        self._require_adapter(name)
        self._chosen = name
        self._swap_adapter()

    def _require_adapter(self, name: str | None) -> None:
        if name is not None and name not in self._adapters:
            known = ", ".join(map(repr, self._adapters)) or "none was given"
            raise ValueError(f"adapter must be None or one of the decoder's adapters ({known}), got {name!r}")

    def _swap_adapter(self) -> None:
        """Go on with the rows of this thread's adapter; it has the turn."""
        name = self.adapter if self._of_threads else self._chosen
        if name == self._adapter:
            return
        rows, others = self.num_rows, dict(self._others)  # a copy, as `lengths` may walk through it meanwhile
        cache = others.pop(name, None)
        if cache is None:
            cache = self._new_cache(name, rows)
        cache.resize(rows)
        if self._cache.lengths.any():  # an empty one is not kept, as its buffers may be large
            others[self._adapter] = self._cache
        self._adapter, self._cache, self._others = name, cache, others

    def _new_cache(self, adapter: str | None, rows: int) -> KVCache:
        graph, make, spec = self._adapted(adapter), CACHES[self.spec.padding], self.spec
        if not (spec.limits or spec.states):
            return make(graph, rows)
        side, states = Side(), States(spec.states, rows) if spec.states else None
        prompts = replace(graph.prompts, side=side, states=states) if graph.prompts else None
        cache = make(replace(graph, side=side, states=states, prompts=prompts), rows)
        limits = [limit for _, limit in spec.limits]
        reread = bool(self._made_of["reread"])
        return RereadingCache(cache, side, limits, self._read, reread=reread, states=states)

    def _adapted(self, name: str | None) -> PlacedGraph:
        """The graph with an adapter's values for its optional inputs."""
        if name is None:
            return self._placed
        first, *second = self._adapters[name]
        prompts = self._placed.prompts
        if prompts is not None:
            prompts = replace(prompts, adapter=second[0])
        return replace(self._placed, prompts=prompts, adapter=first)

    def _check_adapter(self, rows: Sequence[int]) -> None:
        """Raise unless the content of the rows was computed with the adapter in use."""
        for name, cache in self._others.items():
            for row in rows:
                if row < len(cache.lengths) and cache.lengths[row]:
                    raise ValueError(
                        f"row {row} holds tokens computed with adapter {name!r}, and the decoder's adapter "
                        f"is {self._adapter!r}: set decoder.adapter, or reset the row"
                    )

    def _grow(self, rows: int) -> None:
        if rows > len(self._held):
            self._cache.resize(rows)
            self._held = np.concatenate([self._held, np.zeros(rows - len(self._held), np.bool_)])


def _reopened(
    kind: type[OnnxDecoder], model: Any, arguments: dict[str, Any], adapter: str | None, learnt: Any
) -> OnnxDecoder:
    weights, adapter_inputs, adapters = learnt
    decoder = kind(model, **arguments)
    if weights or adapter_inputs:
        decoder._reopen(weights, adapter_inputs)
    decoder._load_adapters(adapters)
    decoder._made_of["adapters"] = adapters
    decoder.adapter = adapter
    return decoder


def _in_chunks(
    cache: KVCache, rows: list[int], ids: list[NDArray[np.int64]], last: bool, hidden: bool, chunk: int
) -> list[Logits]:
    out: list[list[Logits]] = [[] for _ in rows]
    for start in range(0, max(map(len, ids)), chunk):
        live = [i for i, new in enumerate(ids) if len(new) > start]
        pieces = [ids[i][start : start + chunk] for i in live]
        logits = cache.extend([rows[i] for i in live], pieces, last=last, hidden=hidden)
        for i, part in zip(live, logits, strict=True):
            out[i] = [part] if last else [*out[i], part]
    return [parts[0] if len(parts) == 1 else stacked(parts) for parts in out]


def _rows_of(bound: int, longest: int) -> int:
    """Rows of at most `longest` tokens that share a run, which takes at most `bound` of each."""
    return MAX_TOKENS // min(longest, bound)
