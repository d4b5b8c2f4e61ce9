"""Decoder graphs of every convention as fake sessions, and the logits that they must give.

The fake's cache holds each token and its position; its logits are a hash of all (token, position) pairs that
a query attends to, so that any mistake in masks, positions, alignment or cache contents changes them. Filler
gives logits, too: of the filler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lite.models import ModelConfig, OnnxDecoder, Padding
from lite.models.graph.summary import GraphSummary

VOCABULARY = 23
HEADS, SIZE = 2, 2
STATE = 3  # tokens that a state holds
LIMIT, BEYOND = 12, 31  # tokens of a text, and how far positions are moved in longer ones
Feeds: TypeAlias = dict[str, NDArray[Any]]
Pair: TypeAlias = tuple[float, ...]
Seen: TypeAlias = Callable[[int, int], list[Pair]]
"""What a query of a row sees: (row, query) -> pairs."""


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
        group_query: bool = False,
        cache: bool = True,
        gather: bool = False,
        causal: bool = True,
        rows: int | str = "b",
        steps: int | str = "s",
        declared: bool = True,
        prompts: bool = False,
        static: int = 0,
        square_mask: bool = False,
        extras: Sequence[str] = (),
        limit: int = 0,
        state: bool = False,
    ) -> None:
        self.limit = f"lite_beyond_{limit}" if limit else ""
        self.static, self.square_mask, self.prompts = static, square_mask, prompts
        self.relative, self.group_query, self.causal = relative, group_query, causal
        self.most = rows, steps
        self.ruled_out: list[int] = []  # tokens
        self.keep, self.last_only, self.branch = keep, last_only, branch
        kind = f"tensor({integers})"
        inputs = [Arg("input_ids", kind, [rows, steps] if declared else ["b", "s"])]
        wide = Arg("attention_mask", "tensor(bool)", ["b", 1, "s", "t"])
        inputs += [wide if square_mask else Arg("attention_mask", kind, ["b", "t"])] * mask
        inputs += [Arg("position_ids", kind, ["b", "s"])] * positions
        inputs += [Arg("use_cache_branch", "tensor(bool)", [1])] * branch
        inputs += [Arg(keep, kind, [])] * bool(keep)
        inputs += [Arg("lite_positions", "tensor(int64)", ["b", "k", 1])] * gather
        shapes = {"token_type_ids": ["b", "s"], "cache_position": ["s"], "past_sequence_length": [1]}
        inputs += [Arg(name, kind, shapes.get(name, [])) for name in extras]
        inputs += [Arg(self.limit, "tensor(bool)", [])] * bool(limit)
        inputs += [Arg("past_conv.0", "tensor(int64)", ["b", STATE])] * (state and not prompts)
        dims = ["b", HEADS, static or "p", SIZE]
        names = [f"{layer}.{kind}" for layer in range(2) for kind in ("key", "value")] * cache
        inputs += [Arg(f"past_key_values.{name}", f"tensor({cache_type})", dims) for name in names] * (
            not prompts
        )
        outputs = [
            Arg("logits", f"tensor({logits})", ["b", 1 if last_only and declared else "s", VOCABULARY])
        ]
        dims = ["b", HEADS, static or "t", SIZE]
        outputs += [Arg(f"present.{name}", f"tensor({cache_type})", dims) for name in names]
        outputs += [Arg("present_conv.0", "tensor(int64)", ["b", STATE])] * state
        self.get_inputs, self.get_outputs = lambda: inputs, lambda: outputs
        self.runs: list[tuple[int, int, int]] = []  # (batch, past, new tokens)

    def io_binding(self) -> FakeBinding:
        return FakeBinding()

    def run_with_iobinding(self, binding: FakeBinding) -> None:
        feeds = {name: _array(*bound) for name, bound in binding.inputs.items()}
        ids = feeds["input_ids"].astype(np.int64)
        batch, new = ids.shape
        for most, got in zip(self.most, ids.shape, strict=True):
            if isinstance(most, int) and got != most:
                raise RuntimeError(f"Got: {got} Expected: {most}")
        run = self._in_slots if self.group_query else self._concatenated
        outputs = {name: _array(*bound) for name, bound in binding.outputs.items()}
        before = feeds.pop("past_conv.0", np.zeros((batch, STATE), np.int64))
        state, texts = outputs.pop("present_conv.0", None), np.concatenate([before, ids], 1)
        past, seen = run(ids, feeds, outputs)
        if state is not None:
            state[...] = texts[:, -STATE:]
        self.runs.append((batch, past, new))
        logits = np.zeros((batch, new, VOCABULARY))
        for row in range(batch):
            for query in range(new):
                last = texts[row, query + 1 : query + 1 + STATE]
                logits[row, query] = of_pairs(
                    [*([] if state is None else of_state(last)), *seen(row, query)], self.relative
                )
        if "lite_positions" in feeds:
            assert (feeds["lite_positions"] < new).all()
            logits = np.take_along_axis(logits, feeds["lite_positions"], 1)
        if self.last_only or (self.keep and feeds[self.keep] == 1):
            logits = logits[:, -1:]
        if binding.outputs["logits"][1] != list(logits.shape):
            raise RuntimeError(f"the computed output shape is {logits.shape}")
        logits[..., self.ruled_out] = -np.inf
        _array(*binding.outputs["logits"])[...] = logits

    def _concatenated(self, ids: NDArray[Any], feeds: Feeds, outputs: Feeds) -> tuple[int, Seen]:
        """Past and new tokens one after the other; what the mask hides is not seen."""
        batch, new = ids.shape
        with_past = not self.branch or bool(feeds["use_cache_branch"][0])
        pasts = [name for name in feeds if name.startswith("past")]
        past = feeds[pasts[0]].shape[2] if pasts and with_past else 0
        if self.static and not self.prompts:
            past = int(feeds["cumulative_length"])
        total = past + new
        visible = feeds["attention_mask"] > 0 if "attention_mask" in feeds else np.ones((batch, total), bool)
        if self.square_mask:
            assert visible.shape == (batch, 1, new, self.static)
            assert not np.triu(visible[:, 0], past + 1).any()
            visible = visible[:, 0, -1]
        if self.static:
            assert not visible[:, total:].any()
            visible = visible[:, :total]
        assert visible.shape == (batch, total)
        np.testing.assert_array_equal(feeds.get("token_type_ids", 0), 0)
        np.testing.assert_array_equal(
            feeds.get("cache_position", np.arange(past, total)), np.arange(past, total)
        )
        assert feeds.get("past_sequence_length", past) == past
        assert feeds.get("cumulative_length", past) == past
        where = feeds.get("position_ids", np.broadcast_to(np.arange(past, total), (batch, new)))
        where = where + BEYOND * feeds.get(self.limit, 0)
        fresh = np.broadcast_to(np.stack([ids, where], -1)[:, None], (batch, HEADS, new, SIZE))
        caches = [fresh] * (not pasts)
        for name, present in outputs.items():
            if name == "logits":
                continue
            before = feeds.get(name.replace("present", "past_key_values"), fresh)
            if self.static:
                present[...] = 0 if self.prompts else before
            present[:, :, :total] = np.concatenate([before[:, :, :past], fresh], 2)
            caches.append(present[:, :, :total])
        cache = caches[0].astype(np.float64)
        for other in caches[1:]:
            np.testing.assert_array_equal(
                other[visible[:, None].repeat(HEADS, 1)], cache[visible[:, None].repeat(HEADS, 1)]
            )

        def seen(row: int, query: int) -> list[Pair]:
            own = past + query  # a query sees itself whatever the mask says, so filler sees filler
            end = own + 1 if self.causal else total
            return [tuple(cache[row, 0, at]) for at in range(end) if visible[row, at] or at == own]

        return past, seen

    def _in_slots(self, ids: NDArray[Any], feeds: Feeds, outputs: Feeds) -> tuple[int, Seen]:
        """Of the mask only each row's sum counts, which is its length; past and present are one buffer.

        Rows that begin are padded on the right; those that hold something take one token, or are alone.
        """
        batch, new = ids.shape
        ends = feeds["attention_mask"].sum(1)
        begins = feeds["attention_mask"].shape[1] == new
        assert batch == 1 or new == 1 or begins
        starts = np.zeros_like(ends) if begins else ends - new
        for name in (name for name in feeds if name.startswith("past")):
            present = outputs[name.replace("past_key_values", "present")]
            for row, start in enumerate(starts):
                columns = np.arange(start, start + new)
                where = feeds["position_ids"][row] if "position_ids" in feeds else columns
                where = where + BEYOND * feeds.get(self.limit, 0)
                present[row, :, columns] = np.stack([ids[row], where], -1)[:, None]
        return int(starts.max()), lambda row, query: [
            tuple(present[row, 0, at].astype(np.float64)) for at in range(int(starts[row]) + query + 1)
        ]


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
    origin = pairs[-1][1] if relative else 0
    state = sum((token + 1) * (7 + (position - origin) % 97) * 0.37 for token, position in pairs)
    return 3 * np.sin(state * np.arange(1, VOCABULARY + 1))


def expected(ids: Sequence[int]) -> NDArray[np.float64]:
    return of_pairs([(token, position) for position, token in enumerate(ids)])


def of_state(tokens: Sequence[int] | NDArray[Any]) -> list[Pair]:
    return [(float(token), 50.0 + place) for place, token in enumerate(tokens)]


def expected_with_state(ids: Sequence[int]) -> NDArray[np.float64]:
    last = [*([0] * STATE), *ids][-STATE:]
    return of_pairs([*of_state(last), *((token, position) for position, token in enumerate(ids))])


def expected_beyond(ids: Sequence[int]) -> NDArray[np.float64]:
    moved = BEYOND * (len(ids) > LIMIT)
    return of_pairs([(token, position + moved) for position, token in enumerate(ids)])


def expected_relative(ids: Sequence[int]) -> NDArray[np.float64]:
    return of_pairs([(token, position) for position, token in enumerate(ids)], relative=True)


def config(operators: Sequence[str] = ("MatMul",), **raw: Any) -> ModelConfig:
    summary = GraphSummary("", frozenset(operators), frozenset())
    return ModelConfig(graph=Path(), directory=Path(), context_length=64, raw=raw, summary=summary)


class Convention(NamedTuple):
    """What the fake session is made with, what config.json says, and how rows may share a run."""

    options: dict[str, Any]
    raw: dict[str, Any]
    padding: Padding


_STATIC: dict[str, Any] = {"static": 64, "extras": ("cumulative_length",)}
BLOCKS = {
    "positions": Convention({}, {}, Padding.LEFT),
    "merged": Convention({"branch": True}, {}, Padding.LEFT),
    "no mask": Convention({"mask": False}, {}, Padding.EQUAL),
    "neither mask nor positions": Convention({"mask": False, "positions": False}, {}, Padding.EQUAL),
    "rotary without positions": Convention(
        {"positions": False, "relative": True}, {"rope_theta": 1e4}, Padding.EQUAL
    ),
    "gather": Convention({"gather": True}, {}, Padding.LEFT),
    "logits to keep": Convention({"keep": "num_logits_to_keep"}, {}, Padding.LEFT),
    "last logits only": Convention({"last_only": True}, {}, Padding.LEFT),
    "single step": Convention({"steps": 1}, {}, Padding.LEFT),
    "single row": Convention({"rows": 1}, {}, Padding.LEFT),
    "other inputs": Convention(
        {"extras": ("token_type_ids", "cache_position", "past_sequence_length")}, {}, Padding.LEFT
    ),
    "pair": Convention({"steps": 1, "pair": {}}, {}, Padding.LEFT),
    "pair, prompts without mask": Convention({"steps": 1, "pair": {"mask": False}}, {}, Padding.LEFT),
    "pair, prompts with gather": Convention({"steps": 1, "pair": {"gather": True}}, {}, Padding.LEFT),
    "pair of many tokens": Convention({"pair": {}}, {}, Padding.LEFT),
    "static": Convention(_STATIC, {}, Padding.EQUAL),
    "static, mask of four dimensions": Convention({**_STATIC, "square_mask": True}, {}, Padding.EQUAL),
    "static pair": Convention(
        {**_STATIC, "steps": 1, "square_mask": True, "pair": {"static": 64, "mask": False}}, {}, Padding.EQUAL
    ),
    "32-bit integers": Convention({"integers": "int32"}, {}, Padding.LEFT),
    "limit": Convention({"limit": LIMIT}, {}, Padding.LEFT),
    "limit, pair": Convention({"limit": LIMIT, "steps": 1, "pair": {"limit": LIMIT}}, {}, Padding.LEFT),
    "state": Convention({"state": True}, {}, Padding.LEFT),
    "state, pair": Convention({"state": True, "steps": 1, "pair": {"state": True}}, {}, Padding.LEFT),
    "half cache": Convention({"cache_type": "float16"}, {}, Padding.LEFT),
    "half logits": Convention({"logits": "float16"}, {}, Padding.LEFT),
}
_SLOTS: dict[str, Any] = {"group_query": True, "positions": False}
SLOTS = {
    "slots": Convention(_SLOTS, {}, Padding.SLOTS),
    "slots, positions": Convention({"group_query": True}, {}, Padding.SLOTS),
    "slots with gather": Convention({**_SLOTS, "gather": True}, {}, Padding.SLOTS),
    "slots, logits to keep": Convention({**_SLOTS, "keep": "num_logits_to_keep"}, {}, Padding.SLOTS),
    "slots, last logits only": Convention({**_SLOTS, "last_only": True}, {}, Padding.SLOTS),
    "slots, limit": Convention({**_SLOTS, "limit": LIMIT}, {}, Padding.SLOTS),
    "slots, state": Convention({**_SLOTS, "state": True}, {}, Padding.SLOTS),
    "slots, single row": Convention({**_SLOTS, "rows": 1}, {}, Padding.SLOTS),
    "slots, single step": Convention({**_SLOTS, "steps": 1}, {}, Padding.SLOTS),
}
_BARE: dict[str, Any] = {"cache": False}
RECOMPUTED = {
    "no cache": Convention(_BARE, {}, Padding.RIGHT),
    "no cache, gather": Convention({**_BARE, "gather": True}, {}, Padding.RIGHT),
    "no cache, limit": Convention({**_BARE, "limit": LIMIT}, {}, Padding.RIGHT),
    "no cache, ids only": Convention({**_BARE, "mask": False, "positions": False}, {}, Padding.RIGHT),
    "no cache, 32-bit integers": Convention({**_BARE, "integers": "int32"}, {}, Padding.RIGHT),
    "no cache, half logits": Convention({**_BARE, "logits": "float16"}, {}, Padding.RIGHT),
    "no cache, logits to keep": Convention({**_BARE, "keep": "logits_to_keep"}, {}, Padding.RIGHT),
    "no cache, single row": Convention({**_BARE, "rows": 1}, {}, Padding.RIGHT),
    "no cache, last logits only": Convention({**_BARE, "last_only": True}, {}, Padding.RIGHT),
}
GRAPHS = BLOCKS | SLOTS | RECOMPUTED
# One graph of each convention.
STANDING = [
    *("positions", "merged", "pair", "slots", "slots with gather", "gather", "logits to keep", "no cache"),
    "single step",
]
OTHERS = sorted(GRAPHS.keys() - set(STANDING))


def make(name: str) -> tuple[OnnxDecoder, FakeSession, Callable[[Sequence[int]], NDArray[np.float64]]]:
    """A decoder on the graph, its session, and the logits of the token that follows given ones."""
    options, raw, padding = GRAPHS[name]
    options = dict(options)
    pair = options.pop("pair", None)
    session = FakeSession(**options)
    sessions = session if pair is None else (session, FakeSession(**pair, prompts=True))
    operators = ["GroupQueryAttention"] if options.get("group_query") else ["MatMul"]
    decoder = OnnxDecoder(config(operators, **raw), session=sessions)
    assert decoder.spec.padding is padding
    session.runs.clear()
    wanted = {"relative": expected_relative, "limit": expected_beyond, "state": expected_with_state}
    return decoder, session, next((wanted[key] for key in wanted if options.get(key)), expected)
