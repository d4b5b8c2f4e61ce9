"""The output of a wrapper: data classes filled from rows of tokens, texts and messages, and their keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lite import LazyStackedTensorDict, NestedKey, TensorDict, is_tensor_collection, lazy_stack
from lite.models.generation.loop import Generated
from lite.models.generation.options import GenerationConfig
from lite.models.text.data import ChatHistory, LogProbs, Masks, Sampling, Text, Tokens
from lite.models.text.history import History
from lite.models.text.nesting import nest, objects, ragged
from lite.models.text.parsers import with_tools
from lite.models.text.rows import TokenRows
from lite.models.wrapper.options import Inplace

Ids = TypeVar("Ids", Tokens, Masks, LogProbs, Sampling)
Field = tuple[NDArray[Any], NDArray[np.bool_]]
"""Values (N, L) or (N, L, n), and which of them are real (N, L); or (N,), and that they are."""


class Layout(NamedTuple):
    """How N rows become the fields of a batch: its shape, and padded or ragged storage."""

    shape: tuple[int, ...]
    padded: bool

    def make(self, cls: type[Ids], **fields: Field) -> Ids:
        """An instance of a data class with these fields."""
        if self.padded or 0 in self.shape:  # without rows nothing is ragged
            dense = {
                name: values.reshape(*self.shape, *values.shape[1:]) for name, (values, _) in fields.items()
            }
            return cls(**dense, padded=self.padded, batch_size=self.shape)
        columns = {
            name: [row[real] if real.ndim else np.asarray(row) for row, real in zip(*field, strict=True)]
            for name, field in fields.items()
        }
        return ragged(cls, columns, self.shape)

    def text(self, **columns: Sequence[str]) -> Text:
        """A Text with these fields of N texts; ``full`` is prompt and response if both are given."""
        if "response" in columns:
            pairs = zip(columns["prompt"], columns["response"], strict=True)
            columns = {**columns, "full": [prompt + response for prompt, response in pairs]}
        fields = {name: objects(texts, self.shape) for name, texts in columns.items()}
        # stacks of a batch's texts are entries as they are
        return Text._wrap_tensordict((TensorDict._make if self.shape else TensorDict)(fields, self.shape))

    def chat_history(
        self, chats: Sequence[list[dict[str, Any]]], turns: Sequence[dict[str, Any]], prompt: History | None
    ) -> ChatHistory:
        """N conversations and the turns that follow them; ``prompt`` is their History if there is one."""
        return ChatHistory(
            prompt=self.history(chats) if prompt is None else prompt,
            response=self.history([[turn] for turn in turns]),
            full=self.history([[*chat, turn] for chat, turn in zip(chats, turns, strict=True)]),
            batch_size=self.shape,
        )

    def history(self, chats: Sequence[list[dict[str, Any]]]) -> History:
        """N conversations as a History."""
        if 0 in self.shape:
            none = objects([], (*self.shape, 0))
            return History(role=none, content=none, batch_size=none.batch_size)
        return History.from_chats(nest(chats, self.shape))

    def logits(self, rows: TokenRows, found: Mapping[int, NDArray[np.float32]]) -> Any:
        """Logits (L_i, V) of the rows that were run as (*shape, L, V); ragged ones as nested lists."""
        vocab = next((row.shape[1] for row in found.values()), 0)
        none = np.zeros((0, vocab), np.float32)
        given = [found.get(i, none) for i in range(len(rows.ids))]
        if not self.padded and len({len(row) for row in given}) > 1:
            return nest(given, self.shape)
        lengths = rows.mask.sum(1)
        mask = rows.mask if self.padded or not given else np.ones((len(given), *lengths[:1]), np.bool_)
        out = np.zeros((*mask.shape, vocab), np.float32)
        for row, real, values in zip(out, mask, given, strict=True):
            row[real] = values
        return out.reshape(*self.shape, *out.shape[1:])


def sampling_fields(responses: Sequence[Generated], config: GenerationConfig) -> dict[str, Field]:
    """The fields of a `Sampling` of N responses, those that options ask for.

    Args:
        responses: what was generated.
        config: what to tell of them; their own options tell the same.
    """
    known = [response.details for response in responses if response.details is not None]
    asked = {
        "sampled_log_probs": config.sampled_log_probs,
        "kept_log_mass": config.sampled_log_probs,
        "kept_offsets": config.kept_ids,
        "kept_ids": config.kept_ids,
        "entropy": config.entropy,
        "top_ids": config.logprobs,
        "top_log_probs": config.logprobs,
    }
    fields = {
        name: _rectangle([getattr(details, name) for details in known], repeat=name == "kept_offsets")
        for name, is_asked in asked.items()
        if is_asked
    }
    if config.num_beams > 1 or any(response.score is not None for response in responses):
        scores = [np.nan if response.score is None else response.score for response in responses]
        fields["score"] = np.array(scores, np.float32), np.ones(len(scores), np.bool_)
    return fields


def _rectangle(rows: Sequence[NDArray[Any]], *, repeat: bool) -> Field:
    """Rows (L_i, ...) one below the other, and which entries are real.

    On the right of a row are 0 or the id -1, or its last value if that is to ``repeat``.
    """
    width, inner = max(map(len, rows), default=0), rows[0].shape[1:] if rows else ()
    given = rows[0].dtype if rows else np.dtype(np.int64)
    dtype = np.dtype(np.float32) if given.kind == "f" else given
    out = np.full((len(rows), width, *inner), 0 if dtype.kind == "f" else -1, dtype)
    real = np.zeros((len(rows), width), np.bool_)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
        if repeat:
            out[i, len(row) :] = row[-1]
        real[i, : len(row)] = True
    return out, real


def assistant_turn(content: str, *, complete: bool) -> dict[str, Any]:
    """The message that a response is."""
    return with_tools({"role": "assistant", "content": content, "is_complete": complete})


def choose_target(td: Any, out: Any, shape: tuple[int, ...], inplace: Inplace) -> Any:
    """The TensorDict to write results of a batch shape to.

    Raises:
        ValueError: ``out`` has another batch size.
        RuntimeError: the target is locked.
        TypeError: ``out`` is not a TensorDict.
    """
    if out is not None:
        if not is_tensor_collection(out):
            raise TypeError(f"tensordict_out must be a TensorDict, got {out!r}")
        if tuple(out.batch_size) != shape:
            raise ValueError(f"tensordict_out must have batch size {shape}, got {tuple(out.batch_size)}")
        target = out
    elif inplace is True:
        target = td
    elif inplace == "empty":
        target = td.empty()
    else:
        target = TensorDict(batch_size=shape, device=td.device)
    if target.is_locked:
        raise RuntimeError("cannot write results: the TensorDict is locked")
    return target


def write(
    target: Any, written: Mapping[NestedKey, Any], *, replaced: Iterable[NestedKey],
    keys: Iterable[NestedKey], owned: bool,
) -> Any:  # fmt: skip
    """Remove the ``replaced`` entries and write those of ``keys``; returns the TensorDict that has them.

    Args:
        target: what to write to.
        written: results by key; "logits" is written whenever it is there.
        replaced: entries that are removed.
        keys: entries that are written.
        owned: the target has no other references, so that it may become a lazy stack.
    """
    if isinstance(written.get("logits"), list) and not isinstance(target, LazyStackedTensorDict):
        if not owned:
            raise ValueError(
                "logits_only: logits of rows of different lengths fit only in a lazy stack: pass"
                " inplace=False, pad_output=True or a lazy stack"
            )
        target = by_row(target)
    target.exclude(*replaced, inplace=True)
    for key in (*keys, "logits"):
        if key in written:
            target.set(key, written[key])
    return target


def by_row(td: Any) -> Any:
    """A TensorDict as lazy stacks of its elements, whose leaves may be ragged."""
    return lazy_stack([by_row(row) for row in td.unbind(0)]) if td.batch_size else td
