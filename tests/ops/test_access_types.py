"""What a type checker says: an entry is an array, elements and results are of the same class."""

from pathlib import Path

import pytest

from lite import TensorDict

ROOT = Path(__file__).parents[2]
PROGRAM = """
from typing import Any, assert_type
import numpy as np
from numpy.typing import NDArray
from lite import LazyStackedTensorDict, NestedKey, TensorClass, TensorDict, jit, stack
from lite.envs import EnvBase, GymEnv
from lite.nn import TensorDictModuleBase

class State(TensorDict):
    pass

class Point(TensorClass):
    data: np.ndarray

class Norm(TensorDictModuleBase):
    in_keys = ["x"]
    out_keys = ["y"]

class Still(EnvBase):
    def _reset(self, td: TensorDict | None) -> TensorDict:
        return TensorDict()

    def _step(self, td: TensorDict) -> TensorDict:
        return td

    def _set_seed(self, seed: int | None) -> None: ...

@jit(donate="x")
def double(x):  # type: ignore[no-untyped-def]
    return 2 * x

def program(td: TensorDict, state: State, rows: LazyStackedTensorDict) -> None:
    assert_type(td["obs"], NDArray[Any])
    assert_type(td["next", "obs"], NDArray[Any])
    assert_type(td["next"]["obs"], NDArray[Any])
    assert_type(rows["obs"], NDArray[Any])
    for part in (td[0], td[1:], td[..., 0], td[None], td[[0, 1]], td[np.arange(2)], td[td["obs"] > 0]):
        assert_type(part, TensorDict)
    assert_type(td[0]["obs"], NDArray[Any])
    assert_type(state[:2], State)
    assert_type(rows[0], Any)
    assert_type(td.get("next"), Any)
    assert_type(td.select("obs").set("x", 1), TensorDict)
    assert_type(1 - td, TensorDict)
    assert_type(stack([state, state]), State)
    assert_type((Point(data=1) + 1)[:2].reshape(-1), Point)
    double.lower(1.0).save("step.onnx")
    assert_type(GymEnv("CartPole-v1").rollout(3), TensorDict)
    assert_type(Norm().in_keys, list[NestedKey])
    td["obs"] += 1
    td["next"]["x"] = td["obs"][:2]
    td["text"], td[0] = "any object", {"obs": 1}
"""
WRONG = """
    td["obs"].no_attribute
    td[1.5]
    td.to("cpu", device=3)
"""


@pytest.mark.processes
def test_a_type_checker_knows_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("mypy.api")
    monkeypatch.chdir(ROOT)
    file = tmp_path / "program.py"
    file.write_text(PROGRAM + WRONG)
    found, _, _ = api.run(["--config-file", "pyproject.toml", str(file)])
    errors = [line.rpartition("[")[2] for line in found.splitlines() if ": error:" in line]
    assert errors == ["attr-defined]", "call-overload]", "arg-type]"], found


def test_no_class_above_declares_a_type_for_a_method_of_tensordict() -> None:
    """Pyright would take it, not the function that is assigned, for the method's type."""
    declared = {name for base in TensorDict.__mro__ for name in vars(base).get("__annotations__", ())}
    assert {name for name in declared if callable(getattr(TensorDict, name, None))} == set()
