"""Attention that exporters spell out: from the product with the values back to that of queries and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

MAX_STEPS = 16  # nodes between the parts of an attention
Name = TypeVar("Name")
Node = tuple[str, Sequence[Name]]
"""The operator of a node, and what it reads."""
PathNode = tuple[Name, int]
"""The output of a node, and the number of the input from which it is reached."""


def ways_to_scores(
    weights: Name, node_of: Callable[[Name], Node[Name] | None], capped: bool = False
) -> Iterator[tuple[Name, list[PathNode[Name]]]]:
    """Paths from the weights of values back to the product whose softmax they are.

    On a path there may be casts, choices (`Where`) and, before the softmax, sums and factors. What these
    compute is not looked at.

    Args:
        weights: the first factor of a product with values.
        node_of: the node that gives a value; None for inputs and weights.
        capped: whether a tanh of scores is followed, too.

    Yields:
        The output of a MatMul, and the path from it, the last node first.
    """
    # with each, whether a softmax was met
    trails: list[tuple[Name, list[PathNode[Name]], bool]] = [(weights, [], False)]
    for _ in range(MAX_STEPS * 4):
        if not trails:
            return
        name, path, normal = trails.pop()
        node = node_of(name)
        if node is None:
            continue
        operator, inputs = node
        if operator == "MatMul" and normal:
            yield name, path
            continue
        if operator == "Softmax" and not normal:
            followed: Sequence[int] = (0,)
            normal = True
        elif operator == "Where" and len(inputs) == 3:
            followed = (1, 2)
        elif operator in ("Cast", "Identity", "Dropout") or (operator == "Tanh" and normal and capped):
            followed = (0,)
        elif operator in ("Add", "Mul", "Div") and normal and len(inputs) == 2:
            followed = (0, 1)
        else:
            continue
        trails += [(inputs[i], [*path, (name, i)], normal) for i in followed if i < len(inputs)]
