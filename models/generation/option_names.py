"""Options by the names of transformers, vLLM and OpenAI: those of lite, or an error that says what to use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RENAMED = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "min_tokens": "min_new_tokens",
    "n": "num_return_sequences",
    "stop": "stop_sequences",
    "stop_strings": "stop_sequences",
    "top_logprobs": "logprobs",
    "guided_json": "grammar",
    "guided_regex": "grammar",
    "guided_grammar": "grammar",
    "guided_choice": "grammar",
}
_GRAMMARS = {
    "guided_json": "json", "guided_regex": "regex", "guided_grammar": "lark", "guided_choice": "choice",
}  # fmt: skip
_WINS = frozenset({"max_tokens", "min_tokens", "n", "top_logprobs"})  # over the own name, as in the reference


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# They choose other outputs, what is computed how, or what is read elsewhere: no token depends on them.
IGNORED = _names(
    """
    output_scores output_logits output_attentions output_hidden_states return_dict_in_generate use_cache
    max_cache_len cache_implementation cache_config past_present_share_buffer low_memory compile_config
    disable_compile continuous_batching_config prefill_chunk_size chunk_size synced_gpus detokenize
    transformers_version _from_model_config _commit_hash is_assistant assistant_confidence_threshold
    assistant_lookbehind num_assistant_tokens_schedule target_lookbehind bos_token_id
    decoder_start_token_id spaces_between_special_tokens output_kind remove_invalid_values user metadata
    store
    """
)

_INSTEAD = {
    "max_length": "max_new_tokens",
    "min_length": "min_new_tokens",
    "stopping_criteria": "stop_sequences, or lite.models.stream, which may be closed at any token",
    "max_time": "lite.models.stream, which may be closed at any token",
    "prefix_allowed_tokens_fn": "logits_processor",
    "allowed_token_ids": "logits_processor",
    "logits_processors": "logits_processor, which gets prompt and response",
    "logits_warper": "logits_processor",
    "begin_suppress_tokens": "logits_processor",
    "constraints": "grammar",
    "force_words_ids": "grammar",
    "guided_decoding": "grammar",
    "structured_outputs": "grammar",
    "response_format": "grammar",
    "guided_whitespace_pattern": '"x-guidance": {"whitespace_flexible": false} in the schema',
    "bad_words": "bad_words_ids",
    "ignore_eos": "eos_token_id=[]",
    "use_beam_search": "num_beams",
    "beam_width": "num_beams",
    "best_of": "num_return_sequences",
    "include_stop_str_in_output": "the text up to the stop sequence, which stays in",
    "prompt_logprobs": "a wrapper with generate=False",
    "assistant_model": "the argument assistant_model of OnnxWrapper",
    "streamer": "the argument streamer of lite.models.generate, or lite.models.stream",
    "stream": "lite.models.stream",
    "seed": "the seed of the wrapper or of the call",
    "tools": "chat_template_kwargs",
    "truncate_prompt_tokens": "the argument truncate_prompt_tokens of GenerateBatches or ScoreBatches",
}
_LACKING = _names(
    """
    top_h epsilon_cutoff eta_cutoff encoder_repetition_penalty guidance_scale renormalize_logits
    forced_bos_token_id forced_eos_token_id watermarking_config exponential_decay_length_penalty
    token_healing encoder_no_repeat_ngram_size penalty_alpha dola_layers diversity_penalty num_beam_groups
    assistant_early_exit custom_generate negative_prompt_ids extra_args
    thinking_token_budget echo suffix tool_choice functions function_call parallel_tool_calls prediction
    reasoning_effort use_mtp speculation_type assistant_ensemble_weight
    """
)
_NEUTRAL = {
    "encoder_repetition_penalty": 1.0, "guidance_scale": 1.0, "num_beam_groups": 1, "num_return_sequences": 1,
    "best_of": 1, "include_stop_str_in_output": True,
}  # fmt: skip


def changes_nothing(name: str, value: Any) -> bool:
    """Whether an option that lite does not have asks for nothing.

    Example:
        >>> changes_nothing("num_beam_groups", 1), changes_nothing("penalty_alpha", 0.6)
        (True, False)
    """
    if value is None or name in IGNORED:
        return True
    if not isinstance(value, int | float | str | list | tuple | dict):
        return False
    return bool(value == _NEUTRAL[name]) if name in _NEUTRAL else not value


def own_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options under lite's names, without those that are None. Unknown names stay as they are.

    Raises:
        ValueError: an option of another library that lite does not have, or two names of one option.

    Example:
        >>> own_names({"max_tokens": 5, "guided_regex": "a+", "top_k": None})
        {'max_new_tokens': 5, 'grammar': {'regex': 'a+'}}
    """
    given = {name: value for name, value in given.items() if value is not None}
    out = {name: value for name, value in given.items() if name not in _RENAMED}
    for name, value in given.items():
        if own := _RENAMED.get(name):
            if own in out and name not in _WINS:
                raise ValueError(f"{name} is another name of {own}: give one of them")
            out[own] = {_GRAMMARS[name]: value} if name in _GRAMMARS else value
        elif (name in _INSTEAD or name in _LACKING) and not changes_nothing(name, value):
            instead = f"; use {_INSTEAD[name]}" if name in _INSTEAD else ""
            raise ValueError(f"{name}={value!r} is not an option of lite{instead}")
    return {name: value for name, value in out.items() if name not in _INSTEAD and name not in _LACKING}
