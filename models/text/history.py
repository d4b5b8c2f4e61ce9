"""`History`: conversations as data, to be rendered, tokenised, parsed and extended."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

import lite.data
from lite import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorClass, TensorDict, lazy_stack
from lite.models.text.chat import encode_messages, parser_name, render_messages
from lite.models.text.nesting import flatten, nest, objects
from lite.models.text.parsers import parse_chat
from lite.models.text.to_html import history_html

FIELDS = ("role", "content", "is_complete", "tool_calls", "tool_responses", "tool_call_id", "name")


class ContentBase(TensorClass, shadow=True):
    """One part of a message's content, for templates that take parts.

    Args:
        type: "text", "image", "audio", "video", "file" or "function_call".
        text, url, data, mime_type, name, size, function_name, function_args: what describes the part.

    Example:
        >>> History(role="user", content=[ContentBase(type="text", text="Hi")]).to_chats()["content"]
        [{'type': 'text', 'text': 'Hi'}]
    """

    type: Any
    text: Any = None
    url: Any = None
    data: Any = None
    mime_type: Any = None
    name: Any = None
    size: Any = None
    function_name: Any = None
    function_args: dict[str, Any] | None = None


class History(TensorClass):
    """A batch of messages; the last dimension is the turn.

    A conversation has shape (T,), a batch of conversations (B, T), or (B, -1) when their numbers of
    turns differ. A single message has no dimension.

    Args:
        role: "system", "user", "assistant", "tool" or any other; "<none>" marks filling that is never
            rendered.
        content: what was said: text, or a list of parts for templates that take them.
        is_complete: False for a turn whose end was not written.
        tool_calls: calls found in the turn.
        tool_responses: outputs of tools found in the turn.
        tool_call_id, name: which call a tool's turn answers, and the function's name.
        batch_size: shape of the batch; the fields are then lists nested to that shape.

    Example:
        >>> chat = History.from_chats([{"role": "user", "content": "Hi"}])
        >>> chat.append(History(role="assistant", content="Hello!"))[-1].content
        'Hello!'
        >>> print(chat.apply_chat_template(chat_template_name="chatml_format", add_generation_prompt=False))
        <|im_start|>user
        Hi<|im_end|>
        <|im_start|>assistant
        Hello!<|im_end|>
        <BLANKLINE>
    """

    role: Any
    content: Any
    is_complete: Any = True
    tool_calls: Any = None
    tool_responses: Any = None
    tool_call_id: Any = None
    name: Any = None

    @classmethod
    def from_chats(cls, chats: Sequence[Any]) -> Self:
        """Make a History of messages: a list of dicts gives (T,), a list of such lists (B, T), and so on.

        Args:
            chats: Messages with "role" and "content", which may be None (beside "tool_calls"), and
                optionally the other fields.

        Raises:
            IndexError: There is no message, or a conversation has none.
            AttributeError: A message has another field that is not None.
            TypeError: Something is neither a message nor a list of them.

        Example:
            >>> chat = [{"role": "user", "content": "a"}]
            >>> History.from_chats([chat, chat]).shape
            (2, 1)
        """
        if isinstance(chats, Mapping) or not isinstance(chats, Sequence):
            got = "one message" if isinstance(chats, Mapping) else repr(chats)
            raise TypeError(f"chats must be a list of messages, or lists of them; got {got}")
        if not chats:
            raise IndexError("chats must hold at least one message")
        return _build(cls, list(chats), _given(chats))

    def to_chats(self) -> Any:
        """The messages as dicts, in lists nested to the batch shape; the inverse of `from_chats`.

        Fields that are None are left out, but for the content.
        """
        shape, td = tuple(self.batch_size), self._tensordict
        if isinstance(td, LazyStackedTensorDict):
            return [row.to_chats() for row in self.unbind(0)]
        columns = [
            [None] * math.prod(shape) if entry is None else _objects(entry, shape)
            for entry in map(td._get_entry, FIELDS)
        ]
        messages = [
            {
                name: value
                for name, value in zip(FIELDS, row, strict=True)
                if value is not None or name == "content"
            }
            for row in zip(*columns, strict=True)
        ]
        return nest(messages, shape)

    def _repr_html_(self) -> str:
        """The conversations, turn by turn."""
        return history_html(self.batch_size, self.to_chats())

    def apply_chat_template(
        self,
        *,
        tokenizer: Any = None,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
        chat_template_name: str | None = None,
        continue_final_message: bool = False,
        tokenize: bool | None = None,
        padding: bool = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        return_dict: bool | None = None,
        return_assistant_tokens_mask: bool = False,
        split_special_tokens: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Render the conversations, and encode them if asked to.

        Without a template, `find_chat_template` finds it. Turns with role "<none>" are left out.

        Args:
            tokenizer: Needed to encode, or to choose a template.
            add_generation_prompt: End with the header of an assistant turn.
            chat_template: Jinja source.
            chat_template_name: "chatml_format", "qwen", "llama", "deepseek", "falcon", "dialogpt" or a
                registered name.
            continue_final_message: Leave the last message open, to be continued.
            tokenize: Return ids; by default only if arrays or the mask are asked for.
            padding: With ``return_dict``, pad the rows to one length, on the tokenizer's padding side.
            truncation: Cut rows to ``max_length`` tokens.
            max_length: Needed by ``truncation``.
            return_tensors: "np"; ids are arrays in any case.
            return_dict: Return a TensorDict of "input_ids" and "attention_mask", instead of ids alone; by
                default with the mask.
            return_assistant_tokens_mask: Also "assistant_masks", 1 on tokens of what assistants said, as the
                template's blocks have it; `OnnxWrapper` also marks what ends a turn.
            split_special_tokens: In ids, the name of a special token is text where users, systems and tools
                write it; False makes it the control token that it names, as transformers does.
            **kwargs: Further variables for the template: ``tools`` (JSON schemas of functions),
                ``documents``, ``enable_thinking`` and whatever else it reads.

        Returns:
            Text: a str for one conversation, else lists of str nested to the batch. Ids: int64 (1, L) for
            one conversation, else lists of such. With ``return_dict``: a TensorDict with entries (L,), or a
            lazy stack of them (a dense TensorDict if ``padding``).

        Raises:
            ValueError: An option is not allowed, or the template refuses the conversation; with the mask also
                where the template has no ``{% generation %}`` blocks and it cannot be told what assistants
                said from what the template writes.

        Example:
            >>> chat = History.from_chats([{"role": "user", "content": "Hi"}])
            >>> chat.apply_chat_template(chat_template="{{ messages[0].content }}!")
            'Hi!'
        """
        if return_tensors not in (None, "np"):
            raise ValueError(f"return_tensors must be 'np' or None, got {return_tensors!r}")
        if truncation and max_length is None:
            raise ValueError("max_length must be given with truncation=True")
        options = {
            "tokenizer": tokenizer,
            "chat_template": chat_template,
            "chat_template_name": chat_template_name,
            "add_generation_prompt": add_generation_prompt and not continue_final_message,
            "continue_final_message": continue_final_message,
            **kwargs,
        }
        if tokenize is None:
            tokenize = return_assistant_tokens_mask or return_tensors is not None or bool(return_dict)
        if return_dict is None:
            return_dict = return_assistant_tokens_mask
        history = self if self.batch_size else self.unsqueeze(0)
        if not tokenize:
            return _for_each(history, lambda chat: render_messages(chat, **options).text)
        if tokenizer is None:
            raise RuntimeError("apply_chat_template needs a tokenizer to return ids")

        def encode(chat: list[dict[str, Any]]) -> TensorDict:
            out = encode_messages(
                chat, mask=return_assistant_tokens_mask, split_special_tokens=split_special_tokens, **options
            )
            ids = out.ids[:max_length]
            columns = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
            if out.assistant_mask is not None:
                columns["assistant_masks"] = out.assistant_mask[:max_length].astype(np.int64)
            return TensorDict(columns)

        if not return_dict:
            return _for_each(history, lambda chat: encode(chat)["input_ids"][None])
        encoded = _for_each(history, encode)
        if not self.batch_size:
            return encoded.unsqueeze(0)
        return _collated(encoded, tokenizer) if padding else _stacked(encoded)

    @classmethod
    def from_text(
        cls,
        text: Any,
        chat_template_name: str | None = None,
        chat_template: str | None = None,
        tokenizer: Any = None,
    ) -> Self:
        """Parse rendered conversations.

        Args:
            text: One rendered conversation, or lists of them.
            chat_template_name: The template it was rendered with; without it, what `parser_name` finds
                for the tokenizer, or "chatml_format".
            chat_template: Accepted for compatibility; names the same template.
            tokenizer: Tells the template's name, and the end token where a format needs it.

        Returns:
            (T,) for one text, (B, T) or (B, -1) for a list of them.

        Raises:
            RuntimeError: No message was found in a text.
            NotImplementedError: There is no parser of that name.
            TypeError: ``text`` is neither a str nor a list.

        Example:
            >>> chat = History.from_text("<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\nHel")
            >>> chat[1].content, chat[1].is_complete
            ('Hel', False)
        """
        name = parser_name(tokenizer, chat_template_name)
        eos = getattr(tokenizer, "eos_token", None)

        def parse(item: Any) -> Any:
            if isinstance(item, str):
                return parse_chat(item, name, eos_token=eos)
            if not isinstance(item, list | tuple):
                raise TypeError(f"text must be a str or lists of them, got {item!r}")
            return [parse(i) for i in item]

        return cls.from_chats(parse(text))

    def append(self, history: History, *, inplace: bool = True, dim: int = -1) -> Self:
        """Add one turn to every conversation.

        Args:
            history: The turns, with one dimension less.
            inplace: Change and return this History; False returns a new one.
            dim: The dimension of turns.

        Raises:
            RuntimeError: This is a single message, or the dimensions do not fit.
        """
        if not self.batch_size:
            raise RuntimeError("cannot append to a History without batch dimension: call unsqueeze(0) first")
        if len(history.batch_size) != len(self.batch_size) - 1:
            raise RuntimeError(
                f"The history to append must have {len(self.batch_size) - 1} dimensions, one less than this"
                f" one, got {len(history.batch_size)}"
            )
        at = self._dimension(dim)
        return self._joined(_in_lists(history.to_chats(), at), at, inplace)

    def extend(self, history: History, *, inplace: bool = True, dim: int = 0) -> Self:
        """Add the turns (or conversations) of another History.

        Args:
            history: What to add, with as many dimensions.
            inplace: Change and return this History; False returns a new one.
            dim: The dimension to extend: 0 adds conversations to a batch of them, -1 adds turns.

        Raises:
            RuntimeError: The dimensions do not fit.
        """
        if not self.batch_size or len(history.batch_size) != len(self.batch_size):
            raise RuntimeError(
                f"The new history to extend with must have {max(len(self.batch_size), 1)} dimensions, as this"
                f" one, got {len(history.batch_size)} and {len(self.batch_size)}"
            )
        return self._joined(history.to_chats(), self._dimension(dim), inplace)

    @classmethod
    def default_spec(cls, shape: Any = (-1,)) -> lite.data.Composite:
        """The spec of a History: five entries of objects, as TorchRL's.

        Args:
            shape: The shape of the History; -1 where it is not known.

        Returns:
            A spec whose own shape lacks the last dimension, that of turns.

        Example:
            >>> chat = History.from_chats([{"role": "user", "content": "Hi"}])
            >>> History.default_spec().is_in(chat)
            True
        """
        size = lite.data.NonTensor(shape).shape
        examples = {"is_complete": True}
        fields = {name: lite.data.NonTensor(size, example_data=examples.get(name)) for name in FIELDS[:5]}
        return lite.data.Composite(fields, shape=size[:-1], data_cls=cls)

    def _dimension(self, dim: int) -> int:
        ndim = len(self.batch_size)
        if not -ndim <= dim < ndim:
            raise RuntimeError(f"dim must be in [{-ndim}, {ndim}), got {dim}")
        return dim % ndim

    def _joined(self, chats: Any, dim: int, inplace: bool) -> Self:
        joined = type(self).from_chats(_concatenated(self.to_chats(), chats, dim))
        if not inplace:
            return joined
        object.__setattr__(self, "_tensordict", joined._tensordict)
        return self


def _given(chats: Any) -> set[str]:
    """The fields that some message has, which all rows of a ragged batch get."""
    if isinstance(chats, Mapping):
        return {name for name, value in chats.items() if value is not None}
    return set[str]().union(*map(_given, chats)) if isinstance(chats, list | tuple) else set()


def _build(cls: type[Any], chats: list[Any], fields: set[str]) -> Any:
    shape = _shape(chats)
    if shape is None:
        if not chats:
            raise IndexError("a conversation must hold at least one message")
        return lazy_stack([_build(cls, chat, fields) for chat in chats])
    messages = flatten(chats, len(shape))
    for message in messages:
        if unknown := sorted(key for key in set(message) - set(FIELDS) if message[key] is not None):
            raise AttributeError(f"messages have the fields {list(FIELDS)}, got {unknown}")
        if missing := [name for name in FIELDS[:2] if name not in message]:
            raise TypeError(f"a message has no {' and no '.join(missing)}: {message!r}")
        if not isinstance(message["role"], str | None):
            raise TypeError(f"the role of a message must be a str, got {message['role']!r}")
        if isinstance(message["content"], bool | int | float | bytes):
            raise TypeError(f"the content of a message must be a str or a list, got {message['content']!r}")
    columns = {name: [message.get(name) for message in messages] for name in FIELDS}
    columns["is_complete"] = [message.get("is_complete", True) for message in messages]
    given = {
        name: objects(values, shape)
        for name, values in columns.items()
        if name in fields or values.count(None) < len(values)
    }
    return cls(**{"content": None, **given}, batch_size=shape)


def _objects(entry: Any, shape: tuple[int, ...]) -> list[Any]:
    """The values of an entry, one per message, in order."""
    if isinstance(entry, NonTensorData | NonTensorStack):
        return [_as_dicts(value) for value in flatten(entry.tolist(), len(shape))]
    return [_as_dicts(entry[index]) for index in np.ndindex(shape)]


def _as_dicts(content: Any) -> Any:
    """Content with `ContentBase` parts as the dicts that templates read."""
    if isinstance(content, ContentBase):
        if content.batch_size:
            return [part for row in content.unbind(0) for part in _as_dicts(row)]
        return [{name: value for name, value in content.to_dict().items() if value is not None}]
    if isinstance(content, list) and content and all(isinstance(item, ContentBase) for item in content):
        return [part for item in content for part in _as_dicts(item)]
    return content


def _shape(chats: Any) -> tuple[int, ...] | None:
    """The shape of nested lists of messages; None if they are ragged."""
    if isinstance(chats, Mapping):
        return ()
    if not isinstance(chats, (list, tuple)):
        raise TypeError(f"chats must be lists of messages (dicts), got {type(chats).__name__} in it")
    shapes = {_shape(chat) for chat in chats}
    only = shapes.pop() if len(shapes) == 1 else None
    return None if only is None else (len(chats), *only)


def _for_each(history: History, call: Callable[[list[dict[str, Any]]], Any]) -> Any:
    """The results of a call on every conversation, in lists nested to the batch."""
    if len(history.batch_size) == 1:
        return call(history.to_chats())
    return [_for_each(row, call) for row in history.unbind(0)]


def _stacked(rows: Any) -> Any:
    return lazy_stack([_stacked(row) for row in rows]) if isinstance(rows, list) else rows


def _collated(rows: Any, tokenizer: Any) -> Any:
    """Encoded conversations padded to one length, dense."""
    if not isinstance(rows, list):
        return rows
    stacked = _stacked(rows)
    side = getattr(tokenizer, "padding_side", "right")
    fill = {"input_ids": tokenizer.pad_token_id or 0}
    keys = list(stacked.keys())
    columns = {
        key: stacked.get(key, as_padded_tensor=True, padding_value=fill.get(key, 0), padding_side=side)
        for key in keys
    }
    return TensorDict(columns, batch_size=stacked.batch_size)


def _in_lists(chats: Any, depth: int) -> Any:
    """Lists nested ``depth`` deep with every item in a list of its own."""
    return [chats] if depth == 0 else [_in_lists(item, depth - 1) for item in chats]


def _concatenated(left: Any, right: Any, dim: int) -> Any:
    if dim == 0:
        return left + right
    if len(left) != len(right):
        raise RuntimeError(f"the histories have {len(left)} and {len(right)} rows: they must have as many")
    return [_concatenated(a, b, dim - 1) for a, b in zip(left, right, strict=True)]
