"""Tensorclasses that several tests use."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from lite import TensorClass, tensorclass


class Tokens(TensorClass):
    """As the language-model data classes are."""

    prompt: Any = None
    full: Any = None
    padded: bool | None = None

    def length(self) -> int:
        return int(self.full.shape[-1])


class Turn(TensorClass):
    role: str
    content: str
    tool_calls: list[dict[str, Any]] | None = None
    extra: dict[str, Any] | None = None
    is_complete: bool = True


@tensorclass
class Point:
    """Made by the decorator."""

    count: ClassVar[int] = 7
    xy: np.ndarray
    tags: list[str] = dataclasses.field(default_factory=lambda: ["new"])
    inner: Any = None

    def norm(self) -> Any:
        return np.hypot(self.xy[..., 0], self.xy[..., 1])
