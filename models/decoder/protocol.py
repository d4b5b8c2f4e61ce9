"""The interface of the models that generation, scoring and wrappers run on."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.models.decoder.device_logits import Logits
from lite.models.graph.model_config import ModelConfig


class Decoder(Protocol):
    """A causal language model with a cache of the tokens that it has read, for a number of rows.

    `OnnxDecoder` is one; anything else with these members can be given to `generate`, `stream`, `score`,
    `full_logits` and `OnnxWrapper` in its place: a model of another runtime, a remote one, a scripted one
    in a test. Rows are numbered and independent of each other. It need not be safe for several threads:
    wrappers of one model take turns.

    A caller takes rows with `acquire`, may announce sizes with `reserve`, fills rows with `prefill_rows`,
    `fork` or `extend`, goes on with `decode_unchecked`, and in any case gives the rows back with `release`.

    Example:
        >>> import numpy as np
        >>> from lite.models import Decoder, OnnxDecoder, embedded_model_path
        >>> decoder: Decoder = OnnxDecoder(embedded_model_path())
        >>> held = decoder.acquire(2)
        >>> logits = decoder.prefill_rows(held[:1], [[10, 20, 30]])
        >>> decoder.fork(held[0], held[1])
        >>> tokens = np.asarray(logits).argmax(1).repeat(2)
        >>> decoder.decode_unchecked(tokens, held).shape == (2, decoder.vocab_size)
        True
        >>> decoder.release(held)
    """

    @property
    def vocab_size(self) -> int:
        """Number of token ids V, the width of the logits."""

    @property
    def context_length(self) -> int | None:
        """The largest number of tokens of a row; None if it is unlimited or unknown."""

    @property
    def config(self) -> ModelConfig | None:
        """The defaults of generation and the special ids that come with the model, if any do."""

    @property
    def rows_per_run(self) -> int:
        """The number of empty rows that `extend` runs fastest together; 1 if it runs them one by one.

        A decoder that runs rows together only while they are empty has `continues_together = False`, too.
        """

    def check_ids(self, ids: ArrayLike) -> NDArray[np.int64]:
        """A row's ids as int64 (L,).

        Raises:
            ValueError: there are none, more than the context, ones outside the vocabulary, or no integers.
        """

    def acquire(self, count: int) -> list[int]:
        """Reserve ``count`` empty rows."""

    def release(self, rows: Sequence[int]) -> None:
        """Empty rows and give them back."""

    def reserve(self, length: int, rows: int = 1) -> None:
        """Expect that many rows of up to that many tokens; a hint that may be ignored."""

    def reset(self, row: int) -> None:
        """Empty a row, which its caller keeps."""

    def fork(self, source: int, target: int) -> None:
        """Make one row a copy of another."""

    def prefill_rows(self, rows: Sequence[int], prompts: Sequence[ArrayLike]) -> Logits:
        """Reset rows with prompts that `check_ids` accepts; the logits after each, float32 (n, V).

        Here and below, `OnnxDecoder` leaves logits of a GPU there; `np.asarray` copies them to the host.
        """

    def decode_unchecked(self, tokens: NDArray[np.int64], rows: list[int]) -> Logits:
        """Append a token to each of n different rows that have room; the logits after it, float32 (n, V).

        They stay as they are until the next step of the same rows, which may write into the same array.
        """

    def extend(self, rows: Sequence[int], ids: Sequence[ArrayLike]) -> Sequence[Logits]:
        """Append tokens (L_i,) to rows; the logits after each token, one float32 (L_i, V) per row."""

    def chunk_length(self, rows: int = 1) -> int:
        """Most tokens per row to give `extend` at once when it gets that many rows."""


@runtime_checkable
class RewindableDecoder(Decoder, Protocol):
    """A decoder whose rows can be cut and continued, which is what saves running tokens twice.

    `OnnxDecoder` is one. Prefixes that prompts share, `PrefixCache` and speculation need these members; a
    decoder without them generates the same tokens and does more work for them.

    Example:
        >>> from lite.models import OnnxDecoder, embedded_model_path
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> isinstance(decoder, RewindableDecoder), decoder.bytes_per_token > 0
        (True, True)
    """

    @property
    def bytes_per_token(self) -> int:
        """The bytes that a row caches for each token; 0 if nothing costly is cached."""

    def truncate(self, row: int, length: int) -> None:
        """Forget all but the first ``length`` tokens of a row."""

    def continue_rows(self, rows: Sequence[int], ids: Sequence[ArrayLike]) -> Logits:
        """Append tokens (L_i,) to different rows; the logits after each row's last one, float32 (n, V)."""

    def settle(self, row: int) -> int:
        """Shrink the memory of an idle row to what its tokens need; returns its bytes."""


def rewindable(model: Any) -> RewindableDecoder | None:
    """The model if its rows can be cut and continued, else None.

    `isinstance` says the same of a `Decoder`; it makes 240 calls on Python 3.11, for each call of a model.
    """
    members = ("bytes_per_token", "truncate", "continue_rows", "settle")
    return model if all(map(functools.partial(hasattr, model), members)) else None


def require_rewindable(model: Any, name: str, purpose: str) -> RewindableDecoder:
    """The model; TypeError if its rows cannot be cut and continued, which is for a `purpose`."""
    if (found := rewindable(model)) is None:
        raise TypeError(
            f"{name} must have the interface of lite.models.RewindableDecoder{purpose}; "
            f"{type(model).__name__} lacks some of it"
        )
    return found


def with_adapter(decoder: Any, name: str | None) -> AbstractContextManager[None]:
    """Run a decoder with an adapter in this thread; a decoder that has none runs as it does."""
    own = getattr(decoder, "with_adapter", None)
    return nullcontext() if own is None else own(name)


def checked_given(decoder: Decoder, ids: ArrayLike) -> NDArray[np.int64]:
    """`check_ids` for a row to score: its last token is not read, and may stand behind a full context."""
    row = np.asarray(ids)
    if row.ndim == 1 and len(row) - 1 == decoder.context_length:
        return np.concatenate([decoder.check_ids(row[:-1]), decoder.check_ids(row[-1:])])
    return decoder.check_ids(row)


def checked_row(decoder: Decoder, name: str, ids: ArrayLike, *, given: bool = False) -> NDArray[np.int64]:
    """`check_ids` for one row of several, or `checked_given`; its error says which by ``name``."""
    try:
        return checked_given(decoder, ids) if given else decoder.check_ids(ids)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def refuse_path(model: Any, name: str) -> None:
    """Raise TypeError if a model is to be opened first."""
    if isinstance(model, str | Path):
        raise TypeError(f"{name} must be a model, as OnnxDecoder(path), got the path {str(model)!r} itself")


def check_decoder(model: Any, name: str = "model", *, path: bool = False) -> None:
    """Raise TypeError with the members that an object lacks to be a `Decoder`; `path`: one would do, too."""
    refuse_path(model, name)
    members = [member for member in vars(Decoder) if not member.startswith("_")]
    missing = [member for member in members if not hasattr(model, member)]
    if missing:
        raise TypeError(
            f"{name} must {'be a path or ' if path else ''}have the interface of lite.models.Decoder; "
            f"{type(model).__name__} has no {', '.join(missing)}"
        )
