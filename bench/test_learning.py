"""Steps of learning on an exported language model beside transformers and peft on torch.

    python bench/llm_models.py DIR --genai PYTHON   # once: SmolLM2-135M's shape, random weights
    python bench/test_learning.py DIR               # --only lora lora-checkpoint full full-checkpoint
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python bench/test_learning.py DIR --group

A step is the log-softmax of 8 x 256 tokens, its gradient, and AdamW, on two threads; adapters have rank 8,
beside q and v (where the exporter made one matrix of q, k and v: beside that one). The sides take turns, each
in a process of its own, so that a peak of memory is its own. Needs torch, transformers and peft.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "2")

import numpy as np  # noqa: E402
from side_by_side import arguments, heading, machine, place, save  # noqa: E402

KINDS = ("lora", "lora-checkpoint", "full", "full-checkpoint")
SIDES = ("lite", "torch")
STEPS = 3  # the first compiles, and is not counted
HIDDEN, HEAD = "/model/layers.30/final_norm_layernorm/output_0", "lm_head.MatMul.weight"


def tokens(rows: int, length: int) -> tuple[Any, Any]:
    ids = np.random.default_rng(0).integers(3, 49000, (rows, length + 1))
    return ids[:, :-1], ids[:, 1:]


def of_lite(folder: Path, kind: str, x: Any, y: Any) -> Any:
    """A function that takes a step and gives the loss."""
    from lite import enable_grad, nn, optim

    lora = kind.startswith("lora")
    net = nn.from_onnx(
        folder / "genai-fp32" / "model.onnx",
        outputs=[HIDDEN, HEAD],
        trainable=False if lora else None,
        checkpoint=kind.endswith("checkpoint"),
    )
    if lora:
        net = nn.lora(net, rank=8, alpha=16, targets=["*qkv_proj"], rng=0)
    past = np.zeros((len(x), 3, 0, 64), np.float32)
    inputs: dict[str, Any] = dict.fromkeys(net.input_names, past)
    inputs |= {"input_ids": x, "attention_mask": np.ones(x.shape, np.int64)}
    optimizer = optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-4)

    def step() -> float:
        with enable_grad():
            hidden, head = net(**inputs)
            loss = -nn.functional.linear_log_probs(hidden, head.swapaxes(0, 1), y).mean()
        del hidden, head
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.item())

    return step


def of_torch(folder: Path, kind: str, x: Any, y: Any) -> Any:
    """The same with transformers and peft."""
    import torch
    from transformers import LlamaForCausalLM

    torch.set_num_threads(2)
    model: Any = LlamaForCausalLM.from_pretrained(folder / "hf", dtype=torch.float32)
    model.config.use_cache = False
    if kind.startswith("lora"):
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"]))
    if kind.endswith("checkpoint"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    ids, wanted = torch.from_numpy(x), torch.from_numpy(y)

    def step() -> float:
        log_probs = torch.log_softmax(model(input_ids=ids).logits, -1)
        loss = -log_probs.gather(-1, wanted[..., None]).mean()
        del log_probs
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss)

    return step


def child(folder: Path, side: str, kind: str, length: int, rows: int) -> None:
    """Take steps, and print what they took."""
    step = {"lite": of_lite, "torch": of_torch}[side](folder, kind, *tokens(rows, length))
    wall, processor, losses = [], [], []
    for _ in range(STEPS):
        start, used = time.perf_counter(), time.process_time()
        losses.append(step())
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"wall": min(wall[1:]), "cpu": min(processor[1:]), "peak": peak, "loss": losses[0]}))


def group(folder: Path) -> None:
    """Processor seconds of a gradient of 8 x 64 tokens behind one prompt of 192, read 8 times or once."""
    from lite import enable_grad
    from lite.models import OnnxDecoder
    from lite.models.learning import token_log_probs

    decoder = OnnxDecoder(folder / "genai-fp32", num_threads=1)
    lora = {"rank": 8, "targets": ["*qkv_proj"], "rng": 0}
    net = token_log_probs.token_log_probs_of(decoder.config, decoder.spec, lora=lora)
    rows = list(tokens(8, 255)[0])
    rows = [np.concatenate([rows[0][:192], row[191:]]) for row in rows]
    wanted = [np.arange(len(row)) >= 192 for row in rows]
    seconds: dict[int, list[float]] = {10**9: [], token_log_probs.SHARED: []}
    for _ in range(1 + STEPS):
        for token_log_probs.SHARED, found in seconds.items():
            start = time.process_time()
            with enable_grad():
                loss = -net(rows, wanted)[0].sum()
            loss.backward()
            found.append(time.process_time() - start)
    told = [f"{min(found[1:]):.1f} s" for found in seconds.values()]
    print("{} where each row has the prompt, {} where it is read once".format(*told))


def measured(folder: Path, side: str, kind: str, length: int, rows: int) -> dict[str, float]:
    command = [sys.executable, __file__, str(folder), "--child", side, kind, str(length), str(rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = arguments(__doc__, 1, "processes of each side")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS, metavar="KIND")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--group", action="store_true", help="time responses to one prompt only")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        side, kind, length, rows = args.child
        child(args.folder, side, kind, int(length), int(rows))
        return
    if args.group:
        group(args.folder)
        return
    about, found = machine(), []
    lines = [
        *heading(f"Steps of learning, {args.rows} x {args.tokens} tokens", about),
        "Seconds of the fastest step after the first, processor seconds in brackets, and the peak of memory.",
        "",
        "| step | lite | torch | time | processor time | memory |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for kind in args.only:
        runs: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
        for _ in range(args.rounds):
            for side in SIDES:
                runs[side].append(measured(args.folder, side, kind, args.tokens, args.rows))
        best = {side: {key: min(run[key] for run in runs[side]) for key in runs[side][0]} for side in SIDES}
        lite, torch = best["lite"], best["torch"]
        told = [f"{x['wall']:.1f} s ({x['cpu']:.1f}), {x['peak']:.2f} GB" for x in (lite, torch)]
        ratios = [f"{lite[key] / torch[key]:.2f}" for key in ("wall", "cpu", "peak")]
        lines.append(f"| {' | '.join([kind, *told, *ratios])} |")
        print(lines[-1], flush=True)
        found.append({"kind": kind, **best})
        save(place(args), "learning", "\n".join(lines) + "\n", {"about": about, "rows": found})


if __name__ == "__main__":
    main()
