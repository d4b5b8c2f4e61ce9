"""The reference libraries: absent, their tests are skipped by name; CI asks for them and must not skip."""

import importlib
import os
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

# The same examples everywhere, as hypothesis does by itself in CI; LITE_FUZZ_EXAMPLES asks for new ones.
settings.register_profile("repeatable", derandomize=True, max_examples=30)
if "LITE_FUZZ_EXAMPLES" not in os.environ:
    settings.load_profile("repeatable")

ORACLES = ("torch", "tensordict", "torchrl", "transformers", "jax", "optree", "minari", "onnx", "onnxscript")
MISSING = [name for name in ORACLES if find_spec(name) is None]


def pytest_configure(config: pytest.Config) -> None:
    if MISSING or config.getoption("dist", "no") != "no":  # the process that hands out tests to workers
        return
    with warnings.catch_warnings():  # it warns while it is imported
        warnings.simplefilter("ignore")
        importlib.import_module("torchrl.collectors.distributed")
        importlib.import_module("torchrl.collectors.llm")


def pytest_collection_modifyitems() -> None:
    if MISSING and os.environ.get("LITE_REQUIRE_PARITY") == "1":
        raise pytest.UsageError(
            f"LITE_REQUIRE_PARITY=1 but {MISSING} cannot be imported: pip install -e '.[parity]'"
        )


class Skipped(pytest.Module):
    def collect(self) -> NoReturn:
        pytest.skip(f"needs the parity extra: {', '.join(MISSING)}", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return Skipped.from_parent(parent, path=module_path) if MISSING else None


@pytest.fixture(autouse=True, scope="session")
def long_repr() -> None:
    """TensorDicts of torch are printed as by tensordict 0.14, which lite follows."""
    import tensordict

    if tensordict.__version__ >= "0.15":
        tensordict.set_printoptions(compact=False).set()


@pytest.fixture
def stdlib_json() -> Iterator[None]:
    """Files as both libraries can write them: orjson writes NaN as null and refuses large integers."""
    from tensordict.utils import set_json_backend

    set_json_backend("json")
    yield
    set_json_backend("orjson" if find_spec("orjson") else "json")


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., str]:
    """A new place at each call: hypothesis runs the function many times in one fixture."""
    counter = iter(range(10**6))
    return lambda suffix="": str(tmp_path / f"td{next(counter)}{suffix}")


@pytest.fixture(scope="module")
def lists_as_batches() -> Iterator[None]:
    """Lists of the reference are stacks of objects, as lite's are."""
    from tensordict import set_list_to_stack

    with set_list_to_stack(True):
        yield
