"""The model that learns: batches, losses, steps."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorDict, optim, value_and_grad
from lite.cli.learning.folder import RunState
from lite.cli.learning.learnt import Adapters, AllWeights
from lite.cli.learning.rewards import Reward
from lite.cli.learning.rows import Row, Shuffled
from lite.cli.prompts import prompt_of
from lite.data import LLMCollector, group_advantages
from lite.models import OnnxWrapper, Tokenizer
from lite.models.batches.rows import row_of
from lite.nn.losses import aggregate_tokens, grpo_loss

_NORM = 1.0  # of the gradient, at most
# Of what a model's files say of sampling nothing holds: the gradient is that of draws from all tokens.
_ALL_TOKENS = {
    "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0, "repetition_penalty": 1.0,
    "presence_penalty": 0.0, "frequency_penalty": 0.0, "no_repeat_ngram_size": 0, "num_beams": 1,
}  # fmt: skip
_FULL, _SAID = ("tokens", "full"), ("masks", "all_assistant_mask")


class Learner:
    """A model, and one step after the other of what it learns.

    What is random in a step follows from the seed and the step's number, so a run that goes on from a state
    is the run that was not interrupted.

    Args:
        path: the model's folder.
        args: arguments of the command.
        rows: what to learn from.
        reward: the reward of responses; None for SFT.
        run_state: where to go on; None to begin.

    Attributes:
        decoder, tokenizer: decoder and tokenizer of the model, see `Loaded`.
        run_state: the parameters and the optimiser's state after the last step.
    """

    def __init__(
        self,
        path: Path,
        args: argparse.Namespace,
        rows: Sequence[Row],
        reward: Reward | None,
        run_state: RunState | None,
    ) -> None:
        self.args, self.reward = args, reward
        kind = AllWeights if args.full else Adapters
        self._learnt = kind(path, args, Path(args.output))
        self.decoder = self._learnt.decoder
        self.tokenizer = Tokenizer.from_pretrained(path)
        # An adapter has its first values when the policy is made, and wrappers with it come after.
        scorer = OnnxWrapper(self.decoder, tokenizer=self.tokenizer, input_mode="tokens")
        self.policy = self._learnt.policy(scorer)
        self._wrapper = self._wrapped(args.samples, do_sample=True, temperature=args.temperature)
        self._adam = optim.AdamW(args.lr, betas=(0.9, 0.99), weight_decay=0.0)
        self._rows = Shuffled(self._tokens(rows, args.file), args.seed)
        self._reference = None
        if args.method == "grpo" and args.kl:
            self._reference = self._learnt.reference(
                self.policy,
                tokenizer=self.tokenizer,
                input_mode="tokens",
                generate=False,
                pad_output=True,
            )
        params = self.policy.learnt_params().data.clone()
        self.run_state = RunState(0, params, self._adam.init(params)) if run_state is None else run_state
        self.policy.sync(self.run_state.params)

    def _wrapped(self, samples: int, **options: Any) -> OnnxWrapper:
        return OnnxWrapper(
            self.decoder,
            tokenizer=self.tokenizer,
            input_mode="tokens",
            pad_output=True,
            num_samples=samples,
            adapter=self._learnt.adapter,
            generate_kwargs={"max_new_tokens": self.args.max_new_tokens, **_ALL_TOKENS, **options},
        )

    def _tokens(self, rows: Sequence[Row], file: str) -> list[dict[str, Any]]:
        """Prompts as `LLMCollector` takes them, or rows of prompt and response.

        Raises:
            ValueError: a row does not fit the model's context or its chat template, which is told before a
                step is taken.
        """
        found: list[dict[str, Any]] = []
        for number, row in enumerate(rows):
            try:
                if self.args.method == "sft":
                    ids, prompt = row_of(self, row, self.args.raw, self.args.system)
                    found.append({"ids": ids, "prompt": prompt})
                else:
                    ids = prompt_of(row).ids(self, self.args)  # type: ignore[union-attr, arg-type]
                    found.append({"prompt_ids": ids, "row": number})
                self.decoder.check_ids(ids)
            except ValueError as error:
                raise ValueError(f"{file}, row {number + 1}: {error}") from None
        self._read = rows
        return found

    # -- a step --------------------------------------------------------------------------------------

    def step(self) -> dict[str, Any]:
        """Learn from the next rows, and tell what happened, by name."""
        start = time.perf_counter()
        number = self.run_state.steps
        learn = self._supervised if self.args.method == "sft" else self._reinforced
        params, state, told = learn(number)
        self.policy.sync(params)
        self.run_state = RunState(number + 1, params, state)
        seconds = time.perf_counter() - start
        tokens = told.pop("tokens")
        return {
            "step": number + 1,
            **told,
            "tokens": tokens,
            "tokens_per_second": round(tokens / seconds, 1),
            "seconds": round(seconds, 3),
        }

    def _reinforced(self, number: int) -> tuple[Any, Any, dict[str, Any]]:
        """A step of GRPO."""
        args = self.args
        batch, rewards = self._responses(self._wrapper, self._rows, number * args.prompts, args.prompts)
        flat: Any = batch.select("tokens", "masks").reshape(-1)
        advantage = group_advantages(rewards).reshape(-1)
        said = np.asarray(flat[_SAID])
        tokens = int(said.sum())
        told = {"reward": float(rewards.mean()), "told": float((advantage != 0).mean())}
        chosen = np.flatnonzero(said.any(1) & ((advantage != 0) | (self._reference is not None)))
        logs: dict[str, float] = {"kl": 0.0, "clip_fraction": 0.0}
        params, state = self.run_state.params, self.run_state.optimizer
        if len(chosen):
            given = TensorDict(rows=flat[chosen], advantage=advantage[chosen], batch_size=[len(chosen)])
            if args.iterations > 1:
                with params.to_module(self.policy):
                    given["before"] = self._log_probs(given["rows"])
            if self._reference is not None:
                given["reference"] = self._log_probs(given["rows"], self._reference)
            for _ in range(args.iterations):
                params, state, logs = self._update(params, state, given, self._grpo)
        return params, state, {**told, **logs, "tokens": tokens}

    def _grpo(self, log_probs: Any, part: Any, said: NDArray[np.bool_]) -> tuple[Any, dict[str, Any]]:
        kl = self.args.kl if self._reference is not None else None
        out = grpo_loss(
            log_probs,
            part.get("before", None),
            part["advantage"],
            said,
            clip_epsilon=self.args.clip,
            ref_log_probs=part.get("reference", None),
            kl_to_ref_coeff=kl,
        )
        loss = out["loss_objective"] if kl is None else out["loss_objective"] + out["loss_kl_to_ref"]
        far = out["kl_approx"] if kl is None else out["kl_to_ref"]
        return loss, {"kl": far, "clip_fraction": out["clip_fraction"]}

    def _supervised(self, number: int) -> tuple[Any, Any, dict[str, Any]]:
        """A step of supervised fine-tuning."""
        first = number * self.args.prompts
        given: Any = TensorDict(
            rows=_padded(self._rows[first : first + self.args.prompts]), batch_size=[self.args.prompts]
        )
        tokens = int(np.asarray(given["rows"][_SAID]).sum())
        params, state, logs = self._update(self.run_state.params, self.run_state.optimizer, given, self._sft)
        return params, state, {**logs, "tokens": tokens}

    def _sft(self, log_probs: Any, part: Any, said: NDArray[np.bool_]) -> tuple[Any, dict[str, Any]]:
        loss = aggregate_tokens(-log_probs, said)
        return loss, {}

    def _update(
        self, params: Any, state: Any, given: Any, loss_of: Callable[..., tuple[Any, dict[str, Any]]]
    ) -> tuple[Any, Any, dict[str, float]]:
        """One step of the optimiser, by the gradient of parts that are weighted by their tokens."""

        def objective(params: Any, part: Any, share: np.float32) -> Any:
            said = np.asarray(part["rows"][_SAID])
            with params.to_module(self.policy):
                loss, logs = loss_of(self._log_probs(part["rows"]), part, said)
            return loss * share, logs

        counts = np.asarray(given["rows"][_SAID]).sum(1)
        total, grads = {"loss": 0.0}, None
        for first in range(0, len(given), self.args.batch_size):
            own = slice(first, first + self.args.batch_size)
            share = np.float32(counts[own].sum() / counts.sum())
            (loss, logs), new = value_and_grad(objective, has_aux=True)(params, given[own], share)
            grads = new if grads is None else grads + new
            total["loss"] += float(loss)
            for name, value in logs.items():
                total[name] = total.get(name, 0.0) + float(value) * float(share)
        grads, norm = optim.clip_grad_norm(grads, _NORM)
        if not math.isfinite(norm):
            raise ValueError(
                f"the gradient of step {self.run_state.steps + 1} is not finite: a smaller --lr may help"
            )
        params, state = self._adam.update(params, grads, state)
        return params, state, {**total, "gradient_norm": float(norm)}

    def _log_probs(self, rows: Any, model: Any = None) -> Any:
        """Log-probs of all tokens of rows, (rows, tokens), at the temperature that drew them."""
        options = {}
        if self.args.method == "grpo" and self.args.temperature != 1:
            options["temperature"] = self.args.temperature
        return (model or self.policy)(rows.copy(), **options)["log_probs", "full"]

    def _responses(
        self, wrapper: OnnxWrapper, rows: Sequence[Any], first: int, prompts: int
    ) -> tuple[Any, NDArray[np.float32]]:
        """Responses to rows from a number on, and their rewards (prompts, samples)."""
        samples = wrapper.num_samples
        collector = LLMCollector(
            rows, policy=wrapper, dialog_turns_per_batch=prompts * samples, seed=self.args.seed
        )
        collector.load_state_dict({"prompts": first, "turns": 0, "policy_version": 0})
        batch = collector.rollout()
        ids, said, of = (np.asarray(batch[key]) for key in (_FULL, _SAID, "row"))
        rewards = np.zeros(of.shape, np.float32)
        for at in np.ndindex(*of.shape):
            text = self.tokenizer.decode(ids[at][said[at]], skip_special_tokens=True)
            rewards[at] = self.reward(text, self._read[int(of[at])])  # type: ignore[misc]
        return batch, rewards

    # -- held-out rows -------------------------------------------------------------------------------

    def held_out(self, rows: Sequence[Row]) -> float:
        """The mean reward of greedy responses; of SFT the mean log-prob of a token of the responses."""
        read, tokens = self._read, self._tokens(rows, self.args.held_out)
        try:
            if self.reward is None:
                given = _padded(tokens)
                said = np.asarray(given[_SAID])
                with self.run_state.params.to_module(self.policy):
                    return float(np.asarray(self._log_probs(given))[said].mean())
            greedy = self._wrapped(1, do_sample=False)
            return float(self._responses(greedy, tokens, 0, len(tokens))[1].mean(dtype=np.float64))
        finally:
            self._read = read

    def save(self) -> str:
        """Write what was learnt; the text says where it is."""
        return self._learnt.save(self.policy, self.run_state.params)


def _padded(rows: Sequence[Mapping[str, Any]]) -> TensorDict:
    """Rows of prompt and response side by side, padded on the right."""
    longest = max(len(row["ids"]) for row in rows)
    ids = np.zeros((len(rows), longest), np.int64)
    real, said = np.zeros(ids.shape, bool), np.zeros(ids.shape, bool)
    for i, row in enumerate(rows):
        count = len(row["ids"])
        ids[i, :count], real[i, :count], said[i, row["prompt"] : count] = row["ids"], True, True
    return TensorDict(
        tokens=TensorDict(full=ids, batch_size=[len(rows)]),
        masks=TensorDict(all_attention_mask=real, all_assistant_mask=said, batch_size=[len(rows)]),
        batch_size=[len(rows)],
    )
