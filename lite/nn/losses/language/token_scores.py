"""Log-probs that an actor gives the tokens of a batch, and masks of the tokens that count."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lite import NestedKey, TensorDictBase
from lite._arrays.types import Array
from lite._tree.keys import require_path, unravel_key

MASKING_STRATEGIES = ("sft", "rlhf", "generic")
IGNORED_TOKEN = -100
_TOKENIZED_AGAIN = (
    "Texts that are tokenized again can give other tokens: let the actor read those of the batch, with "
    "input_mode='tokens' (wrapper.trainable(input_mode='tokens') of a model that learns)."
)


class TokenScores(NamedTuple):
    """Log-probs of the tokens of rows, padded to one length.

    Attributes:
        log_probs: (*batch, T), of any value on padding.
        real: False on padding, (*batch, T).
        mask: True for tokens that count, (*batch, T).
        dist: the distributions of the tokens, if the actor was asked for them.
    """

    log_probs: Array
    real: Array
    mask: Array
    dist: Any = None


def padded_rows(
    tensordict: TensorDictBase, key: NestedKey, fill: float = 0.0, side: str = "left"
) -> Array | None:
    """The entry of a key, padded to (*batch, T, ...), or (*batch) for numbers; None if it is missing."""
    rows = tensordict.get(key, None, as_list=True)
    if isinstance(rows, list) and all(np.ndim(row) == 0 for row in _flat(rows)):
        return tensordict.get(key)
    return tensordict.get(key, None, as_padded_tensor=True, padding_side=side, padding_value=fill)


def real_tokens(tensordict: TensorDictBase, masks_key: NestedKey, key: NestedKey) -> Array | None:
    """Mask of the values of a key that are not padding, (*batch, T); None if the key is missing."""
    rows = padded_rows(tensordict, key)
    if rows is None:
        return None
    shape = tuple(rows.shape[: tensordict.ndim + 1])
    mask = padded_rows(tensordict, child_key(masks_key, "all_attention_mask"), False)
    if mask is not None and tuple(mask.shape) == shape:
        return mask.astype(bool)
    out = np.ones(shape, bool)
    parts = tensordict.get(key, as_list=True)
    if isinstance(parts, list):
        lengths = np.array([len(row) for row in _flat(parts)]).reshape(*shape[:-1], 1)
        out &= np.arange(shape[-1], 0, -1) <= lengths
    return out


def moved(values: Array, given: Array | None, real: Array, name: str, fill: float = 0.0) -> Array:
    """Move the values where `given` is True, (*batch, T), to where `real` is True, (*batch, T').

    Raises:
        ValueError: a row has another number of tokens in `real`; or, where nothing tells what is given, other
            values than one fill on the padding of `real`.
    """
    # Masks that are traced arrays cannot be compared; they must be equal then.
    plain = isinstance(real, np.ndarray) and isinstance(values, np.ndarray)
    known = plain and isinstance(given, np.ndarray) and values.shape == given.shape
    if given is not None and known and not np.array_equal(given, real):
        counts = given.sum(-1), real.sum(-1)
        if not np.array_equal(*counts):
            raise ValueError(
                f"{name} has rows of {counts[0].tolist()} tokens, the actor scored {counts[1].tolist()}."
                f" {_TOKENIZED_AGAIN}"
            )
        out = np.full(real.shape, fill, values.dtype)
        out[real] = values[given]
        return out
    if tuple(values.shape) != tuple(real.shape):
        raise ValueError(
            f"{name} must have the shape {tuple(real.shape)} of the tokens that the actor scored, got "
            f"{tuple(values.shape)}."
        )
    if given is None and plain and values.ndim and _differ(values, ~real):
        raise ValueError(
            f"{name} has values where the rows that the actor scored have padding: masks in the batch tell "
            "which are tokens."
        )
    return values


def _differ(values: Array, chosen: Array) -> bool:
    """Whether a row has different numbers among the chosen ones; NaN does not count."""
    high = np.where(chosen, values, -np.inf).max(-1, initial=-np.inf)
    return bool((high > np.where(chosen, values, np.inf).min(-1, initial=np.inf)).any())


def layout_of(tensordict: TensorDictBase, actor: Any, *keys: NestedKey) -> Array | None:
    """Mask of the tokens that are not padding, from the first key that has it; None if there is none.

    Args:
        tensordict: the batch.
        actor: as for `scored`.
        keys: the key of the tokens, and others, whose padded entries have the actor's layout of rows.
    """
    masks_key = getattr(actor, "masks_key", "masks")
    mask_key = child_key(masks_key, "all_attention_mask")
    for key in (*keys, mask_key):
        found = real_tokens(tensordict, masks_key, key)
        if found is None:
            continue
        if key == keys[0] or mask_key in tensordict or isinstance(tensordict.get(key, as_list=True), list):
            return found
    return None


def scored(
    actor: Any, tensordict: TensorDictBase, strategy: str, given: Array | None, key: NestedKey | None = None
) -> TokenScores:
    """Call an actor that writes ("log_probs", "full").

    Args:
        actor: a module such as an `OnnxWrapper` with generate=False. Where it has `log_probs_key`,
            `tokens_key` and `masks_key`, these are read instead of "log_probs", "tokens" and "masks".
        tensordict: the batch; it is not modified.
        strategy: which tokens count, see `GRPOLoss`; or "assistant": the tokens of assistants, or of the
            responses if no mask of assistants is present.
        given: mask of the batch's tokens that are not padding, (*batch, T).
        key: key of the log-probs that the actor writes.

    Raises:
        KeyError: the actor writes no log-probs.
        ValueError: the actor scored other tokens, or no entry says which of them count.
    """
    log_probs_key, tokens_key, masks_key = (
        getattr(actor, f"{name}_key", name) for name in ("log_probs", "tokens", "masks")
    )
    key = child_key(log_probs_key, "full") if key is None else key
    # A key from an earlier call is removed, so that an actor that writes nothing is noticed.
    out = actor(tensordict.copy().exclude(key, inplace=True))
    log_probs = padded_rows(out, key)
    real = real_tokens(out, masks_key, key)
    if log_probs is None or real is None:
        raise KeyError(f"the actor must write {key!r}; it wrote {sorted(map(str, out.keys(True)))}.")
    tokens, known = (
        padded_rows(td, child_key(tokens_key, "full"), IGNORED_TOKEN) for td in (out, tensordict)
    )
    if tokens is not None and known is not None and tokens.shape == real.shape:
        known = moved(known, given, real, repr(child_key(tokens_key, "full")), IGNORED_TOKEN)
        if isinstance(known, np.ndarray) and isinstance(tokens, np.ndarray) and (known != tokens)[real].any():
            raise ValueError(f"the actor scored other tokens than those of the batch. {_TOKENIZED_AGAIN}")
    mask = real & _counted(strategy, tensordict, out, given, real, tokens_key, masks_key)
    return TokenScores(log_probs, real, mask)


def scored_by_distribution(
    actor: Any, tensordict: TensorDictBase, strategy: str, given: Array | None, action: NestedKey
) -> TokenScores:
    """Log-probs of the batch's tokens by the distributions of an actor (`get_dist`).

    Raises:
        KeyError: the tokens are missing.
        ValueError: they have another shape than the distributions.
    """
    td = tensordict.copy()
    of_strategy = getattr(actor, f"_get_{strategy}_dist", None)
    dist = actor.get_dist(td, logits_key="logits") if of_strategy is None else of_strategy(td)
    tokens = padded_rows(td, action, IGNORED_TOKEN)
    if tokens is None:
        raise KeyError(f"the loss reads the tokens from {action!r}, which the TensorDict lacks.")
    shape = tuple(dist.batch_shape)
    if tuple(tokens.shape) != shape:
        raise ValueError(
            f"{action!r} must have the shape {shape} of the tokens that the actor scored, got "
            f"{tuple(tokens.shape)}. {_TOKENIZED_AGAIN}"
        )
    log_probs = dist.log_prob(tokens)
    mask = getattr(dist, "mask", None)
    mask = np.ones(log_probs.shape, bool) if mask is None else mask
    real = np.ones(log_probs.shape, bool) if given is None else given
    return TokenScores(log_probs, real, mask, dist)


def require_strategy(strategy: str) -> str:
    """The strategy; ValueError for another name."""
    if strategy not in MASKING_STRATEGIES:
        raise ValueError(f"masking_strategy must be one of {MASKING_STRATEGIES}, got {strategy!r}.")
    return strategy


def child_key(key: NestedKey, name: str) -> NestedKey:
    """The key of an entry of a nested TensorDict."""
    return unravel_key((*require_path(key), name))


def _counted(
    strategy: str, tensordict: TensorDictBase, out: TensorDictBase, given: Array | None, real: Array,
    tokens_key: NestedKey, masks_key: NestedKey,
) -> Array:  # fmt: skip
    """Mask of the tokens that count, by the strategy; it may be True on padding."""
    if strategy == "generic":
        return real
    prompt_key, mask_key = child_key(tokens_key, "prompt"), child_key(masks_key, "all_assistant_mask")
    assistant = padded_rows(out, mask_key, False)
    if assistant is None or assistant.shape != real.shape:
        assistant = padded_rows(tensordict, mask_key, False)
        assistant = None if assistant is None else moved(assistant, given, real, repr(mask_key), False)
    prompts = None if strategy == "rlhf" else tensordict.get(prompt_key, None, as_list=True)
    if prompts is not None and (strategy == "sft" or assistant is None):
        lengths = _prompt_lengths(tensordict, prompts, given, child_key(tokens_key, "full"))
        return np.cumsum(real, -1) > lengths
    if assistant is None:
        others = "" if strategy == "rlhf" else f", or {prompt_key!r} in the batch"
        raise ValueError(f"masking {strategy!r} needs {mask_key!r}, which the actor did not write{others}.")
    return assistant.astype(bool)


def _prompt_lengths(
    tensordict: TensorDictBase, prompts: Any, given: Array | None, full_key: NestedKey
) -> Array:
    """Lengths of the prompts without padding, (*batch, 1)."""
    rows = _rows(prompts)
    lengths = [len(row) for row in rows]
    full = tensordict.get(full_key, None, as_list=True)
    if full is not None and given is not None:
        masks = given.reshape(-1, given.shape[-1])
        for i, (prompt, row, mask) in enumerate(zip(rows, _rows(full), masks, strict=True)):
            lengths[i] = _prompt_length(prompt, row, mask[len(mask) - len(row) :])
    return np.array(lengths).reshape(*tensordict.batch_size, 1)


def _prompt_length(prompt: Array, row: Array, real: Array) -> int:
    """Length of a row's prompt without padding; the prompt may be padded like the row, or on its own."""
    if np.array_equal(row[: len(prompt)], prompt):
        return int(real[: len(prompt)].sum())
    tokens = row[real]
    for start in range(len(prompt)):
        if np.array_equal(tokens[: len(prompt) - start], prompt[start:]):
            return len(prompt) - start
    raise ValueError(f"a prompt {prompt.tolist()} is not at the start of its row {tokens.tolist()}.")


def _rows(value: Any) -> list[Any]:
    """The rows of an array or of nested lists."""
    return _flat(value) if isinstance(value, list) else list(value.reshape(-1, value.shape[-1]))


def _flat(rows: Any) -> list[Any]:
    """The rows of nested lists."""
    if not isinstance(rows, list):
        return [rows]
    return [inner for row in rows for inner in _flat(row)]
