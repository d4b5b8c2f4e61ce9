"""The options, and the seeds, of each row of one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.models.generation.options import GenerationConfig

_OF_THE_CALL = ("n", "num_return_sequences", "seed", "seeds", "generator")


def options_of_rows(
    config: GenerationConfig, row_options: Sequence[Mapping[str, Any]] | None, count: int
) -> list[GenerationConfig]:
    """The options of a call, overridden by its options for each row.

    Records of tokens (`logprobs`, `kept_ids`, ...) are equal for all rows of a result: the most that any row
    requests.

    Args:
        config: configuration of the call.
        row_options: a mapping for each row, in order, or None.
        count: how many rows there are.

    Raises:
        ValueError: there is not one mapping per row, or one of them is out of range; its number is named.
        TypeError: they are not mappings.

    Example:
        >>> configs = options_of_rows(GenerationConfig(), [{"max_tokens": 3}, {"top_k": 5}], 2)
        >>> [(one.max_new_tokens, one.top_k) for one in configs]
        [(3, None), (64, 5)]
    """
    if row_options is None:
        return [config] * count
    if not isinstance(row_options, Sequence) or not all(isinstance(row, Mapping) for row in row_options):
        raise TypeError(f"row_options must be a list of mappings, one per row, got {row_options!r}")
    if len(row_options) != count:
        raise ValueError(f"row_options must be one per row, got {len(row_options)} for {count} rows")
    configs = []
    for i, given in enumerate(row_options):
        if shared := sorted(set(given) & set(_OF_THE_CALL)):
            raise ValueError(f"row_options[{i}]: {', '.join(shared)} must be the same for all rows")
        try:
            configs.append(GenerationConfig.from_kwargs(given, config) if given else config)
        except (TypeError, ValueError) as error:
            raise type(error)(f"row_options[{i}]: {error}") from error
    return [
        replace(
            one,
            logprobs=max(one.logprobs for one in configs),
            sampled_log_probs=any(one.sampled_log_probs for one in configs),
            kept_ids=any(one.kept_ids for one in configs),
            entropy=any(one.entropy for one in configs),
        )
        for one in configs
    ]


def given_seeds(seeds: Any, shape: tuple[int, ...]) -> NDArray[np.uint64]:
    """The caller's seeds, uint64 (count,). Raises ValueError if there is not one integer per response."""
    given = np.asarray(seeds)
    if given.shape != shape or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(f"seeds must be integers of shape {shape}, got {given.dtype} of shape {given.shape}")
    return given.reshape(-1).astype(np.uint64)
