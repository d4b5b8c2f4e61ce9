"""Steps of learning with `lite.jit` for the scripts that time them, beside no other library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lite
from lite import value_and_grad

Alternatives = dict[str, Callable[[], Any]]


def regression(net: Any, adam: Any) -> Callable[..., Any]:
    """A step of the mean squared error: forward, backward and Adam."""

    def update(params: Any, state: Any, x: Any, y: Any) -> Any:
        def objective(params: Any) -> Any:
            with params.to_module(net):
                return ((net(x) - y) ** 2).mean()

        loss, grads = value_and_grad(objective)(params)
        return loss, *adam.update(params, grads, state)

    return update


def learning(update: Callable[..., Any], params: Any, adam: Any, *given: Any) -> Callable[[], Any]:
    """Steps that start from a copy of parameters; each returns the loss."""
    start = params.data.clone()
    held = [start, adam.init(start)]

    def call() -> Any:
        loss, *held[:] = update(*held, *given)
        return loss

    return call


def with_and_without(
    update: Callable[..., Any], params: Any, adam: Any, *given: Any, threads: Any, targets: Any = None
) -> Alternatives:
    """The steps as graphs, and without.

    Args:
        update, params, adam, given: as for `learning`.
        threads: of the graph.
        targets: parameters that the update writes to, before `given`; each side has a copy.
    """
    donated = ("params", "state") if targets is None else ("params", "state", "targets")
    sides: dict[str, Callable[..., Any]] = {
        "lite": lite.jit(update, donate=donated, threads=threads),
        "lite, plain": update,
    }
    found = {}
    for name, step in sides.items():
        own = [] if targets is None else [targets.data.clone()]
        found[name] = learning(step, params, adam, *own, *given)
    return found
