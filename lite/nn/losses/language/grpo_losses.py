"""GRPOLoss, DAPO and CISPOLoss: a language model that learns from the advantages of its responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lite import NestedKey, TensorClass, TensorDictBase
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._tree.keys import require_path
from lite.nn._modules.initial import Rng
from lite.nn.losses.base import LossModule
from lite.nn.losses.language.grpo import grpo_loss
from lite.nn.losses.language.token_scores import (
    TokenScores,
    child_key,
    layout_of,
    moved,
    padded_rows,
    require_strategy,
    scored,
    scored_by_distribution,
)
from lite.nn.losses.policies import entropy_of
from lite.nn.losses.ppo import clip_bounds
from lite.nn.losses.reduction import require_reduction


class LLMLossOutput(TensorClass):
    """The results of losses of language models: losses to minimise (`loss_*`), and statistics for logging.

    Args:
        loss_objective: the loss of advantages; the shape is that of the aggregation.
        clip_fraction: the share of tokens whose ratio was beyond the limits.
        kl_approx: the mean of the log-ratios, the other way round.
        ESS: the effective sample size, as a share of the tokens.
        entropy: its mean.
        loss_entropy: minus the entropy, times its coefficient.
        loss_kl_to_ref, kl_to_ref: the penalty for leaving the reference model, and its mean.
        loss_kl_to_inference, kl_to_inference: the same of the model that wrote the responses.
    """

    loss_objective: Any
    clip_fraction: Any
    kl_approx: Any
    ESS: Any
    entropy: Any = None
    loss_entropy: Any = None
    loss_kl_to_ref: Any = None
    kl_to_ref: Any = None
    loss_kl_to_inference: Any = None
    kl_to_inference: Any = None


class GRPOLossOutput(LLMLossOutput):
    """The result of `GRPOLoss`."""


class DAPOLossOutput(LLMLossOutput):
    """The result of `DAPO`."""


class CISPOLossOutput(LLMLossOutput):
    """The result of `CISPOLoss`."""


@dataclass
class GRPOKeys:
    """The keys that `GRPOLoss` reads."""

    advantage: NestedKey = "advantage"
    action: NestedKey = ("tokens", "full")
    sample_log_prob: NestedKey = ("log_probs", "full")
    ref_log_probs: NestedKey = ("next", "ref_log_probs", "full")


class GRPOLoss(LossModule):
    """The clipped loss of PPO on the tokens of responses, weighted by each response's advantage.

    Reads "advantage", one for each response or each token; the log-probs ("log_probs", "full") under the
    model that wrote the responses, or ("log_probs", "response") where there are no others; what the actor
    reads; and with `kl_to_ref_coeff` those of a reference model, which `RetrieveLogProb` writes. Rows may
    be ragged or padded, in any way. Returns a `GRPOLossOutput`, of `grpo_loss`. Keep the actor in evaluation
    mode: dropout changes ratios.

    Args:
        actor_network: a module that scores, such as an `OnnxWrapper` with generate=False: it writes
            ("log_probs", "full") and, where rows are padded, ("masks", "all_attention_mask"). With
            `entropy_bonus`, or if it has no `log_probs_key`, what has `get_dist` is asked for distributions
            instead, which holds the logits of the whole batch.
        clip_epsilon, kl_mask_threshold, importance_sampling_level, kl_to_ref_coeff, kl_to_inference_coeff,
            aggregation, reduction: as for `grpo_loss`; "none" is the aggregation's, others have no effect.
        entropy_bonus, samples_mc_entropy, entropy_coeff, generator: whether there is "loss_entropy", which
            needs `get_dist`; samples of an entropy without a formula; its weight; seed of the samples.
        masking_strategy: which tokens count: "sft", all but the prompt ("tokens", "prompt"), or what
            assistants said if there is none; "rlhf", what assistants said in all turns, ("masks",
            "all_assistant_mask"); "generic", all. Where its log-prob is not finite, a token never counts.
        ref_log_prob_padding_side, ref_log_prob_padding_value: how ragged reference log-probs are padded.

    Raises:
        TypeError: `entropy_bonus` is set, and the policy has no `get_dist`.
        ValueError: a name is unknown, or a number out of range.

    Source:
        Shao et al. (2024), DeepSeekMath (arXiv:2402.03300); torchrl.objectives.llm.GRPOLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.losses import GRPOLoss
        >>> score = lambda ids: np.log(np.full(ids.shape, 0.5))
        >>> actor = nn.TensorDictModule(score, [("tokens", "full")], [("log_probs", "full")])
        >>> ids, before = np.array([[1, 2, 3], [1, 4, 5]]), np.log(np.full((2, 3), 0.4))
        >>> batch = TensorDict(tokens={"prompt": ids[:, :1], "full": ids}, log_probs={"full": before})
        >>> batch["advantage"] = np.array([1.0, -1.0])
        >>> round(float(GRPOLoss(actor, entropy_bonus=False)(batch.auto_batch_size_(1)).loss_objective), 4)
        0.025
    """

    _AcceptedKeys = GRPOKeys
    tensor_keys: GRPOKeys
    output_type: ClassVar[type[LLMLossOutput]] = GRPOLossOutput
    _objective: ClassVar[str] = "clip"
    _schedulable_buffers = frozenset({"clip_epsilon_low", "clip_epsilon_high"})

    def __init__(
        self,
        actor_network: Any,
        *,
        clip_epsilon: float | tuple[float, float] = 0.2,
        kl_mask_threshold: float | None = None,
        aggregation: str | None = "token_mean",
        entropy_bonus: bool = True,
        samples_mc_entropy: int = 1,
        entropy_coeff: float = 0.01,
        reduction: str | None = None,
        kl_to_ref_coeff: float | None = None,
        kl_to_inference_coeff: float | None = None,
        masking_strategy: str = "sft",
        ref_log_prob_padding_side: str = "left",
        ref_log_prob_padding_value: float = 0.0,
        importance_sampling_level: str = "token",
        generator: Rng = None,
    ) -> None:
        super().__init__()
        if entropy_bonus and not hasattr(actor_network, "get_dist"):
            raise TypeError(
                "entropy_bonus=True needs the distributions of tokens, an actor_network with get_dist, got "
                f"{type(actor_network).__name__}. Pass entropy_bonus=False to learn without the entropy."
            )
        self.actor_network = actor_network
        self._keep(reduction=require_reduction(reduction), _generator=generator)
        self.aggregation = "none" if reduction == "none" else aggregation or "token_mean"
        self.masking_strategy = require_strategy(masking_strategy)
        self._keep(entropy_bonus=entropy_bonus, samples_mc_entropy=samples_mc_entropy)
        self._keep(entropy_coeff=entropy_coeff, kl_mask_threshold=kl_mask_threshold)
        self._keep(kl_to_ref_coeff=kl_to_ref_coeff, kl_to_inference_coeff=kl_to_inference_coeff)
        self._keep(importance_sampling_level=importance_sampling_level)
        self.ref_log_prob_padding_side = ref_log_prob_padding_side
        self.ref_log_prob_padding_value = ref_log_prob_padding_value
        low, high = clip_bounds(clip_epsilon)
        self.register_coeff_buffer("clip_epsilon_low", low)
        self.register_coeff_buffer("clip_epsilon_high", high)
        self.out_keys = ["loss_objective", "clip_fraction", "ESS", "kl_approx"]
        self.out_keys += ["entropy", "loss_entropy"] if entropy_bonus else []
        self.out_keys += ["loss_kl_to_ref", "kl_to_ref", "loss_kl_to_inference", "kl_to_inference"]
        self._set_in_keys()

    def _set_in_keys(self) -> None:
        keys = self.tensor_keys
        own = list(getattr(self.actor_network, "in_keys", ()))
        others = [keys.action, keys.sample_log_prob, keys.advantage, keys.ref_log_probs]
        self.in_keys = list(dict.fromkeys([*own, *others]))

    def forward(self, tensordict: TensorDictBase) -> LLMLossOutput:
        """The losses of a batch.

        Raises:
            KeyError: log-probs are missing.
            ValueError: the advantage is missing; shapes or numbers of tokens differ, other tokens were
                scored, a log-prob that counts is NaN, or nothing tells which tokens count.
        """
        keys = self.tensor_keys
        advantage = padded_rows(tensordict, keys.advantage)
        if advantage is None:
            raise ValueError(f"Advantage key {keys.advantage!r} not in tensordict.")
        given = layout_of(tensordict, self.actor_network, keys.action, keys.sample_log_prob)
        sampled = self._sampled(tensordict, given)
        scores = self._scores(tensordict, given)
        sampled = moved(sampled, given, scores.real, repr(keys.sample_log_prob), np.nan)
        reference = None
        if self.kl_to_ref_coeff:
            reference = moved(self._reference(tensordict), given, scores.real, repr(keys.ref_log_probs))
        options: dict[str, Any] = {}
        if self.entropy_bonus:
            options["entropy"] = entropy_of(scores.dist, self.samples_mc_entropy, self._generator)
            options["entropy_coeff"] = self.entropy_coeff
        threshold = self.kl_mask_threshold
        out = grpo_loss(
            scores.log_probs,
            sampled,
            self._of_tokens(advantage, given, scores),
            scores.mask & np.isfinite(sampled),
            clip_epsilon=(self._number("clip_epsilon_low"), self._number("clip_epsilon_high")),
            aggregation=self.aggregation,
            importance_sampling_level=self.importance_sampling_level,
            kl_mask_threshold=threshold if threshold and threshold > 0 else None,
            ref_log_probs=reference,
            kl_to_ref_coeff=self.kl_to_ref_coeff or None,
            kl_to_inference_coeff=self.kl_to_inference_coeff,
            objective=self._objective,
            **options,
        )
        return self.output_type.from_tensordict(out)

    def _scores(self, tensordict: TensorDictBase, given: Array | None) -> TokenScores:
        actor, strategy = self.actor_network, self.masking_strategy
        distributes = hasattr(actor, "get_dist") and (
            self.entropy_bonus or not hasattr(actor, "log_probs_key")
        )
        if distributes:
            return scored_by_distribution(actor, tensordict, strategy, given, self.tensor_keys.action)
        return scored(actor, tensordict, strategy, given)

    def _sampled(self, tensordict: TensorDictBase, given: Array | None) -> Array:
        """Log-probs under the model that sampled the responses; NaN for tokens without one."""
        key = self.tensor_keys.sample_log_prob
        found = padded_rows(tensordict, key, np.nan)
        if found is not None:
            return found
        *above, name = require_path(key)
        response = None
        if above and name == "full" and given is not None:
            response = padded_rows(tensordict, child_key(tuple(above), "response"), np.nan)
        if response is None or given is None:
            raise KeyError(f"Couldn't find the log-prob {key!r} in the input data.")
        missing = given.shape[-1] - response.shape[-1]
        unknown = np.full((*response.shape[:-1], max(missing, 0)), np.nan, response.dtype)
        return np.concatenate([unknown, response], -1)  # responses end where their rows do

    def _reference(self, tensordict: TensorDictBase) -> Array:
        key = self.tensor_keys.ref_log_probs
        side, fill = self.ref_log_prob_padding_side, self.ref_log_prob_padding_value
        found = padded_rows(tensordict, key, fill, side)
        if found is None:
            raise KeyError(f"Couldn't find the ref log-prob {key!r} in the input data.")
        return found[..., 0] if found.ndim == tensordict.ndim + 2 else found

    def _of_tokens(self, advantage: Array, given: Array | None, scores: TokenScores) -> Array:
        """Advantages in the layout of the actor's rows; advantages of whole responses are unchanged."""
        rows = scores.real.ndim
        if advantage.ndim == rows + 1 and advantage.shape[-1] == 1:
            advantage = advantage[..., 0]
        if advantage.ndim < rows or advantage.shape[-1] == 1:
            return advantage
        return moved(advantage, given, scores.real, repr(self.tensor_keys.advantage))


class DAPO(GRPOLoss):
    """`GRPOLoss` under the name of the method that sets the limits apart: `clip_epsilon=(0.2, 0.28)`.

    Source:
        Yu et al. (2025), DAPO (arXiv:2503.14476), equation 10; torchrl.objectives.llm.DAPO.
    """

    output_type = DAPOLossOutput


class CISPOLoss(GRPOLoss):
    """`GRPOLoss` of the clipped ratio alone: tokens beyond the limits have no gradient.

    Source:
        MiniMax (2025), MiniMax-M1 (arXiv:2506.13585), which gives these tokens the gradient of their log-prob
        with a clipped weight; this is torchrl.objectives.llm.CISPOLoss.
    """

    output_type = CISPOLossOutput
    _objective = "cispo"


belong_to("lite.nn.losses", DAPO, CISPOLoss, GRPOLoss)
belong_to("lite.nn.losses", CISPOLossOutput, DAPOLossOutput, GRPOLossOutput, LLMLossOutput)
