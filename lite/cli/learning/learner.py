"""The model that learns: batches, losses, steps."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorDict, optim, value_and_grad
from lite.cli.learning.folder import RunState
from lite.cli.learning.learnt import Adapters, AllWeights
from lite.cli.learning.lessons import Lesson, dpo_lessons, sft_lesson
from lite.cli.learning.losses import LOSSES, weights_of
from lite.cli.learning.rewards import Reward
from lite.cli.learning.rows import Row, Shuffled
from lite.cli.prompts import prompt_of
from lite.data import LLMCollector, group_advantages
from lite.models import OnnxWrapper, Tokenizer

_NORM = 1.0  # at which the norm of the gradient is clipped
_SMALLEST = 1e-6  # the least deviation of rewards that advantages are divided by
# The sampling options of a model's files are replaced: the gradient is that of draws from all tokens.
_ALL_TOKENS = {
    "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0, "repetition_penalty": 1.0,
    "presence_penalty": 0.0, "frequency_penalty": 0.0, "no_repeat_ngram_size": 0, "num_beams": 1,
}  # fmt: skip
_FULL, _SAID = ("tokens", "full"), ("masks", "all_assistant_mask")


class Learner:
    """A model and its training steps.

    The randomness of a step depends on the seed and the step's number alone, so a run that continues from a
    state is equal to one that was not interrupted.

    Args:
        path: the model's folder.
        args: arguments of the command.
        rows: the training data.
        reward: the reward function of sampled responses; None for other methods.
        run_state: the state to continue from; None to begin.

    Attributes:
        decoder, tokenizer: decoder and tokenizer of the model, see `Loaded`.
        run_state: the parameters and the optimiser's state after the last step.
    """

    def __init__(
        self, path: Path, args: argparse.Namespace, rows: Sequence[Row], reward: Reward | None,
        run_state: RunState | None,
    ) -> None:  # fmt: skip
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
        self._compares = args.method == "dpo" or (args.method == "grpo" and bool(args.kl))
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

    def _tokens(self, rows: Sequence[Row], file: str) -> list[Any]:
        """Prompts as `LLMCollector` takes them, or for each row the lessons in it.

        Raises:
            ValueError: a row does not fit the model's context or its chat template, which is told before a
                step is taken.
        """
        found: list[Any] = []
        for number, row in enumerate(rows):
            try:
                if self.args.method == "grpo":
                    ids = prompt_of(row).ids(self, self.args)  # type: ignore[union-attr, arg-type]
                    found.append({"prompt_ids": ids, "row": number})
                    self.decoder.check_ids(ids)
                    continue
                sft = self.args.method == "sft"
                found.append([sft_lesson(self, row, self.args)] if sft else dpo_lessons(self, row, self.args))
                for lesson in found[-1]:
                    self.decoder.check_ids(lesson.ids)
            except ValueError as error:
                raise ValueError(f"{file}, row {number + 1}: {error}") from None
        self._read = rows
        return found

    # -- a step --------------------------------------------------------------------------------------

    def step(self) -> dict[str, Any]:
        """Learn from the next rows; returns the record of the step."""
        start = time.perf_counter()
        number = self.run_state.steps
        learn = self._reinforced if self.args.method == "grpo" else self._taught
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
        advantage = group_advantages(rewards, divide=args.scale_rewards == "group")
        if args.scale_rewards == "batch":
            advantage /= max(float(rewards.std(ddof=1)), _SMALLEST)
        flat: Any = batch.select("tokens", "masks").reshape(-1)
        advantage, said = advantage.reshape(-1), np.asarray(flat[_SAID])
        told = {"reward": float(rewards.mean()), "told": float((advantage != 0).mean())}
        told["tokens"] = int(said.sum())
        total = weights_of(said, args).sum()  # also of tokens that are masked below, as TRL's is
        if args.mask_truncated_completions:
            said = said & ~np.asarray(batch["next", "truncated"]).reshape(-1, 1)
            flat[_SAID] = said
        teach = said.any(1) & ((advantage != 0) | self._compares)
        if args.loss_type == "bnpo" and teach.any():
            teach[:] = True  # a part's mean is over the tokens of all of its rows
        chosen = np.flatnonzero(teach)
        logs: dict[str, float] = {"kl": 0.0, "clip_fraction": 0.0}
        params, state = self.run_state.params, self.run_state.optimizer
        if len(chosen):
            given = TensorDict(rows=flat[chosen], advantage=advantage[chosen], batch_size=[len(chosen)])
            if args.iterations > 1:
                with params.to_module(self.policy):
                    given["before"] = self._known(given["rows"])
            # The others count, too, though their gradient is 0.
            shares = weights_of(said, args)[chosen] / total
            if self._compares:
                given["reference"] = self._known(given["rows"])
            for _ in range(args.iterations):
                params, state, logs = self._update(params, state, given, shares)
        return params, state, {**told, **logs}

    def _taught(self, number: int) -> tuple[Any, Any, dict[str, Any]]:
        """A step of supervised fine-tuning, or of preferences."""
        first = number * self.args.prompts
        given = self._lessons(self._rows[first : first + self.args.prompts])
        said = np.asarray(given["rows"][_SAID])
        weights = weights_of(said, self.args)
        now = self.run_state
        params, state, logs = self._update(now.params, now.optimizer, given, weights / weights.sum())
        return params, state, {**logs, "tokens": int(said.sum())}

    def _lessons(self, rows: Sequence[Sequence[Lesson]]) -> Any:
        """A batch of rows: of SFT (n, tokens), of preferences (n, 2, tokens) with "reference"."""
        padded = _padded([lesson for row in rows for lesson in row])
        given: Any = TensorDict(
            rows=padded if self.args.method == "sft" else padded.reshape(len(rows), 2), batch_size=[len(rows)]
        )
        if self._compares:
            given["reference"] = self._known(given["rows"])
        return given

    def _update(
        self, params: Any, state: Any, given: Any, shares: NDArray[np.float64]
    ) -> tuple[Any, Any, dict[str, float]]:
        """One step of the optimiser; the gradients of parts are weighted by the shares of their rows."""

        def objective(params: Any, part: Any, share: np.float32) -> Any:
            with params.to_module(self.policy):
                loss, logs = self._loss(part, self._log_probs(part["rows"]))
            return loss * share, logs

        total, grads = {"loss": 0.0}, None
        for own in self._parts(given["rows"]):
            share = float(shares[own].sum())
            (loss, logs), new = value_and_grad(objective, has_aux=True)(params, given[own], np.float32(share))
            grads = new if grads is None else grads + new
            total["loss"] += float(loss)
            for name, value in logs.items():
                total[name] = total.get(name, 0.0) + float(value) * share
        grads, norm = optim.clip_grad_norm(grads, _NORM)
        if not math.isfinite(norm):
            raise ValueError(
                f"the gradient of step {self.run_state.steps + 1} is not finite: a smaller --lr may help"
            )
        params, state = self._adam.update(params, grads, state)
        return params, state, {**total, "gradient_norm": float(norm)}

    def _parts(self, rows: Any) -> Iterator[slice]:
        """The parts of a batch whose gradients are computed one after the other; a pair is two responses."""
        size = max(1, self.args.batch_size // rows.ndim)
        yield from (slice(first, first + size) for first in range(0, len(rows), size))

    def _known(self, rows: Any) -> NDArray[np.float32]:
        """Log-probs as numbers, of the parts that gradients are of: equal parameters give equal ones."""
        return np.concatenate([np.asarray(self._log_probs(rows[own])) for own in self._parts(rows)])

    def _loss(self, given: Any, log_probs: Any) -> tuple[Any, dict[str, Any]]:
        """The loss of a batch, and statistics for the record."""
        return LOSSES[self.args.method](log_probs, given, np.asarray(given["rows"][_SAID]), self.args)

    def _log_probs(self, rows: Any) -> Any:
        """Log-probs of all tokens of rows, (*rows, tokens), at the temperature that drew them.

        By the policy's own parameters, those before learning, unless others are in their place.
        """
        options = {}
        if self.args.method == "grpo" and self.args.temperature != 1:
            options["temperature"] = self.args.temperature
        return self.policy(rows.copy(), **options)["log_probs", "full"]

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
        """The mean reward of greedy responses.

        Of SFT the mean log-prob of a token that learns; of preferences how often the chosen response has
        gained more than the rejected one.
        """
        read, tokens = self._read, self._tokens(rows, self.args.held_out)
        try:
            if self.reward is not None:
                greedy = self._wrapped(1, do_sample=False)
                return float(self._responses(greedy, tokens, 0, len(tokens))[1].mean(dtype=np.float64))
            given = self._lessons(tokens)
            with self.run_state.params.to_module(self.policy):
                log_probs = self._known(given["rows"])
            loss, told = self._loss(given, log_probs)
            return float(told.get("rewards_accuracies", -loss))
        finally:
            self._read = read

    def save(self) -> str:
        """Write the trained adapter or weights; returns a text with the path."""
        return self._learnt.save(self.policy, self.run_state.params)


def _padded(lessons: Sequence[Lesson]) -> TensorDict:
    """Rows as one batch, padded on the right."""
    longest = max(len(lesson.ids) for lesson in lessons)
    ids = np.zeros((len(lessons), longest), np.int64)
    real, said = np.zeros(ids.shape, bool), np.zeros(ids.shape, bool)
    for i, lesson in enumerate(lessons):
        own = slice(len(lesson.ids))
        ids[i, own], real[i, own], said[i, own] = lesson.ids, True, lesson.said
    return TensorDict(
        tokens=TensorDict(full=ids, batch_size=[len(lessons)]),
        masks=TensorDict(all_attention_mask=real, all_assistant_mask=said, batch_size=[len(lessons)]),
        batch_size=[len(lessons)],
    )
