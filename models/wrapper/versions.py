"""The arguments of a wrapper made from another one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What can only be given to wrappers that generate, or that do not.
_ONLY_FOR = {
    **dict.fromkeys(("num_samples", "return_log_probs", "max_rows", "prefix_cache", "assistant_model"), True),
    **dict.fromkeys(("pad_model_input", "score_kwargs"), False),
}

# if these change, a path is opened again
_OPENED_WITH = ("device", "runtime", "num_threads", "variant", "adapters")


def new_arguments(
    given: Mapping[str, Any], changes: Mapping[str, Any], *, model: Any, tokenizer: Any, assistant_model: Any
) -> dict[str, Any]:
    """Constructor arguments as a user gave them, with some changed.

    The models and the tokenizer are not loaded again unless the change asks for it. Arguments that the
    wrapper settled itself (the key it reads, say) are settled again.

    Args:
        given: the arguments of the old wrapper.
        changes: the arguments to change.
        model: the old wrapper's decoder.
        tokenizer: its tokenizer.
        assistant_model: the decoder that guesses for it, or None.
    """
    arguments = {**given, **changes}
    is_path = isinstance(given["model"], (str, Path))
    elsewhere = is_path and any(arguments[name] != given[name] for name in _OPENED_WITH)
    if "model" not in changes:
        if given["tokenizer"] is None and "tokenizer" not in changes and tokenizer is not None:
            arguments["tokenizer"] = tokenizer
        if not elsewhere:
            arguments["model"] = model
            for name in ("runtime", "num_threads", "variant", "adapters"):  # with which the model was opened
                arguments[name] = None if is_path else changes.get(name)
    else:  # what was the old model's
        old = ("device", "runtime", "variant", "adapters", "adapter")
        arguments |= {name: None for name in old if name not in changes}
    if isinstance(given["tokenizer"], (str, Path)) and "tokenizer" not in changes:
        arguments["tokenizer"] = tokenizer
    if "assistant_model" not in changes and arguments["device"] == given["device"]:
        arguments["assistant_model"] = assistant_model
    generate = bool(arguments["generate"])
    if generate != bool(given["generate"]):
        for name, only_for in _ONLY_FOR.items():
            if name not in changes and generate is not only_for:
                arguments[name] = None
    return arguments
