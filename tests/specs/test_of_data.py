"""`make_composite_from_td`."""

import numpy as np

from lite import NonTensorData, TensorDict, lazy_stack
from lite.data import NonTensor, Unbounded
from lite.envs import make_composite_from_td


def test_a_spec_of_data():
    td = TensorDict({"x": np.zeros((2, 3)), "n": np.zeros(2, np.int32), "t": NonTensorData("hi", [2])}, [2])
    td["in"] = TensorDict({"y": np.zeros((2, 4))}, [2])
    spec = make_composite_from_td(td)
    assert spec["n"] == Unbounded((2,), dtype=np.int32)
    assert spec["in", "y"].shape == (2, 4)
    assert isinstance(spec["t"], NonTensor)
    assert spec.is_in(td)
    assert spec.zero()["t"] == ["hi", "hi"]
    rows = lazy_stack([TensorDict(t="x", a=np.ones(2)) for _ in range(3)])
    spec = make_composite_from_td(rows)
    assert (spec.is_in(rows), spec.zero()["t"]) == (True, ["x"] * 3)
    for texts in (["x", "y"], [["x"], ["y"]], [["x", "z"], ["y", "z"]]):
        made = make_composite_from_td(TensorDict({"t": texts}, [2])).zero()["t"]
        assert np.array(made).tolist() == np.full(np.shape(texts), "x").tolist()
    assert make_composite_from_td(TensorDict(a=1.0))["a"].shape == (1,)
    assert make_composite_from_td(TensorDict(a=1.0), unsqueeze_null_shapes=False)["a"].shape == ()
    assert make_composite_from_td(td, dynamic_shape=True)["x"].shape == (2, -1)
