"""The data classes of language models: `Text`, `Tokens`, `Masks`, `LogProbs`, `Sampling` and `ChatHistory`.

Their batched instances hold dense arrays when padded, and lazy stacks of rows when ragged: a ragged field
is read with ``get(name, as_list=True)``, or ``get(name, as_padded_tensor=True, padding_value=...,
padding_side=...)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorClass, lazy_stack
from lite._arrays.caller import warn
from lite.models.text.chat import encode_chats, parse_response
from lite.models.text.history import History
from lite.models.text.nesting import flatten, list_shape, nest, ragged, rows_of
from lite.models.text.specs import default_spec_of, of_rows, of_texts
from lite.models.text.to_html import draws_html, numbers_only, tokens_html

PARTS = ("prompt", "response", "full")


class Text(TensorClass):
    """Texts of a language model; batched fields are (nested) lists of str.

    Args:
        prompt: what the model was given.
        response: what it wrote.
        full: both.

    Example:
        >>> Text(prompt=["Hi", "Hello"], batch_size=[2])[1].prompt
        'Hello'
    """

    prompt: Any = None
    response: Any = None
    full: Any = None

    default_spec = default_spec_of(PARTS, of_texts)

    def to_tokens(
        self,
        tokenizer: Any,
        padding: bool = False,
        truncation: bool = False,
        return_tensors: str = "np",
        **kwargs: Any,
    ) -> Tokens:
        """Encode every field; rows keep their lengths.

        Raises:
            ValueError: ``padding`` is asked for (use ``get(..., as_padded_tensor=True)`` on the result).
        """
        if padding:
            raise ValueError("Padding is not yet supported: read the result with as_padded_tensor=True")
        if return_tensors != "np":
            raise ValueError(f"return_tensors must be 'np', got {return_tensors!r}")
        columns: dict[str, _Column] = {}
        for name, (texts, shape) in self._columns().items():
            ids = tokenizer(texts, truncation=truncation, **kwargs)["input_ids"] if texts else []
            columns[name] = [np.asarray(row, np.int64) for row in ids], shape
        return _unpadded(columns, self.batch_size)

    def to_history(self, tokenizer: Any = None, chat_template_name: str | None = None) -> ChatHistory:
        """Parse every field, see `History.from_text`.

        A response that was cut from its conversation begins without the header of its turn: it is read as
        if the template's generation prompt came before it.

        Raises:
            RuntimeError: no message was found in a prompt or a whole conversation.
            NotImplementedError: there is no parser of that name.

        Example:
            >>> Text(response="Hello!<|im_end|>").to_history().response[0].content
            'Hello!'
        """

        def parse(name: str, text: str) -> Any:
            if name == "response":
                turns = parse_response(text, tokenizer=tokenizer, chat_template_name=chat_template_name)
                return History.from_chats(turns)
            return History.from_text(text, chat_template_name, tokenizer=tokenizer)

        fields = {
            name: nest([parse(name, text) for text in texts], shape, lazy_stack)
            for name, (texts, shape) in self._columns().items()
        }
        return ChatHistory(**fields, batch_size=self.batch_size)

    def _columns(self) -> dict[str, tuple[list[str], tuple[int, ...]]]:
        """The texts of each field in order, and the shape of the lists they were in."""
        columns = {}
        for name in PARTS:
            value = getattr(self, name)
            if value is not None:
                shape = self.batch_size if 0 in self.batch_size else list_shape(value)
                columns[name] = flatten(value, len(shape)), shape
        return columns


class Tokens(TensorClass):
    """Token ids, int64 (*batch, L).

    Args:
        prompt: ids given to the model; padded on the left if padded.
        response: ids it generated; padded on the right if padded.
        full: prompt, then response.
        padded: whether rows have one length, with padding.

    Example:
        >>> import numpy as np
        >>> from lite import lazy_stack
        >>> rows = lazy_stack([Tokens(full=np.arange(n)) for n in (1, 2)])
        >>> [row.tolist() for row in rows.get("full", as_list=True)]
        [[0], [0, 1]]
        >>> Tokens.default_spec((2,), keys=["full"]).is_in(Tokens(full=np.zeros((2, 5), np.int64)))
        True
    """

    prompt: Any = None
    response: Any = None
    full: Any = None
    padded: bool | None = None

    default_spec = default_spec_of(PARTS, of_rows(np.int64), padded=True)

    def _repr_html_(self) -> str:
        """The ids of each row."""
        return _html(self) or super()._repr_html_()

    def to_text(self, tokenizer: Any, skip_special_tokens: bool = False) -> Text:
        """Decode every field.

        Raises:
            ValueError: the rows are padded: padding would become text.
        """
        flags = self.get("padded")
        if flags is True or (isinstance(flags, list) and any(flatten(flags, len(self.batch_size)))):
            raise ValueError("padded tokens cannot be converted to text: remove the padding first")
        fields = {}
        for name in PARTS:
            value = self.get(name, as_list=True)
            if value is not None:
                arrays = rows_of(value, len(self.batch_size))
                rows = [row for array in arrays for row in array.reshape(math.prod(array.shape[:-1]), -1)]
                texts = iter(tokenizer.batch_decode(rows, skip_special_tokens=skip_special_tokens))
                nested = [
                    nest(list(islice(texts, math.prod(array.shape[:-1]))), array.shape[:-1])
                    for array in arrays
                ]
                fields[name] = nest(nested, self.batch_size)
        return Text(**fields, batch_size=self.batch_size)

    def to_history(
        self, tokenizer: Any, chat_template_name: str | None = None, skip_special_tokens: bool = False
    ) -> ChatHistory:
        """Decode and parse every field."""
        text = self.to_text(tokenizer, skip_special_tokens=skip_special_tokens)
        return text.to_history(tokenizer, chat_template_name)


class Masks(TensorClass):
    """What the ids of ``Tokens.full`` are, bool (*batch, L).

    Args:
        all_attention_mask: True on real tokens, False on padding.
        all_assistant_mask: True on what assistants said, with the token that ends a turn: of generation on
            the response, of scoring on every turn.
        padded: as in `Tokens`.
    """

    all_attention_mask: Any = None
    all_assistant_mask: Any = None
    padded: bool | None = None

    default_spec = default_spec_of(
        ("all_attention_mask", "all_assistant_mask"), of_rows(np.bool_), padded=True
    )


class LogProbs(TensorClass):
    """Log-probs of tokens under the raw model distribution, float32, laid out as in `Tokens`.

    Unknown log-probs are None, never 0; entries are 0 on padding and on the first token of a row, which
    nothing comes before.

    Args:
        prompt: log-probs of the prompt's tokens.
        response: log-probs of the response's tokens.
        full: log-probs of both, from scoring.
        padded: as in `Tokens`.
    """

    prompt: Any = None
    response: Any = None
    full: Any = None
    padded: bool | None = None

    default_spec = default_spec_of(PARTS, of_rows(np.float32), padded=True)

    def _repr_html_(self) -> str:
        """The log-probs of each row, the darker the less probable the token; hovering tells more."""
        return _html(self) or super()._repr_html_()


class Sampling(TensorClass):
    """How the tokens of responses were sampled, as far as options ask for it.

    L tokens are laid out as in ``Tokens.response``; on padding, ids are -1 and numbers 0.

    Args:
        sampled_log_probs: log-probs in the distributions that tokens were really drawn from, after
            penalties, bans, temperature and filters, float32 (*batch, L); 0 where the best one was taken. Of
            beams those that the options make of the model's after the beam.
        kept_log_mass: the log of the probability that bans and filters left, float32 (*batch, L). Unless
            biases, penalties or functions of the user change scores of what is kept, ``sampled_log_probs``
            are the log-probs at the temperature less this. What is ruled out counts with its score before.
        kept_offsets, kept_ids: the ids that could be drawn. For token t those of
            ``kept_ids[kept_offsets[t]:kept_offsets[t + 1]]``, all tokens if empty; int64 (*batch, L + 1)
            and int32 (*batch, K).
        entropy: entropy of the model's distribution, in nats, float32 (*batch, L).
        top_ids, top_log_probs: the model's n most probable tokens in each place, the first of equal ones
            first, int64 and float32 (*batch, L, n).
        score: the score of beams, float32 (*batch,); NaN for other rows.
        padded: as in `Tokens`.
    """

    sampled_log_probs: Any = None
    kept_log_mass: Any = None
    kept_offsets: Any = None
    kept_ids: Any = None
    entropy: Any = None
    top_ids: Any = None
    top_log_probs: Any = None
    score: Any = None
    padded: bool | None = None

    def _repr_html_(self) -> str:
        """The tokens that are known of, hovering tells the most probable in each place; then all fields."""
        (sampled,) = _known(self, 1, "sampled_log_probs") or ([],)
        ids, log_probs = _known(self, 2, "top_ids", "top_log_probs") or ([], [])
        pairs = list(zip(ids, log_probs, strict=True)) if len(ids) == len(log_probs) else []
        if any(one.shape != other.shape or not one.shape[1] for one, other in pairs):
            pairs = []
        return draws_html(sampled, pairs) + super()._repr_html_()


class ChatHistory(TensorClass):
    """Conversations before and after a response; fields are `History` with a dimension more for turns.

    Args:
        prompt: the conversation the model was given.
        response: the turns that it added.
        full: both.

    Example:
        >>> chat = ChatHistory(prompt=History.from_chats([{"role": "user", "content": "Hi"}]))
        >>> chat.prompt.shape
        (1,)
    """

    prompt: Any = None
    response: Any = None
    full: Any = None

    default_spec = default_spec_of(PARTS, lambda size: History.default_spec((*size, -1)))

    def __post_init__(self) -> None:
        for name in PARTS:
            history = getattr(self, name)
            if history is not None and not isinstance(history, History):
                raise TypeError(
                    f"ChatHistory: {name} must be a History, got {type(history).__name__}; make one with"
                    " History.from_chats([[{'role': 'user', 'content': 'Hi'}]])"
                )
            if history is not None and len(history.batch_size) == len(self.batch_size):
                warn(
                    f"ChatHistory: {name} has no dimension for turns; one of size 1 is added",
                    UserWarning,
                )
                setattr(self, name, history.unsqueeze(-1))

    def to_text(
        self, tokenizer: Any, chat_template_name: str | None = None, chat_template: str | None = None
    ) -> Text:
        """Render every field: the prompt with a generation prompt, the rest without.

        With a prompt and a full conversation, the response is what follows the prompt.

        Raises:
            ValueError: the full text does not start with the prompt's.
        """
        rendered = self._rendered(tokenizer, chat_template_name, chat_template)
        fields = {name: nest([text for text, _ in rows], shape) for name, (rows, shape) in rendered.items()}
        return Text(**fields, batch_size=self.batch_size)

    def to_tokens(
        self, tokenizer: Any, chat_template_name: str | None = None, chat_template: str | None = None
    ) -> Tokens:
        """Render and encode every field, as `to_text` does; rows keep their lengths.

        Raises:
            ValueError: the full text does not start with the prompt's.
        """
        rendered = self._rendered(tokenizer, chat_template_name, chat_template)
        columns: dict[str, _Column] = {
            name: ([ids for _, ids in rows], shape) for name, (rows, shape) in rendered.items()
        }
        return _unpadded(columns, self.batch_size)

    def _rendered(
        self, tokenizer: Any, name: str | None, source: str | None
    ) -> dict[str, tuple[list[_Encoded], tuple[int, ...]]]:
        """Text and ids of every conversation, for each field, and the field's shape."""
        out: dict[str, tuple[list[_Encoded], tuple[int, ...]]] = {}
        for part in PARTS:
            history = getattr(self, part)
            if history is None:
                continue
            shape = tuple(history.batch_size[:-1])
            encoded = encode_chats(
                flatten(history.to_chats(), len(shape)),
                tokenizer=tokenizer,
                chat_template=source,
                chat_template_name=name,
                add_generation_prompt=part == "prompt",
            )
            out[part] = [(row.text, row.ids) for row in encoded], shape
        if "prompt" in out and "full" in out:
            (prompts, _), (fulls, shape) = out["prompt"], out["full"]
            out["response"] = [_after(*pair) for pair in zip(prompts, fulls, strict=True)], shape
        return out


_Encoded = tuple[str, NDArray[np.int64]]
_Column = tuple[Sequence[NDArray[Any]], tuple[int, ...]]
"""The rows of a field, and the field's shape without that of a row: the batch size, or more dimensions."""


def _html(shown: Tokens | LogProbs) -> str | None:
    """The rows of all fields; None where one of them holds something else."""
    names = [name for name in PARTS if shown.get(name, as_list=True) is not None]
    found = _known(shown, 1, *names)
    if found is None:
        return None
    columns = dict(zip(names, found, strict=True))
    return tokens_html(type(shown).__name__, shown.batch_size, columns)


def _known(shown: TensorClass, ndim: int, *names: str) -> list[list[NDArray[Any]]] | None:
    """The rows of fields, of so many dimensions each; None where one of them holds something else."""
    found = []
    for name in names:
        value = shown.get(name, as_list=True)
        rows = None if value is None else numbers_only(rows_of(value, len(shown.batch_size)), ndim)
        if rows is None:
            return None
        found.append(rows)
    return found


def _unpadded(columns: Mapping[str, _Column], batch: tuple[int, ...]) -> Tokens:
    """Tokens whose fields hold these rows; those of one batch element are one array."""
    joined = {}
    for name, (rows, shape) in columns.items():
        inner = shape[len(batch) :]
        size = math.prod(inner)
        joined[name] = (
            rows
            if not inner
            else [_array(name, rows[at : at + size], inner) for at in range(0, len(rows), size)]
        )
    return ragged(Tokens, joined, batch)


def _array(name: str, rows: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> NDArray[Any]:
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1:
        raise ValueError(
            f"{name}: rows of lengths {lengths} fit into no array; give their dimensions {shape}"
            " to the batch_size of what they are made from"
        )
    return np.stack(rows).reshape(*shape, *lengths)


def _after(prompt: _Encoded, full: _Encoded) -> _Encoded:
    if not full[0].startswith(prompt[0]):
        raise ValueError(f"Full text does not start with prompt text: {full[0]!r} and {prompt[0]!r}")
    return full[0][len(prompt[0]) :], full[1][len(prompt[1]) :]
