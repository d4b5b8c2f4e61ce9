"""Backward hooks of a module, which get gradients in the backward pass and may replace them.

A module with such hooks adds two nodes to the graph of the backward pass: one after its outputs and one
before its inputs. Each collects the gradients that pass through it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import value_of, with_vjp_of_all

Gradients = tuple[Any, ...]


class BackwardHooks:
    """The backward hooks of one call of a module.

    Args:
        module: the module.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._full = tuple(module._backward_hooks.values())
        self._before = tuple(module._backward_pre_hooks.values())
        self._inputs: int | None = None  # the number of arguments; None if they get no gradient
        self._count = 0
        self._given: Gradients | None = None

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with a node inserted before the traced ones."""
        self._count = len(args)
        places = [i for i, x in enumerate(args) if type(x) is TracedArray]
        if not places:
            return args
        self._inputs = len(args)

        def back(shares: Gradients) -> Gradients:
            gradients = _at_positions(shares, places, len(args))
            found = self._run_full(tuple(map(_or_zeros, gradients, args)))
            return tuple(found[i] for i in places)

        traced = [args[i] for i in places]
        new = dict(zip(places, with_vjp_of_all([x.value for x in traced], traced, back), strict=True))
        return tuple(new.get(i, x) for i, x in enumerate(args))

    def leave(self, result: Any) -> Any:
        """The result, with a node inserted after its traced arrays."""
        if not isinstance(result, tuple | TracedArray):
            return result
        outputs = result if isinstance(result, tuple) else (result,)
        places = [i for i, x in enumerate(outputs) if type(x) is TracedArray]

        def back(shares: Gradients) -> Gradients:
            found = self._run_before(_at_positions(shares, places, len(outputs)))
            self._given = found
            if self._inputs is None and self._full:
                self._run_without_inputs(found)
            return tuple(found[i] for i in places)

        traced = [outputs[i] for i in places]
        new = dict(zip(places, with_vjp_of_all([x.value for x in traced], traced, back), strict=True))
        if not isinstance(result, tuple):
            return new.get(0, result)
        items = [new.get(i, x) for i, x in enumerate(result)]
        return type(result)(*items) if hasattr(result, "_fields") else tuple(items)

    def _run_before(self, gradients: Gradients) -> Gradients:
        for hook in self._before:
            gradients = _hook_result(hook(self._module, gradients), gradients, "pre-hook", "grad_output")
        return gradients

    def _run_full(self, gradients: Gradients) -> Gradients:
        given, self._given = self._given, None
        if given is None and self._full:
            raise RuntimeError(
                f"the gradient of the inputs of {type(self._module).__name__} did not come through its "
                "outputs: backward hooks need a forward whose output is an array or a tuple of arrays."
            )
        for hook in self._full:
            gradients = _hook_result(hook(self._module, gradients, given), gradients, "hook", "grad_input")
        return gradients

    def _run_without_inputs(self, given: Gradients) -> None:
        warnings.warn(
            "a full backward hook runs when the gradients of the module's outputs are known, as no gradient "
            "goes to its inputs.",
            stacklevel=2,
        )
        for hook in self._full:
            result = hook(self._module, (None,) * self._count, given)
            if result is not None and not (isinstance(result, tuple) and all(g is None for g in result)):
                raise RuntimeError(
                    "a backward hook of a module whose inputs have no gradient must return None, got "
                    f"{type(result).__name__}."
                )


def _at_positions(shares: Gradients, places: list[int], count: int) -> Gradients:
    """A tuple of length `count` with gradients at their positions and None elsewhere."""
    found = dict(zip(places, shares, strict=True))
    return tuple(found.get(i) for i in range(count))


def _or_zeros(share: Any, x: Any) -> Any:
    """The gradient of an argument; zeros for an array that nothing depends on."""
    return np.zeros_like(value_of(x)) if share is None and isinstance(x, np.ndarray | TracedArray) else share


def _hook_result(result: Any, gradients: Gradients, kind: str, name: str) -> Gradients:
    """The result of a hook, or the old gradients if it is None."""
    if result is None:
        return gradients
    found = result if isinstance(result, tuple) else (result,)
    if len(found) != len(gradients):
        raise RuntimeError(
            f"a backward {kind} must give as many gradients as {name} has, {len(gradients)}, "
            f"got {len(found)}."
        )
    return found
