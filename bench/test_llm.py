"""Language models: lite beside onnxruntime-genai, optimum, transformers and itself.

    python bench/test_llm.py DIR [--only CASE ...] [--rounds N] [--threads N] [--output DIR]

DIR holds the models that `llm_models.py` makes (random weights in the shape of SmolLM2-135M). Peers that are
not installed are left out and named. All use the same number of threads. A decoding step has to read the
weights once: what that takes at this machine's measured bandwidth stands beside the figures, as no runtime
can be faster.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from llm_peers import Genai, Run, Torch
from side_by_side import arguments, extra_memory, machine, measure, place, report, rows_of

from lite import TensorDict
from lite.kernels import set_num_threads
from lite.models import (
    GenerationConfig,
    OnnxDecoder,
    OnnxWrapper,
    PrefixCache,
    Tokens,
    embedded_model_path,
    generate,
    score,
)

HERE = Path(__file__).parent
EXPORTS = HERE.parent / "tests/models/exports"
NEW, LENGTH = 64, 128  # tokens of a response and of a prompt
VOCABULARY = 49152
Case = Callable[["Bench"], Iterator[dict[str, Any]]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


class Bench:
    """The models, opened once, and the clock."""

    def __init__(self, folder: Path, threads: int, rounds: int) -> None:
        self.folder, self.threads, self.rounds = folder, threads, rounds
        self.rng = np.random.default_rng(0)
        self._open: dict[Any, Any] = {}
        self.missing: set[str] = set()
        self.gigabytes = bandwidth(threads)

    def lite(self, folder: Path) -> OnnxDecoder:
        return self._kept(("lite", folder), lambda: OnnxDecoder(folder, num_threads=self.threads))

    def genai(self, folder: Path) -> Genai | None:
        return self._peer("onnxruntime-genai", folder, lambda: Genai(folder, self.threads))

    def genai_is_here(self) -> bool:
        if find_spec("onnxruntime_genai") is None:
            self.missing.add("onnxruntime-genai")
        return "onnxruntime-genai" not in self.missing

    def optimum(self, folder: Path) -> Torch | None:
        return self._peer("optimum", folder, lambda: Torch(folder, self.threads, optimum=True))

    def transformers(self) -> Torch | None:
        folder = self.folder / "hf"
        return self._peer("transformers", folder, lambda: Torch(folder, self.threads))

    def close(self) -> None:
        """Let go of the models of the last case."""
        self._open.clear()

    def prompts(self, count: int, length: int, size: int = VOCABULARY) -> np.ndarray:
        return self.rng.integers(4, size, (count, length))

    def time(self, engines: dict[str, Run | None]) -> dict[str, dict[str, float]]:
        return measure({name: run for name, run in engines.items() if run is not None}, self.rounds)

    def limit_ms(self, folder: Path) -> float:
        """What reading the weights once takes."""
        weights = sum(f.stat().st_size for f in folder.iterdir() if f.suffix in (".onnx", ".data"))
        return weights / self.gigabytes / 1e6

    def _kept(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._open:
            self._open[key] = make()
        return self._open[key]

    def _peer(self, name: str, folder: Path, make: Callable[[], Any]) -> Any:
        try:
            return self._kept((name, folder), make)
        except ImportError:
            self.missing.add(name)
            return None


def bandwidth(threads: int) -> float:
    """Gigabytes per second that this many threads read from memory, the best of several tries."""
    parts = np.array_split(np.ones(2**27, np.float32), threads)
    best = np.inf
    for _ in range(5):
        readers = [threading.Thread(target=np.ndarray.max, args=(part,)) for part in parts]
        start = time.perf_counter()
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        best = min(best, time.perf_counter() - start)
    return 2**29 / best / 1e9


def lite_run(decoder: OnnxDecoder, prompts: Any, config: Any, **more: Any) -> Run:
    def run() -> Any:
        seeds = np.arange(len(prompts) * more.get("num_samples", 1), dtype=np.uint64)
        return generate(decoder, list(prompts), config, seeds=seeds, **more)

    return run


def beside_genai(bench: Bench) -> Iterator[tuple[str, Path, OnnxDecoder, Genai | None]]:
    """The GroupQueryAttention graphs: precision, folder, and who runs it; genai may be missing."""
    for precision in ("int4", "fp32"):
        folder = bench.folder / f"genai-{precision}"
        yield precision, folder, bench.lite(folder), bench.genai(folder)


@case
def greedy(bench: Bench) -> Iterator[dict[str, Any]]:
    """Prefill and decode, one GroupQueryAttention graph."""
    for precision, folder, decoder, genai in beside_genai(bench):
        for batch in (1, 8):
            prompts = bench.prompts(batch, LENGTH)
            config = GenerationConfig(max_new_tokens=NEW)
            result = bench.time(
                {
                    "lite": lite_run(decoder, prompts, config),
                    "onnxruntime-genai": genai and genai.generate(prompts, NEW),
                }
            )
            name = f"greedy, {precision}, {batch} x ({LENGTH} + {NEW})"
            yield from against(name, result, reading_the_weights_ms=NEW * bench.limit_ms(folder))


@case
def sampling(bench: Bench) -> Iterator[dict[str, Any]]:
    """The same with top_p 0.9, and the log-prob of each token."""
    for precision, folder, decoder, genai in beside_genai(bench):
        for batch in (1, 8):
            prompts = bench.prompts(batch, LENGTH)
            config = GenerationConfig(max_new_tokens=NEW, do_sample=True, top_p=0.9)
            options = {"do_sample": True, "top_p": 0.9, "top_k": 0, "temperature": 1.0}
            result = bench.time(
                {
                    "lite": lite_run(decoder, prompts, config),
                    "onnxruntime-genai, log-probs in NumPy": genai
                    and genai.generate(prompts, NEW, log_probs=True, **options),
                }
            )
            name = f"top_p 0.9 with log-probs, {precision}, {batch} x ({LENGTH} + {NEW})"
            yield from against(name, result, reading_the_weights_ms=NEW * bench.limit_ms(folder))


@case
def rl_workload(bench: Bench) -> Iterator[dict[str, Any]]:
    """8 prompts of 256 x 8 samples, up to 128 tokens, with log-probs; one token in 64 ends a response."""
    yield from sampled(bench, "int4")


@case
def rl_workload_fp32(bench: Bench) -> Iterator[dict[str, Any]]:
    """The same in float32, which transformers runs, too."""
    yield from sampled(bench, "fp32")


def sampled(bench: Bench, precision: str) -> Iterator[dict[str, Any]]:
    ends = tuple(range(VOCABULARY - VOCABULARY // 64, VOCABULARY))
    prompts = bench.rng.integers(4, ends[0], (8, 256))
    folder = bench.folder / f"genai-{precision}"
    decoder, genai = bench.lite(folder), bench.genai(folder)
    config = GenerationConfig(max_new_tokens=128, do_sample=True, eos_token_ids=ends)
    engines: dict[str, Run | None] = {"lite": lite_run(decoder, prompts, config, num_samples=8)}
    if genai is not None:
        genai.end_with(ends)
        options = {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0, "min_length": 0}
        engines["onnxruntime-genai"] = genai.generate(prompts.repeat(8, 0), 128, log_probs=True, **options)
    if precision == "fp32" and (peer := bench.transformers()) is not None:
        engines["transformers"] = peer.generate(
            prompts.repeat(8, 0), 128, log_probs=True, do_sample=True, min_new_tokens=0,
            eos_token_id=list(ends), top_k=0,
        )  # fmt: skip
    result = bench.time(engines)
    rate = 64 / result["lite"]["median_ms"] * 1e3
    yield from against(f"8 prompts of 256 x 8 samples, {precision}", result, lite_samples_per_second=rate)


@case
def optimum_graph(bench: Bench) -> Iterator[dict[str, Any]]:
    """A concatenating graph beside its own runtime."""
    folder = bench.folder / "optimum-fp32"
    decoder, peer = bench.lite(folder), bench.optimum(folder)
    for batch in (1, 8):
        prompts = bench.prompts(batch, LENGTH)
        config = GenerationConfig(max_new_tokens=NEW)
        result = bench.time(
            {"lite": lite_run(decoder, prompts, config), "optimum": peer and peer.generate(prompts, NEW)}
        )
        name = f"optimum's graph, greedy, fp32, {batch} x ({LENGTH} + {NEW})"
        yield from against(name, result, reading_the_weights_ms=NEW * bench.limit_ms(folder))


@case
def small_models(bench: Bench) -> Iterator[dict[str, Any]]:
    """Models of a million parameters and less, where a step is mostly the loop around it."""
    for folder in (embedded_model_path(), EXPORTS / "genai-llama-fp32", EXPORTS / "optimum-llama"):
        decoder = OnnxDecoder(folder, num_threads=1)
        with tempfile.TemporaryDirectory() as place:
            genai = Genai(described(folder, decoder, Path(place)), 1) if bench.genai_is_here() else None
        for batch in (1, 8):
            prompts = bench.prompts(batch, 64, decoder.vocab_size)
            config = GenerationConfig(max_new_tokens=128)
            result = bench.time(
                {
                    "lite": lite_run(decoder, prompts, config),
                    "onnxruntime-genai": genai and genai.generate(prompts, 128),
                    "session.run": plain_loop(folder, decoder, prompts, 128),
                }
            )
            yield from against(f"{folder.name}, 1 thread, {batch} x (64 + 128)", result)


def described(folder: Path, decoder: OnnxDecoder, place: Path) -> Path:
    """A copy of a model with the configuration that onnxruntime-genai needs, if its own lacks one."""
    if (folder / "genai_config.json").is_file():
        return folder
    spec = decoder.spec
    inputs = {"input_ids": "input_ids", "attention_mask": "attention_mask", "position_ids": "position_ids"}
    caches = {f"{how}_{kind}_names": f"{name}.%d.{kind}" for how, name in (("past", "past_key_values"),
              ("present", "present")) for kind in ("key", "value")}  # fmt: skip
    heads = {"num_attention_heads": spec.num_heads, "num_key_value_heads": spec.num_heads}
    graph = {
        "filename": "model.onnx", "head_size": spec.head_size, "hidden_size": spec.head_size * spec.num_heads,
        "num_hidden_layers": len(spec.cache) // 2, **heads,
        "inputs": {**inputs, **{key: name for key, name in caches.items() if key.startswith("past")}},
        "outputs": {"logits": "logits", **{k: v for k, v in caches.items() if k.startswith("present")}},
    }  # fmt: skip
    model = {"type": "llama", "bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 0, "decoder": graph}
    sizes = {"context_length": decoder.context_length or 2048, "vocab_size": decoder.vocab_size}
    shutil.copytree(folder, place, dirs_exist_ok=True)
    search = {"past_present_share_buffer": False}
    (place / "genai_config.json").write_text(json.dumps({"model": {**model, **sizes}, "search": search}))
    return place


def plain_loop(folder: Path, decoder: OnnxDecoder, prompts: np.ndarray, new: int) -> Run:
    """What one writes first: `session.run`, the cache growing through NumPy arrays in and out."""
    from lite.models import ModelConfig
    from lite.models.graph.session import open_session

    spec = decoder.spec
    session: Any = open_session(ModelConfig.from_directory(folder).graph, num_threads=1)
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
        return tokens

    return run


@case
def one_prompt_many_samples(bench: Bench) -> Iterator[dict[str, Any]]:
    for precision, _, decoder, genai in beside_genai(bench):
        prompts = bench.prompts(1, 512)
        config = GenerationConfig(max_new_tokens=8, do_sample=True)
        options = {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0}
        result = bench.time(
            {
                "lite": lite_run(decoder, prompts, config, num_samples=8),
                "onnxruntime-genai": genai and genai.generate(prompts.repeat(8, 0), 8, **options),
            }
        )
        yield from against(f"8 samples of one prompt of 512, {precision}, 8 tokens", result)


@case
def ragged_prefill(bench: Bench) -> Iterator[dict[str, Any]]:
    lengths = [16, 32, 48, 64, 96, 128, 256, 512]
    for precision, _, decoder, genai in beside_genai(bench):
        prompts = [bench.prompts(1, length)[0] for length in lengths]
        config = GenerationConfig(max_new_tokens=1)
        result = bench.time(
            {
                "lite": lite_run(decoder, prompts, config),
                "onnxruntime-genai": genai and genai.prefill(prompts, 2),
            }
        )
        yield from against(f"prefill of 8 prompts of 16 to 512, {precision}", result)


@case
def short_prompts(bench: Bench) -> Iterator[dict[str, Any]]:
    """Prompts that are short beside what a run takes whatever its length."""
    for precision, _, decoder, genai in beside_genai(bench):
        for count, length in ((32, 8), (16, 32)):
            prompts = bench.prompts(count, length)
            runs: dict[str, Run | None] = {
                "lite": lite_run(decoder, prompts, GenerationConfig(max_new_tokens=1)),
                "onnxruntime-genai": genai and genai.generate(prompts, 1),
                "lite, scores": functools.partial(score, decoder, list(prompts)),
            }
            yield from against(f"prefill of {count} prompts of {length}, {precision}", bench.time(runs))


@case
def queue(bench: Bench) -> Iterator[dict[str, Any]]:
    """64 prompts of 32 tokens, 8 to 256 new tokens, at most 8 rows at a time."""
    yield from queued(bench, "int4")


@case
def queue_fp32(bench: Bench) -> Iterator[dict[str, Any]]:
    """The same in float32."""
    yield from queued(bench, "fp32")


def queued(bench: Bench, precision: str) -> Iterator[dict[str, Any]]:
    folder = bench.folder / f"genai-{precision}"
    decoder, genai = bench.lite(folder), bench.genai(folder)
    rng = np.random.default_rng(0)
    prompts = list(rng.integers(4, VOCABULARY, (64, 32)))
    counts = rng.integers(8, 257, 64).tolist()
    configs = [GenerationConfig(max_new_tokens=count) for count in counts]

    def in_batches() -> Any:
        return [generate(decoder, prompts[i : i + 8], configs[i : i + 8]) for i in range(0, 64, 8)]

    def to_the_longest() -> Any:
        """As tools do whose rows leave a batch together: what is behind a row's end is thrown away."""
        groups = [slice(i, i + 8) for i in range(0, 64, 8)]
        return [
            generate(decoder, prompts[at], GenerationConfig(max_new_tokens=max(counts[at]))) for at in groups
        ]

    result = bench.time(
        {
            "lite": lite_run(decoder, prompts, configs, max_rows=8),
            "lite, batch after batch": in_batches,
            "lite, each batch to its longest": to_the_longest,
            "onnxruntime-genai's engine": genai and genai.queue(prompts, counts, 8),
        }
    )
    rate = sum(counts) / result["lite"]["median_ms"] * 1e3
    yield from against(f"queue of 64, 8 rows, {precision}", result, lite_tokens_per_second=rate)


@case
def conversation(bench: Bench) -> Iterator[dict[str, Any]]:
    """10 turns after a text of 400 or 1500 tokens, questions of 60 and answers of 32."""
    for precision, text in (("int4", 400), ("fp32", 400), ("int4", 1500), ("fp32", 1500)):
        decoder = bench.lite(bench.folder / f"genai-{precision}")
        start, *questions = np.split(bench.prompts(1, text + 10 * 60)[0], text + 60 * np.arange(10))
        config = GenerationConfig(max_new_tokens=32)

        talks = {"lite": conversed(decoder, start, questions, config, 2**30)}
        talks["lite, without the cache"] = conversed(decoder, start, questions, config, 0)
        yield from against(f"conversation of 10 turns after {text} tokens, {precision}", bench.time(talks))


def conversed(
    decoder: OnnxDecoder, start: np.ndarray, questions: Any, config: GenerationConfig, cached_bytes: int
) -> Run:
    def run() -> Any:
        ids, cache = start, PrefixCache(decoder, cached_bytes)
        for question in questions:
            ids = np.append(ids, question)
            (answer,) = generate(decoder, [ids], config, prefix_cache=cache if cached_bytes else None)
            ids = np.append(ids, answer.tokens)

    return run


@case
def lookup(bench: Bench) -> Iterator[dict[str, Any]]:
    """128 tokens that are copied from a prompt of 180, and 128 that are not."""
    decoder = bench.lite(bench.folder / "genai-int4")
    part = bench.prompts(1, 60)[0]

    def copied(ids: Any, scores: Any) -> Any:
        scores = scores.copy()
        scores[part[len(ids) % 60]] += 1e4  # random weights copy nothing by themselves
        return scores

    free = {"do_sample": True, "top_k": 50}
    for name, options in (("copied", {"logits_processor": (copied,)}), ("nothing copied", free)):
        plain = GenerationConfig(max_new_tokens=128, **options)
        guessed = replace(plain, prompt_lookup_num_tokens=10)
        prompt = [np.tile(part, 3)]
        runs = {"lite": lite_run(decoder, prompt, guessed), "lite, without": lite_run(decoder, prompt, plain)}
        yield from against(f"prompt lookup, {name}, int4", bench.time(runs))


@case
def scoring(bench: Bench) -> Iterator[dict[str, Any]]:
    """64 rows of 512 tokens: log-prob of each."""
    rows = bench.prompts(64, 512)
    decoder, peer = bench.lite(bench.folder / "optimum-fp32"), bench.transformers()
    graph = bench.lite(bench.folder / "genai-fp32")
    engines: dict[str, Run | None] = {
        "lite": lambda: score(decoder, list(rows)),
        "lite, GroupQueryAttention": lambda: score(graph, list(rows)),
        "transformers, 4 rows at a time": peer and peer.score(rows, 4),
    }
    result = bench.time(engines)
    memory = ", ".join(f"{extra_memory(run):.0f}" for run in engines.values() if run is not None)
    yield from against("score 64 x 512", result, extra_megabytes_in_turn=memory)


@case
def wrapper(bench: Bench) -> Iterator[dict[str, Any]]:
    """What the wrapper adds to `generate`."""
    folder = bench.folder / "genai-int4"
    decoder = bench.lite(folder)
    prompts = bench.prompts(8, LENGTH)
    policy = OnnxWrapper(
        decoder, tokenizer=folder, input_mode="tokens", generate_kwargs={"max_new_tokens": 128}
    )
    td = TensorDict({"tokens": Tokens(prompt=prompts, batch_size=[8])}, batch_size=[8])
    config = GenerationConfig(max_new_tokens=128, eos_token_ids=policy.generation.eos_token_ids)
    result = bench.time({"lite": lambda: policy(td.copy()), "generate": lite_run(decoder, prompts, config)})
    yield from against(f"wrapper, int4, 8 x ({LENGTH} + 128)", result)


def against(name: str, result: dict[str, dict[str, float]], **more: Any) -> Iterator[dict[str, Any]]:
    for key, value in more.items():
        name += f"; {key.replace('_', ' ')} {value if isinstance(value, str) else format(value, '.3g')}"
    yield from rows_of(name, result, **more)


def main() -> None:
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("models", type=Path, help="folder that llm_models.py filled")
    parser.add_argument(
        "--only", nargs="*", choices=list(CASES), help="these cases; others keep their results"
    )
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    about = machine()
    set_num_threads(args.threads)
    bench = Bench(args.models, args.threads, args.rounds)
    folder = place(args)
    before = folder / "llm.json"
    found = json.loads(before.read_text())["rows"] if args.only and before.is_file() else []
    import onnxruntime

    for name in args.only or CASES:
        load = round(os.getloadavg()[0], 1)
        try:
            lines = list(CASES[name](bench))
        except FileNotFoundError as error:  # a model that was not made
            bench.missing.add(f"{name} ({error})")
            lines = []
        lines = [{**line, "of": name, "rounds": args.rounds, "load_before": load} for line in lines]
        found = [line for line in found if line["of"] != name] + lines
        bench.close()
        about |= {
            "onnxruntime": onnxruntime.__version__,
            "threads": args.threads,
            "read GB/s": round(bench.gigabytes, 1),
            "left out": ", ".join(sorted(bench.missing)) or "nothing",
        }
        order = list(CASES)
        found.sort(key=lambda line: order.index(line["of"]))
        report(folder, "llm", "Language models", found, about)  # after each case, as all take half an hour
    if not found:
        raise SystemExit(f"error: nothing was timed; left out: {about['left out']}")


if __name__ == "__main__":
    main()
