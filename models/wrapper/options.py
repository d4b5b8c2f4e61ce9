"""Base class of wrappers of language models, and checks of their constructor arguments."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args
from weakref import ref

from lite import NestedKey, unravel_key
from lite._tree.collection import TensorCollection
from lite.nn import TensorDictModuleBase

InputMode = Literal["history", "text", "tokens"]
Inplace = Literal[True, False, "empty"]


SAMPLES_NAMES = ("num_return_sequences", "n")
"""Names of the option of generation that says how many responses a prompt gets; the last one wins."""


_DECIDED = {
    *("messages", "tokenizer", "add_generation_prompt", "continue_final_message", "mask", "max_chars"),
    *("chat_template", "chat_template_name"),
}


_KEYS = (
    *("input_key", "attention_mask_key", "history_key", "text_key", "tokens_key", "masks_key"),
    *("log_probs_key", "sampling_key"),
)


SCORE_OPTIONS = frozenset({"temperature", "kept_ids"})
"""Options of a wrapper that scores: they describe the distribution that tokens were sampled from."""


class LLMWrapperBase(TensorDictModuleBase):
    """Base of modules that run a language model on the entries of a TensorDict.

    A wrapper reads one entry (a conversation, texts or token ids), generates responses or scores what is
    there, and writes `Text`, `Masks`, `Tokens`, `LogProbs` and `ChatHistory` objects. The constructor takes
    any arguments and keeps none; subclasses define `in_keys`, `out_keys` and `forward`.

    Example:
        >>> LLMWrapperBase("anything", input_mode="text").is_tdmodule_compatible(object())
        False
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(
        self, tensordict: Any, *, tensordict_out: Any = None, logits_only: bool = False, **kwargs: Any
    ) -> Any:
        """Run the model; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def get_new_version(self, **changes: Any) -> LLMWrapperBase:
        """A wrapper of the same model with other arguments; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_new_version")

    def _selected(self, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The inputs and outputs of `out`, if `select_out_keys` chose outputs."""
        # The entry that is read may be inside one that is written: to select both would select the former.
        is_collection = isinstance(out, TensorCollection)
        if "_out_keys_apparent" not in self.__dict__ or not is_collection:
            return out
        paths = [(key,) if isinstance(key, str) else key for key in self.out_keys]
        read = [
            key
            for key in self.in_keys
            if isinstance(key, str) or not any(key[: len(path)] == path for path in paths)
        ]
        return out.select(*read, *self.out_keys, inplace=True, strict=False)

    def register_collector(self, collector: Any) -> None:
        """Remember the collector that calls this wrapper, without keeping it alive."""
        self._collector = ref(collector)

    @property
    def collector(self) -> Any:
        """The registered collector, or None if there is none (any more)."""
        found: ref[Any] | None = self.__dict__.get("_collector")
        return None if found is None else found()


@dataclass(frozen=True)
class WrapperOptions:
    """The constructor arguments of a wrapper, checked, with what follows from them.

    Raises:
        ValueError: for arguments that exclude each other or are not among the allowed values.
        RuntimeError: for `tokenizer_kwargs` that the wrapper has to decide itself.
    """

    input_mode: InputMode = "history"
    input_key: NestedKey | None = None
    attention_mask_key: NestedKey = "attention_mask"
    generate: bool = True
    tokenizer_kwargs: Mapping[str, Any] = field(default_factory=dict)
    pad_output: bool = False
    pad_model_input: bool | None = None
    inplace: Inplace | None = None
    num_samples: int | None = None
    chat_template_name: str | None = None
    chat_template: str | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    return_log_probs: bool | None = None
    zero_first_log_prob: bool = False
    history_key: NestedKey = "history"
    text_key: NestedKey = "text"
    tokens_key: NestedKey = "tokens"
    masks_key: NestedKey = "masks"
    log_probs_key: NestedKey = "log_probs"
    sampling_key: NestedKey = "sampling"
    prefer_tokens: bool = False
    score_kwargs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.input_mode not in get_args(InputMode):
            raise ValueError(
                f"input_mode must be one of 'history', 'text', 'tokens', got {self.input_mode!r}"
            )
        for name in ("generate", "pad_output"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be a bool, got {getattr(self, name)!r}")
        for name in ("chat_template_name", "chat_template"):
            if not isinstance(getattr(self, name), str | None):
                raise TypeError(f"{name} must be a str or None, got {getattr(self, name)!r}")
        for name in _KEYS:
            if (key := getattr(self, name)) is not None:
                try:
                    unravel_key(key)
                except RuntimeError as error:
                    raise RuntimeError(f"{name}: {error}") from None
        if self.pad_model_input is not None and self.generate:
            raise ValueError("pad_model_input can only be given with generate=False")
        if not (self.inplace is None or isinstance(self.inplace, bool) or self.inplace == "empty"):
            raise ValueError(f"inplace must be True, False, 'empty' or None, got {self.inplace!r}")
        if self.return_log_probs is False and not self.generate:
            raise ValueError("return_log_probs must be True when generate=False.")
        if decided := sorted(_DECIDED & set(self.chat_template_kwargs)):
            raise ValueError(f"chat_template_kwargs: the wrapper decides {decided} itself")
        if self.score_kwargs and self.generate:
            raise ValueError("score_kwargs can only be given with generate=False")
        if unknown := sorted(set(self.score_kwargs or ()) - SCORE_OPTIONS):
            raise ValueError(f"score_kwargs must be of {sorted(SCORE_OPTIONS)}, got {unknown}")
        self._check_samples()
        self._check_tokenizer_kwargs()

    def _check_samples(self) -> None:
        if self.num_samples is None:
            return
        if (
            isinstance(self.num_samples, bool)
            or not isinstance(self.num_samples, int)
            or self.num_samples < 1
        ):
            raise ValueError(f"num_samples must be an integer of at least 1, got {self.num_samples!r}")
        if not self.generate:
            raise ValueError("num_samples can only be given with generate=True")
        if self.inplace in (True, "empty"):
            raise ValueError(
                f"inplace must be False (or None) with num_samples, whose result has one dimension more; "
                f"got inplace={self.inplace!r}"
            )

    def with_samples(self, generate_kwargs: Mapping[str, Any]) -> WrapperOptions:
        """These options with the number of samples that the options of generation ask for, if any.

        Raises:
            ValueError: both say a number above 1, and not the same.
        """
        count = next(
            (generate_kwargs[name] for name in reversed(SAMPLES_NAMES) if name in generate_kwargs), None
        )
        if not self.generate or count in (None, 1):
            return self
        if self.num_samples not in (None, 1, count):
            raise ValueError(
                f"num_samples differs from generate_kwargs['n']. Got {self.num_samples} and {count}"
            )
        return replace(self, num_samples=count)

    def _check_tokenizer_kwargs(self) -> None:
        decided = {"return_attention_mask": True, "return_tensors": "np", "padding_side": "left"}
        for name, only in decided.items():
            value = self.tokenizer_kwargs.get(name, only)
            if value != only:
                raise RuntimeError(f"tokenizer_kwargs: {name} must be {only!r}, got {value!r}")

    @functools.cached_property
    def key(self) -> NestedKey:
        """The entry that is read."""
        if self.input_key is not None:
            return self.input_key
        return (self.input_mode, "prompt" if self.generate else "full")

    @property
    def gives_log_probs(self) -> bool:
        """Whether log-probs are written."""
        return self.return_log_probs is not False

    @property
    def overwrites(self) -> Inplace:
        """The value of `inplace` in force."""
        return self.num_samples is None if self.inplace is None else self.inplace

    @property
    def out_keys(self) -> list[NestedKey]:
        """The entries that are written, in the order of the reference."""
        keys = [self.masks_key, self.tokens_key]
        if self.input_mode != "tokens":
            keys.insert(0, self.text_key)
        if self.gives_log_probs:
            keys.append(self.log_probs_key)
        if self.input_mode == "history":
            keys.append(self.history_key)
        return keys


OPTIONS = frozenset(option.name for option in fields(WrapperOptions))
"""The names of the options, which are attributes of wrappers, too."""
