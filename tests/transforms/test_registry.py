"""The table of rules, which any interpreter can have."""

from typing import Any

import numpy as np

from lite._transforms.registry import (
    FORMULAS,
    GRAD,
    ONNX,
    VMAP,
    Registry,
    as_array,
    formula,
    name_of,
    ndim_of,
    without_out,
)


def test_a_formula_is_a_rule_of_every_interpreter_that_has_no_own() -> None:
    def own() -> None: ...

    def of_all() -> str:
        return "formula"

    VMAP.rule(own)(lambda level: level)
    formula(own, of_all)(of_all)
    try:
        assert (GRAD.rules[of_all](), VMAP.rules[of_all](1), ONNX.rules[own](2)) == ("formula",) * 3
        assert VMAP.rules[own](1) == 1
    finally:
        for function in (own, of_all):
            for table in (FORMULAS, GRAD.rules, VMAP.rules, ONNX.rules):
                del table[function]


def test_three_ways_to_register_a_rule() -> None:
    registry = Registry()

    @registry.rule(np.sum, np.prod)
    def reduced(context: str, x: Any) -> Any:
        return context, x

    @registry.composed(np.mean)
    def mean(x: Any) -> Any:
        return "composed", x

    @registry.rule_of_each(np.sort, np.flip)
    def changed(function: Any, context: str, x: Any) -> Any:
        return context, function, x

    rules = registry.rules
    assert rules[np.sum]("level", 1) == rules[np.prod]("level", 1) == ("level", 1)
    assert rules[np.mean]("level", 1) == ("composed", 1)
    assert [rules[f]("level", 1)[1] for f in (np.sort, np.flip)] == [np.sort, np.flip]
    assert Registry().rules == {}


def test_name_of() -> None:
    for function, name in [(np.linalg.det, "numpy.linalg.det"), (np.add, "numpy.add"), (np.sum, "numpy.sum")]:
        assert name_of(function) == name


def test_ndim_of() -> None:
    assert [ndim_of(x) for x in (np.ones((3, 4)), 1.0, [[1, 2]])] == [2, 0, 2]


def test_operands_are_arrays() -> None:
    x = np.arange(3.0)
    assert as_array(x) is x
    np.testing.assert_array_equal(as_array([1.0, 2.0]), np.array([1.0, 2.0]))
    assert as_array(2.0).shape == ()


def test_out_is_found_by_name_or_position() -> None:
    for function, args, kwargs, expected in [
        (np.sum, ("x", 0, None, "out", True), {}, (("x", 0, None), {"keepdims": True}, "out")),
        (np.sum, ("x", 0), {"out": "out", "dtype": "f"}, (("x", 0), {"dtype": "f"}, "out")),
        (np.concatenate, ("x", 0, "out"), {}, (("x", 0), {}, "out")),
        (np.reshape, ("x", 2, "C"), {}, (("x", 2, "C"), {}, None)),
    ]:
        assert without_out(function, args, kwargs) == expected
