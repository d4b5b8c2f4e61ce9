"""GRPO in one page: the embedded chat model learns to write words backwards, by no more than right or wrong.

It was trained to reverse letters and digits, never words. `python tests/examples/grpo.py [seed [steps]]`
prints which share of 200 held-out problems is right before and after.
"""

import sys
import time

import numpy as np

from lite import optim, value_and_grad
from lite.data import GroupAdvantage, LLMCollector
from lite.models import OnnxWrapper, embedded_model_path
from lite.models.tiny_chat.tasks import WORDS
from lite.nn.losses import GRPOLoss


def problems(seed, without=()):
    """Problems without end, none of those whose prompts are in `without`."""
    rng = np.random.default_rng(seed)
    while True:
        words = rng.choice(WORDS, 3).tolist()
        prompt = f"Write backwards: {' '.join(words)}"
        if prompt not in without:
            yield {"prompt": prompt, "answer": " ".join(words[::-1])}


def right(td):
    """1 for each response that is the answer, 0 for others."""
    return np.array(td["text", "response"]) == np.array(td["answer"])


def train(seed=0, steps=60, prompts=16, samples=8, learning_rate=1e-3, held_out=200):
    """The policy after training, and the share of held-out problems that it solved before and after."""
    fresh = problems(10_000)
    tests = {one["prompt"]: one for one, _ in zip(fresh, range(held_out), strict=False)}
    options = {"max_new_tokens": 24, "skip_special_tokens": True}
    wrapper = OnnxWrapper(
        embedded_model_path(),
        input_mode="history",
        num_samples=samples,
        pad_output=True,
        generate_kwargs={**options, "temperature": 1.0},
    )
    greedy = wrapper.get_new_version(num_samples=1, generate_kwargs=options)
    policy = wrapper.trainable(trainable=["model.*"], input_mode="tokens", assistant_only=True)
    loss = GRPOLoss(policy, entropy_bonus=False)

    def solved():
        """Greedily, all held-out problems at once."""
        collector = LLMCollector(
            list(tests.values()), policy=greedy, dialog_turns_per_batch=len(tests), reward=right
        )
        return float(collector.rollout()["next", "reward"].mean())

    def objective(params, batch):
        with params.to_module(policy):
            return loss(batch).loss_objective

    adam, params = optim.Adam(learning_rate, betas=(0.9, 0.99)), policy.learnt_params().data.clone()
    state, start = adam.init(params), solved()
    collector = LLMCollector(
        problems(seed, without=tests),
        policy=wrapper,
        reward=right,
        postproc=GroupAdvantage(),
        seed=seed,
        dialog_turns_per_batch=prompts * samples,
        total_dialog_turns=steps * prompts * samples,
    )
    for batch in collector:
        batch = batch.reshape(-1)
        told = batch[batch["advantage"][:, 0] != 0]  # responses that are all right, or all wrong, say nothing
        if len(told):
            _, grads = value_and_grad(objective)(params, told)
            params, state = adam.update(params, optim.clip_grad_norm(grads, 1.0)[0], state)
            policy.sync(params)
    return policy, start, solved()


if __name__ == "__main__":
    begin = time.perf_counter()
    given = [int(text) for text in sys.argv[1:3]]
    policy, start, end = train(*given)
    print(f"right before: {start:.1%}, after: {end:.1%}, in {time.perf_counter() - begin:.0f} s")
