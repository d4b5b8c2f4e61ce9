"""Tests of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def _is_further(value: Any) -> bool:
    """Whether a parameter is a type beyond float32 and bfloat16; kernels are compiled anew for each."""
    return isinstance(value, str | type) and value in ("float16", "float64", np.float16, np.float64)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        params = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if "tests/kernels" in item.path.as_posix() and any(map(_is_further, params)):
            item.add_marker(pytest.mark.grid)
