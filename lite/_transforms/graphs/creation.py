"""Rules of functions that make an array like another one."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.rules import rule


def _like(value: Any) -> Any:
    def run(
        graph: Graph,
        a: Any,
        dtype: Any = None,
        order: str = "K",
        subok: bool = True,
        shape: Any = None,
        **kwargs: Any,
    ) -> Any:
        sizes = a.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        filler = graph.constant(np.array(value, a.dtype if dtype is None else dtype))
        return graph.expand(filler, sizes).copy()

    return run


rule(np.zeros_like, np.empty_like)(_like(0))
rule(np.ones_like)(_like(1))


@rule(np.full_like)
def _full_like(
    graph: Graph,
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    **kwargs: Any,
) -> Any:
    sizes = a.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    return graph.expand(graph.operand(fill_value, a.dtype if dtype is None else dtype), sizes).copy()
