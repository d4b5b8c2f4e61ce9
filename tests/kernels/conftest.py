"""Tests of kernels, by default in one type each: kernels are compiled again for each."""

from typing import Any

import numpy as np
import pytest
from helpers.kernels import switched

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _is_further(value: Any, own: tuple[str, ...]) -> bool:
    """Whether a parameter is a type beyond those of its file (TYPES there; float32 where it says nothing)."""
    if isinstance(value, type) and issubclass(value, np.floating):
        value = value.__name__
    return isinstance(value, str) and value in _FLOATS and value not in own


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/kernels" in item.path.as_posix() and hasattr(item, "callspec"):
            own = getattr(item.module, "TYPES", ("float32",))  # type: ignore[attr-defined]
            if any(_is_further(value, own) for value in item.callspec.params.values()):
                item.add_marker(pytest.mark.grid)


@pytest.fixture
def around_the_kernels(request: pytest.FixtureRequest) -> None:
    """For what is done before and after kernels run: by default they are not compiled for one more type."""
    switched.use_numpy(request.config.option.markexpr.startswith("not "))
