"""Tokens per second of lite's generation loop beside a plain `session.run` loop and onnxruntime-genai.

    python bench/generate.py [MODEL_DIR ...]

Without directories it takes two of the tests' models, which are so small that this measures the loop around
the graph, not the graph; the file with the results also has a Llama of 50 million parameters (hidden size
576, 6 layers, vocabulary 49152), built with onnxruntime-genai's model builder. Greedy, every engine on one
thread and in turns; medians over rounds. lite and the plain loop also compute the log-prob of each token,
onnxruntime-genai does not. Results of a model replace its former ones in bench/results/generate.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lite.models import GenerationConfig, ModelConfig, OnnxDecoder, generate
from lite.models.session import open_session

HERE = Path(__file__).parent
MODELS = [HERE.parent / "tests/onnx/models" / name for name in ("genai-llama-fp32", "optimum-llama")]


def lite_engine(decoder: OnnxDecoder, prompts: np.ndarray, new: int) -> Callable[[], Any]:
    config = GenerationConfig(max_new_tokens=new)
    return lambda: [out.tokens.tolist() for out in generate(decoder, list(prompts), config)]


def plain_engine(directory: Path, decoder: OnnxDecoder, prompts: np.ndarray, new: int) -> Callable[[], Any]:
    """What one writes first: `session.run`, the cache growing through NumPy arrays in and out."""
    spec, graph = decoder.spec, ModelConfig.from_directory(directory).graph
    session: Any = open_session(graph, num_threads=1)
    names = [output.name for output in session.get_outputs()]

    def run() -> Any:
        batch, length = prompts.shape
        empty = np.zeros((batch, spec.num_heads, 0, spec.head_size), np.float32)
        past = {tensor.past: empty for tensor in spec.cache}
        ids, tokens = prompts, []
        for step in range(new):
            total = length + step
            feeds = {"input_ids": ids, "attention_mask": np.ones((batch, total), np.int64), **past}
            if spec.positions:
                feeds["position_ids"] = np.arange(total - ids.shape[1], total)[None].repeat(batch, 0)
            out = dict(zip(names, session.run(None, feeds), strict=True))
            past = {tensor.past: out[tensor.present] for tensor in spec.cache}
            logits = out[spec.logits][:, -1]
            ids = logits.argmax(-1)[:, None]
            top = logits.max(-1, keepdims=True)
            tokens.append((ids[:, 0], -np.log(np.exp(logits - top).sum(-1))))  # with log-probs, as lite
        return np.stack([ids for ids, _ in tokens], 1).tolist()

    return run


def genai_engine(directory: Path, prompts: np.ndarray, new: int) -> Callable[[], Any] | None:
    try:
        import onnxruntime_genai as og
    except ImportError:
        return None
    if not (directory / "genai_config.json").is_file():
        return None
    config = og.Config(str(directory))
    options = {"model": {"decoder": {"session_options": {"intra_op_num_threads": 1}}}}
    config.overlay(json.dumps(options))
    model = og.Model(config)

    def run() -> Any:
        batch, length = prompts.shape
        params = og.GeneratorParams(model)
        # the tests' models have random weights and may emit an eos: a minimal length keeps it going
        params.set_search_options(
            do_sample=False,
            max_length=length + new,
            min_length=length + new,
            batch_size=batch,
            repetition_penalty=1.0,
        )
        generator = og.Generator(model, params)
        generator.append_tokens(prompts.astype(np.int32))
        for _ in range(new):
            generator.generate_next_token()
        return [generator.get_sequence(row)[length:].tolist() for row in range(batch)]

    return run


def measure(engines: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for run in engines.values():
        run()
    for _ in range(rounds):
        for name, run in engines.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare generation loops.")
    parser.add_argument("models", nargs="*", type=Path, default=MODELS)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--out", type=Path, default=HERE / "results/generate.json")
    args = parser.parse_args()
    rows = []
    for directory in args.models:
        decoder = OnnxDecoder(directory, num_threads=1)
        for batch in args.batch:
            prompts = np.random.default_rng(0).integers(4, decoder.vocab_size, (batch, args.prompt))
            engines = {
                "lite": lite_engine(decoder, prompts, args.new),
                "session.run": plain_engine(directory, decoder, prompts, args.new),
                "onnxruntime-genai": genai_engine(directory, prompts, args.new),
            }
            present = {name: run for name, run in engines.items() if run is not None}
            same = present["lite"]() == present["session.run"]()
            for name, seconds in measure(present, args.rounds).items():
                median = statistics.median(seconds)
                row = {
                    "model": directory.name,
                    "batch": batch,
                    "prompt": args.prompt,
                    "new_tokens": args.new,
                    "engine": name,
                    "tokens_per_second": round(batch * args.new / median, 1),
                    "microseconds_per_step": round(median / args.new * 1e6, 1),
                    "best_microseconds_per_step": round(min(seconds) / args.new * 1e6, 1),
                }
                rows.append(row)
                print(row, "" if same else "(tokens differ between lite and session.run)")
    names = {row["model"] for row in rows}
    kept = json.loads(args.out.read_text())["rows"] if args.out.is_file() else []
    report = {"rows": [row for row in kept if row["model"] not in names] + rows}
    args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
