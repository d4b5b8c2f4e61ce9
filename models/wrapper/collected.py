"""Functions of wrappers for collectors: inputs from prompts, and the mask of truncated responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey
from lite.models.generation.options import GenerationConfig
from lite.models.generation.stops import DecodeText, has_stopped
from lite.models.text.history import History
from lite.models.wrapper.entries import as_tensordict
from lite.models.wrapper.input import nested_key
from lite.models.wrapper.options import InputMode, WrapperOptions


def input_of(prompts: Sequence[Any], key: NestedKey, mode: InputMode) -> Any:
    """A TensorDict of prompts at the key that a wrapper of this mode reads.

    Args:
        prompts: texts; in history mode conversations, or texts that become a user's turn; in tokens mode rows
            of ids.
        key: where to put them.
        mode: "history", "text" or "tokens".

    Raises:
        TypeError: a prompt is of another kind.

    Example:
        >>> td = input_of(["Hi", [{"role": "user", "content": "Ho"}]], ("history", "prompt"), "history")
        >>> td.batch_size, td["history", "prompt"].content
        ((2,), [['Hi'], ['Ho']])
    """
    for i, prompt in enumerate(prompts):
        if mode == ("tokens" if isinstance(prompt, str) else "text"):
            raise TypeError(f"prompt {i} does not fit input_mode={mode!r}, got {type(prompt).__name__}")
    if mode == "history":
        turns = [[{"role": "user", "content": p}] if isinstance(p, str) else list(p) for p in prompts]
        return as_tensordict(History.from_chats(turns), key, "history")
    return as_tensordict(list(prompts), key, mode)


def truncated_responses(
    td: Any, options: WrapperOptions, config: GenerationConfig, decode: DecodeText | None
) -> NDArray[np.bool_]:
    """The mask of a wrapper's responses that end with neither an end id nor a stop sequence.

    Args:
        td: the wrapper's result, of any batch shape.
        options: the wrapper's.
        config: the options of the generation.
        decode: decodes ids, for stop sequences.

    Returns:
        bool, of the batch's shape.

    Raises:
        KeyError: there are no responses.
    """
    shape = tuple(td.batch_size)
    flat = td.reshape(-1)
    ids = flat.get(nested_key(options.tokens_key, "response"), as_list=True)
    masks = flat.get(nested_key(options.masks_key, "all_attention_mask"), as_list=True)
    if ids is None or masks is None:
        raise KeyError(f"there are no responses at {options.tokens_key!r} and {options.masks_key!r}")
    truncated = [
        _is_truncated(row[np.asarray(mask[len(mask) - len(row) :], bool)], config, decode)
        for row, mask in zip(ids, masks, strict=True)
    ]
    return np.array(truncated, bool).reshape(shape)


def _is_truncated(tokens: NDArray[np.int64], config: GenerationConfig, decode: DecodeText | None) -> bool:
    if len(tokens) and int(tokens[-1]) in config.eos_token_ids:
        return False
    stops = config.stop_sequences
    return not (stops and decode is not None and len(tokens) and has_stopped(tokens, stops, decode))
