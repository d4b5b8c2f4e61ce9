"""DPOLoss: a language model that learns which of two responses was preferred, and its function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lite import NestedKey, TensorClass, TensorDict, TensorDictBase
from lite._arrays.formulas import sigmoid
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn.losses.base import LossModule
from lite.nn.losses.language.grpo import kept_log_probs
from lite.nn.losses.language.token_scores import (
    child_key,
    layout_of,
    moved,
    padded_rows,
    require_strategy,
    scored,
)
from lite.nn.losses.reduction import reduced, require_reduction
from lite.nn.values.entries import detached


class _Pairs(NamedTuple):
    """Log-ratios (*batch) of pairs of responses, model over reference, and the options of their losses."""

    chosen: Array
    rejected: Array
    beta: float
    smoothing: float
    tau: float
    # Of each token instead of the whole response, or None where the lengths are unknown.
    per_token: tuple[Array, Array] | None
    # Log-probs, chosen less rejected: of the model, and of the reference.
    margins: tuple[Array, Array]

    @property
    def score(self) -> Array:
        return self.beta * (self.chosen - self.rejected)

    @property
    def score_per_token(self) -> Array:
        if self.per_token is None:
            raise ValueError("this loss_type needs chosen_lengths and rejected_lengths, numbers of tokens.")
        return self.per_token[0] - self.per_token[1]


def _minus_log_sigmoid(x: Array) -> Array:
    return np.logaddexp(0, -x)


def _smoothed(score: Array, smoothing: float) -> Array:
    """The loss of a preference that is the other way round with the probability `smoothing`."""
    loss = (1 - smoothing) * _minus_log_sigmoid(score)
    return loss + smoothing * _minus_log_sigmoid(-score) if smoothing else loss


def _exo_pair(p: _Pairs) -> Array:
    if not 0 < p.smoothing < 1:
        raise ValueError(f"loss_type 'exo_pair' needs label_smoothing between 0 and 1, got {p.smoothing}.")
    won, lost = _minus_log_sigmoid(p.score), _minus_log_sigmoid(-p.score)
    return np.exp(-won) * (-won - np.log1p(-p.smoothing)) + np.exp(-lost) * (-lost - np.log(p.smoothing))


def _robust(p: _Pairs) -> Array:
    if not 0 <= p.smoothing < 0.5:
        raise ValueError(f"loss_type 'robust' needs label_smoothing from 0 to 0.5, got {p.smoothing}.")
    kept = (1 - p.smoothing) * _minus_log_sigmoid(p.score)
    return (kept - p.smoothing * _minus_log_sigmoid(-p.score)) / (1 - 2 * p.smoothing)


def _nca_pair(p: _Pairs) -> Array:
    chosen, rejected = p.beta * p.chosen, p.beta * p.rejected
    apart = _minus_log_sigmoid(-chosen) + _minus_log_sigmoid(-rejected)
    return _minus_log_sigmoid(chosen) + 0.5 * apart


def _discopop(p: _Pairs) -> Array:
    share = sigmoid(p.score / p.tau)
    return (1 - share) * _minus_log_sigmoid(p.score) + share * np.exp(-p.score)


def _aot(first: Array, second: Array, p: _Pairs) -> Array:
    """The smoothed loss of two sorted samples, the smallest with the smallest."""
    return _smoothed(p.beta * (np.sort(first, 0) - np.sort(second, 0)), p.smoothing)


_LOSSES: dict[str, Callable[[_Pairs], Array]] = {
    "sigmoid": lambda p: _smoothed(p.score, p.smoothing),
    "hinge": lambda p: np.maximum(1 - p.score, 0),
    "ipo": lambda p: (p.score_per_token - 1 / (2 * p.beta)) ** 2,
    "exo_pair": _exo_pair,
    "nca_pair": _nca_pair,
    "robust": _robust,
    "bco_pair": lambda p: _minus_log_sigmoid(p.beta * p.chosen) + _minus_log_sigmoid(-p.beta * p.rejected),
    "sppo_hard": lambda p: (p.chosen - 0.5 / p.beta) ** 2 + (p.rejected + 0.5 / p.beta) ** 2,
    "aot": lambda p: _aot(*p.margins, p),
    "aot_unpaired": lambda p: _aot(p.chosen, p.rejected, p),
    "apo_zero": lambda p: 1 - sigmoid(p.beta * p.chosen) + sigmoid(p.beta * p.rejected),
    "apo_down": lambda p: sigmoid(p.beta * p.chosen) + 1 - sigmoid(p.score),
    "discopop": _discopop,
    "sigmoid_norm": lambda p: _minus_log_sigmoid(p.beta * p.score_per_token),
}
DPO_LOSS_TYPES = tuple(_LOSSES)


def dpo_loss(
    chosen_logps: Array,
    rejected_logps: Array,
    ref_chosen_logps: Array | None = None,
    ref_rejected_logps: Array | None = None,
    *,
    beta: float = 0.1,
    loss_type: str | Sequence[str] = "sigmoid",
    loss_weights: Sequence[float] | None = None,
    label_smoothing: float = 0.0,
    reference_free: bool = False,
    discopop_tau: float = 0.05,
    chosen_lengths: Array | None = None,
    rejected_lengths: Array | None = None,
    reduction: str = "mean",
) -> TensorDict:
    """Direct preference optimization: of two responses, one was preferred.

    With r the log-ratio of a response, its log-prob less that under the reference model, and the score
    s = beta (r of the chosen response - r of the rejected one), a pair's loss is by `loss_type`

    - "sigmoid": -log sigmoid(s), with label smoothing e (1 - e) times that and e times -log sigmoid(-s);
    - "hinge": max(0, 1 - s); "ipo": the square of (ratios per token, chosen less rejected, - 1 / (2 beta));
    - "robust", "exo_pair", "nca_pair", "bco_pair", "sppo_hard", "aot", "aot_unpaired", "apo_zero",
      "apo_down", "discopop", "sigmoid_norm": as in their papers, see the source.

    Args:
        chosen_logps, rejected_logps: log-probs of whole responses under the model that learns, (*batch).
        ref_chosen_logps, ref_rejected_logps: under the reference model, constants, (*batch).
        beta: how dear it is to leave the reference model.
        loss_type, loss_weights: one of these names, or several, whose losses are added; weights 1 by default.
        label_smoothing: the probability that a preference is the wrong way round.
        reference_free: take the same log-prob for all responses under the reference model.
        discopop_tau: the temperature of "discopop".
        chosen_lengths, rejected_lengths: the numbers of tokens, for "ipo" and "sigmoid_norm".
        reduction: "mean", "sum" or "none".

    Returns:
        A TensorDict with "loss_dpo", and to log "rewards_chosen" and "rewards_rejected", beta times the
        log-ratios; "rewards_accuracies", how often the first is the greater; "rewards_margins", their
        difference; "logps_chosen" and "logps_rejected". All are means but for the loss.

    Raises:
        ValueError: unknown names, shapes that differ, numbers out of range, NaN, or a missing argument.

    Source:
        Rafailov et al. (2023), Direct preference optimization (arXiv:2305.18290); `loss_type` of TRL's
        DPOTrainer, https://huggingface.co/docs/trl/dpo_trainer, which names the paper of each.

    Example:
        >>> import numpy as np
        >>> from lite.nn.losses import dpo_loss
        >>> out = dpo_loss(np.array([-4.0]), np.array([-9.0]), np.array([-5.0]), np.array([-6.0]), beta=0.5)
        >>> round(float(out["loss_dpo"]), 4), round(float(out["rewards_margins"]), 4)
        (0.1269, 2.0)
    """
    names = [loss_type] if isinstance(loss_type, str) else list(loss_type)
    weights = [1.0] * len(names) if loss_weights is None else list(loss_weights)
    if not names or not set(names) <= set(_LOSSES):
        raise ValueError(f"loss_type must be of {sorted(_LOSSES)}, got {loss_type!r}.")
    if len(weights) != len(names):
        raise ValueError(f"loss_weights must be one for each of {names}, got {loss_weights!r}.")
    if not beta > 0:
        raise ValueError(f"beta must be positive, got {beta}.")
    logps = {"chosen_logps": chosen_logps, "rejected_logps": rejected_logps}
    if not reference_free:
        if ref_chosen_logps is None or ref_rejected_logps is None:
            raise ValueError("give ref_chosen_logps and ref_rejected_logps, or reference_free=True.")
        logps |= {
            "ref_chosen_logps": detached(ref_chosen_logps),
            "ref_rejected_logps": detached(ref_rejected_logps),
        }
    everyone = np.ones(chosen_logps.shape, bool)
    known = [kept_log_probs(name, values, everyone) for name, values in logps.items()]
    chosen, rejected, *others = known
    of_reference = others or [detached(chosen) * 0, detached(rejected) * 0]
    ratios = chosen - of_reference[0], rejected - of_reference[1]
    per_token = None
    if chosen_lengths is not None and rejected_lengths is not None:
        both = zip(ratios, (chosen_lengths, rejected_lengths), strict=True)
        first, second = (ratio / np.maximum(count, 1).astype(ratio.dtype) for ratio, count in both)
        per_token = first, second
    margins = chosen - rejected, of_reference[0] - of_reference[1]
    pairs = _Pairs(*ratios, beta, label_smoothing, discopop_tau, per_token, margins)
    losses = [weight * _LOSSES[name](pairs) for name, weight in zip(names, weights, strict=True)]
    rewards = [beta * detached(ratio) for ratio in ratios]
    return TensorDict(
        loss_dpo=reduced(sum(losses[1:], start=losses[0]), require_reduction(reduction)),
        rewards_chosen=rewards[0].mean(),
        rewards_rejected=rewards[1].mean(),
        rewards_accuracies=(rewards[0] > rewards[1]).astype(rewards[0].dtype).mean(),
        rewards_margins=(rewards[0] - rewards[1]).mean(),
        logps_chosen=detached(chosen).mean(),
        logps_rejected=detached(rejected).mean(),
    )


class DPOLossOutput(TensorClass):
    """The result of `DPOLoss`; see `dpo_loss`.

    Args:
        loss_dpo: the loss, a number or (*batch).
        rewards_chosen, rewards_rejected, rewards_accuracies, rewards_margins: for logging.
        logps_chosen, logps_rejected: log-probs of the responses, for logging.
    """

    loss_dpo: Any
    rewards_chosen: Any
    rewards_rejected: Any
    rewards_accuracies: Any
    rewards_margins: Any
    logps_chosen: Any
    logps_rejected: Any


@dataclass
class DPOKeys:
    """The keys that `DPOLoss` reads; `ref_log_probs` is below each of the other two."""

    chosen: NestedKey = "chosen"
    rejected: NestedKey = "rejected"
    ref_log_probs: NestedKey = ("ref_log_probs", "full")


class DPOLoss(LossModule):
    """Direct preference optimization: the preferred one of two responses becomes the likelier one.

    Reads two TensorDicts, "chosen" and "rejected", each with what the actor reads and the log-probs
    ("ref_log_probs", "full") of its tokens under the reference model, which a `RetrieveLogProb` with this
    `log_probs_full_key` writes into each. Rows may be ragged or padded.

    Returns a `DPOLossOutput`, whose fields are those of `dpo_loss`.

    Args:
        actor_network: a module that scores, such as an `OnnxWrapper` with generate=False; see `GRPOLoss`.
        beta, loss_type, loss_weights, label_smoothing, reference_free, discopop_tau: see `dpo_loss`.
        masking_strategy: which tokens are the response; see `GRPOLoss`.
        reduction: "mean", "sum" or "none", over the pairs.

    Raises:
        ValueError: unknown names.

    Source:
        Rafailov et al. (2023), Direct preference optimization (arXiv:2305.18290); TRL's DPOTrainer.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.losses import DPOLoss
        >>> def score(ids):
        ...     return np.log(np.where(ids > 3, 0.5, 0.25))
        >>> actor = nn.TensorDictModule(score, [("tokens", "full")], [("log_probs", "full")])
        >>> def response(*ids):
        ...     ids = np.array([ids])
        ...     return TensorDict(tokens=TensorDict(prompt=ids[:, :1], full=ids), batch_size=[1])
        >>> pairs = TensorDict(chosen=response(1, 5, 6), rejected=response(1, 2), batch_size=[1])
        >>> out = DPOLoss(actor, beta=1.0, reference_free=True)(pairs)
        >>> round(float(out.loss_dpo), 4), round(float(out.logps_chosen), 4)
        (0.6931, -1.3863)
    """

    _AcceptedKeys = DPOKeys
    tensor_keys: DPOKeys

    def __init__(
        self,
        actor_network: Any,
        *,
        beta: float = 0.1,
        loss_type: str | Sequence[str] = "sigmoid",
        loss_weights: Sequence[float] | None = None,
        label_smoothing: float = 0.0,
        reference_free: bool = False,
        discopop_tau: float = 0.05,
        masking_strategy: str = "sft",
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.actor_network = actor_network
        self.masking_strategy = require_strategy(masking_strategy)
        self._keep(beta=beta, loss_type=loss_type, loss_weights=loss_weights)
        self._keep(label_smoothing=label_smoothing, reference_free=reference_free)
        self._keep(discopop_tau=discopop_tau, reduction=require_reduction(reduction))
        self.out_keys = list(DPOLossOutput.__annotations__)
        self._set_in_keys()

    def _set_in_keys(self) -> None:
        self.in_keys = [self.tensor_keys.chosen, self.tensor_keys.rejected]

    def forward(self, tensordict: TensorDictBase) -> DPOLossOutput:
        """The loss of a batch of pairs.

        Raises:
            KeyError: a response, or its log-probs under the reference model, are missing.
            ValueError: shapes or numbers of tokens differ; a log-prob that counts is NaN; or nothing tells
                which tokens count.
        """
        keys = self.tensor_keys
        chosen, ref_chosen, chosen_lengths = self._response(tensordict, keys.chosen)
        rejected, ref_rejected, rejected_lengths = self._response(tensordict, keys.rejected)
        out = dpo_loss(
            chosen,
            rejected,
            ref_chosen,
            ref_rejected,
            beta=self.beta,
            loss_type=self.loss_type,
            loss_weights=self.loss_weights,
            label_smoothing=self.label_smoothing,
            reference_free=self.reference_free,
            discopop_tau=self.discopop_tau,
            chosen_lengths=chosen_lengths,
            rejected_lengths=rejected_lengths,
            reduction=self.reduction,
        )
        return DPOLossOutput.from_tensordict(out)

    def _response(self, tensordict: TensorDictBase, key: NestedKey) -> tuple[Array, Array | None, Array]:
        """Log-probs of one response of each pair, those of the reference model, and the numbers of tokens."""
        td: Any = self._entry(tensordict, key)
        actor = self.actor_network
        reference_key = self.tensor_keys.ref_log_probs
        given = layout_of(td, actor, child_key(getattr(actor, "tokens_key", "tokens"), "full"), reference_key)
        scores = scored(actor, td, self.masking_strategy, given)
        sums = kept_log_probs("log_probs", scores.log_probs, scores.mask).sum(-1)
        counts = scores.mask.sum(-1)
        if self.reference_free:
            return sums, None, counts
        reference = padded_rows(td, reference_key)
        if reference is None:
            raise KeyError(f"DPOLoss reads {reference_key!r} below {key!r}, which the TensorDict lacks.")
        reference = moved(reference, given, scores.real, repr(reference_key))
        return sums, kept_log_probs("ref_log_probs", reference, scores.mask).sum(-1), counts


belong_to("lite.nn.losses", DPOLoss, DPOLossOutput)
