"""What `lite learn` minimises: functions of the log-probs of a batch's tokens, by `--method`."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.nn.losses import aggregate_tokens, dpo_loss, grpo_loss
from lite.nn.losses.language.dpo import DPO_LOSS_TYPES

# Of TRL's names: how losses of tokens are put together, and whether a part of a batch weighs as its tokens.
_GRPO = {
    "dapo": ("token_mean", True),
    "bnpo": ("token_mean", False),
    "grpo": ("prompt_mean", False),
    "dr_grpo": ("constant", False),
}
LOSS_TYPES = {"grpo": tuple(_GRPO), "dpo": DPO_LOSS_TYPES, "sft": ()}
"""The names that `--loss-type` takes, the default first."""

Told = tuple[Any, dict[str, Any]]


def weights_of(said: NDArray[np.bool_], args: argparse.Namespace) -> NDArray[np.float64]:
    """How much each element of a batch weighs in the mean of its parts' losses, (n,).

    Args:
        said: which tokens count, (n, tokens), or (n, 2, tokens) of pairs.
        args: arguments of the command.
    """
    if args.method == "dpo" or (args.method == "grpo" and not _GRPO[args.loss_type][1]):
        return np.ones(len(said))
    return said.sum(1, dtype=np.float64)


def grpo(log_probs: Any, part: Any, said: NDArray[np.bool_], args: argparse.Namespace) -> Told:
    """The loss of rows with "advantage", and where asked for "before" and "reference", log-probs."""
    reference = part.get("reference", None)
    kl = None if reference is None else args.kl
    out = grpo_loss(
        log_probs,
        part.get("before", None),
        part["advantage"],
        said,
        clip_epsilon=(args.clip, args.clip if args.clip_high is None else args.clip_high),
        aggregation=_GRPO[args.loss_type][0],
        max_tokens=args.max_new_tokens,
        ref_log_probs=reference,
        kl_to_ref_coeff=kl,
    )
    loss = out["loss_objective"] if kl is None else out["loss_objective"] + out["loss_kl_to_ref"]
    far = out["kl_approx"] if kl is None else out["kl_to_ref"]
    return loss, {"kl": far, "clip_fraction": out["clip_fraction"]}


def sft(log_probs: Any, part: Any, said: NDArray[np.bool_], args: argparse.Namespace) -> Told:
    """Minus the mean log-prob of a token that counts."""
    return aggregate_tokens(-log_probs, said), {}


def dpo(log_probs: Any, part: Any, said: NDArray[np.bool_], args: argparse.Namespace) -> Told:
    """The loss of pairs, chosen and rejected, with "reference", log-probs before learning (n, 2, tokens)."""
    sums, others = (np.where(said, one, np.float32(0)).sum(-1) for one in (log_probs, part["reference"]))
    counts = said.sum(-1)
    out = dpo_loss(
        sums[:, 0],
        sums[:, 1],
        others[:, 0],
        others[:, 1],
        beta=args.kl,
        loss_type=args.loss_type,
        label_smoothing=args.label_smoothing,
        chosen_lengths=counts[:, 0],
        rejected_lengths=counts[:, 1],
    )
    rewards = (name for name in out.keys() if name.startswith("rewards_"))  # noqa: SIM118
    return out["loss_dpo"], {name: out[name] for name in rewards}


LOSSES = {"grpo": grpo, "sft": sft, "dpo": dpo}
