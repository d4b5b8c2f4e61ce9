"""What a function takes from elsewhere is what its names stand for at each call."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

import lite
from lite import TensorDict, nn
from lite.nn.distributions import Normal

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")
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


@each_case(
    "program", [of_a_cell, of_a_global, of_a_generator, of_entries, of_items, of_a_module, of_a_method]
)
def test_names_are_read_at_each_call(program: Callable[[Any], Iterator[Any]]) -> None:
    for got, want in zip(program(lite.jit), program(lambda fn: fn), strict=True):
        np.testing.assert_allclose(got, want)


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
    assert len(traced) == 2
    assert len(agent.act._kept) == 1
    assert agent.act._changes == 0


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
