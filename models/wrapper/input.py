"""The input of a wrapper: one entry of a TensorDict, converted to tokens."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, is_non_tensor, is_tensor_collection
from lite._arrays.caller import warn
from lite.models.text.assistant_spans import AssistantSpansError
from lite.models.text.builtin_templates import find_chat_template
from lite.models.text.chat import EncodedChat, blanks_around_content, encode_chats
from lite.models.text.history import History
from lite.models.text.nesting import flatten, rows_of
from lite.models.text.rows import TokenRows, infer_mask, token_row
from lite.models.wrapper.options import WrapperOptions

Chats = list[list[dict[str, Any]]]

_PADDED_HERE = ("padding", "return_attention_mask", "return_tensors", "padding_side")

_FORMS = {
    "history": "conversations are given as History.from_chats([[{{'role': 'user', 'content': 'Hi'}}]])",
    "text": "texts are given as Text({0}=['Hi'], batch_size=[1])",
    "tokens": "ids are given as integers (int64) in Tokens({0}=ids, batch_size=[1])",
}


def _form(mode: str, key: NestedKey) -> str:
    """How to make an entry of a mode, for errors."""
    return _FORMS[mode].format(key[-1] if isinstance(key, tuple) else "prompt")


class Inputs(NamedTuple):
    """The N rows of a batch.

    Attributes:
        rows: their tokens.
        texts: their texts; None in tokens mode.
        chats: their messages; None but in history mode.
        history: the History that was read, with a dimension for turns; None but in history mode.
        assistant_mask: bool (N, L), True on the tokens of assistants; None if they are unknown.
    """

    rows: TokenRows
    texts: list[str] | None = None
    chats: Chats | None = None
    history: History | None = None
    assistant_mask: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class InputReader:
    """Reads the entry that a wrapper's options name.

    Attributes:
        options: the wrapper's options.
        tokenizer: None only in tokens mode.
        pad_id: the id that fills padding.
        end_ids: those that end a response.
    """

    options: WrapperOptions
    tokenizer: Any
    pad_id: int
    end_ids: frozenset[int]
    _blanks: dict[str, tuple[str, str]] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, td: Any) -> Inputs:
        """Read a TensorDict of any batch shape.

        Raises:
            ValueError: the entry is missing, or is not what the mode reads.
            TypeError: in history mode, the entry is not a History.
        """
        key, mode, size = self.options.key, self.options.input_mode, td.batch_size
        ndim = len(size)
        if 0 in size:  # a stack of no rows has no entries to read
            return Inputs(
                TokenRows.left_padded([], self.pad_id),
                None if mode == "tokens" else [],
                [] if mode == "history" else None,
            )
        value = td.get(key, None) if mode == "history" else td.get(key, None, as_list=True)
        if value is None:
            found = sorted(map(str, td.keys(True)))
            form = _form(mode, key)
            if (
                not self.options.generate
                and isinstance(key, tuple)
                and (*key[:-1], "prompt") in td.keys(True)
            ):
                form = f"scoring reads prompt and response as one, {key[-1]!r}: {form}"
            raise ValueError(f"Expected {key!r} key for {mode} input mode, but found keys: {found}; {form}")
        if mode == "history":
            return self._history(td, value)
        if mode == "text":
            texts = read_texts(value, key, ndim)
            rows = self._tokenize(texts)
        else:
            texts, rows = None, self._tokens(td, value, key)
        said = None if self.options.generate else self._assistant_mask(td, rows)  # generation makes its own
        return Inputs(rows, texts, assistant_mask=said)

    def check(self, td: Any) -> None:
        """Raise TypeError if the argument of a wrapper is not a TensorDict."""
        if not is_tensor_collection(td):
            raise TypeError(
                f"Expected a TensorDict with {self.options.key!r} in it, got {type(td).__name__};"
                f" {_form(self.options.input_mode, self.options.key)}"
            )

    def _history(self, td: Any, value: Any) -> Inputs:
        options, ndim = self.options, len(td.batch_size)
        chats, history = read_chats(value, options.key, ndim)
        if options.prefer_tokens and options.generate and (rows := self._preferred(td)) is not None:
            return Inputs(rows, [self.tokenizer.decode(row) for row in rows.rows], chats, history)
        encoded = self._encode(chats)
        rows = TokenRows.left_padded([chat.ids for chat in encoded], self.pad_id)
        masks = [chat.assistant_mask for chat in encoded if chat.assistant_mask is not None]
        said = rows.spread(masks, np.bool_) if len(masks) == len(encoded) else None
        return Inputs(rows, [chat.text for chat in encoded], chats, history, said)

    def _encode(self, chats: Chats) -> list[EncodedChat]:
        options = self.options
        encode = functools.partial(
            encode_chats,
            chats,
            tokenizer=self.tokenizer,
            chat_template=options.chat_template,
            chat_template_name=options.chat_template_name,
            add_generation_prompt=options.generate,
            split_special_tokens=options.tokenizer_kwargs.get("split_special_tokens", True),
            **options.chat_template_kwargs,
        )
        if options.generate:
            return encode()
        try:
            encoded = encode(mask=True, end_ids=self.end_ids)
        except AssistantSpansError as error:
            # scores do not need the mask, and no mask is better than a wrong one
            warn(f"no assistant mask is written: {error}", UserWarning)
            return encode()
        _warn_of_empty_masks(chats, encoded)
        return encoded

    def blanks_around_content(self) -> tuple[str, str]:
        """The blanks that the chat template writes before and after the content of a response."""
        options, tokenizer = self.options, self.tokenizer
        source = find_chat_template(
            tokenizer,
            name=options.chat_template_name,
            source=options.chat_template,
            tools=options.chat_template_kwargs.get("tools"),
        )
        if source not in self._blanks:  # two renderings, a seventh of the calls of a short generation
            self._blanks[source] = blanks_around_content(
                tokenizer=tokenizer, chat_template=source, **options.chat_template_kwargs
            )
        return self._blanks[source]

    def _tokenize(self, texts: list[str]) -> TokenRows:
        options = self.options.tokenizer_kwargs
        width = options.get("max_length", 0) if options.get("padding") == "max_length" else 0
        # rows are padded here, in one place for all modes
        given = {name: value for name, value in options.items() if name not in _PADDED_HERE}
        ids = self.tokenizer(texts, **given)["input_ids"]
        return TokenRows.left_padded(ids, self.pad_id, width=width)

    def _preferred(self, td: Any) -> TokenRows | None:
        for name in ("prompt", "full"):
            key = nested_key(self.options.tokens_key, name)
            value = td.get(key, None, as_list=True)
            if value is not None:
                return self._tokens(td, value, key)
        return None

    def _tokens(self, td: Any, value: Any, key: NestedKey) -> TokenRows:
        rows = read_tokens(
            value, key, len(td.batch_size), pad_id=self.pad_id, pad_is_eos=self.pad_id in self.end_ids
        )
        own_key = self.options.attention_mask_key
        for mask_key in (nested_key(self.options.masks_key, "all_attention_mask"), own_key):
            given = td.get(mask_key, None, as_list=True)
            mask = None if given is None else read_mask(given, rows, len(td.batch_size))
            if mask is not None:
                return TokenRows(rows.ids, mask)
        if given is not None and self._is_for(td):
            lengths = f"{len(rows.ids)} rows of up to {rows.ids.shape[1]} tokens"
            raise ValueError(f"{own_key!r} must be a mask of {key!r} ({lengths}), but its lengths are others")
        return rows

    def _is_for(self, td: Any) -> bool:
        """Whether a mask is for the entry that is read; where responses are scored it may be the prompt's."""
        options = self.options
        if options.input_mode != "tokens":
            return False
        return (
            options.generate or td.get(nested_key(options.tokens_key, "prompt"), None, as_list=True) is None
        )

    def _assistant_mask(self, td: Any, rows: TokenRows) -> NDArray[np.bool_] | None:
        keys = [nested_key(self.options.masks_key, f"all_{kind}_mask") for kind in ("assistant", "attention")]
        found = [td.get(key, None, as_list=True) for key in keys]
        if all(value is not None for value in found):  # the tokens may be padded otherwise than their masks
            said, real = (rows_of(value, len(td.batch_size)) for value in found)
            if [mask.shape for mask in said] == [mask.shape for mask in real]:
                parts = [mask[kept.astype(bool)] for mask, kept in zip(said, real, strict=True)]
                if [len(part) for part in parts] == rows.mask.sum(1).tolist():
                    return rows.spread(parts, np.bool_)
                if self.options.input_mode == "text":
                    return None
        return None if found[0] is None else read_mask(found[0], rows, len(td.batch_size))


def _warn_of_empty_masks(chats: Chats, encoded: list[EncodedChat]) -> None:
    for chat, row in zip(chats, encoded, strict=True):
        said = any(turn["role"] == "assistant" and turn["content"] for turn in chat)
        if said and not np.any(row.assistant_mask):
            warn(
                "the assistant mask of a conversation with assistant turns is empty: the chat template does"
                " not write their contents, or not in its {% generation %} blocks",
                UserWarning,
            )
            return


def read_chats(value: Any, key: NestedKey, ndim: int) -> tuple[Chats, History]:
    """The conversations in a History, one list of messages per batch element, and the History.

    One without a dimension for turns holds conversations of one message each, and gets that dimension.
    """
    if not isinstance(value, History):
        raise TypeError(
            f"Expected History object for {key!r}, got {type(value).__name__}; {_form('history', key)}"
        )
    if len(value.batch_size) == ndim:
        value = value.unsqueeze(-1)
    if len(value.batch_size) != ndim + 1:
        raise ValueError(
            f"Expected a History with {ndim + 1} dimensions for {key!r}, got {tuple(value.batch_size)}"
        )
    return flatten(value.to_chats(), ndim), value


def read_texts(value: Any, key: NestedKey, ndim: int) -> list[str]:
    """The texts of an entry, one per batch element."""
    items = value.tolist() if is_non_tensor(value) or isinstance(value, np.ndarray) else value
    texts = [items] if ndim == 0 else flatten(items, ndim) if isinstance(items, list) else [items]
    for text in texts:
        if not isinstance(text, str):
            wanted, where = ("list of text", " in it") if ndim else ("one text", ", as batch_size is ()")
            got = f"{type(text).__name__}{where}"
            raise ValueError(f"Expected {wanted} for {key!r}, got {got}; {_form('text', key)}")
    return texts


def read_tokens(value: Any, key: NestedKey, ndim: int, *, pad_id: int | None, pad_is_eos: bool) -> TokenRows:
    """The token ids of an entry, one row per batch element.

    An array is taken for padded: without a mask, `infer_mask` says what is real. A list of rows holds
    real ids only.
    """
    if is_non_tensor(value):
        value = value.tolist()
    if isinstance(value, list) and ndim:
        rows = [token_row(row, f"{key!r}, row {i}") for i, row in enumerate(flatten(value, ndim))]
        return TokenRows.left_padded(rows, 0 if pad_id is None else pad_id)
    array = np.asarray(value)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(
            f"Expected token ids as integers for {key!r}, got {array.dtype} of shape {array.shape}; "
            f"{_form('tokens', key)}"
        )
    if array.ndim != ndim + 1:
        raise ValueError(
            f"Expected token ids with {ndim + 1} dimensions for {key!r}, got an array of shape {array.shape}"
            f" and dtype {array.dtype}; {_form('tokens', key)}"
        )
    ids = array.reshape(math.prod(array.shape[:-1]), array.shape[-1]).astype(np.int64)
    return TokenRows(ids, infer_mask(ids, pad_id, pad_is_eos=pad_is_eos))


def read_mask(value: Any, rows: TokenRows, ndim: int) -> NDArray[np.bool_] | None:
    """A mask entry laid out as the rows are, (B, L), or None if its lengths are not those of the rows.

    A mask left by an earlier call covers prompt and response: it must not be taken for the prompt's.
    """
    items = flatten(value, ndim) if isinstance(value, list) and ndim else None
    if items is None:
        array = np.asarray(value)
        items = list(array.reshape(-1, array.shape[-1])) if array.ndim == ndim + 1 else []
    masks = [np.asarray(item).astype(np.bool_) for item in items]
    if len(masks) != len(rows.ids):
        return None
    out = np.zeros(rows.ids.shape, np.bool_)
    for i, mask in enumerate(masks):
        if mask.shape == (rows.ids.shape[1],):
            out[i] = mask
        elif mask.shape == (int(rows.mask[i].sum()),):  # one value per real id of a ragged row
            out[i, rows.mask[i]] = mask
        else:
            return None
    return out


def nested_key(key: NestedKey, name: str) -> NestedKey:
    """The key of an entry inside the one at ``key``."""
    return (key, name) if isinstance(key, str) else (*key, name)
