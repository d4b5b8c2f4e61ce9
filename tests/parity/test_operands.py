"""Operands whose batch ends elsewhere, against tensordict where that combines their leaves as they are."""

import numpy as np
import pytest
from parity.compare import LITE, TORCH, assert_outcomes, outcome

pytestmark = pytest.mark.filterwarnings("ignore")

OPERATIONS = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    ">=": lambda x, y: x >= y,
    "maximum": lambda x, y: x.maximum(y),
    "minimum": lambda x, y: x.minimum(y),
    "pow": lambda x, y: x.pow(y),
    "sub": lambda x, y: x.sub(y),
    "lerp": lambda x, y: x.lerp(y, 0.5),
    "lerp between trees": lambda x, y: x.lerp(y, y),
    "addcmul": lambda x, y: x.addcmul(y, y),
    "addcdiv": lambda x, y: x.addcdiv(y, y),
    "clamp": lambda x, y: x.clamp(y, y + 1),
    "add_": lambda x, y: x.add_(y),
    "mul_": lambda x, y: x.mul_(y),
    "+=": lambda x, y: x.__iadd__(y),
}


def tree(s, seed, size):
    rng = np.random.default_rng(seed)
    a, b, c = (rng.uniform(1, 2, size=shape).astype("float32") for shape in ((3, 2), (3, 2, 4), (3, 2)))
    nested = {"batch_size": size, "entries": {"b": b, "m": {"batch_size": size, "entries": {"c": c}}}}
    return s.build({"batch_size": size, "entries": {"a": a, "n": nested}})


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("size", [(), (3,), (3, 2)])
def test_leaves_of_equal_shape(size, name):
    def run(s):
        return OPERATIONS[name](tree(s, 0, size), tree(s, 1, ()))

    mine, theirs = (outcome(lambda side=side: run(side)) for side in (LITE, TORCH))
    assert theirs[1] is None
    assert_outcomes(mine, theirs, name)


@pytest.mark.parametrize("name", OPERATIONS)
def test_other_leaves_beside_them(name):
    def run(s):
        rows = np.arange(1, 7, dtype="float32").reshape(3, 2)
        first = {"a": rows, "b": rows[:, 0], "c": rows[:, :1]}
        second = {"a": rows * 2, "b": np.float32(3) + np.zeros((), "float32"), "c": rows[0, :1]}
        x, y = (s.build({"batch_size": n, "entries": e}) for n, e in (((3,), first), ((), second)))
        return OPERATIONS[name](x, y)

    mine, theirs = (outcome(lambda side=side: run(side)) for side in (LITE, TORCH))
    assert theirs[1] is None
    assert_outcomes(mine, theirs, name)


@pytest.mark.parametrize("payload", [1, "x", 2.5])
def test_what_comes_back_from_a_dict(payload):
    def run(s):
        td = s.build({"batch_size": (3,), "entries": {"a": np.ones((3, 2), "float32")}})
        td["s"] = s.lib.NonTensorData(payload, batch_size=[3])
        back = s.lib.TensorDict.from_dict(td.to_dict(), batch_size=[])
        return (td == back).select("a")

    mine, theirs = (outcome(lambda side=side: run(side)) for side in (LITE, TORCH))
    assert theirs[1] is None
    assert_outcomes(mine, theirs, repr(payload))


def test_arrays_beside_objects():
    def run(s):
        array = s.build({"batch_size": (), "entries": {"s": np.ones(2, "float32")}})
        payload = s.lib.TensorDict(s="x")
        return [sorted((x == y)["s"].keys()) for x, y in ((array, payload), (payload, array))]

    assert run(LITE) == run(TORCH) == [[], []]
