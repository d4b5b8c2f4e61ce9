"""What a function takes from elsewhere is what its names stand for at each call."""

from __future__ import annotations

import enum
import functools
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.compared import assert_same
from helpers.interrupts import interrupted_everywhere

import lite
from lite import TensorDict, nn
from lite._transforms.jit.function import JitFunction
from lite._transforms.jit.named import Named, _Content
from lite.nn.distributions import Normal

X = np.array([0.5, 1.0, 2.0])
NUMBER = 1.0


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor, self.calls = 1.0, 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x * self.factor


class Agent:
    def __init__(self) -> None:
        self.factor, self.unread = 1.0, 0

    def scaled(self, x: Any) -> Any:
        return x * self.factor

    @lite.jit
    def act(self, x: Any) -> Any:
        return self.scaled(x)


def of_a_cell(wrap: Any) -> Iterator[Any]:
    factor: Any = 1.0
    step = wrap(lambda x: x * factor)
    for value in (2.0, 3.0, np.ones(3), np.arange(3.0)):
        factor = value
        yield step(X)


def of_a_global(wrap: Any) -> Iterator[Any]:
    global NUMBER
    step = wrap(lambda x: x * NUMBER)
    for value in (2.0, 3.0):
        NUMBER = value
        yield step(X)


def of_a_generator(wrap: Any) -> Iterator[Any]:
    rng = np.random.default_rng(0)
    step = wrap(lambda x: Normal(x, x).rsample(rng=rng))
    for seed in (0, 0, 1):
        rng = np.random.default_rng(seed)
        yield step(X), step(X)


def of_entries(wrap: Any) -> Iterator[Any]:
    td, options, space = TensorDict(a=X, b={"c": X}), {"rate": 1.0}, types.SimpleNamespace(rate=1.0)
    step = wrap(lambda x: x * td["a"] + td["b", "c"] * options["rate"] - space.rate)
    yield step(X)
    td["b", "c"] = X + 1
    yield step(X)
    options["rate"] = 2.0
    yield step(X)
    space.rate = 3.0
    yield step(X)
    td = td + 1
    yield step(X)


def of_items(wrap: Any) -> Iterator[Any]:
    factors, options, helper = [1.0, 2.0], {"a": 1.0}, np.tanh
    step = wrap(lambda x: helper(x) * sum(factors) + sum(options.values()))
    yield step(X)
    factors[0] = 3.0
    yield step(X)
    factors.append(X)
    yield step(X)
    options["b"] = 5.0
    yield step(X)
    helper = lambda x: x + 1  # noqa: E731
    yield step(X)
    helper = lambda x: x - 1  # noqa: E731
    yield step(X)


def of_a_module(wrap: Any) -> Iterator[Any]:
    net = Scaled()
    step, inside = wrap(net), wrap(lambda x: net(x) + 1)
    for net.factor in (2.0, 3.0):
        yield step(X), inside(X)


def of_a_method(wrap: Any) -> Iterator[Any]:
    agent = Agent()
    step = wrap(agent.scaled)
    for agent.factor in (2.0, 3.0):
        yield step(X), agent.act(X)


class Mode(enum.Enum):
    ONE = 1
    TWO = 2


def of_functions_inside(wrap: Any) -> Iterator[Any]:
    global NUMBER

    def step(x: Any) -> Any:
        def scaled(x: Any) -> Any:
            return (x * NUMBER).sum()

        return lite.grad(scaled)(x), [NUMBER * x[i] for i in range(2)]

    step = wrap(step)
    for value in (2.0, 3.0):
        NUMBER = value
        yield np.concatenate([np.ravel(y) for y in step(X)[:1]])


def of_values(wrap: Any) -> Iterator[Any]:
    mask: Any = None
    mode, dtype, pair, part, names = Mode.ONE, np.float32, (1, 2.0), slice(0, 2), {"a"}

    def function(x: Any) -> Any:
        y = x if mask is None else x * mask
        y = (y * (2 if mode is Mode.ONE else 3)).astype(dtype) * pair[1]
        return y[part] + (1 if "a" in names else 0)

    step = wrap(function)
    yield step(X)
    mask = np.arange(3.0)
    yield step(X)
    mask = None
    yield step(X)
    mode = Mode.TWO
    yield step(X)
    dtype = np.float64
    yield step(X / 3)
    pair = (1, 5.0)
    yield step(X)
    part = slice(1, 3)
    yield step(X)
    names.clear()
    yield step(X)


def of_classes(wrap: Any) -> Iterator[Any]:
    class Base:
        rate: Any = 2.0

        def __init__(self) -> None:
            self.shift = 1.0

        @property
        def half(self) -> Any:
            return self.shift / 2

        @classmethod
        def rated(cls, x: Any) -> Any:
            return x * cls.rate

        def act(self, x: Any) -> Any:
            return self.rated(x) + self.half

    class Agent(Base):
        norm: Any = None

        @functools.cached_property
        def cached(self) -> Any:
            return self.shift * 3

        def act(self, x: Any) -> Any:
            return super().act(x) * 2 if self.norm is None else x / self.norm + self.cached

    class Slots:
        __slots__ = ("rate",)

    agent, slots = Agent(), Slots()
    slots.rate = 1.0
    steps = [
        wrap(agent.act), wrap(lambda x: agent.act(x)), wrap(Base.rated), wrap(lambda x: x * Agent.rate),
        wrap(lambda x: x * slots.rate), wrap(lambda x: x * sum(vars(agent).values())),
    ]  # fmt: skip
    yield [step(X) for step in steps]
    Base.rate = 3.0
    yield [step(X) for step in steps]
    agent.shift = 4.0
    yield [step(X) for step in steps]
    slots.rate = 5.0
    agent.rate = 7.0
    yield [step(X) for step in steps]
    agent.norm = 2.0
    yield [step(X) for step in steps[:2]]
    agent.shift = 1.0
    yield [step(X) for step in steps[:2]]
    del agent.cached
    yield [step(X) for step in steps[:2]]
    agent.norm = None
    yield [step(X) for step in steps[:2]]
    Agent.norm = 5.0
    yield [step(X) for step in steps[:2]]
    del agent.norm
    yield [step(X) for step in steps[:2]]


def of_objects(wrap: Any) -> Iterator[Any]:
    class Options:
        def __init__(self, **options: Any) -> None:
            vars(self).update(options)

        def __call__(self, x: Any) -> Any:
            return x * self.inner.rate + self.inner.weight

    outer = Options(inner=Options(rate=2.0, weight=np.ones(3)))
    steps = [wrap(outer), wrap(lambda x: outer(x)), wrap(lambda x: x * outer.inner.rate)]
    yield [step(X) for step in steps]
    outer.inner.rate = 3.0
    yield [step(X) for step in steps]
    outer.inner.weight = np.arange(3.0)
    yield [step(X) for step in steps]
    outer.inner.weight[:] = 5
    yield [step(X) for step in steps]
    outer.inner = Options(rate=0.5, weight=np.zeros(3))
    yield [step(X) for step in steps]


def of_a_module_of_python(wrap: Any) -> Iterator[Any]:
    module = types.ModuleType("options")
    exec("RATE = 2.0\ndef scaled(x): return x * RATE", vars(module))
    vars(module)["__name__"] = "options"
    step = wrap(lambda x: module.scaled(x) + module.RATE)
    for module.RATE in (2.0, 3.0):
        yield step(X)


def of_defaults(wrap: Any) -> Iterator[Any]:
    options = {"rate": 2.0}

    def function(x: Any, given: Any = options, *, more: Any = options) -> Any:
        return x * given["rate"] + more["rate"]

    step = wrap(function)
    for options["rate"] in (2.0, 3.0):
        yield step(X)


class Varied(nn.Module):
    kind: ClassVar[float] = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.count, self.mask, self.pair, self.function = 1, None, (1.0, 2.0), np.tanh
        self.options, self.order, self.inner = {"rate": 1.0}, [0, 1], types.SimpleNamespace(rate=1.0)
        self.register_buffer("shift", np.zeros(3))

    def forward(self, x: Any) -> Any:
        for _ in range(self.count):
            x = self.function(x) * self.pair[1] * self.options["rate"] * self.inner.rate * NUMBER
        x = x + sum(i * number for number, i in enumerate(self.order)) + self.shift * self.kind
        return x if self.mask is None else x * self.mask


def of_attributes_of_modules(wrap: Any) -> Iterator[Any]:
    global NUMBER
    NUMBER, Varied.kind, scale = 1.0, 1.0, 1.0
    net = Varied()
    net.register_forward_hook(lambda module, args, output: output * scale)
    steps = [wrap(net), wrap(lambda x: net(x)), wrap(nn.Sequential(net))]
    changes: list[Callable[[], Any]] = [
        lambda: setattr(net, "count", 2),
        lambda: setattr(net, "mask", np.arange(3.0)),
        lambda: net.mask.fill(2),
        lambda: setattr(net, "pair", (1.0, 3.0)),
        lambda: setattr(net, "function", np.sin),
        lambda: net.options.update(rate=2.0),
        lambda: net.order.reverse(),
        lambda: setattr(net.inner, "rate", 0.5),
        lambda: setattr(net, "shift", np.ones(3)),
        lambda: net.shift.fill(4),
        lambda: setattr(Varied, "kind", 3.0),
        lambda: globals().update(NUMBER=2.0),
        lambda: net.register_forward_hook(lambda module, args, output: output + 1),
    ]
    yield [step(X) for step in steps]
    for change in changes:
        change()
        yield [step(X) for step in steps]
    scale = 7.0
    yield [step(X) for step in steps]
    Varied.kind = 1.0


def of_a_function_in_a_module(wrap: Any) -> Iterator[Any]:
    rate = 1.0
    module = nn.TensorDictModule(lambda x: x * rate, ["x"], ["y"])
    step = wrap(lambda td: module(td)["y"])
    for value in (2.0, 3.0):
        rate = value
        yield step(TensorDict(x=X))


def of_modes_of_parts(wrap: Any) -> Iterator[Any]:
    net = nn.Sequential(nn.LayerNorm(3), nn.BatchNorm1d(3))
    step, x = wrap(lambda x: net(x)), np.stack([X, X**2, X + 1])
    yield step(x)
    net[1].eval()
    yield step(x)
    net[1].train()
    yield step(x)


def of_arrays_alone(wrap: Any) -> Iterator[Any]:
    weight, table = np.ones(3), np.arange(5.0)
    step = wrap(lambda x: x * weight.sum() + table[x.ndim])
    yield step(X)
    weight[:] = 2
    yield step(X)
    table[1] = 9
    yield step(X)


def of_code_that_is_changed_in_place(wrap: Any) -> Iterator[Any]:
    """As IPython's autoreload does, which keeps the functions."""

    def scaled(x: Any, by: float = 2.0, *, more: float = 1.0) -> Any:
        return x * by + more

    def reloaded(x: Any, by: float = 3.0, *, more: float = 1.0) -> Any:
        return x - by * more

    def whole(x: Any) -> Any:
        return scaled(x)

    step = wrap(whole)
    yield step(X)
    scaled.__code__ = reloaded.__code__
    yield step(X)
    scaled.__defaults__ = (5.0,)
    yield step(X)
    scaled.__kwdefaults__ = {"more": 7.0}
    yield step(X)
    whole.__code__ = (lambda x: x / 4).__code__.replace(co_freevars=whole.__code__.co_freevars)
    yield step(X)


@pytest.mark.filterwarnings("ignore:.* is traced again where")
@each_case(
    "program",
    [
        of_a_cell, of_a_global, of_a_generator, of_entries, of_items, of_a_module, of_a_method,
        of_functions_inside, of_values, of_classes, of_objects, of_a_module_of_python, of_defaults,
        of_attributes_of_modules, of_a_function_in_a_module, of_modes_of_parts, of_arrays_alone,
        of_code_that_is_changed_in_place,
    ],
)  # fmt: skip
def test_names_are_read_at_each_call(program: Callable[[Any], Iterator[Any]]) -> None:
    assert_same(program(lite.jit), program(lambda fn: fn), rtol=1e-7)


def test_what_the_function_changes_itself_or_does_not_read_is_no_new_graph() -> None:
    traced, count, net, agent = [], 0, Scaled(), Agent()

    @lite.jit
    def step(x: Any) -> Any:
        nonlocal count
        traced.append(0)
        count += 1
        return net(x)

    for agent.unread in range(3):
        step(X)
        agent.act(X)
    assert len(traced) == 3  # for one graph
    assert len(agent.act._kept) == 1
    assert agent.act._changes == 0


def test_arrays_that_a_graph_reads_are_no_new_graph() -> None:
    weight = np.ones(3)
    step = lite.jit(lambda x: x * weight)
    for number in range(3):
        weight[:] = number
        np.testing.assert_array_equal(step(X), X * number)
    assert step._changes == 0


def test_a_trace_that_fails_leaves_what_it_found() -> None:
    td, options, space = TensorDict(mean=X), {"mean": X}, types.SimpleNamespace(mean=X)

    def moved(x: Any) -> Any:
        td["mean"] = options["mean"] = space.mean = td["mean"] * 0.9 + x
        return x - td["mean"]

    with pytest.raises(NotImplementedError, match="writes to an object that is not an argument is lost"):
        lite.jit(moved)(X)
    assert td["mean"] is X
    assert options["mean"] is X
    assert space.mean is X


def test_a_name_that_changes_at_each_call_is_told() -> None:
    rate = 0.0
    step = lite.jit(lambda x: x * rate)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(20):
            rate += 1.0
            step(X)
    (warning,) = found
    assert "for the 8th time as rate is: make it an argument" in str(warning.message)


@each_case(("axis", "label"), [("0", "n"), (-1, "n"), (0, 3), (0, "")])
def test_axes_are_named_by_number_and_text(axis: Any, label: Any) -> None:
    with pytest.raises(ValueError, match=r"dynamic_axes\['x'\] must name axes from 0 on"):
        lite.jit(lambda x: x, dynamic_axes={"x": {axis: label}})(np.ones(2))


def test_an_interrupt_while_a_function_is_traced_leaves_large_parameters_writable() -> None:
    net = nn.Linear(200, 100, rng=0)

    def run() -> None:
        lite.jit(lambda x: net(x))(np.ones((2, 200), np.float32))

    seen = interrupted_everywhere(run, Named.watch, JitFunction._refuse_written, _Content.put_back)
    lines = []
    for line in seen:
        lines.append(line)
        assert net.weight.data.flags.writeable, line
    assert len(lines) > 10
