"""`lite demo`: chat prompts, samples, verifiable rewards and n-step returns, end to end."""

from __future__ import annotations

import argparse
import json
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDict, TensorDictBase
from lite.cli.model import named_adapter
from lite.cli.output_files import check_file
from lite.cli.pages.demo import Sample, demo_page
from lite.cli.progress import say
from lite.cli.text_stream import token_namer, token_texts
from lite.data import MultiStep, TokenTransitions
from lite.models import ChatHistory, History, OnnxWrapper, Tokenizer, embedded_model_path
from lite.models.text.to_html import named
from lite.models.tiny_chat.tasks import TASKS, Problem, make_problem, reward
from lite.nn import TensorDictModule, TensorDictSequential

MAX_NEW_TOKENS = 32
_ALTERNATIVES = 5  # that a page tells of each token


@dataclass(frozen=True)
class DemoResult:
    """The results of the demo.

    Attributes:
        samples: batch (prompts, samples): history, text, tokens, masks, log-probs, problem and reward.
        steps: batch (prompts, samples, T): one transition per token, with n-step returns.
        tokens: number of generated tokens.
        seconds: time spent generating.
        load_seconds: time spent loading the model and compiling or loading kernels.
        model: directory of the model.
    """

    samples: TensorDictBase
    steps: TensorDictBase
    tokens: int
    seconds: float
    load_seconds: float
    model: Path


def run(args: argparse.Namespace) -> int:
    """Run the demo and print the TensorDict, the speed and a table, or JSON."""
    check_file("--plot", args.plot)
    result = _run(args)
    if args.plot is not None:
        drawn = demo_page(_graded_tokens(result), args.gamma, args.n_steps)
        Path(args.plot).write_text(drawn, encoding="utf-8")
        say(args, f"rewards and returns are drawn in {args.plot}")
    if args.json:
        print(json.dumps(_as_json(result), ensure_ascii=False))
    else:
        _print(result, args)
    return 0


def _run(args: argparse.Namespace) -> DemoResult:
    """Sample responses to held-out problems, grade them, and compute token-level n-step returns."""
    problems, adapters = _problems(args.prompts, args.seed), named_adapter(args.adapter)
    model = Path(args.model) if args.model else embedded_model_path()
    options = {
        "max_new_tokens": MAX_NEW_TOKENS,
        "temperature": args.temperature,
        "do_sample": True,
        "logprobs": 0 if args.plot is None else _ALTERNATIVES,
    }
    start = time.perf_counter()
    policy = OnnxWrapper(
        model,
        input_mode="history",
        generate=True,
        num_samples=args.samples,
        generate_kwargs=options,
        seed=args.seed,
        device=args.device,
        variant=args.variant,
        adapters=adapters,
        adapter=next(iter(adapters), None),
    )
    chats = History.from_chats([[{"role": "user", "content": p.prompt}] for p in problems])
    size = [args.prompts]
    batch = TensorDict({"history": ChatHistory(prompt=chats, batch_size=size)}, batch_size=size)
    policy(batch[:1])  # the first call compiles the sampling kernel, or loads it from the cache
    load_seconds = time.perf_counter() - start

    start = time.perf_counter()
    graded = policy(batch)
    seconds = time.perf_counter() - start

    returns = TensorDictSequential(
        TensorDictModule(_grade, in_keys=[("text", "response"), "problem"], out_keys=["reward"]),
        TokenTransitions(),
        MultiStep(gamma=args.gamma, n_steps=args.n_steps),
    )
    graded.set("problem", [[problem] * args.samples for problem in problems])
    steps = returns(graded)
    tokens = int(steps["collector", "mask"].sum())
    return DemoResult(graded, steps, tokens, seconds, load_seconds, model)


def _problems(count: int, seed: int) -> list[Problem]:
    rng = np.random.default_rng(seed)
    return [make_problem(rng, TASKS[i % len(TASKS)], held_out=True) for i in range(count)]


def _grade(responses: list[list[str]], problems: list[list[Problem]]) -> NDArray[np.float32]:
    return np.array(
        [
            [reward(problem, _content(response)) for response, problem in zip(*row, strict=True)]
            for row in zip(responses, problems, strict=True)
        ],
        dtype=np.float32,
    )


def _content(response: str) -> str:
    """The response up to its end-of-turn marker, which the decoded text keeps."""
    return response.split("<|", 1)[0].strip()


def _cell(text: str, width: int) -> str:
    """Text for a table cell: one line, no control characters, cut to `width`."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return textwrap.shorten(printable, width, placeholder="...")


def _records(result: DemoResult) -> list[dict[str, Any]]:
    """One record per sample; the return is that of the response's first token."""
    samples, steps = result.samples, result.steps
    texts, problems = samples["text", "response"], samples["problem"]
    log_probs = np.where(steps["collector", "mask"], steps["action_log_prob"], 0.0).sum(-1)
    rewards = samples.get("reward")
    totals = steps["next", "reward"]
    lengths = steps["collector", "mask"].sum(-1)
    return [
        {
            "task": problems[i][j].task,
            "prompt": problems[i][j].prompt,
            "response": _content(texts[i][j]),
            "answer": problems[i][j].answer,
            "tokens": int(lengths[i, j]),
            "log_prob": float(log_probs[i, j]),
            "reward": float(rewards[i, j]),
            "first_return": float(totals[i, j, 0]) if lengths[i, j] else 0.0,
            "returns": [float(x) for x in totals[i, j, : lengths[i, j]]],
        }
        for i in range(len(problems))
        for j in range(len(problems[i]))
    ]


def _graded_tokens(result: DemoResult) -> list[list[Sample]]:
    """The samples of each prompt, token by token."""
    steps, problems = result.steps, result.samples["problem"]
    tokenizer = Tokenizer.from_pretrained(result.model)
    lengths = steps["collector", "mask"].sum(-1)
    name, known = token_namer(tokenizer), result.samples["sampling"]

    def sample(i: int, j: int, prompt: str) -> Sample:
        def column(key: NestedKey) -> list[Any]:
            return list(steps[key][i, j, : lengths[i, j]].tolist())

        return Sample(
            prompt,
            token_texts(tokenizer, column("action")),
            log_probs=column("action_log_prob"),
            rewards=column(("next", "original_reward")),
            returns=column(("next", "reward")),
            alternatives=named(known[i, j].top_ids, known[i, j].top_log_probs, name),
        )

    return [[sample(i, j, problem.prompt) for j, problem in enumerate(row)] for i, row in enumerate(problems)]


def _as_json(result: DemoResult) -> dict[str, Any]:
    return {
        "model": str(result.model),
        "samples": _records(result),
        "tokens": result.tokens,
        "seconds": result.seconds,
        "tokens_per_second": result.tokens / result.seconds,
        "load_seconds": result.load_seconds,
    }


def _print(result: DemoResult, args: argparse.Namespace) -> None:
    """The table comes last, where a terminal shows it."""
    where = "embedded with the package" if result.model == embedded_model_path() else "given with --model"
    print(result.samples.summary())
    print(f"\nmodel: {result.model} ({where}); ready in {result.load_seconds:.2f} s")
    print(
        f"{result.tokens} tokens in {result.seconds:.2f} s: {result.tokens / result.seconds:.0f} tokens/s\n"
    )
    print(f"{'prompt':<44}  {'sample':<24} {'log-prob':>9} {'reward':>7} {'return':>7}")
    print("-" * 96)
    last = None
    for row in _records(result):
        prompt = "" if row["prompt"] == last else _cell(row["prompt"], 44)
        last = row["prompt"]
        sample = _cell(row["response"], 24)
        numbers = f"{row['log_prob']:>z9.3f} {row['reward']:>7.2f} {row['first_return']:>7.3f}"
        print(f"{prompt:<44}  {sample:<24} {numbers}")
    print(
        f"\nreturn: {args.n_steps}-step return of the sample's first token, gamma {args.gamma}."
        f" Mean reward {np.mean(result.samples.get('reward')):.3f}."
    )
