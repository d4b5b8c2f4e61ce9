"""Recurrent layers over single steps, and over sequences in which episodes begin.

A sequence is cut where an episode begins in any of its rows, and the pieces are run one after the other: no
step is computed twice or for nothing, and the states at the ends of episodes are those of pieces. A graph, to
which the beginnings are inputs, has one loop over all times instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from lite._arrays.types import Array, is_symbolic
from lite._transforms.grad.tape import value_of
from lite._transforms.vmap.running import everything

States = tuple[Any, ...]


def run_steps(layer: Any, x: Array, states: States | None, starts: Array) -> tuple[Array, States]:
    """Outputs and next states of single steps.

    Args:
        layer: an LSTM or a GRU, with `batch_first`.
        x: (N, size).
        states: (N, layers, size) each, or None for zeros.
        starts: (N,), True where an episode begins: the state is zero there.

    Returns:
        (N, size), and states as those given.
    """
    if states is not None:
        states = tuple(np.where(starts[:, None, None], h.dtype.type(0), h) for h in states)
    out, last = _run(layer, x[:, None], states)
    return out[:, 0], last


def run_sequences(layer: Any, x: Array, states: States | None, starts: Array) -> tuple[Array, States]:
    """Outputs and states of sequences.

    Args:
        layer: an LSTM or a GRU, with `batch_first`.
        x: (N, T, size).
        states: (N, T, layers, size) each, or None for zeros; of a row, those at time 0 and where an episode
            begins are taken.
        starts: (N, T), True where an episode begins.

    Returns:
        (N, T, size), and states as those given: the last one of each episode, and zeros before.

    Raises:
        NotImplementedError: two directions where an episode begins, or in a graph may begin, within a
            sequence.
    """
    if is_symbolic(value_of(starts)):
        return _scanned(layer, x, states, starts)
    cuts = [0, *_beginnings(starts), x.shape[1]]
    if len(cuts) > 2:
        _require_one_direction(layer)
    outputs: list[Any] = []
    kept: list[list[Any]] = []
    last: States | None = None
    for begin, end in itertools.pairwise(cuts):
        given = None if states is None else tuple(h[:, begin] for h in states)
        if last is not None:
            first = starts[:, begin, None, None]
            given = tuple(np.zeros_like(h) for h in last) if given is None else given
            given = tuple(np.where(first, new, old) for new, old in zip(given, last, strict=True))
        out, last = _run(layer, x[:, begin:end], given)
        ends = None if end == x.shape[1] else starts[:, end, None, None]
        outputs.append(out)
        kept.append([_at_the_end(h, end - begin, ends) for h in last])
    return _joined(outputs), tuple(_joined(pieces) for pieces in zip(*kept, strict=True))


def _beginnings(starts: Any) -> list[int]:
    """The times after the first at which an episode begins in any row."""
    rows = np.asarray(everything(value_of(starts))).reshape(-1, starts.shape[-1])
    return [int(t) for t in np.flatnonzero(rows.any(0)) if t]


def _require_one_direction(layer: Any) -> None:
    if layer.bidirectional:
        raise NotImplementedError(
            "a bidirectional layer reads episodes from both ends, and cannot be cut where one begins within "
            "a sequence; split_trajectories makes each episode a sequence."
        )


def _scanned(layer: Any, x: Array, states: States | None, starts: Array) -> tuple[Array, States]:
    _require_one_direction(layer)
    given = None if states is None else tuple(h.transpose(2, 1, 0, 3) for h in states)
    out, kept = layer.scan_episodes(x.swapaxes(0, 1), given, starts.swapaxes(0, 1))
    ends = np.concatenate([starts[:, 1:], np.ones_like(starts[:, :1])], 1)[..., None, None]
    last = tuple(np.where(ends, h.transpose(2, 1, 0, 3), h.dtype.type(0)) for h in kept)
    return out.swapaxes(0, 1), last


def _run(layer: Any, x: Array, states: States | None) -> tuple[Array, States]:
    """Outputs (N, T, size) and last states (N, layers, size) of x (N, T, size)."""
    if states is None:
        out, last = layer(x)
    else:
        turned = tuple(h.swapaxes(0, 1) for h in states)  # layers are first there
        out, last = layer(x, turned[0] if len(turned) == 1 else turned)
    return out, tuple(h.swapaxes(0, 1) for h in (last if isinstance(last, tuple) else (last,)))


def _at_the_end(h: Array, times: int, ends: Array | None) -> Array:
    """States over a piece, (N, times, layers, size): zeros but for the last, of rows whose episode ends."""
    kept: Any = h if ends is None else np.where(ends, h, h.dtype.type(0))
    kept = kept[:, None]
    if times == 1:
        return kept
    before = np.zeros_like(kept, shape=(kept.shape[0], times - 1, *kept.shape[2:]))
    return np.concatenate([before, kept], 1)


def _joined(pieces: Sequence[Any]) -> Any:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, 1)
