"""Sequential, ModuleList, ModuleDict."""

from collections import OrderedDict

import numpy as np
import pytest
from helpers.cases import raises

from lite import nn


def three():
    return [nn.ReLU(), nn.Tanh(), nn.Identity()]


def test_sequential_runs_in_order():
    net = nn.Sequential(nn.Linear(2, 3, rng=0), nn.ReLU())
    x = np.ones((4, 2), dtype=np.float32)
    np.testing.assert_array_equal(net(x), np.maximum(net[0](x), 0))
    assert nn.Sequential()(3) == 3


def test_sequential_of_names():
    net = nn.Sequential(OrderedDict(a=nn.Linear(1, 1), b=nn.ReLU()))
    assert list(net.state_dict()) == ["a.weight", "a.bias"]
    assert net.a is net[0]
    assert list(net[1:]._modules) == ["b"]
    del net[0]
    assert list(net._modules) == ["b"]


@pytest.mark.parametrize(
    "make", [lambda m: nn.Sequential(*m), nn.ModuleList], ids=["Sequential", "ModuleList"]
)
class TestList:
    def test_index(self, make):
        modules = three()
        net = make(modules)
        assert net[0] is modules[0]
        assert net[-1] is modules[2]
        assert list(net) == modules
        assert list(net[1:]) == modules[1:]
        assert type(net[1:]) is type(net)
        assert len(net) == 3
        for index in (3, -4):
            with pytest.raises(IndexError):
                net[index]

    def test_change(self, make):
        modules = three()
        net = make(modules)
        new = nn.ReLU()
        net[1] = new
        assert list(net) == [modules[0], new, modules[2]]
        assert net.insert(0, modules[1]) is net
        assert list(net._modules) == ["0", "1", "2", "3"]
        assert net.pop(0) is modules[1]
        assert net.pop() is modules[2]
        del net[-1]
        assert list(net) == [modules[0]]
        assert net.append(new).extend([modules[1]]) is net
        assert list(net) == [modules[0], new, modules[1]]
        del net[:2]
        assert list(net._modules.items()) == [("0", modules[1])]

    def test_add(self, make):
        modules = three()
        net = make(modules[:1])
        assert list(net + modules[1:]) == modules
        assert list(net) == modules[:1]
        net += modules[1:]
        assert list(net) == modules

    def test_wrong_types_change_nothing(self, make):
        net = make(three())
        raises(TypeError, "", lambda: net.append(3))
        raises(TypeError, "", lambda: net.insert(0, 3))
        raises(TypeError, "", lambda: net.extend([nn.ReLU(), 3]))
        raises(TypeError, "", lambda: net.extend(3))
        with pytest.raises(TypeError):
            net[0] = 3
        assert len(net) == 3


def test_module_list_cannot_be_called():
    raises(NotImplementedError, "", lambda: nn.ModuleList([nn.ReLU()])(1))


def test_module_dict():
    relu, tanh = nn.ReLU(), nn.Tanh()
    d = nn.ModuleDict({"a": relu})
    d["b"] = tanh
    assert list(d) == list(d.keys()) == ["a", "b"]
    assert list(d.values()) == [relu, tanh]
    assert list(d.items()) == [("a", relu), ("b", tanh)]
    assert "a" in d
    assert len(d) == 2
    d.update([("c", nn.Linear(1, 1))])
    d.update(nn.ModuleDict({"d": relu}))
    assert list(d.state_dict()) == ["c.weight", "c.bias"]
    assert d.pop("a") is relu
    del d["b"]
    assert list(d) == ["c", "d"]
    d.clear()
    assert len(d) == 0
    for error, call in [
        (KeyError, lambda: d["x"]),
        (KeyError, lambda: nn.ModuleDict({"a.b": relu})),
        (KeyError, lambda: nn.ModuleDict({"keys": relu})),
        (TypeError, lambda: nn.ModuleDict({"a": 3})),
        (TypeError, lambda: d.update(3)),
    ]:
        raises(error, "", call)


def test_multiples_share_their_modules():
    net = nn.Sequential(nn.Linear(2, 2, rng=0), nn.Tanh())
    twice = net * 2
    assert [twice[i] is net[i % 2] for i in range(4)] == [True] * 4
    assert len(2 * net) == 4
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(twice(x), net(net(x)))
    same = net
    net *= 3
    assert net is same
    assert len(net) == 6
    assert len(list(net.parameters())) == 2
    for times, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError)):
        with pytest.raises(error, match=r"multiplied by a"):
            net * times
    assert len(net) == 6


def test_parameters_are_lists_and_dicts():
    a, b, c = (np.full(n, float(n)) for n in (1, 2, 3))
    row = nn.ParameterList([a])
    assert row.append(b).extend([c, "text"]) is row
    row[-1] = 2 * a
    row += [b]
    assert [len(value) for value in row] == [1, 2, 3, 1, 2]
    assert (len(row), type(row[1:3]), [len(value) for value in row[1:3]]) == (5, nn.ParameterList, [2, 3])
    assert repr(nn.ParameterList([a, 3])) == (
        "ParameterList(\n    (0): Parameter containing: [float64 of size 1]\n    (1): Object of type: int\n)"
    )
    one, plain = (
        nn.ParameterDict({"z": a, "b": b}),
        {"b": b, "z": a},
    )  # a mapping is sorted by name, as torch's
    for each in (one, plain):
        each["a"] = c
        each.setdefault("a", a)
        each.setdefault("d", a)
        each.update({"e": b, "f": a})
        del each["z"]
        assert len(each.pop("b")) == 2
        assert each.popitem()[0] == "f"
        each |= {"g": a}
    assert [(name, len(value)) for name, value in one.items()] == [(k, len(v)) for k, v in plain.items()]
    assert [*map(len, one.values())] == [*map(len, plain.values())]
    assert (list(one), list(one.keys()), len(one)) == (list(plain), list(plain), len(plain))
    assert (list(reversed(one)), "a" in one, "b" in one) == (list(reversed(plain)), True, False)
    assert (one.get("b"), one.get("b", 3), one.get("a") is one["a"]) == (None, 3, True)
    assert list((one | {"y": a, "x": b}).keys()) == [*plain, "x", "y"]
    assert list(nn.ParameterDict(OrderedDict(z=a, b=b)).keys()) == ["z", "b"]
    assert one.copy()["a"] is one["a"]
    assert [*one.fromkeys(["p", "q"], a)["q"]] == [1]
    one.clear()
    assert (len(one), one.state_dict()) == (0, OrderedDict())
    with pytest.raises(RuntimeError, match="a ParameterDict is not called"):
        one(a)
