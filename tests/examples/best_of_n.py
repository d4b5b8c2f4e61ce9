"""Best of n: several answers to each question, a verifier's reward for each, and the best one kept.

`python tests/examples/best_of_n.py [n [temperature]]` asks the embedded model sums, and prints how many of
the first answers are right, and of how many questions one of the n is.
"""

import re
import sys

import numpy as np

from lite import TensorDict
from lite.models import ChatHistory, History, OnnxWrapper, embedded_model_path


def verify(answer, wanted):
    """1 for the right number, 0 for another or none."""
    found = re.match(r"-?\d+", answer)
    return float(found is not None and int(found[0]) == wanted)


def best_of(n, temperature, questions=16, seed=0):
    """The rewards (questions, n), and a TensorDict of the best answer to each question."""
    first, second = np.random.default_rng(seed).integers(10, 50, (2, questions))
    chats = [[{"role": "user", "content": f"What is {a} + {b}?"}] for a, b in zip(first, second, strict=True)]
    policy = OnnxWrapper(
        embedded_model_path(),
        input_mode="history",
        num_samples=n,
        seed=seed,
        generate_kwargs={"max_new_tokens": 8, "temperature": temperature},
    )
    prompts = ChatHistory(prompt=History.from_chats(chats), batch_size=[questions])
    answers = policy(TensorDict({"history": prompts}, batch_size=[questions]))  # (questions, n)
    texts = answers["text", "response"]
    rewards = np.array(
        [[verify(text, a + b) for text in row] for row, a, b in zip(texts, first, second, strict=True)]
    )
    answers["reward"] = rewards
    return rewards, answers[np.arange(questions), rewards.argmax(1)]


if __name__ == "__main__":
    n, temperature = int(sys.argv[1]) if sys.argv[1:] else 8, float(sys.argv[2]) if sys.argv[2:] else 3.0
    rewards, best = best_of(n, temperature)
    print(f"right: {rewards[:, 0].mean():.2f} of the first answers, {best['reward'].mean():.2f} of the best")
