"""The runtimes that `test_llm.py` times beside lite, each driven as its documentation shows.

Every function returns a callable that does the whole task once: prompts in, all tokens out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[], Any]
MAX_BATCH = 32  # of onnxruntime-genai's generator


class Genai:
    """onnxruntime-genai: its generator for batches, its engine for queues."""

    def __init__(self, folder: Path, threads: int) -> None:
        import onnxruntime_genai as og

        self.og = og
        self.folder = folder
        session = {"session_options": {"intra_op_num_threads": threads}}
        self.settings: dict[str, Any] = {"model": {"decoder": session}}
        self.model = self._open({})

    def _open(self, more: dict[str, Any]) -> Any:
        config = self.og.Config(str(self.folder))
        config.overlay(json.dumps({**self.settings, **more}))
        return self.og.Model(config)

    def end_with(self, ids: Sequence[int]) -> None:
        """Have these tokens end a response."""
        self.model = self._open({"model": {**self.settings["model"], "eos_token_id": list(ids)}})

    def _generator(self, prompts: np.ndarray, new: int, options: dict[str, Any]) -> Any:
        params = self.og.GeneratorParams(self.model)
        batch, length = prompts.shape
        # a minimal length keeps random weights from ending early
        sizes = {"max_length": length + new, "min_length": length + new, "batch_size": batch}
        params.set_search_options(**{**sizes, "do_sample": False, "repetition_penalty": 1.0, **options})
        generator = self.og.Generator(self.model, params)
        generator.append_tokens(prompts.astype(np.int32))
        return generator

    def generate(self, prompts: np.ndarray, new: int, log_probs: bool = False, **options: Any) -> Run:
        """Rows of equal length; `log_probs` as one gets them: the step's logits, in NumPy."""

        def run() -> Any:
            return [batch(prompts[i : i + MAX_BATCH]) for i in range(0, len(prompts), MAX_BATCH)]

        def batch(prompts: np.ndarray) -> Any:
            generator = self._generator(prompts, new, options)
            scores = []
            for _ in range(new):
                if generator.is_done():
                    break
                generator.generate_next_token()
                if log_probs:
                    logits = generator.get_output("logits")[:, -1]
                    tokens = generator.get_next_tokens()
                    top = logits.max(-1, keepdims=True)
                    total = np.log(np.exp(logits - top).sum(-1))
                    scores.append(logits[np.arange(len(tokens)), tokens] - top[:, 0] - total)
            return [generator.get_sequence(i)[prompts.shape[1] :] for i in range(len(prompts))], scores

        return run

    def prefill(self, prompts: Sequence[np.ndarray], pad: int) -> Run:
        """Prompts of any length as its tokenizer pads them, and their first token."""
        width = max(map(len, prompts))
        padded = np.full((len(prompts), width), pad)
        for row, prompt in zip(padded, prompts, strict=True):
            row[width - len(prompt) :] = prompt
        return self.generate(padded, 1)

    def queue(self, prompts: Sequence[np.ndarray], new: Sequence[int], rows: int) -> Run:
        """Its own continuous batching: at most `rows` requests at a time."""
        og = self.og
        model = self._open({"engine": {"static_batching": {"max_batch_size": rows}}})

        def run() -> int:
            engine, requests = og.Engine(model), []
            for prompt, count in zip(prompts, new, strict=True):
                limits = og.RequestOptions()
                limits.set_max_session_tokens(len(prompt) + count)
                request = engine.create_request(options=limits)
                turn = og.TurnOptions(request)
                turn.set_do_sample(False)
                turn.set_max_generated_tokens(count)
                turn.set_min_generated_tokens(count)
                request.begin_turn(prompt.astype(np.int32), turn)
                requests.append(request)
            events, tokens = engine.create_event_buffer(4 * rows), 0
            while engine.has_pending_requests():
                for event in engine.run(events):
                    tokens += bool(event.flags & og.EngineEventFlags.TOKEN)
                    if event.flags & og.EngineEventFlags.TURN_FINISHED:
                        event.request.close()
            if tokens != sum(new):
                raise RuntimeError(f"onnxruntime-genai gave {tokens} tokens of {sum(new)}")
            return tokens

        return run


class Torch:
    """transformers on torch, or optimum's ORTModelForCausalLM, through the same `generate`."""

    def __init__(self, folder: Path, threads: int, *, optimum: bool = False) -> None:
        import torch

        torch.set_num_threads(threads)
        self.torch = torch
        self.model: Any
        if optimum:
            import onnxruntime
            from optimum.onnxruntime import ORTModelForCausalLM

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            self.model = ORTModelForCausalLM.from_pretrained(folder, session_options=options)
        else:
            from transformers import AutoModelForCausalLM

            self.model = AutoModelForCausalLM.from_pretrained(folder).eval()

    def generate(self, prompts: np.ndarray, new: int, log_probs: bool = False, **options: Any) -> Run:
        torch = self.torch
        ids = torch.from_numpy(np.ascontiguousarray(prompts))
        given = {
            "do_sample": False,
            "min_new_tokens": new,
            "max_new_tokens": new,
            "pad_token_id": 2,
            **options,
        }

        def run() -> Any:
            with torch.inference_mode():
                out = self.model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    return_dict_in_generate=True,
                    output_logits=log_probs,
                    **given,
                )
                if not log_probs:
                    return out.sequences
                tokens = out.sequences[:, -len(out.logits) :]
                logits = torch.stack(out.logits, 1)
                return tokens, torch.log_softmax(logits, -1).gather(-1, tokens[..., None])[..., 0]

        return run

    def score(self, rows: np.ndarray, batch: int) -> Run:
        """Forward, log-softmax, gather; `batch` rows at a time."""
        torch = self.torch

        def run() -> np.ndarray:
            parts = []
            with torch.inference_mode():
                for start in range(0, len(rows), batch):
                    ids = torch.from_numpy(rows[start : start + batch])
                    logits = self.model(ids, use_cache=False).logits[:, :-1]
                    scores = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])
                    parts.append(scores[..., 0].numpy())
            return np.concatenate(parts)

        return run
