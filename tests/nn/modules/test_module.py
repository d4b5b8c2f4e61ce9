"""Module: calls, flags, repr, copies."""

import copy
import pickle
import weakref

import numpy as np
from helpers import layer_cases
from helpers.cases import noting, raises
from helpers.nn.buffered import Net

from lite import nn

F32 = np.float32


class Restored(nn.Module):
    """Sets its state as subclasses of torch's Module do."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2, rng=0)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.restored = True


def test_apply_visits_children_first_and_returns_self():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    seen = []
    assert net.apply(seen.append) is net
    assert seen == [net[0], net[1], net]


def test_train_and_eval_are_recursive():
    net = Net()
    assert net.training
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    raises(ValueError, "bool", lambda: net.train(1))


def test_requires_grad_zero_grad_and_backward():
    net = Net()
    assert net.requires_grad_(False) is net
    assert not any(p.requires_grad for p in net.parameters())
    weight = net.first.weight
    weight.grad = np.ones((3, 2))
    net.zero_grad()
    assert weight.grad is None
    weight.grad = np.ones((3, 2))
    held = weight.grad
    net.zero_grad(set_to_none=False)
    np.testing.assert_array_equal(held, np.zeros((3, 2)))
    raises(RuntimeError, r"enable_grad.*requires_grad=False", lambda: weight.backward())


def test_repr():
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(inplace=True), nn.Tanh()))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=2, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU(inplace=True)\n"
        "    (1): Tanh()\n"
        "  )\n"
        ")"
    )
    assert repr(nn.Module()) == "Module()"
    assert repr(nn.ModuleList()) == "ModuleList()"
    assert repr(nn.ModuleList([nn.Tanh(), nn.ReLU(), nn.ReLU(), nn.ReLU()])) == (
        "ModuleList(\n  (0): Tanh()\n  (1-3): 3 x ReLU()\n)"
    )


def test_the_repr_of_a_layer_makes_such_a_layer() -> None:
    """Names are written without quotes, as in torch."""
    names = {name: name for name in ("same", "reflect", "circular", "replicate", "relu")}
    names |= {name: getattr(nn, name) for name in nn.__all__} | {"NonDynamicallyQuantizableLinear": nn.Linear}
    for case in layer_cases.CASES:
        for layer in case.make(nn).modules():
            if list(layer.children()) or type(layer).extra_repr is nn.Module.extra_repr:
                continue
            if isinstance(layer, nn.ParameterList | nn.ParameterDict):  # it shows what it holds
                continue
            with noting(repr(layer)):
                other = eval(repr(layer), {}, names)
                assert other.extra_repr() == layer.extra_repr()
                shapes = [{key: x.shape for key, x in net.state_dict().items()} for net in (layer, other)]
                assert shapes[0] == shapes[1]


def test_deepcopy_is_independent_and_keeps_ties():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    other = copy.deepcopy(net)
    assert other[0].weight is other[1].weight
    assert other[0].weight is not net[0].weight
    other[0].weight[...] = 0
    assert (net[0].weight != 0).any()


def test_pickle_round_trip():
    net = Net()
    other = pickle.loads(pickle.dumps(net))
    x = np.ones((4, 2), dtype=F32)
    np.testing.assert_array_equal(other(x), net(x))


def test_shallow_copies_share_hooks_and_modules_that_earlier_versions_pickled_keep_them():
    net = Net()
    calls = []
    copy.copy(net).register_forward_hook(lambda *_: calls.append(1))
    net(np.ones((4, 2), dtype=F32))
    earlier = Net.__new__(Net)
    earlier.__setstate__({name: x for name, x in net.__dict__.items() if name != "_hooked"})
    earlier(np.ones((4, 2), dtype=F32))
    assert len(calls) == 2


def test_modules_are_collectable():
    net = Net()
    handle = net.register_forward_hook(lambda m, a, o: None)
    ref = weakref.ref(net)
    del net
    assert ref() is None
    handle.remove()


def test_subclasses_extend_setstate():
    module = Restored()
    copied = pickle.loads(pickle.dumps(module))
    assert copied.restored
    assert not hasattr(module, "restored")
    np.testing.assert_array_equal(copied.layer.weight, module.layer.weight)
