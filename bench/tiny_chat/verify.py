"""Checks of the exported graph in plain onnxruntime: greedy answers, and logits against the torch model."""

from pathlib import Path

import numpy as np
import onnxruntime
import torch
from transformers import LlamaForCausalLM


class OnnxModel:
    """The graph with its cache as plain arrays: slow, short, and independent of the library it ships with."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.past = [i for i in self.session.get_inputs() if i.name.startswith("past_key_values.")]

    def __call__(
        self, ids: np.ndarray, mask: np.ndarray, cache: list[np.ndarray] | None
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Logits (B, S, V) and the new cache, for ``ids`` (B, S) and the ``mask`` (B, P + S)."""
        if cache is None:
            cache = [np.zeros((len(ids), i.shape[1], 0, i.shape[3]), np.float32) for i in self.past]
        positions = np.clip(mask.cumsum(1) - 1, 0, None)[:, -ids.shape[1] :]
        feeds = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        feeds |= {i.name: array for i, array in zip(self.past, cache, strict=True)}
        logits, *cache = self.session.run(None, feeds)
        return logits, cache


def left_padded(rows: list[list[int]], pad: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and attention mask, both (rows, longest) int64."""
    longest = max(map(len, rows))
    ids = np.array([[pad] * (longest - len(row)) + row for row in rows])
    mask = np.array([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def greedy(
    model: OnnxModel, prompts: list[list[int]], eos: int, pad: int, limit: int = 32
) -> list[list[int]]:
    """The arg max continuation of each prompt, without the closing ``eos``."""
    ids, mask = left_padded(prompts, pad)
    answers: list[list[int]] = [[] for _ in prompts]
    live, cache = np.ones(len(prompts), bool), None
    for _ in range(limit):
        logits, cache = model(ids, mask, cache)
        chosen = logits[:, -1].argmax(-1)
        live &= chosen != eos
        if not live.any():
            break
        for i in np.flatnonzero(live):
            answers[i].append(int(chosen[i]))
        ids = chosen[:, None]
        mask = np.pad(mask, ((0, 0), (0, 1)), constant_values=1)
    return answers


@torch.no_grad()
def logits_difference(
    model: LlamaForCausalLM, onnx_model: OnnxModel, rows: list[list[int]], pad: int
) -> float:
    """Largest difference of a logit between torch and ONNX over real tokens.

    Compared three ways: each row alone, all rows padded on the left in one pass, and the padded batch token
    by token through the cache.
    """
    ids, mask = left_padded(rows, pad)
    positions = np.clip(mask.cumsum(1) - 1, 0, None)
    wanted = model(
        input_ids=torch.from_numpy(ids),
        attention_mask=torch.from_numpy(mask),
        position_ids=torch.from_numpy(positions),
    ).logits.numpy()
    whole, _ = onnx_model(ids, mask, None)
    steps, cache = [], None
    for column in range(ids.shape[1]):
        step, cache = onnx_model(ids[:, column : column + 1], mask[:, : column + 1], cache)
        steps.append(step)
    differences = [np.abs(got - wanted)[mask == 1].max() for got in (whole, np.concatenate(steps, axis=1))]
    for row in rows:
        alone = model(input_ids=torch.tensor([row])).logits.numpy()
        got, _ = onnx_model(np.array([row]), np.ones((1, len(row)), np.int64), None)
        differences.append(np.abs(got - alone).max())
    return float(max(differences))
