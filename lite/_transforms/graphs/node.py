"""One node of a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Node:
    """An operator of ONNX with its inputs and outputs by name.

    Attributes:
        op: its name.
        inputs: names of values; empty for an input that is left out.
        outputs: names of values; empty for an output that nobody needs.
        attributes: integers, floats, strings, and lists of them.
        path: of the module that was running.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    path: str = ""
