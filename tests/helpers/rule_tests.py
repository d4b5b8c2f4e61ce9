"""What every family of rules is tested by: its table of cases."""

from collections.abc import Callable

import pytest
from helpers.central_differences import Case, check_gradients, check_jit, one_of_each
from helpers.graphs import check_onnx
from helpers.vmap_cases import for_each


def of_derivatives(cases: list[Case], in_graphs: list[Case] | None = None) -> list[Callable[[], None]]:
    """Tests of derivatives against central differences, and of their graphs (of other cases, if given)."""

    def test_derivatives() -> None:
        for_each(check_gradients, cases)

    @pytest.mark.grid
    def test_graphs_of_derivatives() -> None:
        for_each(check_jit, cases if in_graphs is None else in_graphs)

    return [test_derivatives, test_graphs_of_derivatives]


def of_rules(cases: list[Case]) -> list[Callable[[], None]]:
    """Tests of derivatives against central differences, of graphs, and of the graphs of derivatives."""

    def test_graphs() -> None:
        check_onnx(cases)

    test_derivatives, test_graphs_of_derivatives = of_derivatives(cases, one_of_each(cases))
    return [test_derivatives, test_graphs, test_graphs_of_derivatives]
