"""What processes of tests run: a worker imports it, so it lives on the path."""

from __future__ import annotations

from typing import Any


def fill(td: Any, value: float) -> None:
    td["n", "a"].fill(value)
    td["x"][0] = value


def echo(source: Any, target: Any) -> None:
    td = source.get()
    x = td["x"]
    x += 1
    target.put(td[1:])


def double(td: Any) -> Any:
    td["x"] *= 2
    return td


def first_output(queue: Any, module: Any, *inputs: Any) -> None:
    queue.put(module(*inputs)[0])
