"""Objects among the arguments: modules, optimisers, functions and the caller's own objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from helpers.cases import each_case
from helpers.compared import assert_same
from helpers.training_states import learner

import lite
from lite import TensorDict, nn, optim
from lite._transforms.jit.bound import Bound, is_object_type, object_key

X = np.array([[0.5, 1.0, 2.0], [1.0, 3.0, -1.0]], np.float32)


class Options:
    def __init__(self) -> None:
        self.rate, self.weight = 2.0, np.ones(3)


def of_objects(wrap: Any) -> Iterator[Any]:
    options = Options()
    step = wrap(lambda x, options: x * options.rate + options.weight)
    yield step(X, options)
    options.rate = 3.0
    yield step(X, options=options)
    options.weight = options.weight * 4
    yield step(X, options)
    options.weight[:] = 7
    yield step(X[:1], options)
    yield step(X, Options())


def of_modules(wrap: Any) -> Iterator[Any]:
    net, other, leaky = nn.Linear(3, 2, rng=0), nn.Linear(3, 2, rng=1), nn.LeakyReLU(0.1)
    step = wrap(lambda net, x, *, scale=1.0: net(x) * scale)
    yield step(net, X), step(other, X), step(leaky, X)
    leaky.negative_slope = 0.5
    net.weight.data = net.weight.data * 2
    yield step(net, x=X, scale=2.0), step(net=other, x=X), step(leaky, X)


def of_lists_of_modules(wrap: Any) -> Iterator[Any]:
    nets = [nn.Linear(3, 2, rng=0), nn.Linear(3, 2, rng=1)]
    total = wrap(lambda nets, x: sum(net(x) for net in nets))
    product = wrap(lambda nets, x: nets["a"](x) * nets["b"][0](x))
    yield total(nets, X), product({"a": nets[0], "b": (nets[1],)}, X)
    nets.append(nn.Linear(3, 2, rng=2))
    yield total(nets, X), product({"a": nets[2], "b": (nets[1],)}, X)
    nets[0] = nn.Linear(3, 2, rng=3)
    yield total(nets, X), product({"a": nets[0], "b": (nets[2],)}, X[:1])


def of_functions(wrap: Any) -> Iterator[Any]:
    rate = 1.0
    step = wrap(lambda function, x: function(x))
    scaled = lambda x: x * rate  # noqa: E731
    for value in (2.0, 3.0):
        rate = value
        yield step(scaled, X), step(np.tanh, X)


def of_training(wrap: Any) -> Iterator[Any]:
    net = nn.Linear(3, 2, rng=0)
    optimizer = optim.Adam(net.parameters(), lr=1e-2)
    learn = wrap(lambda net, optimizer, x: learner(lambda x: (net(x) ** 2).mean(), optimizer)(x))
    for number in range(4):
        yield learn(net, optimizer, X[: 1 + number % 2]), np.array(net.weight.data), np.array(net.bias.data)
        optimizer.param_groups[0]["lr"] *= 2


@each_case("program", [of_objects, of_modules, of_lists_of_modules, of_functions, of_training])
def test_objects_among_arguments(program: Callable[[Any], Iterator[Any]]) -> None:
    assert_same(program(lite.jit), program(lambda fn: fn), rtol=1e-5, atol=1e-7)


def test_graphs_and_donated_states_with_objects_among_arguments() -> None:
    net, td = nn.Linear(3, 2, rng=0), TensorDict(w=np.ones(3))
    step = lite.jit(lambda net, td, x: (td * 2, net(x)), donate="td")
    assert step.graph(net, td, X).operators.keys() & {"Gemm", "MatMul"}
    td, _ = step(net, td, X)
    np.testing.assert_array_equal(step.state["td", "w"], td["w"])
    assert step(net, td, X)[0]["w"][0] == 4


def test_kinds_of_arguments() -> None:
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        rate: float = 1.0

    objects = [nn.Identity(), optim.SGD([nn.Parameter(X)]), Options(), len.__call__ and (lambda: 0)]
    others = [
        X, 1, 1.0, "a", None, (1, 2), X.dtype, np.random.default_rng(0), TensorDict(), nn.Parameter(X),
        Frozen(), Options, np.tanh, slice(2), [], {}, [X, Options()],
    ]  # fmt: skip
    assert [object_key(x) is x for x in objects] == [True] * len(objects)
    assert [object_key(x) for x in others] == [None] * len(others)
    assert object_key([objects[0], {"a": objects[2]}]) == (list, (), objects[0], (dict, ("a",), objects[2]))
    assert not is_object_type[int]


def test_arguments_in_their_places() -> None:
    bound = Bound(lambda *args, **kwargs: (args, kwargs), {0: "a", 2: "c"}, {"k": 1}, ["x", "y"])
    assert bound("b", "d", m=2) == (("a", "b", "c", "d"), {"k": 1, "m": 2})
    assert bound.given == {"x": "a", "args[2]": "c", "k": 1}
