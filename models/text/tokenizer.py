"""Text to token ids and back, from the tokenizer files of a model folder."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lite._arrays.caller import warn
from lite._files.onnx.arrays import check_links
from lite.models.graph.model_config import MAX_TOKENIZER_BYTES, read_json_object, read_text
from lite.models.text.builtin_templates import has_generation_block, own_template
from lite.models.text.chat import span_mask
from lite.models.text.columns import check_side, collate
from lite.models.text.template_rendering import render_chat, warn_of_dropped
from lite.models.text.tokenizer_rules import MAX_ID, check_rules

Chat = Sequence[Mapping[str, Any]]

_LONG_NUMBER = re.compile(r":\s*\d{10}")  # an id; without the colon it takes ten times as long

# The named special tokens, in the order the configuration files list them.
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class Tokenizer:
    """A tokenizer with the methods that users of Hugging Face tokenizers know.

    It reads ``tokenizer.json`` through the ``tokenizers`` package. Where that is not installed, byte-level
    BPE like that of the embedded model runs in Python. Special tokens and the chat template come from the
    configuration files beside it. ``tokenizer_class`` is ignored: the pipeline is whatever ``tokenizer.json``
    says. Make one with :meth:`from_pretrained`.

    Args:
        backend: A ``tokenizers.Tokenizer``. Its own padding and truncation are switched off.
        special_tokens: Named special tokens, e.g. ``{"eos_token": "</s>", "pad_token": "<pad>"}``.
        chat_template: Jinja source, or a mapping of names to sources with one named "default".
        name_or_path: Where the tokenizer came from; chat templates are chosen by it.
        padding_side: Default side for padding, "left" or "right".

    Example:
        >>> from tokenizers import Tokenizer as Backend, models, pre_tokenizers
        >>> backend = Backend(models.WordLevel({"<pad>": 0, "hello": 1, "world": 2}, unk_token="<pad>"))
        >>> backend.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> tokenizer = Tokenizer(backend, special_tokens={"pad_token": "<pad>"})
        >>> tokenizer.encode("hello world")
        [1, 2]
        >>> tokenizer(["hello world", "world"], padding=True, padding_side="left")["input_ids"]
        [[1, 2], [0, 2]]
    """

    def __init__(
        self,
        backend: Any,
        *,
        special_tokens: Mapping[str, str | None] | None = None,
        chat_template: str | Mapping[str, str] | None = None,
        name_or_path: str = "",
        padding_side: Literal["left", "right"] = "right",
    ) -> None:
        self.backend = backend
        self.name_or_path = name_or_path
        self._refusing = _Refusing(f"the tokenizer {name_or_path!r} failed")
        self.padding_side = check_side(padding_side)
        named = dict(special_tokens or {})
        if unknown := sorted(set(named) - set(NAMED)):
            raise ValueError(f"special_tokens has unknown names {unknown}; known are {list(NAMED)}")
        self.special_tokens_map: dict[str, str] = {k: named[k] for k in NAMED if named.get(k)}  # type: ignore[misc]
        with self._refusing:
            backend.no_padding()
            backend.no_truncation()
            _mark_special(backend, self.special_tokens_map.values())
        if isinstance(chat_template, str):
            chat_template = {"default": chat_template}
        self.chat_templates: dict[str, str] = dict(chat_template or {})

    @classmethod
    def from_pretrained(cls, path: str | Path) -> Tokenizer:
        """Read the tokenizer of a model folder (or the folder of a model file).

        Reads ``tokenizer.json``, and where present ``tokenizer_config.json``,
        ``special_tokens_map.json``, ``chat_template.jinja``, ``chat_templates/*.jinja``, and, for
        special tokens the former do not name, the ids in ``generation_config.json``,
        ``genai_config.json`` and ``config.json``. For a folder named ``onnx`` without a tokenizer
        the folder above it is tried too, which is how transformers.js repositories are laid out.

        Raises:
            FileNotFoundError: The path does not exist, or no ``tokenizer.json`` was found.
            ValueError: A file is malformed or too large.
            ImportError: The ``tokenizers`` package is missing, and ``tokenizer.json`` needs it.
        """
        backend, options = _load_files(Path(path))
        return cls(backend, **options)

    # -- special tokens ------------------------------------------------------------------------

    @property
    def bos_token(self) -> str | None:
        """The beginning-of-sequence token, or None."""
        return self.special_tokens_map.get("bos_token")

    @property
    def eos_token(self) -> str | None:
        """The end-of-sequence token, or None."""
        return self.special_tokens_map.get("eos_token")

    @property
    def pad_token(self) -> str | None:
        """The padding token, or None."""
        return self.special_tokens_map.get("pad_token")

    @property
    def unk_token(self) -> str | None:
        """The unknown token, or None."""
        return self.special_tokens_map.get("unk_token")

    @property
    def bos_token_id(self) -> int | None:
        """Id of :attr:`bos_token`."""
        return self._id_of("bos_token")

    @property
    def eos_token_id(self) -> int | None:
        """Id of :attr:`eos_token`."""
        return self._id_of("eos_token")

    @property
    def pad_token_id(self) -> int | None:
        """Id of :attr:`pad_token`."""
        return self._id_of("pad_token")

    @property
    def chat_template(self) -> str | None:
        """Source of the default chat template, or None."""
        return self.chat_templates.get("default")

    def _id_of(self, name: str) -> int | None:
        token = self.special_tokens_map.get(name)
        with self._refusing:
            found: int | None = None if token is None else self.backend.token_to_id(token)
        return found

    def __len__(self) -> int:
        """Number of tokens, added ones included."""
        with self._refusing:
            return int(self.backend.get_vocab_size(with_added_tokens=True))

    def __repr__(self) -> str:
        return f"Tokenizer({self.name_or_path!r}, {len(self)} tokens, {self.special_tokens_map})"

    # -- text to ids ---------------------------------------------------------------------------

    @property
    def added_tokens_decoder(self) -> dict[int, Any]:
        """The ``tokenizers.AddedToken`` of each id that has one; the special ones are control tokens."""
        with self._refusing:
            return dict(self.backend.get_added_tokens_decoder())

    @functools.cached_property
    def _spelling(self) -> Any:
        """A copy of the backend to which special tokens are text like any other."""
        with self._refusing:
            copy = type(self.backend).from_str(self.backend.to_str())
            copy.encode_special_tokens = True
        return copy

    def encode(
        self, text: str, *, add_special_tokens: bool = True, split_special_tokens: bool = False
    ) -> list[int]:
        """The ids of one text.

        ``add_special_tokens`` lets the tokenizer's post-processor add its own (a BOS, say). Pass
        False for text rendered by a chat template, which holds them already. With
        ``split_special_tokens``, the name of a special token in the text is text, as in what users write.
        """
        _check_text(text)
        backend = self._spelling if split_special_tokens else self.backend
        with self._refusing:
            return list(backend.encode(text, add_special_tokens=add_special_tokens).ids)

    def __call__(
        self,
        text: str | Sequence[str],
        *,
        padding: bool | Literal["longest", "max_length"] = False,
        padding_side: Literal["left", "right"] | None = None,
        truncation: bool = False,
        max_length: int | None = None,
        add_special_tokens: bool = True,
        split_special_tokens: bool = False,
        return_attention_mask: bool = True,
        return_offsets_mapping: bool = False,
        return_tensors: Literal["np"] | None = None,
    ) -> dict[str, Any]:
        """Encode one text, or several.

        Args:
            text: A string (flat lists come back) or a sequence of strings (lists of lists).
            padding: False keeps the rows ragged; True or "longest" pads to the longest row;
                "max_length" to ``max_length``.
            padding_side: "left" or "right"; by default the tokenizer's own.
            truncation: Cut rows on the right to ``max_length``.
            max_length: Needed by ``truncation`` and ``padding="max_length"``.
            add_special_tokens, split_special_tokens: As in :meth:`encode`.
            return_attention_mask: Include "attention_mask" (1 for a token, 0 for padding).
            return_offsets_mapping: Include "offset_mapping", each token's (start, end) in the text.
            return_tensors: "np" for int64 arrays of shape (B, L) (rows must be of one length).

        Returns:
            A dict with "input_ids" and what else was asked for.

        Raises:
            ValueError: An option's value is unknown, padding is asked of a tokenizer without a pad
                token, or ragged rows were to become an array.
        """
        single = isinstance(text, str)
        if not isinstance(text, Iterable):
            raise TypeError(f"text must be str or a sequence of str, got {text!r}")
        texts = [text] if isinstance(text, str) else list(text)
        for item in texts:
            _check_text(item)
        backend = self._spelling if split_special_tokens else self.backend
        with self._refusing:
            encodings = backend.encode_batch(texts, add_special_tokens=add_special_tokens)
        columns: dict[str, list[list[Any]]] = {"input_ids": [list(encoding.ids) for encoding in encodings]}
        if return_offsets_mapping:
            columns["offset_mapping"] = [list(encoding.offsets) for encoding in encodings]
        return collate(
            columns,
            single=single,
            pad_token_id=self.pad_token_id if padding else None,
            padding=padding,
            padding_side=self.padding_side if padding_side is None else padding_side,
            truncation=truncation,
            max_length=max_length,
            return_attention_mask=return_attention_mask,
            return_tensors=return_tensors,
        )

    # -- ids to text ---------------------------------------------------------------------------

    def decode(self, ids: int | Sequence[int] | NDArray[Any], *, skip_special_tokens: bool = False) -> str:
        """The text of one row of ids; ids unknown to the tokenizer give no text."""
        row = _ids(ids)
        with self._refusing:
            return str(self.backend.decode(row, skip_special_tokens=skip_special_tokens))

    def batch_decode(
        self,
        rows: Sequence[Sequence[int] | NDArray[Any]] | NDArray[Any],
        *,
        skip_special_tokens: bool = False,
    ) -> list[str]:
        """The text of each row of ids; rows may have different lengths."""
        ids = [_ids(row) for row in rows]
        with self._refusing:
            return list(self.backend.decode_batch(ids, skip_special_tokens=skip_special_tokens))

    def convert_ids_to_tokens(self, ids: Sequence[int] | NDArray[Any]) -> list[str | None]:
        """Each id's token as the vocabulary spells it, None for an unknown id."""
        row = _ids(ids)
        with self._refusing:
            return [self.backend.id_to_token(i) for i in row]

    def convert_tokens_to_ids(self, tokens: Sequence[str]) -> list[int | None]:
        """Each token's id, None for a token that the vocabulary lacks."""
        with self._refusing:
            return [self.backend.token_to_id(token) for token in tokens]

    # -- conversations -------------------------------------------------------------------------

    def apply_chat_template(
        self,
        conversation: Chat | Sequence[Chat],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        tokenize: bool = True,
        padding: bool | Literal["longest", "max_length"] = False,
        padding_side: Literal["left", "right"] | None = None,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: Literal["np"] | None = None,
        return_dict: bool = True,
        return_assistant_tokens_mask: bool = False,
        **variables: Any,
    ) -> Any:
        """Render one conversation, or several, and encode the result.

        Args:
            conversation: A list of messages (``{"role": ..., "content": ...}``), or a list of such.
            tools: JSON schemas of functions, for templates that take them.
            chat_template: Jinja source, or the name of one of the tokenizer's templates; by default
                its "tool_use" template when ``tools`` is given and there is one, else "default".
            add_generation_prompt: End with the header of an assistant message.
            continue_final_message: Leave the last message open, to be continued.
            tokenize: False returns text instead of ids.
            padding, padding_side, truncation, max_length, return_tensors: As in :meth:`__call__`.
            return_dict: False returns the ids alone.
            return_assistant_tokens_mask: Include "assistant_masks": 1 on the tokens inside the
                template's ``{% generation %}`` blocks. Needs ``tokenize`` and ``return_dict``.
            **variables: Further variables for the template (``documents``, ``enable_thinking``).

        Raises:
            ValueError: There is no template, or the template refuses the conversation.
        """
        if return_assistant_tokens_mask and not (tokenize and return_dict):
            raise ValueError("return_assistant_tokens_mask needs tokenize=True and return_dict=True")
        source = self._template_source(chat_template, tools)
        if return_assistant_tokens_mask and not has_generation_block(source):
            warn(
                "return_assistant_tokens_mask: the chat template has no {% generation %} block, so the mask"
                " is all zeros; History.apply_chat_template finds what assistants said without blocks",
                UserWarning,
            )
        single = not conversation or isinstance(conversation[0], Mapping)
        chats: list[Any] = [conversation] if single else list(conversation)
        rendered = [
            render_chat(
                source,
                chat,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message,
                **{**self.special_tokens_map, **variables},
            )
            for chat in chats
        ]
        turns = [turn for chat in chats for turn in chat]
        warn_of_dropped(source, turns, tools=tools, documents=variables.get("documents"))
        if not tokenize:
            return rendered[0].text if single else [row.text for row in rendered]
        with self._refusing:
            encodings = self.backend.encode_batch([row.text for row in rendered], add_special_tokens=False)
        columns: dict[str, list[list[Any]]] = {"input_ids": [list(encoding.ids) for encoding in encodings]}
        if return_assistant_tokens_mask:
            columns["assistant_masks"] = [
                span_mask(e.offsets, r.spans).astype(int).tolist()
                for e, r in zip(encodings, rendered, strict=True)
            ]
        out = collate(
            columns,
            single=single,
            pad_token_id=self.pad_token_id,
            padding=padding,
            padding_side=self.padding_side if padding_side is None else padding_side,
            truncation=truncation,
            max_length=max_length,
            return_tensors=return_tensors,
        )
        return out if return_dict else out["input_ids"]

    def _template_source(self, chat_template: str | None, tools: object) -> str:
        if chat_template is not None:
            return self.chat_templates.get(chat_template, chat_template)
        if (own := own_template(self, tools)) is not None:
            return own
        known = f"it has only {sorted(self.chat_templates)}" if self.chat_templates else "it has none"
        raise ValueError(
            f"the tokenizer {self.name_or_path!r} has no default chat template ({known}); pass chat_template"
        )


def common_start(first: Sequence[Any] | NDArray[Any], second: Sequence[Any] | NDArray[Any]) -> int:
    """How many elements two sequences begin with alike."""
    both = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in both if a != b), min(len(first), len(second)))


def encode_after(
    tokenizer: Any, before: str, ids: Sequence[int] | NDArray[Any], text: str
) -> tuple[int, list[int]]:
    """The tokens of a text that follows another, which may differ from those of the text by itself.

    SentencePiece puts a space before a text, and a token may hold the end of one and the start of the next.

    Args:
        tokenizer: has the method `encode` of `Tokenizer`.
        before, ids: the other text and its token ids.
        text: what follows.

    Returns:
        How many tokens at the end of `ids` go, and the ids that come behind the others.

    Example:
        >>> from lite.models import Tokenizer, embedded_model_path
        >>> tokenizer = Tokenizer.from_pretrained(embedded_model_path())
        >>> before, whole = tokenizer.encode("Copy: "), tokenizer.encode("Copy: sun")
        >>> gone, ids = encode_after(tokenizer, "Copy: ", before, "sun")
        >>> gone, before[:-gone] + ids == whole
        (1, True)
    """
    whole = list(tokenizer.encode(before + text, add_special_tokens=False))
    head = np.asarray(ids).tolist()
    # A token may reach over the border; or special tokens are around `ids`, or users wrote their names.
    if whole[: len(head)] != head:
        head = tokenizer.encode(before, add_special_tokens=False)
    kept = common_start(head, whole)
    return len(head) - kept, whole[kept:]


def encode_inside(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text within another, where those before it stay as they are."""
    line = tokenizer.encode("\n", add_special_tokens=False)
    gone, ids = encode_after(tokenizer, "\n", line, text)
    return list(tokenizer.encode(text, add_special_tokens=False)) if gone else ids


def _ids(ids: int | Sequence[int] | NDArray[Any]) -> list[int]:
    array = np.array(ids, ndmin=1, copy=None)
    if array.size == 0:
        return []
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"ids must be one row of integers, got shape {array.shape} and dtype {array.dtype}")
    if array.min() < 0:
        raise ValueError(f"ids must not be negative, got {array.min()}")
    return list(array.tolist())


def _check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise TypeError(f"text must be str or a sequence of str, got {type(text).__name__} in it")
    try:
        text.encode()
    except UnicodeEncodeError as error:  # input that is not UTF-8 comes as lone surrogates
        raise ValueError(f"text must be valid Unicode, got {text[error.start]!r} at {error.start}") from None


class _Refusing:
    """A context that raises ValueError for what the tokenizers package raises on broken files.

    Those are panics, which derive from BaseException, and plain Exceptions.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is Exception or (kind is not None and kind.__name__ == "PanicException"):
            raise ValueError(f"{self._what}: {error}") from None


def _mark_special(backend: Any, tokens: Any) -> None:
    """Make named tokens special, so that encoding never splits them and decoding can skip them."""
    special = {t.content for t in backend.get_added_tokens_decoder().values() if t.special}
    if missing := [token for token in tokens if token not in special]:
        make = _package().AddedToken
        backend.add_special_tokens([make(content=t, special=True, normalized=False) for t in missing])


def _package() -> Any:
    """The tokenizers package, or what stands for it."""
    try:
        import tokenizers
    except ImportError:
        from lite.models.text import byte_level_bpe

        return byte_level_bpe
    return tokenizers


# -- the files of a model folder ------------------------------------------------------------------


def _load_files(path: Path) -> tuple[Any, dict[str, Any]]:
    """The backend of a model folder, and the options to make a ``Tokenizer`` with.

    Only files of fixed names (and ``chat_templates/*.jinja``) are read: no file names another.
    """
    folder = _find_folder(path)
    file = folder / "tokenizer.json"
    source = read_text(file, max_bytes=MAX_TOKENIZER_BYTES)
    config = read_json_object(folder / "tokenizer_config.json")
    try:
        check_rules(source)
        with _Refusing("it cannot be read"):
            backend = _package().Tokenizer.from_str(source)
        # looking for a long number is quicker than listing the vocabulary
        if _LONG_NUMBER.search(source) and max(backend.get_vocab().values(), default=0) > MAX_ID:
            raise ValueError(f"ids must be at most {MAX_ID}")
    except ValueError as error:
        raise ValueError(f"{file} is not a valid tokenizer: {error}") from None
    with _Refusing(f"{file} is not a valid tokenizer"):
        _add_configured_tokens(backend, config)
        special = _named_tokens(folder, config, backend)
    return backend, {
        "special_tokens": special,
        "chat_template": _chat_templates(folder, config),
        "name_or_path": str(path),
        "padding_side": "left" if config.get("padding_side") == "left" else "right",
    }


def _find_folder(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"no such model folder: {path}")
    folder = path if path.is_dir() else path.parent
    tried = [folder, folder.parent] if folder.resolve().name == "onnx" else [folder]
    for candidate in tried:
        if (candidate / "tokenizer.json").is_file():
            return candidate
    where = " and ".join(str(candidate) for candidate in tried)
    found = sorted(p.name for p in folder.iterdir())[:20]
    raise FileNotFoundError(f"no tokenizer.json in {where} (found: {', '.join(found) or 'nothing'})")


def _content(token: Any) -> str | None:
    """Configuration files spell a token as a string or as an object with a "content"."""
    value = token.get("content") if isinstance(token, dict) else token
    return value if isinstance(value, str) and value else None


def _add_configured_tokens(backend: Any, config: Mapping[str, Any]) -> None:
    """Add the tokens that tokenizer_config.json lists beyond those of tokenizer.json, in id order."""
    declared = config.get("added_tokens_decoder")
    if not isinstance(declared, dict):
        return
    entries = sorted(
        (int(i), t) for i, t in declared.items() if i.isascii() and i.isdigit() and isinstance(t, dict)
    )
    for index, entry in entries:
        content = _content(entry)
        if content is None or backend.token_to_id(content) is not None:
            continue
        if index != backend.get_vocab_size(with_added_tokens=True):
            continue  # the package numbers added tokens itself: any other id would be a different token
        flags = {k: bool(entry.get(k, False)) for k in ("single_word", "lstrip", "rstrip", "normalized")}
        make = _package().AddedToken
        backend.add_tokens([make(content=content, special=bool(entry.get("special", False)), **flags)])


def _named_tokens(folder: Path, config: Mapping[str, Any], backend: Any) -> dict[str, str | None]:
    token_map = read_json_object(folder / "special_tokens_map.json")
    ids = [
        read_json_object(folder / "generation_config.json"),
        read_json_object(folder / "genai_config.json").get("model", {}),
        read_json_object(folder / "config.json"),
    ]
    named: dict[str, str | None] = {}
    for name in NAMED:
        token = _content(config.get(name)) or _content(token_map.get(name))
        for source in ids:
            if token is not None or name in config or not isinstance(source, dict):
                break  # a token that the tokenizer's own file sets to null stays unset
            value = source.get(f"{name}_id")
            first = value[0] if isinstance(value, list) and value else value
            if isinstance(first, int) and 0 <= first < 2**31:
                token = backend.id_to_token(first)
        named[name] = token
    return named


def _chat_templates(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Template files win over the entry in tokenizer_config.json."""
    templates: dict[str, str] = {}
    declared = config.get("chat_template")
    if isinstance(declared, str):
        templates["default"] = declared
    elif isinstance(declared, list):
        for entry in declared:
            if isinstance(entry, dict) and isinstance(entry.get("template"), str):
                templates[str(entry.get("name", "default"))] = entry["template"]
    for file in sorted((folder / "chat_templates").glob("*.jinja")):
        templates[file.stem] = _template_text(file, folder)
    if (folder / "chat_template.jinja").is_file():
        templates["default"] = _template_text(folder / "chat_template.jinja", folder)
    return templates


def _template_text(file: Path, folder: Path) -> str:
    """The text of a template; ValueError for what is not a file, empty, or a link out of the folder."""
    check_links(file, folder)
    if not file.is_file():
        raise ValueError(f"{file} is not a file")
    text = read_text(file, folder=folder)
    if not text.strip():
        raise ValueError(f"{file} is empty: the model's files are damaged or incomplete")
    return text
