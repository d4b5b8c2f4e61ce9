"""The same tensorclasses in lite and in tensordict."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensordict", reason="needs the parity extra")

from parity.compare import LITE, TORCH, Side, assert_outcomes, outcome

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


def make(side: Side) -> dict[str, Any]:
    """Classes of one library, in the two ways to make them."""
    base = side.lib.TensorClass

    @side.lib.tensorclass
    class Point:
        xy: Any
        label: Any = None
        inner: Any = None

        def total(self) -> Any:
            return float(self.xy.sum())

        @property
        def first(self) -> Any:
            return self.xy[..., 0]

        @classmethod
        def origin(cls) -> Any:
            return cls(xy=side.leaf(np.zeros(2)))

    class Derived(base):
        a: Any
        b: Any = 3

    class Longer(Derived):
        c: Any = None

    class Kept(base["nocast"]):
        a: Any

    class Cast(base["autocast"]):
        a: int

    class Frozen(base["frozen"]):
        a: Any

    return {
        "Point": Point,
        "Derived": Derived,
        "Longer": Longer,
        "Kept": Kept,
        "Cast": Cast,
        "Frozen": Frozen,
    }


CLASSES = {side: make(side) for side in (LITE, TORCH)}
XY = np.arange(12.0).reshape(3, 2, 2)


def point(s: Side) -> Any:
    cls = CLASSES[s]["Point"]
    inner = cls(xy=s.leaf(XY.copy()), batch_size=[3])
    return cls(xy=s.leaf(XY.copy()), label="text", inner=inner, batch_size=[3])


def td(value: Any) -> Any:
    """A tensorclass as a TensorDict, to be compared; its class by name."""
    return [type(value).__name__, value.to_tensordict()]


ACTIONS: dict[str, Callable[[Side, Any], Any]] = {
    "fields": lambda s, p: [f.name for f in dataclasses.fields(p)],
    "inherited fields": lambda s, p: [f.name for f in dataclasses.fields(CLASSES[s]["Longer"])],
    "default": lambda s, p: CLASSES[s]["Derived"](a=s.leaf(np.ones(2))).b,
    "method": lambda s, p: p.total(),
    "property": lambda s, p: p.first,
    "classmethod": lambda s, p: td(CLASSES[s]["Point"].origin()),
    "field": lambda s, p: [p.xy, p.label, td(p.inner)],
    "get": lambda s, p: [p.get("label"), p.get("xy"), p.get("zz"), p.get("zz", 3)],
    "get nested": lambda s, p: p.get(("inner", "xy")),
    "set": lambda s, p: td(p.set("label", "other")),
    "set nested": lambda s, p: p.set(("inner", "xy"), s.leaf(XY * 2)).inner.xy,
    "set unknown": lambda s, p: p.set("zz", 1),
    "set attribute": lambda s, p: setattr(p, "xy", s.leaf(XY + 1)) or p.xy,
    "set None": lambda s, p: setattr(p, "label", None) or p.label,
    "unknown attribute": lambda s, p: p.zz,
    "set unknown attribute": lambda s, p: setattr(p, "zz", 1),
    "wrong batch": lambda s, p: setattr(p, "xy", s.leaf(np.ones(2))),
    "missing": lambda s, p: CLASSES[s]["Point"](),
    "too many": lambda s, p: CLASSES[s]["Point"](1, 2, 3, 4),
    "delete": lambda s, p: p.__delattr__("label") or sorted(p.keys()),
    "row": lambda s, p: td(p[1]),
    "rows": lambda s, p: td(p[1:]),
    "mask": lambda s, p: td(p[s.leaf(np.array([True, False, True]))]),
    "reshape": lambda s, p: td(p.reshape(3, 1)),
    "unsqueeze": lambda s, p: td(p.unsqueeze(0)),
    "unbind": lambda s, p: [td(row) for row in p.unbind(0)],
    "stack": lambda s, p: td(s.lib.TensorDict.stack([p, p.clone()])),
    "cat": lambda s, p: td(s.lib.TensorDict.cat([p, p.clone()])),
    "lazy stack": lambda s, p: type(s.lib.lazy_stack([p, p.clone()])).__name__,
    "arithmetic": lambda s, p: td(p + 1),
    "equal": lambda s, p: [type(p == p.clone()).__name__, (p == p.clone()).xy],
    "assign": lambda s, p: p.__setitem__(0, p[1]) or td(p),
    "clone": lambda s, p: td(p.clone()),
    "deepcopy": lambda s, p: td(copy.deepcopy(p)),
    "copy": lambda s, p: copy.copy(p).xy is p.xy,
    "batch size": lambda s, p: [tuple(p.batch_size), p.ndim, len(p)],
    "to_dict": lambda s, p: sorted(p.to_dict()),
    "keys": lambda s, p: sorted(p.keys()),
    "from_tensordict": lambda s, p: td(
        CLASSES[s]["Derived"].from_tensordict(s.lib.TensorDict({"a": s.leaf(np.ones(2))}, []))
    ),
    "from_tensordict further": lambda s, p: (
        CLASSES[s]["Derived"]
        .from_tensordict(s.lib.TensorDict({"a": s.leaf(np.ones(2))}, []), non_tensordict={"b": "x"})
        .b
    ),
    "nested in a TensorDict": lambda s, p: td(s.lib.TensorDict({"p": p}, [3])["p"]),
    "apply": lambda s, p: td(p.apply(lambda x: x * 2)),
    "lock": lambda s, p: setattr(p.lock_(), "xy", s.leaf(XY)),
    "nocast": lambda s, p: CLASSES[s]["Kept"](a=3).a,
    "autocast": lambda s, p: [CLASSES[s]["Cast"](a=a).a for a in (3.7, "3", s.leaf(np.ones(())))],
    "frozen": lambda s, p: setattr(CLASSES[s]["Frozen"](a=1), "a", 2),
    "frozen is locked": lambda s, p: CLASSES[s]["Frozen"](a=1).is_locked,
    "frozen clone": lambda s, p: CLASSES[s]["Frozen"](a=1).clone().is_locked,
    "exclusive options": lambda s, p: s.lib.TensorClass["nocast", "autocast"],
    "asdict": lambda s, p: dataclasses.asdict(CLASSES[s]["Kept"](a=3)),
    "replace": lambda s, p: dataclasses.replace(CLASSES[s]["Kept"](a=3), a=4).a,
    "hash": lambda s, p: hash(p),
    "is collection": lambda s, p: s.lib.is_tensor_collection(p),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_the_same(name: str) -> None:
    action = ACTIONS[name]
    got, expected = (outcome(lambda s=s: action(s, point(s))) for s in (LITE, TORCH))
    assert_outcomes(got, expected, name)
