"""A language model on a GPU: draws there beside draws from copies, steps as CUDA graphs beside plain ones.

    python bench/cuda_llm.py MODEL [--device cuda] [--rounds N] [--tokens N]

MODEL is the folder of an export for a GPU with GroupQueryAttention, as `onnxruntime_genai.models.builder`
writes with `-e cuda -p fp16`. Before anything is timed, the responses of all alternatives are compared with
the CPU's. With `--device cpu` only what needs no GPU runs, and nothing is written to results/.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import arguments, machine, measure, place, report, rows_of

from lite.models import Generated, GenerationConfig, OnnxDecoder, generate, score
from lite.models.decoder import device_logits
from lite.models.generation import sampling

PROMPT = 128
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "top_p 0.9": {"top_p": 0.9},
    "top_p 0.9 with details": {"top_p": 0.9, "sampled_log_probs": True, "kept_ids": True, "logprobs": 5},
}


class Bench:
    """Decoders of one model, and what is asked of them."""

    def __init__(self, model: Path, device: str, tokens: int) -> None:
        self.tokens = tokens
        self.plain = OnnxDecoder(model, device=device)
        self.decoders = {"plain": self.plain}
        if device != "cpu":
            self.decoders["CUDA graphs"] = OnnxDecoder(model, device=device, cuda_graphs=True)
        rng = np.random.default_rng(0)
        context = self.plain.context_length or PROMPT + tokens
        self.length = min(PROMPT, context - tokens - 1)
        self.prompts = rng.integers(0, self.plain.vocab_size, (8, self.length))

    def responses(self, decoder: OnnxDecoder, rows: int, options: dict[str, Any]) -> list[Generated]:
        given = {"max_new_tokens": self.tokens, "min_new_tokens": self.tokens, **options}
        config = GenerationConfig.from_kwargs(given)
        return generate(decoder, list(self.prompts[:rows]), config, seeds=np.arange(rows, dtype=np.uint64))

    def alternatives(self, rows: int, options: dict[str, Any]) -> dict[str, Callable[[], Any]]:
        """`lite` is the last of the decoders; "on the host" draws from copies of the plain one's logits."""
        out: dict[str, Callable[[], Any]] = {}
        for name, decoder in self.decoders.items():
            out[name] = lambda decoder=decoder: self.responses(decoder, rows, options)
        if len(self.decoders) > 1:
            out["draws on the host"] = lambda: on_the_host(lambda: self.responses(self.plain, rows, options))
        out["lite"] = out.pop(next(reversed(self.decoders)))
        return out


def on_the_host(call: Callable[[], Any]) -> Any:
    """What a call gives where Numba cannot launch kernels."""
    before = sampling.drawn_on_gpus
    try:
        for module in (sampling, device_logits):
            module.drawn_on_gpus = lambda: False  # type: ignore[assignment]
        return call()
    finally:
        for module in (sampling, device_logits):
            module.drawn_on_gpus = before


def compare(bench: Bench, cpu: OnnxDecoder) -> None:
    """Raise AssertionError unless the CPU gives the tokens of all alternatives the log-probs that they say.

    Tokens are not compared: sums in fp16 differ, which moves the bounds between some thousand tokens.
    """
    for name, options in OPTIONS.items():
        for other, run in bench.alternatives(8, options).items():
            found = run()
            pairs = zip(bench.prompts[:8], found, strict=True)
            rows = [np.concatenate([prompt, one.tokens]) for prompt, one in pairs]
            for one, wanted in zip(found, score(cpu, rows), strict=True):
                np.testing.assert_allclose(one.log_probs, wanted[-len(one.tokens) :], atol=0.1)
            print(f"{name}, {other}: the CPU's log-probs")
    rows = [prompt[:64] for prompt in bench.prompts]
    for one, two in zip(score(bench.plain, rows), score(cpu, rows), strict=True):
        np.testing.assert_allclose(one, two, atol=0.1)
    print("scores agree with the CPU's")


def main() -> None:
    parser = arguments(__doc__, rounds=10)
    parser.add_argument("model", type=Path, help="folder or file of a model")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=int, default=128, help="of each response")
    options = parser.parse_args()
    about = {**machine(), "model": options.model.name, "device": options.device}
    bench = Bench(options.model, options.device, options.tokens)
    compare(bench, OnnxDecoder(options.model))
    rows = []
    for count in (1, 8):
        for name, chosen in OPTIONS.items():
            taken = measure(bench.alternatives(count, chosen), options.rounds)
            title = f"{name}, batch {count}, {bench.length} + {options.tokens} tokens"
            rows += rows_of(title, taken)
    if options.device == "cpu":
        print(f"{len(rows)} lines; times are taken on a GPU only")
    else:
        report(place(options), "cuda_llm", "A language model on a GPU, steps as CUDA graphs", rows, about)


if __name__ == "__main__":
    main()
