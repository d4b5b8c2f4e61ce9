"""Whether a lazy stack has a dense form is told without making it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import NonTensorData, NonTensorStack, TensorDict, lazy_stack, tensorclass
from lite._containers.lazy_entries import is_stackable
from lite._tree.walks import keys_differ


@tensorclass
class Point:
    x: Any


KINDS = ["array", "array", "object", "objects", "node", "longer node", "lazy", "class"]


class Trees:
    """Random containers: arrays, objects, nodes, tensorclasses and lazy stacks, now and then ragged."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def entry(self, depth: int, size: tuple[int, ...], kinds: list[str] = KINDS) -> Any:
        kind = self.random.choice(kinds if depth < 3 else kinds[:4])
        features = self.random.choice([(), (), (), (2,), (3,)])
        if kind == "array":
            return np.zeros(size + features)
        if kind == "object":
            return NonTensorData("x", size)
        if kind == "objects":
            return NonTensorStack._wrap(np.full(size + features[:1], "x", dtype=object))
        if kind == "class":
            return Point(x=np.zeros(size), batch_size=size)
        if kind == "lazy" and size and all(size):
            dim = self.random.randrange(len(size))
            part = self.node(depth + 1, size[:dim] + size[dim + 1 :])
            return lazy_stack([self.changed(part) for _ in range(size[dim])], dim)
        return self.node(depth + 1, (*size, 2) if kind == "longer node" else size)

    def node(self, depth: int, size: tuple[int, ...]) -> TensorDict:
        keys = self.random.choice(["a", "ab"])
        return TensorDict({key: self.entry(depth, size) for key in keys}, batch_size=size)

    def changed(self, td: Any) -> Any:
        """A copy; in one of three an entry is another."""
        out = td.clone()
        if self.random.random() < 0.35:
            out.set("a", self.entry(2, td.batch_size))
        return out

    def stack(self) -> Any:
        size = self.random.choice([(), (2,), (2, 3), (1,), (0,)])
        part, count = self.node(0, size), self.random.choice([1, 2, 3])
        parts = [self.changed(part) for _ in range(count)]
        if self.random.random() < 0.3:  # maybe ragged
            parts = [TensorDict(a=self.entry(0, size, ["objects"]), batch_size=size) for _ in range(count)]
        return lazy_stack(parts, self.random.randrange(len(size) + 1))


@each_case("seed", range(2))
def test_as_making_it(seed: int) -> None:
    trees, answers = Trees(seed), set()
    for _ in range(150):
        stack = trees.stack()
        if seed % 2 and stack.batch_size[0]:
            stack = lazy_stack([stack, trees.changed(stack)])
        try:
            stack.contiguous()
            expected = not keys_differ(stack.tensordicts)
        except RuntimeError:
            expected = False
        assert is_stackable(stack) is expected, stack
        answers.add(expected)
    assert answers == {True, False}


def test_reshape_makes_the_dense_form_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = lazy_stack([TensorDict({"a": np.arange(6) + 6 * i}, batch_size=[6]) for i in range(2)])
    made = []
    whole = type(stack).contiguous
    monkeypatch.setattr(type(stack), "contiguous", lambda td: made.append(td) or whole(td))
    np.testing.assert_array_equal(stack.reshape(3, 4)["a"], np.arange(12).reshape(3, 4))
    assert len(made) == 1
