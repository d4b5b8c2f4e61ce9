"""One interface over every kind of decoder graph: rows of tokens to extend, fork, cut and score."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.models.decoder.binding import PlacedGraph
from lite.models.decoder.blocks import BlockCache
from lite.models.decoder.cache import MAX_TOKENS, KVCache, line_bytes, similar_lengths
from lite.models.decoder.conventions import GraphSpec, Padding, has_own_switch
from lite.models.decoder.gather_logits import MAX_MODEL_BYTES, gather_before_projection
from lite.models.decoder.probe import check_causal, run_two_tokens
from lite.models.decoder.recompute import MAX_LOGITS_BYTES, RecomputeCache
from lite.models.decoder.scoring import score
from lite.models.decoder.slots import SlotCache
from lite.models.graph.model_config import ModelConfig
from lite.models.graph.session import SessionLike, open_session, parse_device

LOGITS_BYTES = 64 * 2**20  # most logits one run may produce: longer inputs run in chunks with the cache
MAX_CHUNK = 512  # tokens per run: bounds the activations
ROWS_PER_RUN = 8  # rows of similar length that share a run where the graph gains from it
_FORKED = (
    "an OnnxDecoder does not survive fork (the threads of its session stay behind): make one in the child "
    "process, or start processes with 'spawn'"
)
_WHOLE = 2**31  # more tokens than any row has

_CACHES: dict[Padding, Callable[[PlacedGraph, int], KVCache]] = {
    Padding.SLOTS: SlotCache,
    Padding.LEFT: BlockCache,
    Padding.EQUAL: BlockCache,
    Padding.RIGHT: RecomputeCache,
}

P = ParamSpec("P")
R = TypeVar("R")


def _in_turn(method: Callable[Concatenate[OnnxDecoder, P], R]) -> Callable[Concatenate[OnnxDecoder, P], R]:
    """Let one thread at a time into a decoder: buffers are bound by address, and a second run frees them."""

    @functools.wraps(method)
    def turn(self: OnnxDecoder, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if os.getpid() != self._process:
            raise RuntimeError(_FORKED)
        with self._turn:
            return method(self, *args, **kwargs)

    return turn


class OnnxDecoder:
    """A causal language model exported to ONNX, with a key/value cache for a batch of rows.

    Rows are numbered from 0 and independent: each has its own tokens and length, and its results do not
    depend on the others. There are as many as are asked for; memory grows when it has to. Any thread may call
    any method: they take turns, and `acquire` gives each caller rows of its own, so that `generate` and
    `score` may run in several threads. A process made by `fork` needs a decoder of its own. Pickling keeps
    path and arguments: what is unpickled has opened the model again, and its rows are empty.

    Args:
        model: directory of the exported model, or its `.onnx` file.
        device: `"cpu"`, `"cuda"` or `"cuda:N"`.
        batch_size: rows to have from the start.
        num_threads: threads inside one operator; default: the physical cores this process may use.
        gather_logits: compute the logits of a prompt where they are needed only, by a change to the graph in
            memory; where the graph's form does not allow it, it is used as it is.
        session: a session to use instead of opening one, and a `ModelConfig` (or None) instead of a path;
            for tests.

    Attributes:
        spec: the graph's convention, a `GraphSpec`.
        config: what the directory says, a `ModelConfig`, or None.
        device: as given.

    Raises:
        FileNotFoundError: if there is no such directory or no graph in it.
        TimeoutError: a run of two tokens, which is tried on opening, does not end.
        ValueError: if the graph follows no supported convention (the message lists what it has and what is
            supported), or onnxruntime refuses it.
        RuntimeError: for `device="cuda"` without a usable GPU or GPU build of onnxruntime; from every method
            that runs the model, in a process forked after the decoder was made.
        ImportError: without onnxruntime.

    Example:
        >>> from lite.models import OnnxDecoder, embedded_model_path
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> logits = decoder.prefill(0, [10, 20, 30])  # of the token that follows these three
        >>> logits.shape == (decoder.vocab_size,)
        True
        >>> decoder.fork(0, 1)  # row 1 continues from the same three tokens
        >>> decoder.decode([int(logits.argmax()), 40]).shape == (2, decoder.vocab_size)
        True
        >>> decoder.lengths
        array([4, 4])
        >>> decoder.score([10, 20, 30]).shape  # log-prob of each token given those before it
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
        session: SessionLike | None = None,
    ) -> None:
        kind, index = parse_device(device)
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self._made_of = model, batch_size, num_threads, gather_logits, session
        self.device = device
        self.config = ModelConfig.from_directory(model) if isinstance(model, (str, Path)) else model
        plain: Callable[[], SessionLike] | None = None
        if session is None:
            if self.config is None:
                raise ValueError("model must be a path, got None without a session")
            session = _open(self.config, device, num_threads, gather_logits)
            plain = functools.partial(_open, self.config, device, num_threads, gather_logits=False)
        placed = self._probed(self._placed(session, kind, index), plain)
        self.session, self.spec, self._vocab_size = placed.session, placed.spec, placed.vocab_size
        self._placed_graph = placed
        self._empty(batch_size)
        self._process = os.getpid()

    def _empty(self, rows: int) -> None:
        """Begin with that many rows, all empty."""
        self._cache: KVCache = _CACHES[self.spec.padding](self._placed_graph, rows)
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
        return other

    def __reduce__(self) -> Any:
        model, *options, session = self._made_of
        if session is not None:
            raise TypeError(
                "session: a decoder of a given session cannot be pickled; give the path of the model instead."
            )
        path = Path(model).absolute() if isinstance(model, str | Path) else model
        return _reopened, (type(self), path, self.device, *options)

    def _placed(self, session: SessionLike, kind: str, index: int) -> PlacedGraph:
        spec = GraphSpec.from_session(session, self.config)
        vocab_size = spec.vocab_size or (self.config.vocab_size if self.config else None)
        if vocab_size is None:
            raise ValueError("neither the graph nor its configuration files say the vocabulary's size")
        return PlacedGraph(session, spec, vocab_size, self.context_length, kind, index)

    def _probed(self, graph: PlacedGraph, plain: Callable[[], SessionLike] | None) -> PlacedGraph:
        """The graph as its runs show it: of which positions it gives logits its sizes need not say.

        `plain` opens it without the change that gathers logits.
        """
        spec = graph.spec
        if not (spec.padding is Padding.SLOTS or spec.last_logits_only or spec.one_token):
            try:
                run_two_tokens(_CACHES[spec.padding](graph, 1))
            except (RuntimeError, MemoryError) as error:  # its files may claim any vocabulary
                if plain is not None and spec.gather:
                    graph = self._placed(plain(), graph.device, graph.index)
                graph = replace(graph, spec=replace(graph.spec, last_logits_only=True))
                try:
                    run_two_tokens(_CACHES[spec.padding](graph, 1))
                except (RuntimeError, MemoryError):
                    raise ValueError(str(error)) from error
        if spec.padding is Padding.RIGHT and not graph.spec.last_logits_only and graph.vocab_size > 1:
            try:
                check_causal(_CACHES[spec.padding](graph, 2), self.context_length)
            except RuntimeError as error:
                raise ValueError(str(error)) from error
        return graph

    @property
    def vocab_size(self) -> int:
        """Number of token ids, the width of the logits."""
        return self._vocab_size

    @property
    def context_length(self) -> int | None:
        """Most tokens a row may hold, or None if the model's files do not say."""
        return self.config.context_length if self.config else None

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens in each row, (rows,)."""
        return self._cache.lengths.copy()

    @property
    def num_rows(self) -> int:
        """Rows there are."""
        return len(self._cache.lengths)

    @property
    def cache_bytes(self) -> int:
        """Bytes that the key/value cache takes; 0 for a graph without one."""
        return self._cache.nbytes

    @property
    def bytes_per_token(self) -> int:
        """Bytes of keys and values that each token takes in its row; 0 for a graph without a cache."""
        return len(self.spec.cache) * line_bytes(self.spec, 1) if self.spec.cache else 0

    @property
    def rows_per_run(self) -> int:
        """How many rows `extend` gains from being given at once; slots run prompts one by one in any case."""
        if not self.spec.cache:  # of long rows, as `chunk_length` lets each be one chunk
            return max(1, min(ROWS_PER_RUN, MAX_LOGITS_BYTES // (4 * self._vocab_size * MAX_CHUNK)))
        return 1 if self.spec.group_query or self.spec.one_row else ROWS_PER_RUN

    def prefill(self, row: int, ids: ArrayLike) -> NDArray[np.float32]:
        """Start `row` anew with a prompt.

        Args:
            row: which row; rows are added if there are fewer.
            ids: the prompt's tokens, integers (L,), at least one.

        Returns:
            Logits of the token after the prompt, float32 (V,).

        Raises:
            ValueError: if the prompt is empty, longer than the model's context, or holds ids outside the
                vocabulary. The row is as before then.
        """
        logits: NDArray[np.float32] = self.prefill_rows([row], [ids])[0]
        return logits

    @_in_turn
    def prefill_rows(self, rows: Sequence[int], prompts: Sequence[ArrayLike]) -> NDArray[np.float32]:
        """`prefill` for several rows, in as few runs as the graph allows; returns logits (n, V)."""
        if len(rows) != len(prompts):
            raise ValueError(f"prompts must have one entry per row, got {len(prompts)} for {len(rows)} rows")
        checked = [self._checked(ids, 0) for ids in prompts]
        at = self._rows(rows, grow=True)
        for row in at:
            self._cache.truncate(row, 0)
        if not at:
            return np.empty((0, self._vocab_size), np.float32)
        return np.stack([logits[-1] for logits in self._extend(at, checked, last=True)])

    @_in_turn
    def continue_rows(self, rows: Sequence[int], ids: Sequence[ArrayLike]) -> NDArray[np.float32]:
        """Append tokens to rows, as `prefill_rows` to empty ones; returns the logits after each, (n, V)."""
        at = self._rows(rows)
        if len(at) != len(ids):
            raise ValueError(f"ids must have one entry per row, got {len(ids)} for {len(at)} rows")
        lengths = self._cache.lengths
        checked = [self._checked(new, int(lengths[row])) for row, new in zip(at, ids, strict=True)]
        if not at:
            return np.empty((0, self._vocab_size), np.float32)
        return np.stack([logits[-1] for logits in self._extend(at, checked, last=True)])

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
        self._check_room(at, 1)
        return self._cache.step(at, checked).copy()

    def decode_unchecked(self, tokens: NDArray[np.int64], rows: list[int]) -> NDArray[np.float32]:
        """`decode` without its checks, for a loop that knows its rows, tokens and lengths to be right.

        The logits stay as they are until the next step of the same rows, which may write into the same array.
        """
        if os.getpid() != self._process:
            raise RuntimeError(_FORKED)
        with self._turn:  # as `_in_turn` does, whose two calls more are felt here
            return self._cache.step(rows, tokens)

    @_in_turn
    def extend(self, rows: Sequence[int], ids: Sequence[ArrayLike]) -> list[NDArray[np.float32]]:
        """Append tokens to rows and return the logits after each of them, one float32 (L_i, V) per row.

        All of it is held at once: give chunks of at most `chunk_length` tokens.
        """
        at = self._rows(rows)
        if len(at) != len(ids):
            raise ValueError(f"ids must have one entry per row, got {len(ids)} for {len(at)} rows")
        lengths = self._cache.lengths
        checked = [self._checked(new, int(lengths[row])) for row, new in zip(at, ids, strict=True)]
        return self._extend(at, checked, last=False) if at else []

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
            self._cache.truncate(target, 0)
            self._cache.fork(source, target)

    @_in_turn
    def truncate(self, row: int, length: int) -> None:
        """Forget all but the first `length` tokens of `row`. Raises ValueError if it holds fewer."""
        (row,) = self._rows([row])
        if not 0 <= length <= self._cache.lengths[row]:
            raise ValueError(
                f"length must be between 0 and the row's {self._cache.lengths[row]} tokens, got {length}"
            )
        self._cache.truncate(row, length)

    def reset(self, row: int) -> None:
        """Empty `row`."""
        self.truncate(row, 0)

    @_in_turn
    def settle(self, row: int) -> None:
        """Let `row` take no more memory than its tokens need, as it is going to rest."""
        (row,) = self._rows([row])
        self._cache.settle(row)

    @_in_turn
    def reserve(self, length: int, rows: int = 1) -> None:
        """Expect `rows` rows of up to `length` tokens, so that the cache is allocated once, not in steps.

        Holds until rows taken with `acquire` have all been released.
        """
        limit = self.context_length
        self._cache.reserve(max(0, length if limit is None else min(length, limit)), max(0, rows))

    @_in_turn
    def acquire(self, count: int) -> list[int]:
        """Take `count` empty rows that nobody holds, adding rows as needed; `release` gives them back."""
        free = [int(row) for row in np.flatnonzero(~self._held & (self._cache.lengths == 0))]
        self._grow(self.num_rows + max(0, count - len(free)))
        free = [int(row) for row in np.flatnonzero(~self._held & (self._cache.lengths == 0))][:count]
        self._held[free] = True
        return free

    @_in_turn
    def release(self, rows: Sequence[int]) -> None:
        """Empty rows taken with `acquire` and let others have them."""
        for row in rows:
            self._cache.truncate(row, 0)
            self._held[row] = False
        if not self._held.any():
            self._cache.reserve(0, 0)

    def check_ids(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Return `ids` as int64 (L,), or raise the ValueError that `prefill` would."""
        return self._checked(ids, 0)

    def chunk_length(self, rows: int = 1) -> int:
        """Tokens per row for which the logits of `rows` rows stay within the memory budget of one run."""
        if self.spec.last_logits_only or self.spec.one_token:
            return 1
        if not self.spec.cache:  # each chunk runs all before it again, so there should be few
            budget = MAX_LOGITS_BYTES // (4 * self._vocab_size * max(1, rows))
            return max(1, budget) if self.spec.gather else _WHOLE
        return max(1, min(MAX_CHUNK, LOGITS_BYTES // (4 * self._vocab_size * max(1, rows))))

    def _extend(
        self, rows: list[int], ids: list[NDArray[np.int64]], *, last: bool
    ) -> list[NDArray[np.float32]]:
        if self.spec.padding in (Padding.SLOTS, Padding.RIGHT):  # these say themselves which rows share a run
            return self._extend_together(rows, ids, last)
        out = [np.empty(0, np.float32)] * len(rows)
        waves = similar_lengths(
            [len(new) for new in ids], lambda longest: MAX_TOKENS // min(longest, MAX_CHUNK)
        )
        for wave in waves:
            logits = self._extend_together([rows[i] for i in wave], [ids[i] for i in wave], last)
            for i, row_logits in zip(wave, logits, strict=True):
                out[i] = row_logits
        return out

    def _extend_together(
        self, rows: list[int], ids: list[NDArray[np.int64]], last: bool
    ) -> list[NDArray[np.float32]]:
        spec, chunk = self.spec, self.chunk_length(len(rows))
        if last and not spec.cache:
            chunk = _WHOLE
        elif last and not spec.one_token and (spec.keep or spec.gather or spec.last_logits_only):
            chunk = MAX_CHUNK
        out: list[list[NDArray[np.float32]]] = [[] for _ in rows]
        for start in range(0, max(len(new) for new in ids), chunk):
            live = [i for i, new in enumerate(ids) if len(new) > start]
            pieces = [ids[i][start : start + chunk] for i in live]
            logits = self._cache.extend([rows[i] for i in live], pieces, last=last)
            for i, part in zip(live, logits, strict=True):
                out[i] = [part] if last else [*out[i], part]
        return [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in out]

    def _checked(self, ids: ArrayLike, past: int, *, limit: bool = True) -> NDArray[np.int64]:
        array = np.asarray(ids)
        if array.ndim != 1:
            raise ValueError(f"ids must have one dimension, got shape {array.shape}")
        if array.size == 0:
            raise ValueError("ids must hold at least one token, got an empty prompt")
        if array.dtype.kind not in "iu":
            raise ValueError(f"ids must be integers, got {array.dtype}")
        if limit and self.context_length is not None and past + array.size > self.context_length:
            has = f"{array.size} tokens after {past}" if past else f"a prompt of {array.size} tokens"
            raise ValueError(f"ids: {has} is longer than the model's context of {self.context_length}")
        low, high = int(array.min()), int(array.max())
        if low < 0 or high >= self._vocab_size:
            bad = low if low < 0 else high
            raise ValueError(f"ids must be between 0 and {self._vocab_size - 1} (the vocabulary), got {bad}")
        return array.astype(np.int64, copy=False)

    def _check_room(self, rows: Sequence[int], new: int) -> None:
        longest = int(self._cache.lengths[list(rows)].max()) + new
        if self.context_length is not None and longest > self.context_length:
            raise ValueError(
                f"a row would hold {longest} tokens, the model's context is {self.context_length}"
            )

    def _rows(self, rows: Sequence[int], *, grow: bool = False) -> list[int]:
        at = [int(row) for row in rows]
        if len(set(at)) != len(at):
            raise ValueError(f"rows must be different, got {at}")
        if (at and min(at) < 0) or (at and not grow and max(at) >= self.num_rows):
            raise IndexError(f"rows must be between 0 and {self.num_rows - 1}, got {at}")
        if grow and at:
            self._grow(max(at) + 1)
        return at

    def _grow(self, rows: int) -> None:
        if rows > self.num_rows:
            self._cache.resize(rows)
            self._held = np.concatenate([self._held, np.zeros(rows - len(self._held), np.bool_)])


def _reopened(
    kind: type[OnnxDecoder], model: Any, device: str, batch_size: int, num_threads: Any, gather_logits: bool
) -> OnnxDecoder:
    return kind(
        model, device=device, batch_size=batch_size, num_threads=num_threads, gather_logits=gather_logits
    )


def _open(config: ModelConfig, device: str, num_threads: int | None, gather_logits: bool) -> SessionLike:
    """Open the graph of a model, changed to give logits at chosen positions where that is possible."""
    flash = not (config.summary and config.summary.rounds_activations)
    changed = None
    if gather_logits and config.graph.stat().st_size <= MAX_MODEL_BYTES:
        changed = gather_before_projection(config.graph.read_bytes())
    if changed is not None:
        try:
            session = open_session(
                config.graph, device=device, num_threads=num_threads, flash_attention=flash, content=changed
            )
        except ValueError:
            pass  # the graph's end only looked familiar; if the graph itself is bad, the next try says so
        else:
            if not has_own_switch(session):
                return session
    return open_session(config.graph, device=device, num_threads=num_threads, flash_attention=flash)
