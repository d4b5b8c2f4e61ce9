"""Options of generation: names, defaults and checks, as TorchRL's wrappers take them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lite._arrays.caller import warn
from lite.models.generation.grammar import Grammar
from lite.models.generation.option_names import IGNORED, changes_nothing, own_names
from lite.models.graph.model_config import ModelConfig

SAMPLING_KEYS = frozenset({"temperature", "top_k", "top_p", "min_p", "typical_p"})

LogitsProcessor = Callable[[NDArray[np.int64], NDArray[np.float32]], NDArray[np.float32] | None]
Ids = tuple[int, ...]
_MOST = float(np.finfo(np.float32).max)  # scores are float32


@dataclass(frozen=True)
class GenerationConfig:
    """The options of generation.

    Attributes:
        max_new_tokens: the largest number of tokens of a response.
        do_sample: draw from the distribution; otherwise choose the most probable token.
        temperature: divides the logits before drawing; 0 means greedy in any case.
        top_k: draw from the k most probable tokens; all by default, and with 0 or -1.
        top_p: draw from the smallest set of tokens with at least this probability; 1 for all.
        min_p: drop tokens less probable than this share of the most probable one's; 0 for none.
        typical_p: draw from the tokens whose surprise is closest to the entropy, as many as hold this
            probability (Meister et al., 2022); 1 for all.
        repetition_penalty: divides (or multiplies, if negative) logits of tokens seen before, those of the
            prompt included; 1 for none.
        presence_penalty: is subtracted from logits of tokens in the response so far; from -2 to 2.
        frequency_penalty: as `presence_penalty`, times the count of the token.
        no_repeat_ngram_size: no n-gram of that many tokens occurs twice, prompt included; 0 for no limit.
        bad_words_ids: runs of ids that are banned, as `[[5], [6, 7]]`.
        suppress_tokens: ids that are banned, also where they would end the response.
        min_new_tokens: eos ids are banned before that many tokens.
        logit_bias: pairs of an id and what is added to its logit, as `[[5, -2.0]]`, or a mapping.
        sequence_bias: pairs of a run of ids and what is added to the logit of its last one where the others
            have just come, as `[[[5, 6], -2.0]]`, or a mapping.
        logits_processor: functions ``f(ids, scores)`` of the user's own, called for each token of each
            response, after all of the above and before temperature and filters, as in transformers.
            `ids` is int64 (L,), prompt and response so far, read-only; `scores` is float32 (V,), a
            copy. What it returns, float32 (V,), takes their place; if None, `scores` as it has changed it.
        grammar: constrains the response: `{"json": schema}`, `{"regex": expression}`, `{"lark": grammar}` or
            `{"choice": texts}`.
        num_beams: the number of beams of a beam search; 1 for no search. With a temperature or a filter, the
            next beams are drawn, together and without replacement, from all continuations of all beams.
        length_penalty: scores of beams are divided by their number of tokens to this power.
        early_stopping: a search ends as soon as there are `num_beams` responses (true), when better ones are
            unlikely (false) or impossible ("never").
        num_return_sequences: responses per prompt.
        logprobs: the number of most probable tokens to return for each position, with their log-probs.
        sampled_log_probs: return the log-prob of each token under the distribution that it was drawn from,
            and the log of the probability that filters kept. For beams, this is the model's distribution
            after that beam, changed by the options. As beams compete, the sum of these is not the log-prob of
            having drawn the response.
        kept_ids: return the ids that could have been drawn, for each token.
        entropy: return the entropy of the model's distribution at each token, in nats.
        stop_sequences: texts that end a response, which includes them.
        skip_special_tokens: leave special tokens out when the response is decoded.
        eos_token_ids: ids that end a response, which includes them.
        pad_token_id: padding of outputs, None for the tokenizer's.
        prompt_lookup_num_tokens: the largest number of tokens to draft at once by prompt lookup;
            by default there is none. Drafts save time for copied text, and never change a response.
        max_matching_ngram_size: the largest number of tokens that prompt lookup matches.
        num_assistant_tokens: the largest number of tokens that an assistant model drafts at once.

    Example:
        >>> GenerationConfig.from_kwargs({"max_tokens": 8, "temperature": 0.0}).greedy
        True
    """

    max_new_tokens: int = 64
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[Ids, ...] = ()
    suppress_tokens: Ids = ()
    min_new_tokens: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    sequence_bias: tuple[tuple[Ids, float], ...] = ()
    logits_processor: tuple[LogitsProcessor, ...] = field(default=(), hash=False)  # some have no hash
    grammar: Grammar | None = None
    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    num_return_sequences: int = 1
    logprobs: int = 0
    sampled_log_probs: bool = False
    kept_ids: bool = False
    entropy: bool = False
    stop_sequences: tuple[str, ...] = ()
    skip_special_tokens: bool = False
    eos_token_ids: tuple[int, ...] = ()
    pad_token_id: int | None = None
    prompt_lookup_num_tokens: int | None = None
    max_matching_ngram_size: int = 2
    num_assistant_tokens: int = 20

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is taken at each step."""
        return not self.do_sample or self.temperature == 0

    @property
    def wants_details(self) -> bool:
        """Whether details of tokens are requested besides log-probs."""
        return bool(self.logprobs or self.sampled_log_probs or self.kept_ids or self.entropy)

    @property
    def tells_more(self) -> bool:
        """Whether responses have details, or scores of beams, besides tokens and log-probs."""
        return self.wants_details or self.num_beams > 1

    def check(self, vocab_size: int) -> None:
        """Check the options against the vocabulary.

        Raises:
            ValueError: options contradict each other, or an id is not in the vocabulary.
        """
        _check_together(self)
        bans = self.bad_words_ids or self.suppress_tokens or self.logit_bias or self.sequence_bias
        if not bans and not self.min_new_tokens:
            return
        named = {
            "bad_words_ids": [i for word in self.bad_words_ids for i in word],
            "suppress_tokens": self.suppress_tokens,
            "logit_bias": [i for i, _ in self.logit_bias],
            "sequence_bias": [i for ids, _ in self.sequence_bias for i in ids],
        }
        for name, ids in named.items():
            if unknown := sorted({i for i in ids if i >= vocab_size}):
                raise ValueError(f"{name} must hold ids below {vocab_size} (the vocabulary), got {unknown}")
        banned = self._never_first()
        if len(banned) >= vocab_size and banned.issuperset(range(vocab_size)):
            raise ValueError(
                "logit_bias, sequence_bias, bad_words_ids, suppress_tokens and eos ids before min_new_tokens"
                f" must leave one of the {vocab_size} tokens, but all are banned"
            )

    def _never_first(self) -> set[int]:
        """The ids that are banned as the first token of a response."""
        ends = set(self.eos_token_ids)
        banned = {ids[0] for ids in self.bad_words_ids if len(ids) == 1} - ends  # as the reference
        banned |= {i for i, value in self.logit_bias if value == -math.inf} | set(self.suppress_tokens)
        banned |= {ids[0] for ids, value in self.sequence_bias if len(ids) == 1 and value == -math.inf}
        return banned | ends if self.min_new_tokens else banned

    @classmethod
    def from_kwargs(
        cls, kwargs: Mapping[str, Any] | None = None, defaults: ModelConfig | GenerationConfig | None = None
    ) -> GenerationConfig:
        """Make a configuration from the options a user gave.

        Names of transformers, vLLM and OpenAI work (`max_tokens`, `min_tokens`, `n`, `stop`, `stop_strings`,
        `stop_token_ids`, `guided_json`, ...) or raise; `max_tokens`, `min_tokens` and `n` win over the own
        names. An option that is None counts as not given. `do_sample` turns sampling on or off; without it, a
        temperature above 0, a filter (`top_k`, `top_p`, `min_p`, `typical_p`) or several responses without
        beams turn it on, or else the default of the model. Defaults of the model (its
        `generation_config.json`) replace options that are not given.

        Args:
            kwargs: options by name.
            defaults: the model's configuration, or a `GenerationConfig` that the options change.

        Returns:
            The configuration.

        Raises:
            ValueError: for a value out of range, options that contradict each other, or an option of another
                library that lite does not have.
            TypeError: for text or a list instead of a number, or an object that is not a function.

        Warns:
            UserWarning: for unknown options, which are ignored; once for defaults of the model's files that
                lite does not support.

        Example:
            >>> config = GenerationConfig.from_kwargs({"n": 4, "top_p": 0.9})
            >>> config.num_return_sequences, config.top_p, config.do_sample
            (4, 0.9, True)
        """
        given = own_names(kwargs or {})
        _validate(given)
        base = defaults if isinstance(defaults, GenerationConfig) else cls._of_model(defaults)
        values = _converted(given)
        if "stop_token_ids" in values:  # beside those that end a response in any case
            ends = values.get("eos_token_ids", base.eos_token_ids)
            values["eos_token_ids"] = (*ends, *values.pop("stop_token_ids"))
        names = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - names - IGNORED)
        if unknown:
            warn(
                f"generation options that lite does not know are ignored: {', '.join(unknown)}",
                UserWarning,
            )
        if "do_sample" not in values and "temperature" in values:
            values["do_sample"] = values["temperature"] > 0
        elif "do_sample" not in values and (
            any(values.get(name) is not None for name in SAMPLING_KEYS)
            or (values.get("num_return_sequences", 1) > 1 and values.get("num_beams", base.num_beams) == 1)
        ):
            values["do_sample"] = True
        config = replace(base, **{name: value for name, value in values.items() if name in names})
        _check_together(config)
        if config.min_new_tokens > config.max_new_tokens:
            raise ValueError(
                "min_new_tokens must be at most max_new_tokens, "
                f"got {config.min_new_tokens} and {config.max_new_tokens}"
            )
        return config

    @classmethod
    def _of_model(cls, config: ModelConfig | None) -> GenerationConfig:
        if config is None:
            return cls()
        own: dict[str, Any] = {}
        left: list[str] = []
        for name, value in config.sampling.items():
            if name in _READ_ELSEWHERE or _is_no_limit(name, value, config.context_length):
                continue
            try:  # one that is wrong is no reason to lose the others, nor to refuse the model
                one = own_names({name: value})
                _validate(one)
                one = _converted(one)
            except (TypeError, ValueError, OverflowError) as error:
                left.append(str(error)[:200])
                continue
            if _OF_MODELS.issuperset(one):
                own |= one
            elif not changes_nothing(name, value):
                left.append(f"{name} is not an option of lite for models")
        if own.get("min_new_tokens", 0) > own.get("max_new_tokens", cls.max_new_tokens):
            left.append(f"min_new_tokens={own.pop('min_new_tokens')} is more than max_new_tokens")
        if left:
            _warn_once(f"{config.directory}: defaults of generation that are not taken: {'; '.join(left)}")
        return replace(cls(eos_token_ids=config.eos_token_ids, pad_token_id=config.pad_token_id), **own)


_READ_ELSEWHERE = frozenset({"eos_token_id", "pad_token_id"})  # from several files
_OF_MODELS = frozenset({f.name for f in fields(GenerationConfig)}) - {
    *("eos_token_ids", "pad_token_id", "num_return_sequences", "skip_special_tokens", "logits_processor"),
    *("grammar", "logprobs", "sampled_log_probs", "kept_ids", "entropy"),
}


def _is_no_limit(name: str, value: Any, context_length: int | None) -> bool:
    """Whether a default is the length limit of the model itself."""
    return name == "max_length" and isinstance(value, int) and value >= (context_length or 0)


@functools.cache
def _warn_once(message: str) -> None:
    warn(message, UserWarning)


_NUMBERS = (
    "temperature", "top_p", "min_p", "repetition_penalty", "top_k", "num_beams", "typical_p",
    "presence_penalty", "frequency_penalty", "length_penalty",
)  # fmt: skip


def _validate(given: Mapping[str, Any]) -> None:
    """The reference's checks in the reference's order: the first that fails is reported."""
    for name in _NUMBERS:
        value: Any = given.get(name)
        if isinstance(value, (str, bytes, Sequence, Mapping)) or np.ndim(value):
            raise TypeError(f"{name} must be a number, got {value!r}")
    temperature, top_p, top_k = given.get("temperature"), given.get("top_p"), given.get("top_k")
    penalty = given.get("repetition_penalty")
    if given.get("do_sample") is False and temperature is not None and temperature != 0:
        raise ValueError(
            f"When do_sample=False (greedy decoding), temperature must be 0. Got temperature={temperature}"
        )
    if temperature is not None and temperature < 0:
        raise ValueError(f"Temperature must be non-negative, got {temperature}")
    if top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(f"top_p must be between 0 and 1, got {top_p}")
    if top_k is not None and top_k <= 0 and top_k not in _OFF["top_k"][0]:
        raise ValueError(f"top_k must be positive, or 0 or -1 for all tokens, got {top_k}")
    if penalty is not None and penalty <= 0:
        raise ValueError(f"repetition_penalty must be positive, got {penalty}")


_LEAST = {
    "max_new_tokens": 0, "min_new_tokens": 0, "no_repeat_ngram_size": 0, "num_return_sequences": 1,
    "num_beams": 1, "top_k": 1, "prompt_lookup_num_tokens": 1, "max_matching_ngram_size": 1,
    "num_assistant_tokens": 1,
}  # fmt: skip
_RANGES = {"min_p": (0.0, 1.0), "presence_penalty": (-2.0, 2.0), "frequency_penalty": (-2.0, 2.0)}


# what other libraries write for a filter that is off, and what lite has
_OFF: dict[str, tuple[tuple[int, ...], Any]] = {"top_k": ((0, -1), None), "min_p": ((-1,), 0.0)}


def _converted(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check types that the reference leaves unchecked, and bring values into the fields' form."""
    values = dict(given)
    off = {name: none for name, (spelt, none) in _OFF.items() if name in values and values[name] in spelt}
    values.update(off)
    for name, least in _LEAST.items():
        if name in values and name not in off:
            values[name] = _integer(name, values[name], least)
    if values.get("top_k") is not None:
        values["top_k"] = min(values["top_k"], 2**31)  # larger than any vocabulary, and fits the kernel
    for name in _NUMBERS:
        if name in _LEAST or name not in values:
            continue
        values[name] = float(values[name])
        if not math.isfinite(values[name]):
            raise ValueError(f"{name} must be finite, got {values[name]}")
    for name, (low, high) in _RANGES.items():
        if not low <= values.get(name, 0.0) <= high:
            raise ValueError(f"{name} must be between {low:g} and {high:g}, got {values[name]}")
    if not 0 < values.get("typical_p", 1.0) <= 1:
        raise ValueError(f"typical_p must be above 0 and at most 1, got {values['typical_p']}")
    if values.get("early_stopping", False) not in (True, False, "never"):
        raise ValueError(f"early_stopping must be True, False or 'never', got {values['early_stopping']!r}")
    if "eos_token_id" in values:
        eos = values.pop("eos_token_id")
        values["eos_token_ids"] = eos if isinstance(eos, Sequence) or np.ndim(eos) else (eos,)
    for name, convert in _CONVERTERS.items():
        if name in values:
            values[name] = convert(name, values[name])
    return values


def _check_together(config: GenerationConfig) -> None:
    """Raise ValueError for options that contradict each other."""
    if config.grammar is not None and not config.eos_token_ids:
        raise ValueError("grammar needs an eos_token_id, with which the response ends where it may")
    if 1 < config.num_beams < config.num_return_sequences:
        raise ValueError(
            "num_return_sequences must be at most num_beams, "
            f"got {config.num_return_sequences} and {config.num_beams}"
        )


def _integer(name: str, value: Any, low: int) -> int:
    array = np.ndim(value) > 0  # these have the method, which raises
    if array or isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}")
    return int(value.__index__())


def _run(name: str, ids: Any, least: int = 1) -> Ids:
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        what = "runs of ids" if least else "ids"
        raise ValueError(f"{name} must hold {what}, got {ids!r}")
    run = tuple(_integer(name, i, 0) for i in ids)
    if len(run) < least:
        raise ValueError(f"{name} must hold runs of at least one id, got an empty one")
    return run


def _biases(name: str, given: Any) -> list[tuple[Any, float]]:
    """Pairs of a token and its change, from a mapping or from pairs."""
    given = given.items() if isinstance(given, Mapping) else given
    pairs = list(given if isinstance(given, Iterable) else (given,))
    for pair in pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2 or isinstance(pair[1], (str, bytes, Sequence)):
            raise ValueError(f"{name} must map ids to numbers, got {pair!r}")
        if not float(pair[1]) <= _MOST:
            raise ValueError(f"{name} must be less than infinite, in float32, got {pair[1]} for {pair[0]!r}")
    return [(ids, float(value) if value >= -_MOST else -math.inf) for ids, value in pairs]


def _id_biases(name: str, given: Any) -> tuple[tuple[int, float], ...]:
    def number(i: Any) -> Any:
        return int(i) if isinstance(i, str) and i.isdecimal() else i

    biases = {_integer(f"an id in {name}", number(i), 0): value for i, value in _biases(name, given)}
    return tuple(biases.items())


def _run_biases(name: str, given: Any) -> tuple[tuple[Ids, float], ...]:
    """Pairs of a run and its change; of one run twice the last, as the reference."""
    return tuple({_run(name, ids): value for ids, value in _biases(name, given)}.items())


def _runs(name: str, given: Any) -> tuple[Ids, ...]:
    words = given if isinstance(given, Iterable) else (given,)  # which says what is wrong with it
    return tuple(_run(name, word) for word in words)


def _texts(name: str, given: Any) -> tuple[str, ...]:
    texts = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    if not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"{name} must be non-empty strings, got {given!r}")
    return texts


def _functions(name: str, given: Any) -> tuple[LogitsProcessor, ...]:
    own = tuple(given) if isinstance(given, Iterable) and not callable(given) else (given,)
    if not all(callable(function) for function in own):
        raise TypeError(f"{name} must be a function or several of them, got {own!r}")
    return own


def _flag(name: str, given: Any) -> bool:
    if np.ndim(given) or given not in (True, False):
        raise ValueError(f"{name} must be True or False, got {given!r}")
    return bool(given)


# Options by the functions that check them and bring them into the fields' form, in the order of the checks.
_CONVERTERS: dict[str, Callable[[str, Any], Any]] = {
    "eos_token_ids": lambda _, ids: tuple(_integer("eos_token_id", i, 0) for i in ids),
    "suppress_tokens": functools.partial(_run, least=0),
    "stop_token_ids": functools.partial(_run, least=0),
    "pad_token_id": functools.partial(_integer, low=0),
    "stop_sequences": _texts,
    "bad_words_ids": _runs,
    "logit_bias": _id_biases,
    "sequence_bias": _run_biases,
    "logits_processor": _functions,
    "grammar": lambda _, given: Grammar.from_option(given),
    # True asks for the log-prob of the token itself, which is always given
    "logprobs": lambda name, count: 0 if isinstance(count, bool) else _integer(name, count, 0),
    **dict.fromkeys(("do_sample", "skip_special_tokens", "sampled_log_probs", "kept_ids", "entropy"), _flag),
}
