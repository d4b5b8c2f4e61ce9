"""From generated responses to transitions, one token per step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite.nn import TensorDictModuleBase


class TokenTransitions(TensorDictModuleBase):
    """Turn responses of a language model, and one reward each, into token-level transitions.

    A step's action is one response token, its observation the token before it (the last prompt token
    at first), so that the state is the text up to the action. The reward of the whole response arrives
    with its last token, which is done. Rows are padded on the right to the longest response; padding
    has no reward, and is False in `("collector", "mask")`.

    Args:
        tokens_key: response ids, int64, dense or one array per row.
        prompt_key: prompt ids, left-padded or one array per row.
        log_probs_key: log-probs of the response ids.
        mask_key: True for real tokens of prompt and response together, which padded ids need.
        reward_key: one number per response, shape of the batch.
        truncated_key: optional bool per response, True where it was cut off rather than ended.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict(
        ...     {
        ...         "tokens": {"prompt": np.array([[5, 6]]), "response": np.array([[7, 8, 2]])},
        ...         "log_probs": {"response": np.array([[-1.0, -0.5, -0.1]], dtype=np.float32)},
        ...         "masks": {"all_attention_mask": np.ones((1, 5), bool)},
        ...         "reward": np.array([1.0], dtype=np.float32),
        ...     },
        ...     batch_size=[1],
        ... )
        >>> steps = TokenTransitions()(td)
        >>> steps["observation"], steps["next", "reward"]
        (array([[6, 7, 8]]), array([[0., 0., 1.]], dtype=float32))
    """

    def __init__(
        self,
        *,
        tokens_key: NestedKey = ("tokens", "response"),
        prompt_key: NestedKey = ("tokens", "prompt"),
        log_probs_key: NestedKey = ("log_probs", "response"),
        mask_key: NestedKey = ("masks", "all_attention_mask"),
        reward_key: NestedKey = "reward",
        truncated_key: NestedKey = "truncated",
    ) -> None:
        super().__init__()
        self.in_keys = [tokens_key, prompt_key, log_probs_key, mask_key, reward_key]
        self.out_keys = [
            "observation", "action", "action_log_prob", ("next", "observation"), ("next", "reward"),
            ("next", "done"), ("next", "terminated"), ("next", "truncated"), ("collector", "mask"),
        ]  # fmt: skip
        self.truncated_key = truncated_key

    def forward(self, tensordict: TensorDictBase) -> TensorDict:
        """Return a new TensorDict of batch size `(*batch, T)`, T the longest response.

        Raises:
            KeyError: an input is missing.
            ValueError: the rewards are not one number per response, or lengths do not fit.
            TypeError: tokens that are not integers.
        """
        tokens_key, prompt_key, log_probs_key, mask_key, reward_key = self.in_keys
        batch_size = tensordict.batch_size
        flat: TensorDictBase = tensordict.reshape(-1)
        ids, prompts = _rows(flat, tokens_key), _rows(flat, prompt_key)
        real = [
            mask[len(mask) - len(row) :].astype(bool)
            for mask, row in zip(_rows(flat, mask_key), ids, strict=True)
        ]
        log_probs = _rows(flat, log_probs_key)
        for row, mask, scores in zip(ids, real, log_probs, strict=True):
            if row.dtype.kind not in "iu":
                raise TypeError(f"{tokens_key!r} must hold integers, got {row.dtype}.")
            if not row.shape == mask.shape == scores.shape:
                raise ValueError(
                    f"{tokens_key!r}, {log_probs_key!r} and the end of {mask_key!r} must have one value per "
                    f"token, got shapes {row.shape}, {scores.shape} and {mask.shape}."
                )
        reward = _per_row(flat, reward_key, np.float32)
        lengths = np.array([int(mask.sum()) for mask in real], dtype=np.int64)
        count, steps = len(ids), int(lengths.max(initial=0))
        mask = np.arange(steps) < lengths[:, None]

        action = _padded(ids, real, mask, np.int64)
        log_prob = _padded(log_probs, real, mask, np.float32)
        observation = np.zeros_like(action)
        if steps:
            observation[:, 1:] = np.where(mask[:, 1:], action[:, :-1], 0)
            observation[:, 0] = np.where(mask[:, 0], [row[-1] if len(row) else 0 for row in prompts], 0)
        done = np.zeros(mask.shape, dtype=bool)
        ended = np.flatnonzero(lengths)
        done[ended, lengths[ended] - 1] = True
        rewards = np.zeros(mask.shape, dtype=np.float32)
        rewards[ended, lengths[ended] - 1] = reward[ended]
        cut = np.zeros(count, dtype=bool)
        if flat.get(self.truncated_key) is not None:
            cut = _per_row(flat, self.truncated_key, np.bool_)
        return TensorDict(
            {
                "observation": observation,
                "action": action,
                "action_log_prob": log_prob,
                "next": {
                    "observation": action.copy(),
                    "reward": rewards,
                    "done": done,
                    "terminated": done & ~cut[:, None],
                    "truncated": done & cut[:, None],
                },
                "collector": {"mask": mask},
            },
            batch_size=[count, steps],
        ).reshape(*batch_size, steps)


belong_to("lite.data", TokenTransitions)


def _rows(td: TensorDictBase, key: NestedKey) -> list[NDArray[Any]]:
    value = td.get(key, as_list=True)
    if value is None:
        raise KeyError(f"TokenTransitions needs the entry {key!r}, found {sorted(map(str, td.keys(True)))}.")
    return [np.asarray(row) for row in value]


def _per_row(td: TensorDictBase, key: NestedKey, dtype: Any) -> NDArray[Any]:
    value = np.stack(_rows(td, key)) if len(td) else np.zeros(0)
    if value.size != len(td):
        raise ValueError(f"{key!r} must hold one value per response, got shape {value.shape} for {len(td)}.")
    return value.reshape(len(td)).astype(dtype)


def _padded(
    rows: list[NDArray[Any]], real: list[NDArray[Any]], mask: NDArray[Any], dtype: Any
) -> NDArray[Any]:
    out = np.zeros(mask.shape, dtype=dtype)
    if rows:
        out[mask] = np.concatenate([row[keep] for row, keep in zip(rows, real, strict=True)])
    return out
