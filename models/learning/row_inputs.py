"""Inputs of a decoder's graph that reads whole rows at once: no past, and padding on the right.

Filler on the right is exact for every causal graph, whatever its convention: no token sees what follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._files.onnx.arrays import dtype_of
from lite._files.onnx.model import Value
from lite.models.decoder.binding import extra_input, static_mask
from lite.models.decoder.cache import pad_right
from lite.models.decoder.conventions import GraphSpec
from lite.models.graph.tensors import ELEMENT_TYPES


def row_inputs(
    spec: GraphSpec, inputs: Sequence[Value], rows: Sequence[NDArray[np.int64]], width: int = 0
) -> dict[str, NDArray[Any]]:
    """The inputs of a run that reads rows from their first token on, by name.

    Args:
        spec: the graph's convention.
        inputs: those of the graph as it is in its file, which may lack some that `spec` has.
        rows: token ids (L_i,), at least one each.
        width: tokens of each row, filler included; by default those of the longest.
    """
    ids, lengths = pad_right(rows, width)
    count, steps = ids.shape
    columns = np.arange(steps)
    mask = (columns < lengths[:, None]).astype(np.int64)
    ranks = {x.name: len(x.shape or ()) for x in inputs}
    values: dict[str | None, NDArray[Any]] = {
        "input_ids": ids,
        # filler must not ask for positions that the model does not have
        spec.positions: np.minimum(columns, lengths[:, None] - 1),
        spec.branch: np.array([False]),
    }
    if spec.mask in ranks:
        square = ranks[spec.mask] == 4
        length = spec.static_length
        values[spec.mask] = mask if length is None else static_mask(mask, steps, length, square=square)
    if spec.keep in ranks:
        values[spec.keep] = np.zeros((1,) * ranks[spec.keep])  # of the last logits; 0 for all
    for name, kind in spec.extras:
        if name in ranks:
            values[name] = extra_input(kind, count, steps, steps, ranks[name])
    for tensor in spec.cache:
        shape = count, spec.num_heads, spec.static_length or 0, spec.head_size
        values[tensor.past] = np.zeros(shape, ELEMENT_TYPES[spec.cache_type].name)
    for state in spec.states:
        values[state.past] = np.zeros((count, *state.shape), ELEMENT_TYPES[state.type].name)
    return {x.name: values[x.name].astype(dtype_of(x.element_type), copy=False) for x in inputs}
