"""Rows in blocks, for conventions without an export among the test models: on a fake session.

The fake's cache holds each token and its position; its logits are a hash of all (token, position) pairs that
a query attends to, so that any mistake in masks, positions, alignment or cache contents changes them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lite.models import GenerationConfig, ModelConfig, OnnxDecoder, Padding, generate, score
from lite.models.graph.protobuf import GraphSummary

pytest.importorskip("onnxruntime")
VOCABULARY = 23
HEADS, SIZE = 2, 2


@dataclass
class Arg:
    name: str
    type: str
    shape: Sequence[Any]


class FakeSession:
    """A decoder graph with the given options, behind the methods of a session that lite calls."""

    def __init__(
        self,
        *,
        mask: bool = True,
        positions: bool = True,
        branch: bool = False,
        keep: str = "",
        last_only: bool = False,
        integers: str = "int64",
        cache_type: str = "float",
        relative: bool = False,
        logits: str = "float",
    ) -> None:
        self.relative = relative
        self.keep, self.last_only, self.branch = keep, last_only, branch
        kind = f"tensor({integers})"
        inputs = [Arg("input_ids", kind, ["b", "s"])]
        inputs += [Arg("attention_mask", kind, ["b", "t"])] * mask
        inputs += [Arg("position_ids", kind, ["b", "s"])] * positions
        inputs += [Arg("use_cache_branch", "tensor(bool)", [1])] * branch
        inputs += [Arg(keep, kind, [])] * bool(keep)
        dims = ["b", HEADS, "p", SIZE]
        names = [f"{layer}.{kind}" for layer in range(2) for kind in ("key", "value")]
        inputs += [Arg(f"past_key_values.{name}", f"tensor({cache_type})", dims) for name in names]
        outputs = [Arg("logits", f"tensor({logits})", ["b", 1 if last_only else "s", VOCABULARY])]
        outputs += [Arg(f"present.{name}", f"tensor({cache_type})", dims) for name in names]
        self.get_inputs, self.get_outputs = lambda: inputs, lambda: outputs
        self.runs: list[tuple[int, int, int]] = []  # (batch, past, new tokens)

    def io_binding(self) -> FakeBinding:
        return FakeBinding()

    def run_with_iobinding(self, binding: FakeBinding) -> None:
        feeds = {name: _array(*bound) for name, bound in binding.inputs.items()}
        ids = feeds["input_ids"].astype(np.int64)
        batch, new = ids.shape
        with_past = not self.branch or bool(feeds["use_cache_branch"][0])
        past = feeds["past_key_values.0.key"].shape[2] if with_past else 0
        self.runs.append((batch, past, new))
        total = past + new
        visible = feeds["attention_mask"] > 0 if "attention_mask" in feeds else np.ones((batch, total), bool)
        assert visible.shape == (batch, total)
        where = feeds.get("position_ids", np.broadcast_to(np.arange(past, total), (batch, new)))
        fresh = np.broadcast_to(np.stack([ids, where], -1)[:, None], (batch, HEADS, new, SIZE))
        caches = []
        for output in self.get_outputs()[1:]:
            old = feeds[output.name.replace("present", "past_key_values")][:, :, :past]
            _array(*binding.outputs[output.name])[...] = np.concatenate([old, fresh], 2)
            caches.append(_array(*binding.outputs[output.name]))
        cache = caches[0].astype(np.float64)
        for other in caches[1:]:
            np.testing.assert_array_equal(
                other[visible[:, None].repeat(HEADS, 1)], cache[visible[:, None].repeat(HEADS, 1)]
            )
        logits = np.zeros((batch, new, VOCABULARY))
        for row in range(batch):
            for query in range(new):
                seen = [at for at in range(past + query + 1) if visible[row, at]]
                pairs = [tuple(cache[row, 0, at]) for at in seen]
                logits[row, query] = of_pairs(pairs, self.relative)
        kept = logits.shape[1]
        if self.last_only or (self.keep and feeds[self.keep] == 1):
            kept = 1
        _array(*binding.outputs["logits"])[...] = logits[:, -kept:]


class FakeBinding:
    def __init__(self) -> None:
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}

    def bind_input(
        self, name: str, device: str, index: int, dtype: Any, shape: list[int], pointer: int
    ) -> None:
        self.inputs[name] = (dtype, shape, pointer)

    def bind_output(
        self, name: str, device: str, index: int, dtype: Any, shape: list[int], pointer: int
    ) -> None:
        self.outputs[name] = (dtype, shape, pointer)


def _array(dtype: Any, shape: list[int], pointer: int) -> NDArray[Any]:
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if not count:
        return np.empty(shape, dtype)
    memory = (ctypes.c_uint8 * count).from_address(pointer)
    return np.frombuffer(memory, np.uint8).view(dtype).reshape(shape)


def of_pairs(pairs: Sequence[tuple[float, ...]], relative: bool = False) -> NDArray[np.float64]:
    """Logits for a query that sees these (token, position) pairs, its own last."""
    if not pairs:  # a filler's: nobody may look at it
        return np.full(VOCABULARY, np.nan)
    origin = pairs[-1][1] if relative else 0
    state = sum((token + 1) * (7 + (position - origin) % 97) * 0.37 for token, position in pairs)
    return 3 * np.sin(state * np.arange(1, VOCABULARY + 1))


def expected(ids: Sequence[int]) -> NDArray[np.float64]:
    return of_pairs([(token, position) for position, token in enumerate(ids)])


def expected_relative(ids: Sequence[int]) -> NDArray[np.float64]:
    return of_pairs([(token, position) for position, token in enumerate(ids)], relative=True)


def config(**raw: Any) -> ModelConfig:
    summary = GraphSummary("", frozenset({"MatMul"}), frozenset())
    return ModelConfig(graph=Path(), directory=Path(), context_length=64, raw=raw, summary=summary)


GRAPHS: dict[str, tuple[dict[str, Any], dict[str, Any], Padding]] = {
    "positions": ({}, {}, Padding.LEFT),
    "merged": ({"branch": True}, {}, Padding.LEFT),
    "merged without positions": ({"branch": True, "positions": False}, {}, Padding.EQUAL),
    "no mask": ({"mask": False}, {}, Padding.EQUAL),
    "neither mask nor positions": ({"mask": False, "positions": False}, {}, Padding.EQUAL),
    "rotary without positions": ({"positions": False, "relative": True}, {"rope_theta": 1e4}, Padding.EQUAL),
    "logits to keep": ({"keep": "num_logits_to_keep"}, {}, Padding.LEFT),
    "last logits only": ({"last_only": True}, {}, Padding.LEFT),
    "32-bit integers": ({"integers": "int32"}, {}, Padding.LEFT),
    "half cache": ({"cache_type": "float16"}, {}, Padding.LEFT),
    "half logits": ({"logits": "float16"}, {}, Padding.LEFT),
}


@pytest.fixture(params=sorted(GRAPHS))
def graph(request: pytest.FixtureRequest) -> Iterator[tuple[OnnxDecoder, FakeSession, Any]]:
    options, raw, padding = GRAPHS[request.param]
    session = FakeSession(**options)
    decoder = OnnxDecoder(config(**raw), session=session)
    assert decoder.spec.padding is padding
    want = expected_relative if options.get("relative") else expected
    return decoder, session, want


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, atol=5e-3)  # half logits


def test_ragged_batches(graph: Any, rng: np.random.Generator) -> None:
    decoder, _, want = graph
    texts = [rng.integers(0, VOCABULARY, length).tolist() for length in (3, 7, 1, 7)]
    for logits, text in zip(decoder.prefill_rows(range(4), texts), texts, strict=True):
        close(logits, want(text))
    for _ in range(30):
        rows = rng.permutation(4)[: rng.integers(1, 5)]
        tokens = rng.integers(0, VOCABULARY, len(rows))
        for logits, row, token in zip(decoder.decode(tokens, rows.tolist()), rows, tokens, strict=True):
            texts[row].append(int(token))
            close(logits, want(texts[row]))


def test_forks_and_cuts(graph: Any, rng: np.random.Generator) -> None:
    decoder, _, want = graph
    texts = [rng.integers(0, VOCABULARY, length).tolist() for length in (5, 2, 9)]
    decoder.prefill_rows(range(3), texts)
    for _ in range(40):
        match rng.integers(4):
            case 0:
                source, target = (int(i) for i in rng.permutation(3)[:2])
                decoder.fork(source, target)
                texts[target] = list(texts[source])
            case 1:
                row = int(rng.integers(3))
                length = int(rng.integers(1, len(texts[row]) + 1))
                decoder.truncate(row, length)
                texts[row] = texts[row][:length]
            case 2:
                new = [rng.integers(0, VOCABULARY, rng.integers(1, 4)).tolist() for _ in range(3)]
                if max(len(text) for text in texts) < 50:
                    for row, logits in enumerate(decoder.extend(range(3), new)):
                        texts[row] += new[row]
                        close(logits[-1], want(texts[row]))
            case _:
                tokens = rng.integers(0, VOCABULARY, 3)
                for row, logits in enumerate(decoder.decode(tokens)):
                    texts[row].append(int(tokens[row]))
                    close(logits, want(texts[row]))


def test_generation_and_scores(graph: Any) -> None:
    decoder, _, want = graph
    prompts = [np.array([1, 2, 3]), np.array([4]), np.array([5, 6, 7, 8, 9])]
    out = generate(decoder, prompts, GenerationConfig(max_new_tokens=8, eos_token_ids=(11,)), num_samples=2)
    scores = score(decoder, [np.concatenate([prompts[i // 2], got.tokens]) for i, got in enumerate(out)])
    for i, (got, row) in enumerate(zip(out, scores, strict=True)):
        text = prompts[i // 2].tolist()
        for token, log_prob in zip(got.tokens, got.log_probs, strict=True):
            logits = want(text)
            assert token == logits.argmax()
            close(log_prob, logits.max() - np.log(np.exp(logits).sum()))
            text.append(int(token))
        close(row[len(prompts[i // 2]) :], got.log_probs)


def test_steady_rows_are_not_copied_about(graph: Any) -> None:
    """Between steps of the same rows no cache row moves, and each step is one run per bucket."""
    decoder, session, _ = graph
    decoder.prefill_rows(range(2), [[1, 2], [3, 4]])
    decoder.decode([5, 6])
    session.runs.clear()
    for step in range(5):
        decoder.decode([7, 8])
        assert session.runs[-1] == (2, 3 + step, 1)
    assert len(session.runs) == 5


def test_rows_of_one_length_share_a_run_where_ragged_rows_may_not() -> None:
    session = FakeSession(positions=False)
    decoder = OnnxDecoder(config(), session=session)
    decoder.prefill_rows(range(4), [[1, 2], [3, 4, 5], [6, 7], [8]])
    session.runs.clear()
    decoder.decode([1, 1, 1, 1])
    assert sorted(session.runs) == [(1, 1, 1), (1, 3, 1), (2, 2, 1)]


def test_the_vocabulary_must_be_known() -> None:
    session = FakeSession()
    session.get_outputs()[0].shape = ["b", "s", "v"]
    with pytest.raises(ValueError, match="vocabulary's size"):
        OnnxDecoder(config(), session=session)
