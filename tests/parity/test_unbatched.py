"""The same unbatched entries in lite and in tensordict: what operations make of them and of their batch."""

import pickle
from typing import Any

import numpy as np
import pytest
import tensordict
from helpers.cases import each_case
from parity.compare import LITE, TORCH, assert_outcomes, outcome
from parity.operations import OPERATIONS

import lite

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


class Case:
    """What a row of the table works with."""

    def __init__(self, side):
        self.side, self.lib = side, side.lib
        self.TD = side.lib.TensorDict

    def array(self, *shape, start=0.0):
        count = int(np.prod(shape))
        return self.side.leaf((np.arange(count, dtype=np.float32) + start).reshape(shape))

    def alone(self, *shape, start=0.0, **options):
        return self.lib.UnbatchedTensor(self.array(*shape, start=start), **options)

    def td(self, *size):
        size = size or (4,)
        return self.TD({"a": self.array(*size, 3), "u": self.alone(5)}, batch_size=list(size))

    def lazy(self, dim=0):
        u = self.alone(5)
        parts = [self.TD({"a": self.array(4, 3), "u": u}, batch_size=[4]) for _ in range(2)]
        return self.lib.lazy_stack(parts, dim)

    def mask(self):
        return self.side.leaf(np.array([True, False, True, True]))

    def index(self, *items):
        return self.side.leaf(np.array(items))


def form(value):
    """What there is under "u": whether it is unbatched, and its batch size."""
    if isinstance(value, tuple):
        return [form(item) for item in value]
    if isinstance(value, lite.TensorDictBase | tensordict.TensorDictBase):
        value = value.get("u")
    if isinstance(value, lite.UnbatchedTensor | tensordict.UnbatchedTensor):
        return tuple(value.batch_size)
    return type(value) if value is None else "an array"


ROWS = {
    **{name: lambda c, op=op: op(c, c.td()) for name, op in OPERATIONS.items()},
    # the batch changes, the entry does not
    "list": lambda c: c.td()[[0, 1]],
    "tuple": lambda c: c.td(4, 2)[:, 0],
    "narrow": lambda c: c.td().narrow(0, 1, 2),
    "nested": lambda c: c.TD({"n": c.td(4, 2)}, batch_size=[4])[0]["n"],
    "apply_batch": lambda c: c.td().apply(lambda x: x[:1], batch_size=[1]),
    # several become one
    "stack": lambda c: (lambda td: c.TD.stack([td, td]))(c.td()),
    "stack_1": lambda c: (lambda td: c.TD.stack([td, td], 1))(c.td()),
    "stack_last": lambda c: (lambda td: c.TD.stack([td, td], -1))(c.td(4, 2)),
    "stack_out": lambda c: (lambda td: c.TD.stack([td, td], out=c.TD.stack([td, td])))(c.td()),
    "stack_shapes": lambda c: c.TD.stack([c.td(), c.td().set("u", c.alone(2))]),
    "stack_with_array": lambda c: c.TD.stack([c.td(), c.td().set("u", c.array(4))]),
    "stack_missing": lambda c: c.TD.stack([c.td(), c.td().exclude("u")]),
    "cat": lambda c: (lambda td: c.TD.cat([td, td]))(c.td()),
    "cat_1": lambda c: (lambda td: c.TD.cat([td, td[:, :1]], 1))(c.td(2, 4)),
    "cat_shapes": lambda c: c.TD.cat([c.td(), c.td().set("u", c.alone(2))]),
    "maybe_dense": lambda c: (lambda td: c.lib.LazyStackedTensorDict.maybe_dense_stack([td, td]))(c.td()),
    "rows_again": lambda c: c.TD.stack(list(c.td().unbind(0))),
    # lazy stacks
    "lazy": lambda c: c.lazy(),
    "lazy_1": lambda c: c.lazy(1),
    "lazy_part": lambda c: c.lazy()[0],
    "lazy_column": lambda c: c.lazy()[:, 0],
    "lazy_unbind": lambda c: c.lazy().unbind(1),
    "lazy_contiguous": lambda c: c.lazy().contiguous(),
    "lazy_reshape": lambda c: c.lazy().reshape(8),
    "lazy_clone": lambda c: c.lazy().clone(),
    "lazy_add": lambda c: c.lazy() + 1,
    "lazy_sum": lambda c: c.lazy().sum(0),
    "lazy_apply": lambda c: c.lazy().apply(lambda x: x * 2),
    "lazy_stack": lambda c: (lambda td: c.TD.stack([td, td]))(c.lazy()),
    "lazy_to_tensordict": lambda c: c.lazy().to_tensordict(),
    "lazy_as_list": lambda c: [tuple(u.shape) for u in c.lazy().get("u", as_list=True)],
    "lazy_update": lambda c: c.lazy().update({"u": c.alone(2)}),
    "lazy_state_dict": lambda c: c.lazy().state_dict()["u"],
    "lazy_item_shape": lambda c: tuple(c.lazy().get_item_shape("u")),
    # element by element
    "copy": lambda c: c.td().copy(),
    "add_rows": lambda c: c.td() + c.array(4),
    "sigmoid": lambda c: c.td().sigmoid(),
    "lerp": lambda c: c.td().lerp(c.td() * 2, 0.5),
    "eq_all": lambda c: bool((c.td() == c.td()).all()),
    "apply_two": lambda c: c.td().apply(lambda x, y: x * y, c.td()),
    "apply_sum": lambda c: c.td().apply(lambda x: x.sum()),
    # along the batch
    "sum_all": lambda c: c.td().sum(),
    "sum_keepdim": lambda c: c.td().sum(dim=0, keepdim=True),
    "sum_feature": lambda c: c.td().sum(dim="feature"),
    "prod": lambda c: c.td().prod(0),
    "nansum": lambda c: c.td().nansum(0),
    "quantile": lambda c: c.td().quantile(0.5, dim=0),
    "all_dim": lambda c: c.td().all(0),
    "any_dim": lambda c: c.td().any(0),
    # writing
    "set": lambda c: c.td().set("u", c.alone(2)),
    "set_nested": lambda c: c.td().set(("n", "u"), c.alone(2))["n"],
    "set_array": lambda c: c.td().set("u", c.array(4)),
    "set_wrong_shape": lambda c: c.td().set("u", c.array(5)),
    "update": lambda c: c.td().update({"u": c.alone(2)}),
    "update_": lambda c: c.td().update_({"u": c.array(5, start=2)}),
    "update_wrong_shape": lambda c: c.td().update_({"u": c.array(4)}),
    "update_inplace": lambda c: c.td().update({"u": c.alone(5, start=2)}, inplace=True),
    "replace": lambda c: c.td().replace(u=c.alone(1)),
    "assign": lambda c: (td := c.td(), td.__setitem__(0, td[1].exclude("u")))[0],
    "assign_number": lambda c: (td := c.td(), td.__setitem__(c.mask(), c.td()[c.mask()].exclude("u")))[0],
    "iadd": lambda c: (td := c.td(), td.__setitem__("u", td["u"] + 1))[0],
    "get_at": lambda c: np.asarray(c.td().get_at("u", 1)).tolist(),
    "set_at_": lambda c: c.td().set_at_("u", 7.0, 1) and None,
    # other forms
    "pickle": lambda c: pickle.loads(pickle.dumps(c.td())),
    "state_dict": lambda c: c.td().state_dict()["u"],
    "to_dict": lambda c: c.td().to_dict()["u"],
    "from_dict": lambda c: c.TD.from_dict(c.td().to_dict(), batch_size=[4]),
    "from_any": lambda c: c.TD.from_any({"u": c.alone(3)}),
    "select": lambda c: c.td().select("u"),
    "exclude": lambda c: c.td().exclude("a"),
    "flatten_keys": lambda c: c.TD({"n": c.td()}, batch_size=[4]).flatten_keys("."),
    "split_keys": lambda c: c.td().split_keys(["u"])[0],
    "rename": lambda c: c.td().rename_key_("u", "w")["w"],
    "device": lambda c: c.TD({"u": c.alone(3)}, batch_size=[4], device="cpu"),
    "merge": lambda c: c.lib.merge_tensordicts(c.td(), c.TD({"z": c.array(4)}, batch_size=[4])),
    "to_struct_array": lambda c: c.td().to_struct_array(),
    "auto_batch_size": lambda c: c.TD({"a": c.array(2, 3), "u": c.alone(7)}).auto_batch_size_()["a"],
    "batch_size_wrong_shape": lambda c: setattr(c.td(), "batch_size", [4, 5]),
    "is_leaf": lambda c: c.lib.default_is_leaf(c.lib.UnbatchedTensor),
    "is_collection": lambda c: c.lib.is_tensor_collection(c.alone(3)),
    "is_non_tensor": lambda c: c.lib.is_non_tensor(c.alone(3)),
    "leaf_keys": lambda c: sorted(c.td().keys(True, True)),
    "is_empty": lambda c: c.TD({"u": c.alone(3)}).is_empty(),
    "item_shape": lambda c: tuple(c.td().get_item_shape("u")),
    # the object itself
    "made_of_one": lambda c: c.lib.UnbatchedTensor(c.alone(3, batch_size=[2])),
    "given_another": lambda c: c.lib.UnbatchedTensor(c.alone(3, batch_size=[2]), batch_size=[7]),
    "of_list": lambda c: c.lib.UnbatchedTensor([1, 2]),
    "of_text": lambda c: c.lib.UnbatchedTensor("x"),
    "stored": lambda c: c.TD({"u": c.alone(3, batch_size=[9, 2])}, batch_size=[4]),
    "arithmetic": lambda c: c.alone(3, batch_size=[2]) * 2 + 1,
    "reversed": lambda c: 1 - c.alone(3, batch_size=[2]),
    "reduced": lambda c: c.alone(3, batch_size=[2]).sum(),
    "reshaped": lambda c: c.alone(3).reshape(3, 1),
    "item": lambda c: c.alone(1).item(),
    "number": lambda c: [int(c.alone(start=3)), float(c.alone()), bool(c.alone(start=1)), len(c.alone(3))],
    "tolist": lambda c: c.alone(3).tolist(),
    "format": lambda c: f"{c.alone().item():.1f}",
    "pickled": lambda c: pickle.loads(pickle.dumps(c.alone(3, batch_size=[2]))),
}


@each_case("name", ROWS)
def test_rows(name):
    got, expected = (outcome(lambda side=side: ROWS[name](Case(side))) for side in (LITE, TORCH))
    assert form(got[0]) == form(expected[0])
    assert_outcomes(got, expected, name)


@pytest.mark.parametrize("side", [LITE, TORCH], ids=["lite", "torch"])
def test_tensorclass_fields(side):
    case = Case(side)

    @side.lib.tensorclass
    class Point:
        x: Any
        u: Any

    point = Point(x=case.array(4), u=case.alone(2), batch_size=[4])
    for out, size in ((point[0], ()), (point.reshape(2, 2), (2, 2)), (point + 1, (4,))):
        assert isinstance(out.u, side.lib.UnbatchedTensor)
        assert tuple(out.u.batch_size) == size
    point.u = case.alone(7)
    assert tuple(point.u.shape) == (7,)
    with pytest.raises(RuntimeError):
        point.u = case.array(7)


def test_between_the_libraries():
    mine = lite.TensorDict.from_torch(Case(TORCH).td())
    assert isinstance(mine["u"], lite.UnbatchedTensor)
    assert mine["u"].batch_size == (4,)
    theirs = Case(LITE).td().to_torch()
    assert isinstance(theirs["u"], tensordict.UnbatchedTensor)
    assert tuple(theirs["u"].batch_size) == (4,)


def test_repr():
    mine, theirs = repr(Case(LITE).td()), repr(Case(TORCH).td())
    assert "u: UnbatchedTensor(shape=(5,), device=cpu, dtype=float32, is_shared=False)" in mine
    assert "u: UnbatchedTensor(shape=torch.Size([5])" in theirs
    assert repr(Case(LITE).alone(2)) == "UnbatchedTensor(array([0., 1.], dtype=float32))"
    assert str(Case(LITE).alone(2)) == "[0. 1.]"
