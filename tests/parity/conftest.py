"""The reference libraries: absent, their tests are skipped by name; CI asks for them and must not skip."""

import os
from importlib.util import find_spec

import pytest

ORACLES = ("torch", "tensordict", "torchrl", "transformers")


def pytest_collection_modifyitems() -> None:
    missing = [name for name in ORACLES if find_spec(name) is None]
    if missing and os.environ.get("LITE_REQUIRE_PARITY") == "1":
        raise pytest.UsageError(
            f"LITE_REQUIRE_PARITY=1 but {missing} cannot be imported: pip install -e '.[parity]'"
        )
