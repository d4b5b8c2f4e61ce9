"""Methods that are made from tables look like written ones."""

from __future__ import annotations

import pytest

from lite import TensorDict


@pytest.mark.parametrize(
    "name", ["exp", "exp_", "isnan", "add", "sub_", "mul", "sum", "std", "max", "all", "cumsum", "half"]
)
def test_generated_methods_have_names_and_docs(name: str) -> None:
    method = getattr(TensorDict, name)
    assert (method.__name__, method.__qualname__) == (name, f"TensorDictBase.{name}")
    assert len(method.__doc__) > 20
