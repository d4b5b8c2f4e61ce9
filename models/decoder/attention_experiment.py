"""A numerical test that the replacement of an attention computes the same, required by `attention.py`."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lite
from lite.models.decoder.attention import Attention, AttentionShape, Experiment
from lite.models.graph.runtime import import_onnxruntime
from lite.models.graph.session import SessionLike, open_session, run_once
from lite.models.graph.tensors import ELEMENT_TYPES

Arrays = Mapping[str, NDArray[Any]]

SHORTEST = 9  # positions that are tried; a model with fewer keeps its own attention
MARGIN = 3  # positions behind the largest number in the graph
LEAST = 24  # positions of the longest row that is tried
TOLERANCE = 2e-5  # of means of numbers around 1
CACHE_DIR = "LITE_CACHE_DIR"


def succeeds(
    experiment: Experiment, graph: Path, context_length: int | None, runtime: str = "onnxruntime"
) -> bool:
    """Whether an attention and its replacement give the same for the same numbers.

    Tried are a prompt, more tokens behind a past, a step of rows of different length (padded on the left by
    the one, in slots by the other), and both behind a past that is longer than any number in the exported
    nodes, as that of a sliding window is.

    Args:
        experiment: the two models.
        graph: the file that they are from.
        context_length: most positions of a row.
        runtime: what runs them.
    """
    longest = max(LEAST, experiment.longest + MARGIN)
    longest = min(longest, context_length or longest)
    if longest < SHORTEST:
        return False
    rng = np.random.default_rng(0)
    trials = [([0], 5), ([6], 3), ([4, 1, 6], 1), ([longest - 1], 1), ([longest - 4], 4)]
    try:
        contents = experiment.exported, experiment.replaced
        threads = 1 if runtime == "onnxruntime" else None
        sessions = [
            open_session(graph, content=content, num_threads=threads, runtime=runtime) for content in contents
        ]
        return all(_agree(experiment, sessions, np.array(pasts), steps, rng) for pasts, steps in trials)
    except Exception:  # onnxruntime's exceptions have no common base; the exported attention is used then
        return False


def tried(
    experiment: Experiment, graph: Path, context_length: int | None, runtime: str = "onnxruntime"
) -> bool:
    """`succeeds`, remembered by all processes if the environment variable LITE_CACHE_DIR names a folder.

    A success is an empty file there, named by the digest of all that it depends on. A folder that cannot be
    written to, or read, changes nothing.
    """
    folder = os.environ.get(CACHE_DIR)
    note = Path(folder) / "attention" / _digest(experiment, context_length, runtime) if folder else None
    with suppress(OSError):
        if note is not None and note.is_file():
            return True
    found = succeeds(experiment, graph, context_length, runtime)
    if found and note is not None:
        with suppress(OSError):
            note.parent.mkdir(parents=True, exist_ok=True)
            note.touch()
    return found


def _digest(experiment: Experiment, context_length: int | None, runtime: str) -> str:
    """Digest of the two models and of what runs them: the package, the runtime and the kind of processor."""
    version = import_onnxruntime().__version__ if runtime == "onnxruntime" else np.__version__
    made_by = (lite.__version__, runtime, version, platform.machine(), platform.processor())
    found = hashlib.sha256(repr((made_by, context_length, experiment)).encode())
    return found.hexdigest()


def _agree(
    experiment: Experiment,
    sessions: Sequence[SessionLike],
    pasts: NDArray[np.int64],
    steps: int,
    rng: np.random.Generator,
) -> bool:
    """Whether both give the same for rows with `pasts` positions and `steps` new ones."""
    names, shape = experiment.names, experiment.shape
    count, width = len(pasts), int(pasts.max())
    new = _new(names, shape, count, steps, rng)
    cache = rng.normal(size=(2, count, shape.kv_heads, width, shape.size)).astype(np.float32)
    columns, ends = np.arange(width + steps), (pasts + steps)[:, None]
    left: Arrays = {
        "attention_mask": columns >= width - pasts[:, None],
        "position_ids": pasts[:, None] + np.arange(steps),
        "input_ids": np.zeros((count, steps)),
    }
    slots: Arrays = {"attention_mask": columns < ends}
    moved = np.zeros_like(cache)
    for row, past in enumerate(pasts.tolist()):
        moved[:, row, :, :past] = cache[:, row, :, width - past :]
    results = []
    for session, inputs, (key, value) in zip(sessions, (left, slots), (cache, moved), strict=True):
        given = {**new, **inputs, _text(names.past_key): key, _text(names.past_value): value}
        outputs = [_text(name) for name in (names.out, names.present_key, names.present_value)]
        results.append(_run(session, given, outputs, key))
    (out, *presents), (other_out, *other_presents) = results
    if out.shape != other_out.shape or not np.allclose(out, other_out, rtol=0, atol=TOLERANCE):
        return False
    return all(
        np.array_equal(present[row, :, width - past :], other[row, :, : past + steps])
        for present, other in zip(presents, other_presents, strict=True)
        for row, past in enumerate(pasts.tolist())
    )


def _new(
    names: Attention, shape: AttentionShape, count: int, steps: int, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """New queries, keys and values; queries are long, so that few positions count much."""
    heads = ((names.query, shape.heads, 2), (names.key, shape.kv_heads, 1), (names.value, shape.kv_heads, 1))
    return {
        _text(name): rng.normal(size=(count, number, steps, shape.size), scale=scale).astype(np.float32)
        for name, number, scale in heads
    }


def _run(session: Any, given: Arrays, outputs: list[str], cache: NDArray[np.float32]) -> list[NDArray[Any]]:
    """Run a model; of other layers' caches it may ask for the shape."""
    feeds = {
        arg.name: np.asarray(given.get(arg.name, cache), ELEMENT_TYPES[arg.type].name)
        for arg in session.get_inputs()
    }
    return run_once(session, outputs, feeds)


def _text(name: bytes) -> str:
    return name.decode()
