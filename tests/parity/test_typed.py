"""The same typed TensorDicts in lite and in tensordict: what they are, and of which class results are."""

import copy
import json
from typing import Any, NotRequired

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case
from parity.compare import LITE, TORCH, assert_outcomes, outcome
from parity.files import without_version
from parity.operations import OPERATIONS

import lite
import lite.nn

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


class LiteState(lite.TypedTensorDict):
    a: Any
    b: Any
    o: NotRequired[Any]


class LiteLonger(LiteState):
    c: Any


class TorchState(tensordict.TypedTensorDict):
    a: Any
    b: Any
    o: NotRequired[Any]


class TorchLonger(TorchState):
    c: Any


STATES = {LITE: (LiteState, LiteLonger), TORCH: (TorchState, TorchLonger)}


class Case:
    """What a row of the table works with."""

    def __init__(self, side):
        self.side, self.lib = side, side.lib
        self.State, self.Longer = STATES[side]
        self.TD = side.lib.TensorDict

    def array(self, *shape, start=0.0):
        count = int(np.prod(shape))
        return self.side.leaf((np.arange(count, dtype=np.float32) + start).reshape(shape))

    def mask(self):
        return self.side.leaf(np.array([True, False, True, False]))

    def entries(self):
        return {"a": self.array(4, 3), "b": self.array(4, start=1)}

    def state(self):
        return self.State(**self.entries(), batch_size=[4])

    def td(self):
        return self.TD(self.entries(), batch_size=[4])

    def holder(self):
        return self.TD({"n": self.state()}, batch_size=[4])

    def lazy(self):
        return self.State.from_tensordict(self.lib.lazy_stack([self.td(), self.td()]))


def kind(value):
    """Of which class a result is, in words that both sides share."""
    if isinstance(value, tuple):
        return [kind(item) for item in value]
    if isinstance(value, lite.TypedTensorDict | tensordict.TypedTensorDict):
        return type(value).__name__.removeprefix("Lite").removeprefix("Torch")
    if isinstance(value, lite.TensorDictBase | tensordict.TensorDictBase):
        return type(value).__name__
    return None


ROWS = {
    **{name: lambda c, op=op: op(c, c.state()) for name, op in OPERATIONS.items()},
    "copy": lambda c: copy.copy(c.state()),
    "to_dict": lambda c: c.state().to_dict(),
    "state_dict": lambda c: dict(c.state().state_dict()),
    "softmax": lambda c: c.state().softmax(0),
    "add_td": lambda c: c.state() + c.td(),
    "td_add": lambda c: c.td() + c.state(),
    # keys
    "select": lambda c: c.state().select("a"),
    "select_inplace": lambda c: c.state().select("a", inplace=True),
    "exclude": lambda c: c.state().exclude("a"),
    "rename": lambda c: c.state().rename_key_("a", "z"),
    "split_keys": lambda c: c.state().split_keys(["a"]),
    "flatten_keys": lambda c: (s := c.state(), s.set("q", c.td()))[0].flatten_keys("."),
    "update": lambda c: c.state().update({"a": c.array(4, 3) * 2}),
    "update_new": lambda c: c.state().update({"q": c.array(4)}),
    "update_": lambda c: c.state().update_({"a": c.array(4, 3) * 2}),
    "replace": lambda c: c.state().replace(a=c.array(4, 3) * 2),
    "del_": lambda c: c.state().del_("a"),
    "pop": lambda c: c.state().pop("a"),
    "get_missing": lambda c: c.state().get("zz"),
    "keys": lambda c: sorted(c.state().keys()),
    "contains": lambda c: ["a" in c.state(), "o" in c.state()],
    "spread": lambda c: c.Longer(**c.state(), c=c.array(4), batch_size=[4]),
    "spread_dict": lambda c: dict(**c.state()),
    # several
    "stack": lambda c: c.TD.stack([c.state(), c.state()]),
    "stack_first_typed": lambda c: c.TD.stack([c.state(), c.td()]),
    "stack_first_td": lambda c: c.TD.stack([c.td(), c.state()]),
    "stack_subclass": lambda c: c.TD.stack([c.state(), c.Longer(**c.state(), c=c.array(4), batch_size=[4])]),
    "cat": lambda c: c.TD.cat([c.state(), c.state()]),
    "cat_first_td": lambda c: c.TD.cat([c.td(), c.state()]),
    "lazy_stack": lambda c: c.lib.lazy_stack([c.state(), c.state()]),
    "lazy_stack_part": lambda c: c.lib.lazy_stack([c.state(), c.state()])[1],
    "maybe_dense": lambda c: c.lib.LazyStackedTensorDict.maybe_dense_stack([c.state(), c.state()]),
    "maybe_dense_lazy": lambda c: c.lib.LazyStackedTensorDict.maybe_dense_stack(
        [c.state(), c.state().exclude("a")]
    )[0],
    # nested
    "nested": lambda c: c.holder()["n"],
    "nested_index": lambda c: c.holder()[0]["n"],
    "nested_clone": lambda c: c.holder().clone()["n"],
    "nested_reshape": lambda c: c.holder().reshape(2, 2)["n"],
    "nested_stack": lambda c: c.TD.stack([c.holder(), c.holder()])["n"],
    "nested_lazy": lambda c: c.lib.lazy_stack([c.holder(), c.holder()])["n"],
    "nested_lazy_part": lambda c: c.lib.lazy_stack([c.holder(), c.holder()])[0]["n"],
    "nested_add": lambda c: (c.holder() + 1)["n"],
    "nested_sum": lambda c: c.holder().sum(0)["n"],
    "nested_select": lambda c: c.holder().select(("n", "a"))["n"],
    "nested_to_tensordict": lambda c: c.holder().to_tensordict()["n"],
    # constructors
    "missing": lambda c: c.State(a=c.array(4)),
    "extra": lambda c: c.State(a=c.array(4), b=c.array(4), z=c.array(4)),
    "nothing": lambda c: c.State(),
    "optional": lambda c: c.State(**c.entries(), o=c.array(4), batch_size=[4]).o,
    "source": lambda c: c.State({"q": c.array(4)}, batch_size=[4]),
    "wrong_shape": lambda c: c.State(a=c.array(3), b=c.array(4), batch_size=[4]),
    "nested_dict": lambda c: c.State(a={"x": c.array(4)}, b=c.array(4), batch_size=[4]).a,
    "names": lambda c: c.State(**c.entries(), batch_size=[4], names=["x"]),
    "lock": lambda c: c.State(**c.entries(), batch_size=[4], lock=True),
    "from_dict": lambda c: c.State.from_dict({"q": c.array(4)}, batch_size=[4]),
    "from_any": lambda c: kind(c.State.from_any({"a": c.array(4), "b": c.array(4)})),
    "from_tensordict": lambda c: c.State.from_tensordict(c.td()),
    "from_tensordict_missing": lambda c: c.State.from_tensordict(c.td().exclude("a")),
    "from_tensordict_unchecked": lambda c: c.State.from_tensordict(c.td().exclude("a"), check=False),
    "from_tensordict_more": lambda c: c.State.from_tensordict(c.td().set("z", c.array(4))),
    "base": lambda c: c.lib.TypedTensorDict(a=c.array(4)),
    "unknown_option": lambda c: c.lib.TypedTensorDict["invalid"],
    "option_name": lambda c: c.lib.TypedTensorDict["shadow", "frozen"].__name__,
    # attributes
    "read": lambda c: c.state().a,
    "read_missing": lambda c: c.state().o,
    "read_unknown": lambda c: c.state().nonexistent,
    "write": lambda c: (s := c.state(), setattr(s, "a", c.array(4) * 2))[0],
    "write_optional": lambda c: (s := c.state(), setattr(s, "o", c.array(4)))[0],
    "write_wrong_shape": lambda c: setattr(c.state(), "a", c.array(5)),
    "delete": lambda c: delattr(c.state(), "a"),
    "delete_item": lambda c: (s := c.state(), s.__delitem__("a"))[0],
    "assign": lambda c: (s := c.state(), s.__setitem__(0, s[1]))[0],
    "batch_size": lambda c: (s := c.state(), setattr(s, "batch_size", []))[0],
    "hash": lambda c: hash(c.state()),
    "bool": lambda c: bool(c.state()),
    "len": lambda c: len(c.state()),
    "is_td": lambda c: isinstance(c.state(), c.TD),
    "is_base": lambda c: isinstance(c.state(), c.lib.TensorDictBase),
    "fields": lambda c: [sorted(c.Longer.__required_keys__), sorted(c.Longer.__optional_keys__)],
    # behind it, a lazy stack
    "lazy_read": lambda c: c.lazy().a,
    "lazy_part": lambda c: c.lazy()[0],
    "lazy_clone": lambda c: c.lazy().clone(),
    "lazy_contiguous": lambda c: c.lazy().contiguous(),
    "lazy_reshape": lambda c: c.lazy().reshape(8),
    "lazy_sum": lambda c: c.lazy().sum(0),
    "lazy_apply": lambda c: c.lazy().apply(lambda x: x * 2),
    "lazy_stack_dim": lambda c: c.lazy().stack_dim,
    "lazy_to_tensordict": lambda c: c.lazy().to_tensordict(),
}


@each_case("name", ROWS)
def test_rows(name):
    got, expected = (outcome(lambda side=side: ROWS[name](Case(side))) for side in (LITE, TORCH))
    assert_outcomes(got, expected, name)
    assert kind(got[0]) == kind(expected[0])


def test_files_are_the_references(tmp_path):
    """Typed TensorDicts are saved as what is behind them, and read by either side."""
    Case(LITE).state().memmap(tmp_path / "lite")
    Case(TORCH).state().memmap(tmp_path / "torch")
    metas = [(tmp_path / name / "meta.json").read_bytes() for name in ("lite", "torch")]
    assert json.loads(metas[0]) == json.loads(without_version(metas[1]))
    for name in ("lite", "torch"):
        mine, theirs = lite.load_memmap(tmp_path / name), tensordict.load_memmap(tmp_path / name)
        assert type(mine).__name__ == type(theirs).__name__ == "TensorDict"
        np.testing.assert_array_equal(mine["a"], theirs["a"].numpy())


def test_conversions():
    state = TorchState(**Case(TORCH).entries(), batch_size=[4])
    mine = lite.TensorDict.from_torch(state)
    np.testing.assert_array_equal(mine["a"], state.a.numpy())
    back = Case(LITE).state().to_torch()
    assert torch.equal(back["a"], state.a)
