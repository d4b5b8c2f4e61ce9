"""`lite learn`: a model learns from rewards (GRPO), from given responses (SFT) or from preferences (DPO)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from lite.cli.learning.folder import Folder
from lite.cli.learning.page import learn_page
from lite.cli.learning.rewards import reward_of
from lite.cli.learning.rows import digest, read_rows
from lite.cli.model import made_with, model_path
from lite.cli.output_files import check_file
from lite.cli.progress import say

# What decides the numbers of a step, beside the model, the rows and the reward.
_DECIDING = ("prompts", "lr", "seed", "system", "batch_size", "full")
_OF_METHOD = {
    "grpo": ("samples", "max_new_tokens", "temperature", "kl", "clip", "iterations", "reward")
    + ("loss_type", "clip_high", "scale_rewards", "mask_truncated_completions"),
    "sft": ("completion_only_loss", "assistant_only_loss"),
    "dpo": ("kl", "loss_type", "label_smoothing"),
}
_OF_ADAPTERS = ("rank", "alpha", "targets")


def run(args: argparse.Namespace) -> int:
    """Learn step by step; the same command goes on behind the steps that are done."""
    check_file("--html", args.html, args.file, args.held_out)
    rows = read_rows(args.file, args)
    held_out = None if args.held_out is None else read_rows(args.held_out, args)
    reward = reward_of(args.reward) if args.method == "grpo" else None
    with closing(Folder(args.output, _made_with(args))) as folder:
        return _learn(args, folder, rows, held_out, reward)


def _learn(args: argparse.Namespace, folder: Folder, rows: Any, held_out: Any, reward: Any) -> int:
    """Train up to `--steps`, record each step in the folder, and return the exit code."""
    run_state = folder.read()
    records = [] if run_state is None else folder.records(run_state.steps)
    if run_state is not None and run_state.steps >= args.steps and folder.is_saved():
        _write_page(args, records, folder)
        say(args, f"nothing to do: {run_state.steps} steps are in {args.output}")
        return 0

    from lite.cli.learning.learner import Learner  # loads what learns

    learner = Learner(model_path(args), args, rows, reward, run_state)

    def told(record: Mapping[str, Any]) -> None:
        folder.append(record)
        folder.write(learner.run_state)
        records.append(dict(record))
        print(json.dumps(record) if args.json else _line(record), flush=True)

    try:
        if run_state is None:
            told({"step": 0} | ({} if held_out is None else {"held_out": learner.held_out(held_out)}))
        while learner.run_state.steps < args.steps:
            record = learner.step()
            shown = record["step"] == args.steps
            if args.evaluate_every:
                shown = shown or record["step"] % args.evaluate_every == 0
            if held_out is not None and shown:
                record["held_out"] = learner.held_out(held_out)
            told(record)
    except KeyboardInterrupt:
        done = max(len(records) - 1, 0)
        raise KeyboardInterrupt(
            f"{done} steps are in {args.output}, the same command goes on behind them"
        ) from None
    saved = learner.save()
    _write_page(args, records, folder)
    say(args, f"what was learnt is {saved}")
    return 0


def _write_page(args: argparse.Namespace, records: Any, folder: Folder) -> None:
    if args.html is not None:
        Path(args.html).write_text(learn_page(records, folder.run), encoding="utf-8")


def _made_with(args: argparse.Namespace) -> dict[str, Any]:
    names = _DECIDING + _OF_METHOD[args.method] + (() if args.full else _OF_ADAPTERS)
    own = {name: getattr(args, name) for name in names}
    return made_with(args) | {"method": args.method, "rows": digest(args.file)} | own


def _line(record: Mapping[str, Any]) -> str:
    """A step for people."""
    parts = []
    for name, text in (
        ("reward", "reward {:.3f}"),
        ("loss", "loss {:.4f}"),
        ("rewards_accuracies", "preferred {:.1%}"),
        ("rewards_margins", "margin {:.4f}"),
        ("kl", "kl {:.4f}"),
        ("clip_fraction", "clipped {:.1%}"),
        ("tokens_per_second", "{:.0f} tokens/s"),
        ("held_out", "held out {:.3f}"),
    ):
        if name in record:
            parts.append(text.format(record[name]))
    if record.get("told") == 0:
        parts.append("no response was better than another")
    return f"step {record['step']}: {', '.join(parts) or 'before learning'}"
