"""An optimiser over parameters in a function that `lite.jit` traces; see `lite._transforms.jit.stateful`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lite._arrays.types import Array

Arrays = dict[str, Any]


class OptimizerPart:
    """The arrays beside the parameters of an optimiser, its learning rates and numbers of steps.

    A number of steps is an input, as what a run adds to it is known when the function has been traced.
    """

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def _params(self) -> list[Any]:
        return [param for group in self.optimizer.param_groups for param in group["params"]]

    def _slots(self, param: Any) -> dict[str, Array]:
        return {name: x for name, x in self.optimizer.state.get(param, {}).items() if name != "step"}

    def _steps(self) -> list[int]:
        """Of each parameter; -1 before its first step."""
        state = self.optimizer.state
        return [state[param].get("step", 0) if param in state else -1 for param in self._params()]

    def arrays(self) -> Arrays:
        return {f"{i}.{name}": x for i, p in enumerate(self._params()) for name, x in self._slots(p).items()}

    def inputs(self) -> list[Any]:
        counts = [np.array(n) for n in dict.fromkeys(self._steps()) if n >= 0]
        return [*counts, *[float(group["lr"]) for group in self.optimizer.param_groups]]

    def options(self) -> Any:
        steps = self._steps()
        order = {n: k for k, n in enumerate(n for n in dict.fromkeys(steps) if n >= 0)}
        groups = [
            tuple([(name, x) for name, x in group.items() if name not in ("params", "lr")])
            for group in self.optimizer.param_groups
        ]
        return tuple([order.get(n, -1) for n in steps]), tuple(groups)

    @contextmanager
    def installed(self, arrays: Arrays, inputs: list[Any]) -> Iterator[Callable[[], tuple[Arrays, Any]]]:
        optimizer, params = self.optimizer, self._params()
        before = optimizer.state, optimizer.param_groups
        places, count = self.options()[0], len(optimizer.param_groups)
        rates = inputs[len(inputs) - count :]
        state = type(optimizer.state)(dict)
        for i, (param, k) in enumerate(zip(params, places, strict=True)):
            if k >= 0:
                state[param] = {name: arrays[f"{i}.{name}"] for name in self._slots(param)}
                if "step" in optimizer.state[param]:
                    state[param]["step"] = 0
                    optimizer.steps_before[param] = inputs[k]
        optimizer.state = state
        optimizer.param_groups = [{**group, "lr": lr} for group, lr in zip(before[1], rates, strict=True)]

        def finish() -> tuple[Arrays, Any]:
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                if group["lr"] is not rate:
                    raise RuntimeError(
                        "cannot be traced: the function changes lr of an optimiser, which a graph would not: "
                        "step schedules outside of it."
                    )
            given: Arrays = {}
            added = []
            for i, param in enumerate(params):
                held = optimizer.state.get(param, {})
                added.append(held.get("step", 0) if held else None)
                for name, x in held.items():
                    old = arrays.get(f"{i}.{name}")
                    if old is None and name != "step":
                        given[f"{i}.{name}"] = x
                    elif old is not None and old is not x:
                        old[...] = x
            return given, tuple(added)

        try:
            yield finish
        finally:
            optimizer.state, optimizer.param_groups = before
            optimizer.steps_before.clear()

    def store(self, arrays: Arrays, given: Arrays, same: Any) -> None:
        state = self.optimizer.state
        for i, (param, added) in enumerate(zip(self._params(), same, strict=True)):
            if added is None:
                continue
            held = state[param]
            start = f"{i}."
            for found in (arrays, given):
                for key, x in found.items():
                    if key.startswith(start):
                        held[key[len(start) :]] = np.asarray(
                            x
                        )  # results without dimensions are NumPy's numbers
            if self.optimizer._counts:
                held["step"] = held.get("step", 0) + added
