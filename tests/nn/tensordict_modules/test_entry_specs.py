"""Specs by key, and what they do to entries."""

from pathlib import Path

import numpy as np
import pytest
from helpers.cases import each_case

from lite import TensorDict, enable_grad, nn
from lite.data import Bounded, Categorical, Composite
from lite.models import OnnxModule
from lite.nn.tensordict_modules.entry_specs import action_specs, joined_specs, project_entries, specs_by_key

SPEC = Bounded(-1, 1, (2,))


def test_by_key() -> None:
    assert specs_by_key(None, ["a"], None).is_empty()
    assert specs_by_key(SPEC, [("a", "b")], None)["a", "b"] == SPEC
    assert specs_by_key(Composite(a=Composite(b=SPEC)), [("a", "b")], None)["a", "b"] == SPEC
    given = Composite(a=SPEC)
    assert specs_by_key(given, ["a", "b"], None) == given
    assert specs_by_key(given, ["a", "b"], None) is not given
    assert action_specs(given, "x") is given
    assert action_specs(None, "x") is None
    with pytest.raises(TypeError, match="spec must be a spec or None, got list"):
        specs_by_key([], ["a"], None)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"writes \['a', 'b'\], so spec must be a Composite of the specs"):
        specs_by_key(SPEC, ["a", "b"], None)
    with pytest.raises(RuntimeError, match=r"the spec has the keys \['b'\], which NoneType does not write"):
        specs_by_key(Composite(a=SPEC, b=SPEC), ["a"], None)


def test_later_modules_hold() -> None:
    first = nn.Actor(nn.Linear(3, 2), spec=Bounded(-9, 9, (2,)))
    last = nn.TanhModule(["action"], spec=SPEC)
    assert joined_specs([first, nn.ReLU(), last]) == Composite(action=SPEC)


def test_projection() -> None:
    td = TensorDict(a=np.array([3.0, 0.5], np.float32), n={"b": np.array([7, 0])})
    kept = td["n", "b"]
    project_entries(Composite(a=SPEC, n={"b": Categorical(9, (2,))}, missing=SPEC), td)
    np.testing.assert_array_equal(td["a"], [1.0, 0.5])
    assert td["n", "b"] is kept


@each_case("dtype", [np.float32, np.float64, np.int64])
def test_in_graphs_the_dtype_is_the_specs(dtype: type, tmp_path: Path) -> None:
    safe = nn.SafeModule(nn.Identity(), ["x"], ["a"], Bounded(-2, 2, (3,), dtype=dtype), safe=True)
    td = TensorDict(x=np.array([[9, 0.75, -1.5]], np.float32), batch_size=[1])
    graph = OnnxModule(safe.to_onnx(tmp_path / "safe.onnx", td.clone()))
    np.testing.assert_array_equal(graph(td.clone())["a"], safe(td)["a"], strict=True)


def test_derivative_within_bounds_only() -> None:
    param = nn.Parameter(np.array([3.0, 0.5], np.float32))
    with enable_grad():
        td = TensorDict(a=param * 2)
        project_entries(Composite(a=Bounded(-2, 2, (2,))), td)
        td["a"].sum().backward()
    np.testing.assert_array_equal(param.grad, [0.0, 2.0])
