"""Switches of lists and equal objects, and classes of results of a subclass, beside tensordict's."""

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case
from helpers.parity_trees import LITE, TORCH, array

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


@each_case("mode", [True, False])
@each_case("way", WAYS)
@each_case("value", LISTS, ids=str)
def test_lists(value, way, mode):
    kept = mode and way == "lazy" and value in (LISTS[4], LISTS[-1])  # lite gives each row its item
    with tensordict.set_list_to_stack(mode), lite.set_list_to_stack(mode):
        ours, theirs = (outcome(lambda m=m: WAYS[way](m, value)) for m in (lite, tensordict))
    assert kept or ours == theirs or (isinstance(ours, type) and isinstance(theirs, type))


@each_case("mode", [True, False])
@each_case("join", JOINED)
@each_case("pair", [("x", "x"), ("x", "y"), ({"q": 1}, {"q": 1}), (float("nan"),) * 2, (0, 0)])
def test_equal_objects(pair, join, mode):
    with tensordict.set_capture_non_tensor_stack(mode), lite.set_capture_non_tensor_stack(mode):
        assert lite.capture_non_tensor_stack() == tensordict.capture_non_tensor_stack()
        ours, theirs = (
            outcome(lambda m=m, f=f: JOINED[join](m, f, [m.TensorDict(s=m.NonTensorData(s)) for s in pair]))
            for m, f in ((lite, lite.stack), (tensordict, torch.stack))
        )
    np.testing.assert_equal(ours, theirs)


class Lite(lite.TensorDict):
    """The subclass of lite's."""


class Torch(tensordict.TensorDict):
    """The subclass of the reference's."""


def _build(side):
    cls = Lite if side is LITE else Torch
    return cls({"x": side.leaf(array((3, 2), 1)), "n": {"y": side.leaf(array((3,), 2))}}, batch_size=[3])


def _in_node(side):
    return side.lib.TensorDict({"m": _build(side)}, batch_size=[3])


def _classes(value):
    """Own or plain, for a TensorDict, its nodes, and the parts of a lazy stack."""
    if isinstance(value, tuple | list):
        return [_classes(item) for item in value]
    if isinstance(value, lite.LazyStackedTensorDict | tensordict.LazyStackedTensorDict):
        return ["stack", *map(_classes, value.tensordicts)]
    nodes = {key: value.get(key) for key in sorted(value.keys())}
    return (
        isinstance(value, Lite | Torch),
        {key: _classes(node) for key, node in nodes.items() if hasattr(node, "keys")},
    )


ACTIONS = {
    "stack": lambda side, td: side.lib.stack([td, td]),
    "stack of the array library": lambda side, td: (np if side is LITE else torch).stack([td, td]),
    "stack with a plain one": lambda side, td: side.lib.stack([td, side.lib.TensorDict(td, [3])]),
    "cat": lambda side, td: side.lib.cat([td, td]),
    "a plain one stacked with": lambda side, td: side.lib.stack([side.lib.TensorDict(td, [3]), td]),
    "cat with a plain one": lambda side, td: side.lib.cat([td, side.lib.TensorDict(td, [3])]),
    "lazy_stack": lambda side, td: side.lib.lazy_stack([td, td]),
    "maybe_dense_stack": lambda side, td: side.lib.LazyStackedTensorDict.maybe_dense_stack([td, td]),
    "a stack made dense": lambda side, td: side.lib.lazy_stack([td, td]).contiguous(),
    "stack of nodes": lambda side, td: side.lib.stack([_in_node(side), _in_node(side)]),
    "cat of nodes": lambda side, td: side.lib.cat([_in_node(side), _in_node(side)]),
    "nodes": lambda side, td: _in_node(side).apply(lambda x: x + 1),
    "node set as a mapping": lambda side, td: td.set("q", {"z": side.leaf(array((3,), 3))}),
    "clone": lambda side, td: td.clone(),
    "indices": lambda side, td: [td[0], td[:2], td[[0, 1]], td[None], td[..., :1]],
    "shapes": lambda side, td: [
        td.reshape(3, 1), td.unsqueeze(0), td.expand(2, 3), td.unflatten(0, (1, 3)), td.unsqueeze(0).flatten()
    ],
    "pieces": lambda side, td: [*td.split(2), *td.unbind(0), *td.chunk(2)],
    "apply": lambda side, td: [td.apply(lambda x: x + 1), td.named_apply(lambda _, x: x + 1)],
    "numbers": lambda side, td: [td + 1, td + td, td.exp(), td.sum(0), td.clamp(0, 1), -td],
    "keys": lambda side, td: [td.select("x"), td.exclude("x"), td.flatten_keys("."), td.empty(recurse=True)],
    "new ones": lambda side, td: [td.new_zeros(4), td.new_full((4,), 1)],
    "casts": lambda side, td: [td.float(), td.cpu(), td.contiguous(), td.detach()],
    "to_tensordict": lambda side, td: td.to_tensordict(),
    "pad_sequence": lambda side, td: side.lib.pad_sequence([td, td]),
}  # fmt: skip


@each_case("action", ACTIONS.values(), ids=ACTIONS)
def test_classes(action):
    expected, got = (_classes(action(side, _build(side))) for side in (TORCH, LITE))
    assert got == expected
