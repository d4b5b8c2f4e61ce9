"""Each function of NumPy has a rule, a zero gradient, or is refused by name: none is a silent constant."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

import lite
import lite._transforms.vmap.dispatch
from lite._transforms.grad.ufuncs import call_function, call_ufunc
from lite._transforms.registry import GRAD, NOT_GIVEN, ONNX, VMAP, ZERO_GRADIENT, name_of
from lite._transforms.rules.ufuncs import UFUNCS

MODULES = (np, np.linalg, np.fft, np.lib.stride_tricks)


def public(kind: Any) -> list[Any]:
    names = [(module, name) for module in MODULES for name in dir(module) if not name.startswith("_")]
    return sorted({item for item in (getattr(*pair) for pair in names) if kind(item)}, key=name_of)


def dispatches(item: Any) -> bool:
    """Whether NumPy asks the arguments of a function what it is to do."""
    return hasattr(item, "_implementation")


FUNCTIONS = public(dispatches)
ALL_UFUNCS = public(lambda item: isinstance(item, np.ufunc))


def test_there_are_functions_to_look_at() -> None:
    assert len(FUNCTIONS) > 220
    assert len(ALL_UFUNCS) > 80


def traced(check: Any) -> None:
    """Run a check with a traced array of two numbers."""

    def fn(x: Any) -> Any:
        check(x)
        return x.sum()

    lite.grad(fn)(np.array([0.25, 0.5]))


def test_functions_without_a_rule_are_refused_by_name() -> None:
    def check(x: Any) -> None:
        for function in FUNCTIONS:
            if function in GRAD.rules or function in ZERO_GRADIENT:
                continue
            message = f"no gradient through {name_of(function)}: there is no rule"
            raises(NotImplementedError, message, call_function, function, (x,), {})

    traced(check)


def test_ufuncs_have_a_derivative_or_a_zero_gradient_or_are_refused() -> None:
    def check(x: Any) -> None:
        for ufunc in ALL_UFUNCS:
            calls: list[tuple[str, Any]] = []
            if ufunc not in GRAD.rules and ufunc not in UFUNCS:
                calls.append(("__call__", (x,) * ufunc.nin))
            elif ufunc not in ZERO_GRADIENT:
                calls.append(("reduceat", (x, [0])))
                if ufunc not in (np.add, np.multiply, np.maximum, np.minimum):
                    calls.append(("accumulate", (x,)))
            for method, args in calls:
                name = name_of(ufunc) if method == "__call__" else f"{name_of(ufunc)}.{method}"
                with pytest.raises(NotImplementedError, match=f"no gradient through {name}"):
                    call_ufunc(ufunc, method, args, {})

    traced(check)


def test_rules_have_the_defaults_of_their_functions() -> None:
    empty, of_unset = inspect.Parameter.empty, {"keepdims": False, "where": True, "axis": -1}
    for function, rule in (pair for registry in (GRAD, VMAP, ONNX) for pair in registry.rules.items()):
        if not dispatches(function) or function in (np.where, np.linalg.cross, np.take_along_axis):
            continue  # two arguments or none; a rule that `np.cross` has, too; no default before NumPy 2.3
        with suppress(ValueError):  # functions in C tell their parameters from NumPy 2.4 on
            theirs = inspect.signature(function).parameters
            for name, own in inspect.signature(rule).parameters.items():
                if name in theirs and own.default not in (empty, NOT_GIVEN):
                    given = theirs[name].default
                    value = of_unset.get(name) if given is NOT_GIVEN else None if given is empty else given
                    assert (type(own.default), own.default) == (type(value), value), (function, name)


def test_what_vmap_has_rules_for_has_them_here() -> None:
    missing = {
        name_of(function)
        for function in VMAP.rules
        if function not in GRAD.rules | dict.fromkeys(ZERO_GRADIENT)
    }
    assert missing == set()


def test_no_function_with_a_zero_gradient_has_a_rule() -> None:
    assert {name_of(function) for function in ZERO_GRADIENT & GRAD.rules.keys()} == set()


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # from NumPy 2.5 on
def test_functions_with_a_zero_gradient_do_not_change_where_their_argument_does() -> None:
    """Called on numbers next to each other: what has a derivative would give other results."""
    texts = (np.array_repr, np.array_str, np.array2string)  # which show the numbers
    of_matrices = (*(np.diag_indices_from, np.tril_indices_from, np.triu_indices_from), np.linalg.matrix_rank)
    of_two = (
        *(np.isclose, np.allclose, np.array_equal, np.array_equiv),
        *(np.shares_memory, np.may_share_memory),
    )
    second = {
        np.isin: [5.0], np.searchsorted: [0.0, 1.0], np.digitize: [0.0, 1.0], np.can_cast: np.float64,
        **dict.fromkeys(of_two, np.arange(3.0)), np.argpartition: 1,
    }  # fmt: skip

    def run(function: Any, x: Any) -> Any:
        if function in of_matrices:
            return function(np.stack([x, x + 1, x - 1]))
        if function is np.lexsort:
            return function((x,))
        return function(*([x, second[function]] if function in second else [x]))

    x = np.array([0.3, -1.2, 2.6])
    for function in ZERO_GRADIENT:
        if dispatches(function) and function not in texts:
            here, there = np.atleast_1d(run(function, x)), np.atleast_1d(run(function, x + 1e-7))
            np.testing.assert_equal(here, there)
