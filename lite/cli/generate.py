"""`lite generate`: text, token count and speed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from typing import Any

import numpy as np

from lite.cli.model import load, prompt_ids
from lite.models import GenerationConfig, generate


def run(args: argparse.Namespace) -> int:
    """Continue each prompt and print the text with its token count, log-prob and speed."""
    prompts = [sys.stdin.read() if p == "-" else p for p in args.prompt]
    if not prompts:
        raise ValueError("a prompt is needed: lite generate --model DIR \"prompt\" (or '-' to read it).")
    options = {
        "max_new_tokens": args.max_new_tokens,
        "temperature": args.temperature,
        "top_k": args.top_k,
        "top_p": args.top_p,
        "repetition_penalty": args.repetition_penalty,
    }
    model = load(args)
    config = GenerationConfig.from_kwargs(
        {name: value for name, value in options.items() if value is not None}, model.decoder.config
    )
    ids = [prompt_ids(model.tokenizer, p, raw=args.raw, system=args.system) for p in prompts]
    seeds = np.random.default_rng(args.seed).integers(0, 2**63, len(ids) * args.samples, dtype=np.uint64)
    warm = time.perf_counter()
    # The first step compiles the sampling kernel, or loads it from the cache: not part of the speed.
    generate(model.decoder, ids[:1], dataclasses.replace(config, max_new_tokens=1), seeds=seeds[:1])
    start = time.perf_counter()
    ready = model.seconds + start - warm
    responses = generate(model.decoder, ids, config, seeds=seeds, num_samples=args.samples)
    seconds = time.perf_counter() - start
    count = sum(len(r.tokens) for r in responses)
    records: list[dict[str, Any]] = [
        {
            "prompt": prompts[i // args.samples],
            "text": model.tokenizer.decode(r.tokens, skip_special_tokens=True),
            "tokens": len(r.tokens),
            "log_prob": float(r.log_probs.sum()),
            "finish_reason": r.finish_reason,
        }
        for i, r in enumerate(responses)
    ]
    speed = count / seconds if seconds else 0.0
    if args.json:
        summary = {
            "model": str(model.path),
            "responses": records,
            "tokens": count,
            "seconds": seconds,
            "tokens_per_second": speed,
            "load_seconds": ready,
        }
        print(json.dumps(summary, ensure_ascii=False))
        return 0
    for record in records:
        if len(records) > 1:
            print(f">>> {record['prompt']}")
        print(record["text"])
    print(f"\n{count} tokens in {seconds:.2f} s, {speed:.1f} tokens/s (ready in {ready:.2f} s)")
    return 0
