"""`TokenLogProbs`: a decoder's graph as a module: log-probs of tokens, differentiable by its weights."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite import checkpoint as again_on_the_way_back
from lite._files.onnx.arrays import dtype_of
from lite._files.onnx.model import Value, read_model
from lite.models.decoder.binding import extra_input, static_mask
from lite.models.decoder.cache import MAX_TOKENS, pad_right, similar_lengths
from lite.models.decoder.conventions import GraphSpec
from lite.models.decoder.memory import keep_freed
from lite.models.graph.model_config import ModelConfig
from lite.models.graph.tensors import ELEMENT_TYPES
from lite.models.learning.output_layer import OutputLayer, find_output_layer
from lite.models.learning.recorded import Recorded, Support, logits_of, recorded
from lite.nn import Module, from_onnx, functional
from lite.nn import lora as add_lora
from lite.nn._lora.graph import with_outputs


def row_inputs(
    spec: GraphSpec, inputs: Sequence[Value], rows: Sequence[NDArray[np.int64]], width: int = 0,
    past: int = 0,
) -> dict[str, NDArray[Any]]:  # fmt: skip
    """The inputs of a run that reads rows from their first token on, or behind others, by name.

    Args:
        spec: the graph's convention.
        inputs: those of the graph as it is in its file, which may lack some that `spec` has.
        rows: token ids (L_i,), at least one each.
        width: tokens of each row, filler included; by default those of the longest.
        past: tokens before those of each row; their cache is empty here.
    """
    ids, lengths = pad_right(rows, width)
    count, steps = ids.shape
    columns = np.arange(steps)
    mask = (columns < lengths[:, None]).astype(np.int64)
    if past:  # no token sees the filler behind it, and GroupQueryAttention counts the past from the end
        mask = np.ones((count, past + steps), np.int64)
    ranks = {x.name: len(x.shape or ()) for x in inputs}
    values: dict[str | None, NDArray[Any]] = {
        "input_ids": ids,
        # filler must not ask for positions that the model does not have
        spec.positions: past + np.minimum(columns, lengths[:, None] - 1),
        spec.branch: np.array([past > 0]),
    }
    if spec.mask in ranks:
        square = ranks[spec.mask] == 4
        length = spec.static_length
        values[spec.mask] = mask if length is None else static_mask(mask, steps, length, square=square)
    if spec.keep in ranks:
        values[spec.keep] = np.zeros((1,) * ranks[spec.keep])  # of the last logits; 0 for all
    for name, kind in spec.extras:
        if name in ranks:
            values[name] = extra_input(kind, count, steps, past + steps, ranks[name])
    for tensor in spec.cache:
        shape = count, spec.num_heads, spec.static_length or 0, spec.head_size
        values[tensor.past] = np.zeros(shape, ELEMENT_TYPES[spec.cache_type].name)
    for state in spec.states:
        values[state.past] = np.zeros((count, *state.shape), ELEMENT_TYPES[state.type].name)
    return {x.name: values[x.name].astype(dtype_of(x.element_type), copy=False) for x in inputs}


SHARED = 128  # tokens that a run of its own for what rows begin with must save
_BEFORE = "(before)"  # among the inputs of a run: those of the run that reads what all of its rows begin with


class _Piece(NamedTuple):
    """A run over the first `stop` tokens of a row, for the log-probs of its tokens from `first` to `stop`."""

    row: int
    stop: int
    first: int


class LaidOut(NamedTuple):
    """Rows of tokens as arrays, which one run reads.

    Attributes:
        inputs: inputs of the graph, by name.
        targets: the token that follows each, int64 (n, S).
        mask: which of these are wanted, bool (n, S).
    """

    inputs: dict[str, NDArray[Any]]
    targets: NDArray[np.int64]
    mask: NDArray[np.bool_]


class TokenLogProbs(Module):
    """The log-prob of each token of rows, given those before it, as a function of the graph's weights.

    A row is read up to the last token that is asked for, beside rows of similar length, in runs of at most
    `max_tokens` tokens. What several rows begin with, as the responses to a prompt do, is read once for them,
    where the graph has a cache and that is worth a run.

    Args:
        graph: gives the values that `layer.names` lists; the logits, where that is None.
        inputs: inputs of the graph.
        spec: its convention.
        layer: the product that makes the logits, if it can be left out of the graph.
        max_tokens: largest number of tokens of one run, filler included.
        checkpoint: compute each run again in the backward pass, so that what one run keeps is in memory.
    """

    def __init__(
        self, graph: Module, inputs: Sequence[Value], spec: GraphSpec, layer: OutputLayer | None, *,
        max_tokens: int, checkpoint: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.graph = graph
        self.checkpoint = checkpoint
        self.max_tokens = max_tokens
        self._inputs, self._spec, self._layer = tuple(inputs), spec, layer
        self._reader: tuple[Any, ...] = ()  # in a tuple, as it is not a child: its parameters are the graph's

    def forward(
        self,
        rows: Sequence[NDArray[np.int64]],
        wanted: Sequence[NDArray[np.bool_]] | None = None,
        temperatures: Sequence[float] | None = None,
        supports: Sequence[Support] | None = None,
    ) -> tuple[Any, list[NDArray[np.int64]]]:
        """The log-probs of the tokens that are wanted.

        Args:
            rows: token ids, int64 (L_i,) each.
            wanted: which tokens, bool (L_i,) for each row; None for all.
            temperatures: the temperature of each row, which divides its logits; None for 1.
            supports: the ids that tokens were drawn from, of each row: offsets (L_i + 1,) and ids; no ids for
                the whole vocabulary. None for that of all.

        Returns:
            Log-probs float32 (M,), the first of which is 0, and the place of each token's among them, int64
            (L_i,) for each row. Tokens that are not wanted, and the first of a row, have the place 0.
        """
        return self._of_runs(self._log_probs, rows, wanted, temperatures, supports)

    def lay_out(
        self, rows: Sequence[NDArray[np.int64]], wanted: Sequence[NDArray[np.bool_]] | None, width: int
    ) -> LaidOut:
        """Rows as arrays of `width` targets each, for `of_laid_out`.

        Args:
            rows: token ids, int64 (L_i,) each; a row may be empty.
            wanted: as of `forward`.
            width: at least the length of the longest row less 1.

        Raises:
            NotImplementedError: no single run of the graph gives the log-probs of all tokens.
        """
        if self._spec.last_logits_only or (self._spec.one_row and len(rows) > 1):
            raise NotImplementedError("the graph gives the logits of one token, or reads one row, at a time.")
        if any(width > limit for _, limit in self._spec.limits):
            raise NotImplementedError(f"the graph computes otherwise beyond some of {width} tokens.")
        targets = np.zeros((len(rows), width), np.int64)
        mask = np.zeros(targets.shape, np.bool_)
        for i, row in enumerate(rows):
            following = row[1:]
            targets[i, : len(following)] = following
            mask[i, : len(following)] = True if wanted is None else wanted[i][1:]
        read = [row[:-1] if len(row) > 1 else np.zeros(1, np.int64) for row in rows]
        return LaidOut(row_inputs(self._spec, self._inputs, read, width), targets, mask)

    def of_laid_out(self, given: LaidOut, temperature: float) -> Any:
        """Log-probs float32 (n, S) of the targets, 0 where they are not wanted; the arrays may be traced."""
        run_once = again_on_the_way_back(self._log_probs) if self.checkpoint else self._log_probs
        return run_once(given.inputs, given.targets, given.mask, temperature, None)

    def logits(self, rows: Sequence[NDArray[np.int64]]) -> tuple[Any, list[NDArray[np.int64]]]:
        """The logits of the distribution that each token was drawn from.

        Returns:
            Float32 (M, V), the first of which are zeros, and places among them as of `forward`.
        """
        return self._of_runs(self._logits, rows, None, None, None)

    def _of_runs(
        self, compute: Any, rows: Sequence[NDArray[np.int64]], wanted: Sequence[NDArray[np.bool_]] | None,
        temperatures: Sequence[float] | None, supports: Sequence[Support] | None,
    ) -> tuple[Any, list[NDArray[np.int64]]]:  # fmt: skip
        """The values of all runs in one array, and the position in it for each token of a row.

        Position 0 is a zero, for tokens without a log-prob.
        """
        places = [np.zeros(len(row), np.int64) for row in rows]
        found: list[Any] = []
        count = 1
        only_last = self._spec.last_logits_only
        begins = self._shared(rows, wanted)
        for run in self._runs(rows, wanted, temperatures, begins):
            begin = begins[run[0].row]
            past = len(begin)
            steps = 1 if only_last else max(piece.stop for piece in run) - past
            targets = np.zeros((len(run), steps), np.int64)
            mask = np.zeros(targets.shape, np.bool_)
            kept = []
            for line, piece in enumerate(run):
                at = np.arange(piece.first, piece.stop + 1)
                if wanted is not None:
                    at = at[wanted[piece.row][at]]
                columns = at - (piece.stop if only_last else 1 + past)
                targets[line, columns] = rows[piece.row][at]
                mask[line, columns] = True
                places[piece.row][at] = count + line * steps + columns
                if supports is not None:
                    kept.append((line, columns, supports[piece.row], at))
            warmth = 1.0 if temperatures is None else temperatures[run[0].row]
            ids = [rows[piece.row][past : piece.stop] for piece in run]
            inputs: dict[str, Any] = row_inputs(self._spec, self._inputs, ids, past=past)
            if past:
                inputs[_BEFORE] = row_inputs(self._spec, self._inputs, [begin])
            run_once = again_on_the_way_back(compute) if self.checkpoint else compute
            values = run_once(inputs, targets, mask, warmth, recorded(targets.shape, kept))
            found.append(values.reshape(-1, *values.shape[2:]))
            count += targets.size
        none = np.zeros((1, *(found[0].shape[1:] if found else ())), np.float32)
        return np.concatenate([none, *found]), places

    def _shared(
        self, rows: Sequence[NDArray[np.int64]], wanted: Sequence[NDArray[np.bool_]] | None
    ) -> list[NDArray[np.int64]]:
        """The tokens that each row begins with, where they are read once for all rows that do; else none."""
        spec = self._spec
        grows = spec.cache_type.startswith("tensor(float") and all(tensor.past for tensor in spec.cache)
        only = spec.states or spec.limits or spec.static_length or spec.one_row or spec.last_logits_only
        if wanted is None or only or not grows:
            return [row[:0] for row in rows]
        # The last token before those that are asked for gives the log-probs of the first one.
        begins = [
            row[: int(known[1:].argmax())] if len(row) > 1 else row[:0]
            for row, known in zip(rows, wanted, strict=True)
        ]
        counts = Counter(begin.tobytes() for begin in begins)
        return [x if (counts[x.tobytes()] - 1) * len(x) >= SHARED else x[:0] for x in begins]

    def _runs(
        self,
        rows: Sequence[NDArray[np.int64]],
        wanted: Sequence[NDArray[np.bool_]] | None,
        temperatures: Sequence[float] | None,
        begins: Sequence[NDArray[np.int64]],
    ) -> Iterator[list[_Piece]]:
        """Pieces to run together: of one temperature and begin, on one side of each limit of the graph."""
        groups: dict[tuple[Any, ...], list[_Piece]] = {}
        limits = [limit for _, limit in self._spec.limits]
        for i, row in enumerate(rows):
            known = np.ones(len(row), np.bool_) if wanted is None else wanted[i]
            for piece in self._pieces(i, np.flatnonzero(known[1:]) + 1):
                warmth = None if temperatures is None else temperatures[i]
                sides = tuple(piece.stop > limit for limit in limits)
                groups.setdefault((warmth, begins[i].tobytes(), *sides), []).append(piece)
        one = self._spec.one_row
        for pieces in groups.values():
            stops = [piece.stop for piece in pieces]
            for chosen in similar_lengths(
                stops,
                lambda longest: 1 if one else self.max_tokens // longest,
                filler=0 if self._spec.last_logits_only else math.inf,
            ):
                yield [pieces[k] for k in chosen]

    def _pieces(self, row: int, targets: NDArray[np.int64]) -> Iterator[_Piece]:
        """The runs that a row takes, which end before the last token that is asked for.

        The logits after n tokens are those of a run over n tokens. That is one run for all n, but for graphs
        that compute otherwise beyond a length, or give the last logits only.
        """
        if self._spec.last_logits_only:
            yield from (_Piece(row, target, target) for target in targets.tolist())
            return
        first = 1
        for limit in (*(limit for _, limit in self._spec.limits), sys.maxsize):
            here = targets[(targets >= first) & (targets <= limit)]
            if len(here):
                yield _Piece(row, int(here[-1]), first)
            first = limit + 1

    def _log_probs(
        self, inputs: dict[str, Any], targets: NDArray[np.int64], mask: NDArray[np.bool_], warmth: float,
        kept: Recorded | None,
    ) -> Any:  # fmt: skip
        """Log-probs (n, S) of the targets, 0 where the mask is False."""
        layer = self._layer
        if layer is None:
            logits = self._logits(inputs, targets, mask, warmth, kept)
            if kept is not None:
                return kept.log_probs_of_logits(logits, targets, mask, warmth)
            log_probs = functional.log_softmax(logits if warmth == 1 else logits / np.float32(warmth), -1)
            chosen = np.take_along_axis(log_probs, targets[..., None], -1)[..., 0]
            return np.where(mask, chosen, np.float32(0))
        hidden, weight, bias = self._hidden(inputs, targets, layer)
        if kept is not None:
            return kept.log_probs(hidden, weight, bias, targets, mask, warmth / layer.scale)
        return functional.linear_log_probs(
            hidden, weight, targets, bias, mask=mask, temperature=warmth / layer.scale
        )

    def _logits(self, inputs: dict[str, Any], targets: NDArray[np.int64], *_: Any) -> Any:
        """Logits (n, S, V), without temperature."""
        layer = self._layer
        if layer is None:
            found = self._outputs(inputs)
            return found.astype(np.float32, copy=False)
        hidden, weight, bias = self._hidden(inputs, targets, layer)
        weight = weight if hasattr(weight, "dtype") else weight.rows(0, weight.shape[0])
        logits = logits_of(hidden, weight, bias)
        return logits if layer.scale == 1 else logits * np.float32(layer.scale)  # a pass over all of them

    def _hidden(self, inputs: dict[str, Any], targets: NDArray[np.int64], layer: OutputLayer) -> Any:
        """Hidden states (n, S, D), the matrix (V, D) that makes logits of them, and its bias."""
        found = self._outputs(inputs)
        hidden, *others = found if isinstance(found, tuple) else (found,)
        weight: Any = others.pop(0) if isinstance(layer.weight, str) else layer.weight
        if not layer.by_token:
            weight = weight.swapaxes(0, 1)
        bias = others.pop(0) if layer.bias is not None else None
        return hidden.reshape(*targets.shape, hidden.shape[-1]), weight, bias

    def _outputs(self, inputs: dict[str, Any]) -> Any:
        """The outputs of the graph; a prefix that all rows share is run first, into the cache."""
        if _BEFORE in inputs:
            graph: Any = self.graph
            if [*map(id, self._reader[1:])] != [id(graph), id(graph._source)]:  # adapters may come and go
                names = [tensor.present for tensor in self._spec.cache]
                self._reader = with_outputs(graph, names), graph, graph._source
            caches = self._reader[0](**inputs[_BEFORE])
            count = len(inputs["input_ids"])
            inputs = {name: value for name, value in inputs.items() if name != _BEFORE}
            for tensor, cache in zip(self._spec.cache, caches, strict=True):
                inputs[tensor.past] = np.broadcast_to(cache, (count, *cache.shape[1:]))
        return self.graph(**inputs)


def token_log_probs_of(
    config: ModelConfig, spec: GraphSpec, *, trainable: Any = None, lora: Mapping[str, Any] | None = None,
    max_tokens: int = MAX_TOKENS, checkpoint: bool | int = False,
) -> TokenLogProbs:  # fmt: skip
    """The module of a model's graph, with its weights as they are in the file.

    Args:
        config: configuration of the model; of a pair, that of the graph that reads prompts.
        spec: its graph's convention.
        trainable: which weights learn; see `lite.nn.from_onnx`.
        lora: arguments of `lite.nn.lora`, for adapters that learn in their place.
        max_tokens: see `TokenLogProbs`.
        checkpoint: True as of `TokenLogProbs`; a number of parts as of `lite.nn.from_onnx`, of each run.

    Raises:
        NotImplementedError: an operator has no rule, or the graph takes one token at a time, or rounds what
            its products read.
    """
    if spec.one_token:
        raise NotImplementedError(f"{config.graph.name} takes one token at a time: its weights cannot learn")
    if spec.quantisation == "MatMulInteger":
        raise NotImplementedError(
            f"{config.graph.name} rounds what its products read (MatMulInteger), which has no derivative: "
            "learn on a graph of floats, or one that has its weights alone quantised (MatMulNBits)"
        )
    graph = read_model(config.graph.read_bytes(), config.graph.parent).graph
    layer = find_output_layer(graph, spec.logits)
    learns = trainable if lora is None else False
    whole_runs = isinstance(checkpoint, bool)
    module = from_onnx(
        config.graph,
        trainable=learns,
        outputs=layer.names if layer else [spec.logits],
        checkpoint=False if whole_runs else checkpoint,
    )
    if lora is not None:
        module = add_lora(module, **lora)
    inputs = [x for x in graph.inputs if x.name in module.input_names]
    again = whole_runs and bool(checkpoint)
    learner = TokenLogProbs(module, inputs, spec, layer, max_tokens=max_tokens, checkpoint=again)
    keep_freed(learner)
    return learner
