"""Train the embedded chat model from nothing: tokenizer, training, export, report.

    python bench/tiny_chat/train.py --out DIR [--threads N]

Needs torch, transformers, tokenizers, onnx and onnxruntime (the ``parity`` and ``llm`` extras, and onnx).
Writes the files of `models/tiny_chat/assets/tiny_chat` into DIR, and the weights as ``checkpoint.pt``;
``--checkpoint FILE --phase N`` goes on with the weights that phase N starts with (2 only evaluates and
exports). All randomness comes from ``--seed``: the tokenizer and the problems are equal in each run, the
weights up to what float rounding makes of another machine or thread count.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from export import export_onnx
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM
from verify import OnnxModel, greedy, logits_difference

from lite.models.tiny_chat.tasks import TASKS, Problem, make_problem

VOCAB = 704  # at most: merging stops earlier, when no pair is left in the text
CONTEXT = 256
IM_START, IM_END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
SYSTEM = "You are a helpful assistant."
TEMPLATE = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "head_dim": 32,
    "hidden_act": "silu",
    "hidden_size": 128,
    "initializer_range": 0.02,
    "intermediate_size": 352,
    "max_position_embeddings": CONTEXT,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_hidden_layers": 5,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "use_cache": True,
}
MIX = {  # how often training sees each task: what is learnt late is seen more
    "addition": 3,
    "subtraction": 3,
    "comparison": 2,
    "sorting": 2,
    "counting": 3,
    "reversing": 1,
    "copying": 1,
}
REPORT = 100  # steps between two lines of progress
PER_TASK = 300  # held-out problems in the final evaluation
BATCH = 128  # problems a step
IGNORE = -100  # cross entropy skips these labels: only answers are trained


@dataclass(frozen=True)
class Phase:
    """A stretch of training with fresh optimizers: linear warm-up, then level, then linearly down.

    The way down takes ``decay`` steps and would reach zero at step ``zero``, which may lie beyond ``steps``.
    """

    steps: int
    lr: float
    warmup: int
    decay: int
    zero: int

    def rate(self, step: int) -> float:
        """Share of ``lr`` at a step."""
        return min(1.0, (step + 1) / self.warmup, (self.zero - step) / self.decay)


PHASES = (
    Phase(steps=3200, lr=3e-3, warmup=60, decay=3000, zero=5000),
    Phase(steps=700, lr=1.8e-3, warmup=20, decay=700, zero=700),  # from where the first stands, to zero
)


def question(problem: Problem) -> str:
    """The user's turn and the opening of the assistant's, as the chat template renders them."""
    return f"{IM_START}user\n{problem.prompt}{IM_END}\n{IM_START}assistant\n"


def make_tokenizer(rng: np.random.Generator) -> Tokenizer:
    """Byte-level BPE; each digit is a token of its own, so that arithmetic sees numbers as columns."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    problems = [make_problem(rng, held_out=False) for _ in range(20000)]
    text = [f"user\n{p.prompt}\nassistant\n{p.answer}\nsystem\n{SYSTEM}" for p in problems]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[PAD, IM_START, IM_END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text, trainer)
    return tokenizer


def conversations(
    tokenizer: Tokenizer, rng: np.random.Generator, count: int
) -> list[tuple[list[int], list[int]]]:
    """``count`` problems as conversations of one to four turns: token ids, and labels that cover the answers.

    Turns of one conversation are independent problems: the model learns to answer the last one.
    """
    tasks = rng.choice(TASKS, count, p=[MIX[task] / sum(MIX.values()) for task in TASKS])
    problems = [make_problem(rng, str(task), held_out=False) for task in tasks]
    asked = tokenizer.encode_batch([question(p) for p in problems])
    answered = tokenizer.encode_batch([p.answer + IM_END for p in problems])
    newline = tokenizer.encode("\n").ids
    system = tokenizer.encode(f"{IM_START}system\n{SYSTEM}{IM_END}\n").ids
    rows = []
    i = 0
    while i < count:
        turns = 1 if rng.random() < 0.85 else int(rng.integers(2, 5))
        ids = list(system) if rng.random() < 0.1 else []
        labels = [IGNORE] * len(ids)
        for question_ids, answer_ids in zip(asked[i : i + turns], answered[i : i + turns], strict=True):
            ids += question_ids.ids + answer_ids.ids + newline
            labels += [IGNORE] * len(question_ids.ids) + answer_ids.ids + [IGNORE] * len(newline)
        rows.append((ids[:CONTEXT], labels[:CONTEXT]))
        i += turns
    return rows


def padded(rows: list[tuple[list[int], list[int]]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and labels as two int64 arrays of shape (rows, longest)."""
    longest = max(len(ids) for ids, _ in rows)
    x = torch.full((len(rows), longest), pad)
    y = torch.full((len(rows), longest), IGNORE)
    for i, (ids, labels) in enumerate(rows):
        x[i, : len(ids)] = torch.tensor(ids)
        y[i, : len(labels)] = torch.tensor(labels)
    return x, y


def micro_batches(tokenizer: Tokenizer, rng: np.random.Generator, count: int) -> Iterator[tuple]:
    """One training step's rows in groups of similar length, which wastes little on padding."""
    rows = sorted(conversations(tokenizer, rng, count), key=lambda row: len(row[0]))
    cuts = [0, len(rows) // 3, len(rows) * 2 // 3, len(rows) * 9 // 10, len(rows)]
    for start, stop in pairwise(cuts):
        yield padded(rows[start:stop], tokenizer.token_to_id(PAD))


def answer_logits(
    model: LlamaForCausalLM, x: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels at the positions that predict an answer token.

    Rows are padded on the right, so the causal mask alone keeps padding out and no other mask is needed.
    """
    hidden = model.model(input_ids=x, use_cache=False).last_hidden_state[:, :-1]
    chosen = y[:, 1:] != IGNORE
    return model.lm_head(hidden[chosen]), y[:, 1:][chosen]


@torch.no_grad()
def exact_share(model: LlamaForCausalLM, tokenizer: Tokenizer, problems: list[Problem]) -> float:
    """Share of problems whose greedy answer is exact.

    Greedy decoding gives the right answer if and only if each of its tokens is the arg max after the right
    tokens before it, so one forward pass decides.
    """
    asked = [tokenizer.encode(question(p)).ids for p in problems]
    answers = [tokenizer.encode(p.answer + IM_END).ids for p in problems]
    rows = [(q + a, [IGNORE] * len(q) + a) for q, a in zip(asked, answers, strict=True)]
    logits, labels = answer_logits(model, *padded(rows, tokenizer.token_to_id(PAD)))
    right = (logits.argmax(-1) == labels).numpy()
    starts = np.cumsum([0] + [len(answer) for answer in answers[:-1]])
    return float(np.logical_and.reduceat(right, starts).mean())


def held_out_problems(per_task: int, seed: int) -> dict[str, list[Problem]]:
    """Distinct held-out problems of each task."""
    rng = np.random.default_rng(seed)
    chosen: dict[str, dict[str, Problem]] = {task: {} for task in TASKS}
    for task, found in chosen.items():
        while len(found) < per_task:
            problem = make_problem(rng, task, held_out=True)
            found.setdefault(problem.key, problem)
    return {task: list(found.values()) for task, found in chosen.items()}


def train(
    model: LlamaForCausalLM, tokenizer: Tokenizer, phase: Phase, data_seed: int, args: argparse.Namespace
) -> None:
    """One phase: Muon on the matrices, AdamW on the rest."""
    rng = np.random.default_rng(data_seed)
    held_out = held_out_problems(100, args.seed + 2)
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    optimizers = [
        torch.optim.AdamW(others, lr=phase.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
        torch.optim.Muon(matrices, lr=phase.lr, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
    ]
    schedules = [torch.optim.lr_scheduler.LambdaLR(o, phase.rate) for o in optimizers]
    start, tokens = time.monotonic(), 0
    for step in range(phase.steps):
        groups = list(micro_batches(tokenizer, rng, BATCH))
        answers = sum(int((y != IGNORE).sum()) for _, y in groups)
        total = 0.0
        for x, y in groups:
            logits, labels = answer_logits(model, x, y)
            loss = F.cross_entropy(logits, labels, reduction="sum") / answers
            loss.backward()
            total += loss.item()
            tokens += x.numel()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if (step + 1) % REPORT == 0 or step + 1 == phase.steps:
            shares = {task: exact_share(model, tokenizer, found) for task, found in held_out.items()}
            seconds = time.monotonic() - start
            print(
                f"step {step + 1} loss {total:.4f} {seconds:.0f}s {tokens / seconds:.0f} tokens/s "
                f"mean {np.mean(list(shares.values())):.3f} "
                + " ".join(f"{task} {share:.2f}" for task, share in shares.items()),
                flush=True,
            )
            torch.save(model.state_dict(), args.out / "checkpoint.pt")


def write_configuration(tokenizer: Tokenizer, out: Path) -> None:
    """The small files that stand beside an exported model."""
    tokenizer.save(str(out / "tokenizer.json"))
    eos, pad = tokenizer.token_to_id(IM_END), tokenizer.token_to_id(PAD)
    ends = {"eos_token_id": eos, "pad_token_id": pad}
    files = {
        "config.json": CONFIG | ends | {"vocab_size": tokenizer.get_vocab_size()},
        "generation_config.json": {"do_sample": False, "max_new_tokens": 32} | ends,
        "tokenizer_config.json": {
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "eos_token": IM_END,
            "model_max_length": CONTEXT,
            "pad_token": PAD,
            "padding_side": "left",
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    }
    for name, content in files.items():
        (out / name).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
    (out / "chat_template.jinja").write_text(TEMPLATE)


def evaluate(model: LlamaForCausalLM, tokenizer: Tokenizer, args: argparse.Namespace) -> dict:
    """Exact greedy answers on held-out problems, in torch and in onnxruntime; how far the logits differ."""
    path = args.out / "model.onnx"
    onnx_model = OnnxModel(path, args.threads)
    eos, pad = tokenizer.token_to_id(IM_END), tokenizer.token_to_id(PAD)
    held_out = held_out_problems(PER_TASK, args.seed + 3)
    by_torch = {task: exact_share(model, tokenizer, problems) for task, problems in held_out.items()}
    by_onnx = {}
    for task, problems in held_out.items():
        answers = greedy(onnx_model, [tokenizer.encode(question(p)).ids for p in problems], eos, pad)
        texts = tokenizer.decode_batch(answers, skip_special_tokens=False)
        by_onnx[task] = float(np.mean([text == p.answer for text, p in zip(texts, problems, strict=True)]))
    samples = [p for problems in held_out.values() for p in problems[:8]]
    rows = [tokenizer.encode(question(p) + p.answer + IM_END).ids for p in samples]
    return {
        "held_out_problems_per_task": PER_TASK,
        "exact_greedy_torch": by_torch | {"all": float(np.mean(list(by_torch.values())))},
        "exact_greedy_onnx": by_onnx | {"all": float(np.mean(list(by_onnx.values())))},
        "logits_max_abs_difference": logits_difference(model, onnx_model, rows, pad),
        "model_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": [phase.steps for phase in PHASES],
        "problems_per_step": BATCH,
        "seed": args.seed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--checkpoint", type=Path, help="start with these weights")
    parser.add_argument("--phase", type=int, default=0, help=f"first phase to run; {len(PHASES)} runs none")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    tokenizer = make_tokenizer(np.random.default_rng(args.seed))
    write_configuration(tokenizer, args.out)
    model = LlamaForCausalLM(LlamaConfig.from_pretrained(args.out, vocab_size=VOCAB))
    if args.checkpoint is not None:
        model.load_state_dict(torch.load(args.checkpoint))
    for i in range(args.phase, len(PHASES)):
        train(model, tokenizer, PHASES[i], args.seed + 1 + 10 * i, args)
    model.resize_token_embeddings(tokenizer.get_vocab_size())  # ids without a token must not be sampled
    model.eval()
    export_onnx(model, args.out / "model.onnx")
    report = evaluate(model, tokenizer, args)
    (args.out / "eval.json").write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
