"""The same tensorclasses in lite and in tensordict."""

import copy
import dataclasses
from typing import Any, Optional

import numpy as np
import pytest
import torch
from helpers.cases import each_case
from parity.compare import LITE, TORCH, compare

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


def make(side):
    """Classes of one library, in the two ways to make them."""
    base = side.lib.TensorClass

    @side.lib.tensorclass
    class Point:
        xy: Any
        label: Any = None
        inner: Any = None

        def total(self):
            return float(self.xy.sum())

        @property
        def first(self):
            return self.xy[..., 0]

        @classmethod
        def origin(cls):
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

    # Not as text, in which tensordict finds no names of a function.
    typed = {
        "own": "Typed",
        "array": np.ndarray if side is LITE else torch.Tensor,
        "text": str,
        "number": int,
        "union": Optional[int],  # noqa: UP045
        "anything": Any,
        "data": side.lib.NonTensorData,
        "td": side.lib.TensorDict,
        "listed": list,
    }
    body = {"__annotations__": typed, "__module__": __name__, **dict.fromkeys(typed)}

    @side.lib.tensorclass
    class Other:
        xy: Any
        zz: Any = None

    @side.lib.tensorclass
    class SetsItself:
        a: Any
        b: Any = 3

        def __setattr__(self, name, value):
            super().__setattr__(name, value * 2)

    @side.lib.tensorclass
    class ByDefault:
        a: Any = side.leaf(np.ones(2))

    return {
        "Typed": side.lib.tensorclass(autocast=True)(type("Typed", (), body)),
        "Other": Other, "SetsItself": SetsItself, "ByDefault": ByDefault, "Point": Point,
        "Derived": Derived, "Longer": Longer, "Kept": Kept, "Cast": Cast, "Frozen": Frozen,
    }  # fmt: skip


CLASSES = {side: make(side) for side in (LITE, TORCH)}
XY = np.arange(12.0).reshape(3, 2, 2)


def point(s):
    cls = CLASSES[s]["Point"]
    inner = cls(xy=s.leaf(XY.copy()), batch_size=[3])
    return cls(xy=s.leaf(XY.copy()), label="text", inner=inner, batch_size=[3])


def td(value):
    """A tensorclass as a TensorDict, to be compared; its class by name."""
    return [type(value).__name__, value.to_tensordict()]


@dataclasses.dataclass
class Plain:
    a: int
    b: str


ACTIONS = {
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
    "hash frozen": lambda s, p: isinstance(hash(CLASSES[s]["Frozen"](a=s.leaf(XY))), int),
    "frozen attribute": lambda s, p: setattr(CLASSES[s]["Frozen"](a=1), "batch_size", [2]),
    "own setattr": lambda s, p: CLASSES[s]["SetsItself"](a=s.leaf(np.ones(2))).a,
    "own setattr, default": lambda s, p: int(CLASSES[s]["SetsItself"](a=s.leaf(np.ones(2))).b),
    "array by default": lambda s, p: CLASSES[s]["ByDefault"]().a,
    "shared default": lambda s, p: CLASSES[s]["ByDefault"]().a is CLASSES[s]["ByDefault"]().a,
    "deleted": lambda s, p: p.__delattr__("label") or p.get("label", "default"),
    "del_ of None": lambda s, p: [p.set("label", None).del_("label"), p.label][1],
    "get batch_size": lambda s, p: tuple(p.get("batch_size")),
    "get device": lambda s, p: p.get("device", 3),
    "get ndim": lambda s, p: p.get("ndim"),
    "data": lambda s, p: type(p.data).__name__,
    "lock=True": lambda s, p: CLASSES[s]["Point"](xy=s.leaf(XY), lock=True).is_locked,
    "to_dict without None": lambda s, p: sorted(p.set("label", None).to_dict(retain_none=False)),
    "assign another class": lambda s, p: p.__setitem__(
        slice(2), CLASSES[s]["Other"](xy=s.leaf(XY), batch_size=[3])[:2]
    ),
    "assign nested, another class": lambda s, p: s.lib.TensorDict({"p": p}, [3]).__setitem__(
        0, s.lib.TensorDict({"p": CLASSES[s]["Other"](xy=s.leaf(XY), batch_size=[3])}, [3])[0]
    ),
    "state dict": lambda s, p: [sorted(p.state_dict()), sorted(p.state_dict(flatten=False))],
    "state dict, metadata": lambda s, p: (
        p.state_dict()._metadata["inner"]["_non_tensor"],
        p.state_dict(prefix="x.")._metadata["x"]["_non_tensor"],
    ),
    **{
        f"load state dict, flatten={flatten}, assign={assign}": lambda s, p, flatten=flatten, assign=assign: (
            td(
                CLASSES[s]["Point"](
                    xy=s.leaf(XY * 0),
                    label="old",
                    inner=CLASSES[s]["Point"](xy=s.leaf(XY * 0), batch_size=[3]),
                    batch_size=[3],
                ).load_state_dict(p.state_dict(flatten=flatten), assign=assign)
            )
        )
        for flatten in (False, True)
        for assign in (False, True)
    },
    "load unexpected": lambda s, p: p.load_state_dict({**p.state_dict(flatten=False), "more": s.leaf(XY)}),
    "tensor_only": lambda s, p: s.lib.tensorclass(tensor_only=True)(
        type("Made", (), {"__annotations__": {"a": str}})
    ),
    "from_dataclass": lambda s, p: td(s.lib.from_dataclass(Plain(a=3, b="x"))),
    "from_dataclass nocast": lambda s, p: s.lib.from_dataclass(Plain(a=3, b="x"), nocast=True).a,
    "from_dataclass autocast": lambda s, p: s.lib.from_dataclass(Plain, autocast=True)(a=3.5, b=4).b,
    "from_dataclass of neither": lambda s, p: s.lib.from_dataclass(3),
    "consolidate": lambda s, p: [td(p.consolidate()), p.consolidate().is_consolidated()],
    "replace fields": lambda s, p: td(p.replace(xy=s.leaf(XY * 2))),
    "replace by an instance": lambda s, p: td(p.replace(point(s).set("label", "other"))),
    "stack of another class": lambda s, p: (
        type(
            s.lib.TensorDict.stack([CLASSES[s]["Longer"](a=s.leaf(XY)), CLASSES[s]["Derived"](a=s.leaf(XY))])
        ).__name__
    ),
    "is collection": lambda s, p: s.lib.is_tensor_collection(p),
}


def shown(value):
    """A field as plain Python, its kind by name."""
    if hasattr(value, "to_tensordict"):
        return type(value).__name__, sorted(value.keys())
    plain = value.tolist() if hasattr(value, "shape") else value
    return "array" if hasattr(value, "shape") else type(value).__name__, plain


VALUES = {
    "dict": lambda s: {"text": "t"}, "str": lambda s: "5", "int": lambda s: 3, "float": lambda s: 2.5,
    "bool": lambda s: True, "array": lambda s: s.leaf(np.ones(2)), "number": lambda s: s.leaf(np.ones(())),
    "list": lambda s: [1, 2], "tuple": lambda s: (1, 2), "texts": lambda s: ["a", "b"],
    "set": lambda s: {1}, "TensorDict": lambda s: s.lib.TensorDict({"text": "t"}, []),
    "instance": lambda s: CLASSES[s]["Typed"](text="t"),
}  # fmt: skip
# Where the reference calls the annotated class with whatever there is, or shows it as text, or fails inside.
CALLED = {
    *[("own", value) for value in VALUES if value not in ("dict", "instance")],
    *[(field, kind) for field in ("number", "listed") for kind in ("TensorDict", "instance", "array")],
    *[("text", kind) for kind in ("TensorDict", "instance", "array", "number")],
    ("data", "dict"),
    ("td", "instance"),
    ("array", "instance"),
    ("array", "TensorDict"),
}


@each_case(
    ("field", "value"),
    sorted(
        {(f.name, value) for f in dataclasses.fields(CLASSES[LITE]["Typed"]) for value in VALUES} - CALLED
    ),
)
def test_autocast(field, value):
    def typed(s):
        return shown(getattr(CLASSES[s]["Typed"](**{field: VALUES[value](s)}), field))

    compare(lambda s: typed(s), f"{field} {value}")


@each_case("name", ACTIONS)
def test_the_same(name):
    action = ACTIONS[name]
    compare(lambda s: action(s, point(s)), name)
