"""Attention that exporters spell out: from the product with the values back to that of queries and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

MAX_STEPS = 16  # nodes between the parts of an attention
Name = TypeVar("Name")
Node = tuple[str, Sequence[Name]]
"""The operator of a node, and what it reads."""
Link = tuple[Name, int]
"""What a node gives, and the place of the input with which the way goes on."""


def ways_to_scores(
    weights: Name, node_of: Callable[[Name], Node[Name] | None]
) -> Iterator[tuple[Name, list[Link[Name]]]]:
    """Ways from the weights of values to products whose softmax they are.

    Between these there may be casts, choices (`Where`) and, before the softmax, sums and factors. What these
    amount to is for the caller to say: only the skeleton is found here.

    Args:
        weights: the first factor of a product with values.
        node_of: the node that gives a value; None for inputs and weights.

    Yields:
        The output of a MatMul, and the nodes after it, the last one first.
    """
    trails: list[tuple[Name, list[Link[Name]], bool]] = [
        (weights, [], False)
    ]  # and whether a softmax was met
    for _ in range(MAX_STEPS * 4):
        if not trails:
            return
        name, links, normal = trails.pop()
        node = node_of(name)
        if node is None:
            continue
        operator, inputs = node
        if operator == "MatMul" and normal:
            yield name, links
            continue
        if operator == "Softmax" and not normal:
            followed: Sequence[int] = (0,)
            normal = True
        elif operator == "Where" and len(inputs) == 3:
            followed = (1, 2)
        elif operator in ("Cast", "Identity", "Dropout"):
            followed = (0,)
        elif operator in ("Add", "Mul", "Div") and normal and len(inputs) == 2:
            followed = (0, 1)
        else:
            continue
        trails += [(inputs[i], [*links, (name, i)], normal) for i in followed if i < len(inputs)]
