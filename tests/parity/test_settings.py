"""The switches of lists and of equal objects, beside tensordict's."""

import numpy as np
import pytest
import tensordict
import torch

import lite

pytestmark = pytest.mark.filterwarnings("ignore")

LISTS = [
    ["a", "b", "c"], [1, 2, 3], [1.0, 2.0, 3.0], [[1, 2], [3, 4], [5, 6]], [1, "a", None], [["a"], ["b"]],
    [], [{"a": 1}, {"a": 1}, {"a": 1}],
]  # fmt: skip
ROWS = lambda m: m.lazy_stack([m.TensorDict() for _ in range(3)])  # noqa: E731
WAYS = {
    "set": lambda m, v: m.TensorDict(batch_size=[3]).set("k", v).get("k"),
    "made": lambda m, v: m.TensorDict({"n": {"k": v}})["n"].get("k"),
    "from_dict": lambda m, v: m.TensorDict.from_dict({"a": {"k": v}}, batch_size=[3])["a"].get("k"),
    "lazy": lambda m, v: ROWS(m).set("k", v).get("k"),
    "update": lambda m, v: m.TensorDict({"k": ["x", "y", "z"]}, [3]).update({"k": v}).get("k"),
}
JOINED = {
    "stack": lambda m, stack, rows: stack(rows).get("s"),
    "lazy": lambda m, stack, rows: m.lazy_stack(rows).get("s"),
    "lazy to dense": lambda m, stack, rows: m.lazy_stack(rows).contiguous().get("s"),
    "maybe dense": lambda m, stack, rows: m.TensorDict.maybe_dense_stack(rows).get("s"),
    "twice": lambda m, stack, rows: stack([stack(rows), stack(rows)]).get("s"),
    "read": lambda m, stack, rows: stack(rows)["s"],
    "part": lambda m, stack, rows: stack(rows)[0].get("s"),
    "get_non_tensor": lambda m, stack, rows: stack(rows).get_non_tensor("s"),
}


def shown(value):
    if type(value).__name__ in ("NonTensorData", "NonTensorStack"):
        objects = value.tolist()
        return type(value).__name__, type(objects), np.asarray(objects).tolist(), tuple(value.batch_size)
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return np.asarray(value).tolist(), np.asarray(value).dtype
    return np.asarray(value, object).tolist()


def outcome(call):
    try:
        return shown(call())
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", LISTS, ids=str)
def test_lists(value, way, mode):
    kept = mode and way == "lazy" and value in (LISTS[4], LISTS[-1])  # lite gives each row its item
    with tensordict.set_list_to_stack(mode), lite.set_list_to_stack(mode):
        ours, theirs = (outcome(lambda m=m: WAYS[way](m, value)) for m in (lite, tensordict))
    assert kept or ours == theirs or (isinstance(ours, type) and isinstance(theirs, type))


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("join", JOINED)
@pytest.mark.parametrize("pair", [("x", "x"), ("x", "y"), ({"q": 1}, {"q": 1}), (float("nan"),) * 2, (0, 0)])
def test_equal_objects(pair, join, mode):
    with tensordict.set_capture_non_tensor_stack(mode), lite.set_capture_non_tensor_stack(mode):
        assert lite.capture_non_tensor_stack() == tensordict.capture_non_tensor_stack()
        ours, theirs = (
            outcome(lambda m=m, f=f: JOINED[join](m, f, [m.TensorDict(s=m.NonTensorData(s)) for s in pair]))
            for m, f in ((lite, lite.stack), (tensordict, torch.stack))
        )
    np.testing.assert_equal(ours, theirs)
