"""An optimiser over parameters in a function that `lite.jit` traces; see `lite._transforms.jit.stateful`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lite._arrays.types import is_interpreted

Arrays = list[Any]
_INPUTS = ("params", "lr")  # of a group, beside its options


class OptimizerPart:
    """The state of an optimiser in a graph: arrays, learning rates and numbers of steps.

    A number of steps is an input, because a trace tells how many steps a run adds. Arrays that a first step
    creates exist before it, as zeros, if the first step then computes as any other: so all steps are one
    graph. Numbers of steps that are equal are one input, and a parameter without a state takes part in one,
    as a step may leave it out; a trace that keeps it is repeated.
    """

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self._zeros: dict[tuple[Any, str], Any] = {}  # arrays before the first step, by parameter and name
        self._stepped: set[Any] = set()  # parameters that a trace makes a step of
        # Each parameter, its state, and the names of the arrays that its options ask for.
        self._rows: list[tuple[Any, dict[str, Any], list[str]]] = []

    def held(self) -> tuple[Arrays, list[Any], Any]:
        optimizer, groups = self.optimizer, self.optimizer.param_groups
        arrays: Arrays = []
        rows = self._rows = []
        for group in groups:
            names = optimizer._names(group)
            for param in group["params"]:
                own = optimizer.state.get(param) or {}
                rows.append((param, own, names))
                for name in names:
                    x = own.get(name)
                    arrays.append(self._zero(param, name) if x is None else x)
        options = tuple(
            [
                tuple([(k, tuple(x) if type(x) is list else x) for k, x in group.items() if k not in _INPUTS])
                for group in groups
            ]
        )
        rates = [float(group["lr"]) for group in groups]
        if not optimizer._counts:
            return arrays, rates, (self._begun(), options)
        steps = self._steps()
        some = next((n for n in steps if n is not None), 0)
        steps = [some if n is None else n for n in steps]
        places = {n: k for k, n in enumerate(dict.fromkeys(steps))}
        return arrays, [*rates, *map(np.array, places)], (tuple([places[n] for n in steps]), options)

    def _steps(self) -> list[int | None]:
        """The number of steps of each parameter; None for one that no trace has stepped yet."""
        stepped = self._stepped
        return [
            own.get("step", 0) if own else 0 if param in stepped else None for param, own, _ in self._rows
        ]

    def _zero(self, param: Any, name: str) -> Any:
        found = self._zeros.get((param, name))
        if found is None or found.shape != param.shape or found.dtype != param.dtype:
            found = self._zeros[param, name] = np.zeros_like(param.data)
        return found

    def _begun(self) -> tuple[bool, ...]:
        """Whether the next step of each parameter computes as all later ones."""
        optimizer = self.optimizer
        alike = [
            optimizer._numbers(group, 1.0, 1) == optimizer._numbers(group, 1.0, 2)
            for group in optimizer.param_groups
            for _ in group["params"]
        ]
        return tuple([one or bool(own) for one, (_, own, _) in zip(alike, self._rows, strict=True)])

    @contextmanager
    def installed(self, arrays: Arrays, inputs: list[Any]) -> Iterator[Callable[[], tuple[Arrays, Any]]]:
        optimizer, places, rows, steps = self.optimizer, self.held()[2][0], self._rows, self._steps()
        groups = optimizer.param_groups
        before = optimizer.state, list(groups), [group["lr"] for group in groups]
        rates, counts = inputs[: len(groups)], inputs[len(groups) :]
        known, array = [], iter(arrays)
        optimizer.state = type(optimizer.state)(dict)
        for (param, own, names), place in zip(rows, places, strict=True):
            known.append({name: next(array) for name in names})
            for name, x in known[-1].items():
                (optimizer.state if name in own else optimizer.zeros)[param][name] = x
            if counts:
                optimizer.steps_before[param] = counts[place]
                if own:
                    optimizer.state[param]["step"] = 0
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate

        def finish() -> tuple[Arrays, Any]:
            if [*map(id, optimizer.param_groups)] != [*map(id, before[1])]:
                raise RuntimeError(
                    "cannot be traced: the function makes other groups of an optimiser: do so outside of it."
                )
            following: list[Any] = [group["lr"] for group in groups]
            changed = tuple([new is not rate for new, rate in zip(following, rates, strict=True)])
            following = [new for new, differs in zip(following, changed, strict=True) if differs]
            for new in following:
                if not is_interpreted(new) or new.ndim:  # a number would be that of the trace in all runs
                    raise RuntimeError(
                        "cannot be traced: the function changes lr of an optimiser to what no argument says, "
                        f"got {new!r}: step schedules outside of it, or compute a number from arrays."
                    )
            added: list[int | None] = []
            for (param, _, _), old in zip(rows, known, strict=True):
                held = optimizer.state.get(param)
                added.append(held.get("step", 0) if held else None)
                for name, x in old.items():
                    if held and held.get(name, x) is not x:
                        x[...] = held[name]
            first = [row[0] for row, n, more in zip(rows, steps, added, strict=True) if n is None and more]
            self._stepped.update(first)
            if first and any(steps):  # they took part in the number of another
                from lite._transforms.jit.stateful import Restart  # loaded by who traces

                raise Restart
            return [new.astype(np.float64) for new in following], (changed, tuple(added))

        try:
            yield finish
        finally:
            optimizer.state, groups[:], optimizer.param_groups = before[0], before[1], groups
            for group, rate in zip(groups, before[2], strict=True):
                group["lr"] = rate
            optimizer.steps_before.clear()
            optimizer.zeros.clear()

    def store(self, arrays: Arrays, given: Arrays, same: Any) -> None:
        optimizer, array, rate = self.optimizer, iter(arrays), iter(given)
        changed, added = same
        for group, differs in zip(optimizer.param_groups, changed, strict=True):
            if differs:
                group["lr"] = float(next(rate))
        for (param, own, names), steps in zip(self._rows, added, strict=True):
            found = list(zip(names, array, strict=False))
            if steps is None:
                continue
            if not own:
                own = optimizer.state[param]
                for name in names:
                    self._zeros.pop((param, name))
            own.update(found)
            if optimizer._counts:
                own["step"] = own.get("step", 0) + steps

    def in_file(self, keys: Any, same: Any) -> tuple[list[Any], list[Any]]:
        """By the names of `Optimizer.state_dict`, with dots, and without a state where there was no step."""
        (name, _), *_ = keys[self.optimizer]
        counts, (changed, steps) = self.optimizer._counts, same
        places = self.held()[2][0]
        arrays = [
            [(name, f"state.{i}.{key}") if own or n is not None else ("unnamed", f"{name}.{i}.{key}")]
            for i, ((_, own, names), n) in enumerate(zip(self._rows, steps, strict=True))
            for key in names
        ]
        inputs: list[Any] = [
            ([(name, f"param_groups.{i}.lr")], None if differs else 0) for i, differs in enumerate(changed)
        ]
        if not counts:
            if not all(one or n is None for one, n in zip(places, steps, strict=True)):
                raise NotImplementedError(
                    f"is not written to a file: the first step of {name} is another graph than those that "
                    "follow (dampening): call it once before."
                )
            return arrays, inputs
        for place in range(max(places) + 1):
            own = [(i, n) for i, (at, n) in enumerate(zip(places, steps, strict=True)) if at == place]
            added = {n for _, n in own if n is not None}
            if len(added) > 1:
                raise NotImplementedError(
                    f"is not written to a file: parameters of {name} that had as many steps get {added} more"
                )
            found = [(name, f"state.{i}.step") for i, n in own if n is not None]
            inputs.append((found or [("unnamed", f"{name}.{place}")], max(added, default=0)))
        return arrays, inputs
