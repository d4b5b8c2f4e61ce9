"""SFTLoss: supervised fine-tuning of a language model on assistants' turns, and its loss functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lite import NestedKey, TensorClass, TensorDictBase
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn.losses.base import LossModule
from lite.nn.losses.language.grpo import aggregate_tokens, kept_log_probs, kl_penalty
from lite.nn.losses.language.token_scores import TokenScores, child_key, layout_of, moved, padded_rows, scored
from lite.nn.losses.reduction import reduced, require_reduction
from lite.nn.values.entries import detached

_TEMPLATE_OPTIONS = {
    "return_assistant_tokens_mask": True,
    "tokenize": True,
    "return_dict": True,
    "add_generation_prompt": False,
}


def sft_loss(summed_log_probs: Array, reduction: str = "mean") -> Array:
    """Minus the log-probs of responses.

    Args:
        summed_log_probs: the log-prob of each response, or its mean over the tokens, (*batch).
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: another reduction.

    Source:
        torchrl.objectives.llm.sft.sft_loss.

    Example:
        >>> import numpy as np
        >>> from lite.nn.losses import sft_loss
        >>> float(sft_loss(np.array([-1.0, -3.0])))
        2.0
    """
    return reduced(-summed_log_probs, require_reduction(reduction))


def minor_sft_loss(
    log_probs: Array, ref_log_probs: Array, beta: float = 0.1, reduction: str = "mean"
) -> Array:
    """Minus log sigmoid(beta (log_probs - ref_log_probs)): responses that grew likely weigh less.

    Args:
        log_probs: log-probs of each response under the model that learns, (*batch).
        ref_log_probs: under the model that it started from, a constant, (*batch).
        beta: how soon they weigh less.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: another reduction, or shapes that differ.

    Source:
        Xie et al. (2024), Minor SFT loss (arXiv:2408.10642); torchrl.objectives.llm.sft.minor_sft_loss.

    Example:
        >>> import numpy as np
        >>> from lite.nn.losses import minor_sft_loss
        >>> round(float(minor_sft_loss(np.array([-1.0]), np.array([-1.0]))), 4)
        0.6931
    """
    if tuple(log_probs.shape) != tuple(ref_log_probs.shape):
        raise ValueError(
            f"log_probs and ref_log_probs must have one shape, got {tuple(log_probs.shape)} and "
            f"{tuple(ref_log_probs.shape)}."
        )
    return reduced(
        np.logaddexp(0, -beta * (log_probs - detached(ref_log_probs))), require_reduction(reduction)
    )


class SFTLossOutput(TensorClass):
    """The result of `SFTLoss`.

    Args:
        loss_sft: the loss of the responses, a number or (*batch).
        loss_kl_to_ref: the penalty for leaving the reference model, times its coefficient.
        kl_to_ref: the penalty, for logging.
    """

    loss_sft: Any
    loss_kl_to_ref: Any = None
    kl_to_ref: Any = None


@dataclass
class SFTKeys:
    """The keys that `SFTLoss` reads."""

    history: NestedKey = ("history", "full")
    ref_log_prob: NestedKey = ("next", "ref_log_probs", "full")
    log_probs: NestedKey = ("log_probs", "full")


class SFTLoss(LossModule):
    """Minus the log-probs of assistants' turns: supervised fine-tuning.

    Reads what the actor reads. The tokens of assistants are those of ("masks", "all_assistant_mask"), which
    the actor writes or the batch has; where nothing tells them, all but the prompt, ("tokens", "prompt").
    With `kl_to_ref_coeff` or "minor_sft" it reads the log-probs of a reference model, which
    `RetrieveLogProb` writes. Rows may be ragged or padded. Returns an `SFTLossOutput`.

    Args:
        actor_network: a module that scores, such as an `OnnxWrapper` with generate=False; see `GRPOLoss`.
        tokenizer: where the actor and the batch have no mask of what assistants said, it is made with this
            tokenizer from the `History` in the batch.
        tokenizer_kwargs: further arguments of `History.apply_chat_template`.
        reduction: "mean", "sum" or "none", over the responses.
        normalize_by_seq_length: take the mean of a response's tokens instead of their sum.
        kl_to_ref_coeff: the weight of the divergence from the reference model.
        loss_function: "sft" or "minor_sft"; see `minor_sft_loss`.
        beta: beta of `minor_sft_loss`.

    Raises:
        ValueError: unknown names.

    Warns:
        UserWarning: `kl_to_ref_coeff` with "minor_sft", which stays near the reference by itself; 0 is taken.

    Source:
        torchrl.objectives.llm.SFTLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.losses import SFTLoss
        >>> def score(ids):
        ...     return np.log(np.full(ids.shape, 0.5))
        >>> actor = nn.TensorDictModule(score, [("tokens", "full")], [("log_probs", "full")])
        >>> ids = np.array([[1, 2, 3], [1, 4, 5]])
        >>> batch = TensorDict(tokens=TensorDict(prompt=ids[:, :1], full=ids), batch_size=[2])
        >>> round(float(SFTLoss(actor)(batch).loss_sft), 4)
        0.6931
    """

    _AcceptedKeys = SFTKeys
    tensor_keys: SFTKeys

    def __init__(
        self,
        actor_network: Any,
        tokenizer: Any = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        reduction: str = "mean",
        normalize_by_seq_length: bool = True,
        kl_to_ref_coeff: float | None = None,
        loss_function: str = "sft",
        beta: float = 0.1,
    ) -> None:
        super().__init__()
        if loss_function not in ("sft", "minor_sft"):
            raise ValueError(f"loss_function must be 'sft' or 'minor_sft', got {loss_function!r}.")
        if loss_function == "minor_sft" and kl_to_ref_coeff:
            warn(
                "kl_to_ref_coeff has no use with loss_function='minor_sft', which stays near the reference "
                "model by itself: it is set to 0.0.",
                UserWarning,
            )
            kl_to_ref_coeff = 0.0
        self.actor_network = actor_network
        self.tokenizer = tokenizer
        self.tokenizer_kwargs = {**_TEMPLATE_OPTIONS, **(tokenizer_kwargs or {})}
        self.reduction = require_reduction(reduction)
        self.normalize_by_seq_length = normalize_by_seq_length
        self.kl_to_ref_coeff = kl_to_ref_coeff
        self.loss_function = loss_function
        self.beta = beta
        self.out_keys = []
        self._set_in_keys()

    def _set_in_keys(self) -> None:
        self.in_keys = [self.tensor_keys.history]
        if self._compares:
            self.in_keys.append(self.tensor_keys.ref_log_prob)

    @property
    def _compares(self) -> bool:
        return self.kl_to_ref_coeff is not None or self.loss_function == "minor_sft"

    def forward(self, tensordict: TensorDictBase) -> SFTLossOutput:
        """The losses of a batch.

        Raises:
            KeyError: the actor writes no log-probs.
            ValueError: reference log-probs are missing; nothing tells what assistants said, or they said
                nothing; shapes or numbers of tokens differ; a log-prob that counts is NaN.
        """
        actor, td = self.actor_network, self._with_mask(tensordict)
        tokens_key, masks_key = (getattr(actor, f"{name}_key", name) for name in ("tokens", "masks"))
        said_key = child_key(masks_key, "all_assistant_mask")
        given = layout_of(td, actor, child_key(tokens_key, "full"), said_key)
        scores = scored(actor, td, "assistant", given, self.tensor_keys.log_probs)
        if isinstance(scores.mask, np.ndarray) and not scores.mask.any():
            raise ValueError("Some inputs have no valid assistant masks.")
        responses = self._of_responses(scores.log_probs, scores)
        if not self._compares:
            return SFTLossOutput(loss_sft=sft_loss(responses, self.reduction))
        reference = self._reference(td, given, scores)
        if self.loss_function == "sft":
            loss = sft_loss(responses, self.reduction)
        else:
            others = self._of_responses(reference, scores)
            loss = minor_sft_loss(responses, others, self.beta, self.reduction)
        if self.kl_to_ref_coeff is None:
            return SFTLossOutput(loss_sft=loss)
        penalty = aggregate_tokens(kl_penalty(scores.log_probs, reference, scores.mask), scores.mask)
        return SFTLossOutput(
            loss_sft=loss, loss_kl_to_ref=self.kl_to_ref_coeff * penalty, kl_to_ref=detached(penalty)
        )

    def _of_responses(self, log_probs: Array, scores: TokenScores) -> Array:
        """The sum, or the mean, over the tokens that count of each row, (*batch)."""
        sums = kept_log_probs("log_probs", log_probs, scores.mask).sum(-1)
        if not self.normalize_by_seq_length:
            return sums
        return sums / np.maximum(scores.mask.sum(-1), 1).astype(log_probs.dtype)

    def _reference(self, td: TensorDictBase, given: Array | None, scores: TokenScores) -> Array:
        key = self.tensor_keys.ref_log_prob
        found = padded_rows(td, key)
        if found is None:
            raise ValueError(
                f"Reference log probs not found in tensordict at key {key!r}: they are needed by "
                f"kl_to_ref_coeff and loss_function='minor_sft'. Keys: {sorted(map(str, td.keys(True)))}."
            )
        return moved(found, given, scores.real, repr(key))

    def _with_mask(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The batch, with the mask that the tokenizer makes where it has none."""
        masks_key = getattr(self.actor_network, "masks_key", "masks")
        history = tensordict.get(self.tensor_keys.history, None)
        said = tensordict.get(child_key(masks_key, "all_assistant_mask"), None, as_list=True)
        if self.tokenizer is None or history is None or said is not None:
            return tensordict
        rendered = history.apply_chat_template(tokenizer=self.tokenizer, **self.tokenizer_kwargs)
        masks = rendered.select("assistant_masks", "attention_mask").apply(lambda mask: mask.astype(bool))
        masks.rename_key_("assistant_masks", "all_assistant_mask")
        masks.rename_key_("attention_mask", "all_attention_mask")
        return tensordict.copy().set(masks_key, masks)


belong_to("lite.nn.losses", SFTLoss, SFTLossOutput)
