"""An optimiser over parameters in a function that `lite.jit` traces; see `lite._transforms.jit.stateful`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

Arrays = list[Any]


class OptimizerPart:
    """The arrays beside the parameters of an optimiser, its learning rates and numbers of steps.

    A number of steps is an input, as what a run adds to it is known when the function has been traced.
    """

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def _params(self) -> list[Any]:
        return [param for group in self.optimizer.param_groups for param in group["params"]]

    def _slots(self) -> list[list[str]]:
        """The names of the arrays beside each parameter."""
        state = self.optimizer.state
        return [[name for name in state.get(param, ()) if name != "step"] for param in self._params()]

    def _steps(self) -> list[int]:
        """Of each parameter; -1 before its first step."""
        state = self.optimizer.state
        return [state[param].get("step", 0) if param in state else -1 for param in self._params()]

    def arrays(self) -> Arrays:
        state = self.optimizer.state
        held = [state[param] for param in self._params() if param in state]
        return [x for slots in held for name, x in slots.items() if name != "step"]

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
        array, known = iter(arrays), []
        for param, k, names in zip(params, places, self._slots(), strict=True):
            known.append({name: next(array) for name in names})
            if k >= 0:
                state[param] = dict(known[-1])
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
            given: Arrays = []
            added = []
            for param, old in zip(params, known, strict=True):
                held = optimizer.state.get(param, {})
                new = [name for name in held if name != "step" and name not in old]
                given += [held[name] for name in new]
                added.append((held.get("step", 0), tuple(new)) if held else None)
                for name, x in old.items():
                    if held[name] is not x:
                        x[...] = held[name]
            return given, tuple(added)

        try:
            yield finish
        finally:
            optimizer.state, optimizer.param_groups = before
            optimizer.steps_before.clear()

    def store(self, arrays: Arrays, given: Arrays, same: Any) -> None:
        state, old, new = self.optimizer.state, iter(arrays), iter(given)
        for param, names, added in zip(self._params(), self._slots(), same, strict=True):
            if added is None:
                continue
            held = state[param]
            held.update(zip(names, old, strict=False))
            steps, begun = added
            for name in begun:
                held[name] = np.asarray(next(new))  # a result without dimensions is a number of NumPy
            if self.optimizer._counts:
                held["step"] = held.get("step", 0) + steps
