"""Options of generation: names, defaults and checks, as TorchRL's wrappers take them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from lite.models.graph.model_config import ModelConfig

LEGACY_NAMES = {"max_tokens": "max_new_tokens", "n": "num_return_sequences"}
# accepted for the sake of ported scripts; they change nothing without beams, or choose outputs that lite
# always gives
IGNORED = frozenset(
    {
        "length_penalty",
        "early_stopping",
        "logprobs",
        "output_scores",
        "output_logits",
        "return_dict_in_generate",
    }
)
SAMPLING_KEYS = frozenset({"temperature", "top_k", "top_p", "min_p"})


@dataclass(frozen=True)
class GenerationConfig:
    """How to generate.

    Attributes:
        max_new_tokens: most tokens per response.
        do_sample: draw from the distribution; otherwise the most probable token is taken.
        temperature: divides the logits before drawing; 0 means greedy whatever `do_sample` says.
        top_k: draw from the k most probable tokens; None for all.
        top_p: draw from the smallest set of tokens with at least this probability; 1 for all.
        min_p: drop tokens less probable than this share of the most probable one's; 0 for none.
        repetition_penalty: divides (or multiplies, if negative) logits of tokens seen before; 1 for none.
        num_return_sequences: responses per prompt.
        stop_sequences: texts that end a response; the text stays in it.
        skip_special_tokens: leave special tokens out when the response is decoded.
        eos_token_ids: ids that end a response; the id stays in it.
        pad_token_id: filler for padded outputs, None to leave that to the tokenizer.
        prompt_lookup_num_tokens: most tokens to guess at once from where the last ones came before; None
            for no guesses. They save time where text is copied, and never change a response.
        max_matching_ngram_size: most tokens that are looked up for that.
        num_assistant_tokens: most tokens that an assistant model guesses at once.

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
    repetition_penalty: float = 1.0
    num_return_sequences: int = 1
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

    @classmethod
    def from_kwargs(
        cls, kwargs: Mapping[str, Any] | None = None, defaults: ModelConfig | GenerationConfig | None = None
    ) -> GenerationConfig:
        """Make a configuration from the options a user gave.

        `max_tokens` and `n` are other names of `max_new_tokens` and `num_return_sequences`, and win over
        them. An option that is None counts as not given. Sampling is on if `do_sample` says so; if it says
        nothing, when a temperature above 0, `top_k`, `top_p`, `min_p` or several responses are asked for,
        or by default of the model. Defaults of the model (its `generation_config.json`) fill in what is not
        given.

        Args:
            kwargs: options by name.
            defaults: the model's configuration, or a `GenerationConfig` that the options change.

        Returns:
            The configuration.

        Raises:
            ValueError: for a value out of range, or `num_beams` above 1.
            TypeError: for text or a list where a number is meant.

        Warns:
            UserWarning: for options that lite does not know; they are ignored.

        Example:
            >>> config = GenerationConfig.from_kwargs({"n": 4, "top_p": 0.9})
            >>> config.num_return_sequences, config.top_p, config.do_sample
            (4, 0.9, True)
        """
        given = dict(kwargs or {})
        for legacy, name in LEGACY_NAMES.items():
            if legacy in given:
                given[name] = given.pop(legacy)
        _validate(given)
        given = {name: value for name, value in given.items() if value is not None}
        base = defaults if isinstance(defaults, GenerationConfig) else cls._of_model(defaults)
        values = _converted(given)
        names = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - names - IGNORED - {"num_beams"})
        if unknown:
            warnings.warn(
                f"generation options that lite does not know are ignored: {', '.join(unknown)}",
                UserWarning,
                stacklevel=2,
            )
        if "do_sample" not in values and "temperature" in values:
            values["do_sample"] = values["temperature"] > 0
        elif "do_sample" not in values and (
            SAMPLING_KEYS & set(values) or values.get("num_return_sequences", 1) > 1
        ):
            values["do_sample"] = True
        return replace(base, **{name: value for name, value in values.items() if name in names})

    @classmethod
    def _of_model(cls, config: ModelConfig | None) -> GenerationConfig:
        if config is None:
            return cls()
        names = {field.name for field in fields(cls)}
        own = {name: value for name, value in config.sampling.items() if name in names}
        try:
            _validate(own)
            own = _converted(own)
        except (TypeError, ValueError):  # a file that contradicts itself is no reason to refuse the model
            own = {}
        return replace(cls(eos_token_ids=config.eos_token_ids, pad_token_id=config.pad_token_id), **own)


def _validate(given: Mapping[str, Any]) -> None:
    """The reference's checks in the reference's order: the first that fails is reported."""
    for name in ("temperature", "top_p", "min_p", "repetition_penalty", "top_k", "num_beams"):
        if isinstance(given.get(name), (str, bytes, Sequence, Mapping)):
            raise TypeError(f"{name} must be a number, got {given[name]!r}")
    temperature, top_p, top_k = given.get("temperature"), given.get("top_p"), given.get("top_k")
    penalty, beams = given.get("repetition_penalty"), given.get("num_beams")
    if given.get("do_sample") is False and temperature is not None and temperature != 0:
        raise ValueError(
            f"When do_sample=False (greedy decoding), temperature must be 0. Got temperature={temperature}"
        )
    if temperature is not None and temperature < 0:
        raise ValueError(f"Temperature must be non-negative, got {temperature}")
    if top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(f"top_p must be between 0 and 1, got {top_p}")
    if top_k is not None and top_k <= 0:
        raise ValueError(f"top_k must be positive, got {top_k}")
    if penalty is not None and penalty <= 0:
        raise ValueError(f"repetition_penalty must be positive, got {penalty}")
    if beams is not None and beams > 1:
        raise ValueError(f"num_beams must be 1: beam search is not supported, got {beams}")


def _converted(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check types that the reference leaves unchecked, and bring values into the fields' form."""
    values = dict(given)
    counts = "prompt_lookup_num_tokens", "max_matching_ngram_size", "num_assistant_tokens"
    for name in ("max_new_tokens", "num_return_sequences", "top_k", *counts):
        if name in values:
            values[name] = _integer(name, values[name], 0 if name == "max_new_tokens" else 1)
    if "top_k" in values:
        values["top_k"] = min(values["top_k"], 2**31)  # larger than any vocabulary, and fits the kernel
    for name in ("temperature", "top_p", "min_p", "repetition_penalty"):
        if name in values:
            values[name] = float(values[name])
            if not math.isfinite(values[name]):
                raise ValueError(f"{name} must be finite, got {values[name]}")
    if not 0 <= values.get("min_p", 0.0) <= 1:
        raise ValueError(f"min_p must be between 0 and 1, got {values['min_p']}")
    if "eos_token_id" in values:
        eos = values.pop("eos_token_id")
        values["eos_token_ids"] = eos if isinstance(eos, Sequence) else (eos,)
    if "eos_token_ids" in values:
        values["eos_token_ids"] = tuple(_integer("eos_token_id", i, 0) for i in values["eos_token_ids"])
    if "pad_token_id" in values:
        values["pad_token_id"] = _integer("pad_token_id", values["pad_token_id"], 0)
    if "stop_sequences" in values:
        stops = values["stop_sequences"]
        stops = (stops,) if isinstance(stops, str) else tuple(stops)
        if not all(isinstance(stop, str) and stop for stop in stops):
            raise ValueError(f"stop_sequences must be non-empty strings, got {stops!r}")
        values["stop_sequences"] = stops
    for name in ("do_sample", "skip_special_tokens"):
        if name in values:
            values[name] = bool(values[name])
    return values


def _integer(name: str, value: Any, low: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}")
    return int(value.__index__())
