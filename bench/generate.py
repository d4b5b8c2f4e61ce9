"""Tokens per second of lite's generation loop beside a plain `session.run` loop and onnxruntime-genai.

    python bench/generate.py [MODEL_DIR ...]

Two of the tests' models and the embedded one are so small that they measure the loop around the graph, not
the graph. The Llama of 50 million parameters in the results (hidden size 576, 6 layers, vocabulary 49152) was
built with onnxruntime-genai's model builder and given as an argument. Greedy, every engine on one thread.
lite and the plain loop also compute the log-prob of each token, onnxruntime-genai does not.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import machine, measure, report, row

from lite.kernels import set_num_threads
from lite.models import GenerationConfig, ModelConfig, OnnxDecoder, embedded_model_path, generate
from lite.models.graph.session import open_session

HERE = Path(__file__).parent
MODELS = [HERE.parent / "tests/onnx/models" / name for name in ("genai-llama-fp32", "optimum-llama")]
MODELS.append(embedded_model_path())


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


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare generation loops.")
    parser.add_argument("models", nargs="*", type=Path, help="directories of further models")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    about = machine()
    set_num_threads(1)
    rows = []
    for directory in [*MODELS, *args.models]:
        decoder = OnnxDecoder(directory, num_threads=1)
        length, new = (128, 32) if directory in args.models else (64, 128)
        for batch in (1, 8):
            prompts = np.random.default_rng(0).integers(4, decoder.vocab_size, (batch, length))
            engines = {
                "lite": lite_engine(decoder, prompts, new),
                "session.run": plain_engine(directory, decoder, prompts, new),
                "onnxruntime-genai": genai_engine(directory, prompts, new),
            }
            present = {name: run for name, run in engines.items() if run is not None}
            result = measure(present, args.rounds)
            case = f"{directory.name}, {batch} x ({length} + {new} tokens)"
            rate = batch * new / result["lite"]["median_ms"] * 1e3
            others = (name for name in present if name != "lite")
            rows += [row(case, name, result, lite_tokens_per_second=round(rate, 1)) for name in others]
    import onnxruntime

    report("generate", "Generation", rows, about | {"onnxruntime": onnxruntime.__version__, "threads": 1})


if __name__ == "__main__":
    main()
