"""What every family of rules is tested by: its table of cases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers.central_differences import Case, check_gradients, check_jit, one_of_each
from helpers.graphs import check_onnx
from helpers.vmap_cases import for_each


def of_rules(cases: list[Case]) -> list[Callable[[], None]]:
    """Tests of derivatives against central differences, of graphs, and of the graphs of derivatives."""

    def test_derivatives() -> None:
        for_each(check_gradients, cases)

    def test_graphs() -> None:
        check_onnx(cases)

    @pytest.mark.grid
    def test_graphs_of_derivatives() -> None:
        for_each(check_jit, one_of_each(cases))

    return [test_derivatives, test_graphs, test_graphs_of_derivatives]
