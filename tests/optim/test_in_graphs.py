"""Optimisers over parameters in steps that are graphs: what they leave in parameters and in their state."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.training_states import both_forms, check, states

import lite
from lite import nn, optim

RNG = np.random.default_rng(1)
BATCHES = [
    (RNG.normal(size=(8, 3)).astype(np.float32), RNG.normal(size=(8, 2)).astype(np.float32)) for _ in range(4)
]
OPTIMIZERS: dict[str, Any] = {
    "adam": lambda params: optim.Adam(params, lr=1e-2, betas=[0.8, 0.99]),
    "amsgrad": lambda params: optim.AdamW(params, lr=1e-2, amsgrad=True),
    "momentum": lambda params: optim.SGD(params, lr=1e-2, momentum=0.9, dampening=0.5),
    "rmsprop": lambda params: optim.RMSprop(params, lr=1e-2, centered=True),
}


class Network(nn.Module):
    """Layers, buffers, a parameter without dimensions, and one that nothing depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(3, 4, bias=False, rng=0), nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 2, rng=1)
        self.unused = nn.Parameter(np.ones(2, np.float32))
        self.scale = nn.Parameter(np.float32(1.0))

    def forward(self, x: Any) -> Any:
        return self.scale * self.last(np.tanh(self.norm(self.first(x))))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_an_optimizer(name: str) -> None:
    first = name != "momentum"  # zero_grad before the loss, or after the step

    def trained(wrap: Callable[..., Any]) -> tuple[Any, Any, list[Any]]:
        net = Network()
        optimizer = OPTIMIZERS[name](net.parameters())

        @wrap
        def update(x: Any, y: Any) -> Any:
            if first:
                optimizer.zero_grad()
            with lite.enable_grad():
                loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            norm = optim.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            if not first:
                optimizer.zero_grad()
            return {"loss": loss.detach(), "norm": norm}

        losses = []
        for number, batch in enumerate(BATCHES):
            if number == 2:  # a schedule between two steps
                optimizer.param_groups[0]["lr"] = 3e-3
            losses.append(list(update(*batch).values()))
        net.eval()
        losses.append([net(BATCHES[0][0]).sum()])
        return update, states(net, optimizer), losses

    _, plain, losses = trained(lambda fn: fn)
    update, stepped, found = trained(lambda fn: lite.jit(fn, threads=1))
    check(stepped, plain)
    for mine, other in zip(found, losses, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4)
    assert len(update._stateful[1]._kept) == (2 if name == "momentum" else 1)  # whose first step is another


def test_rates_that_a_step_computes(tmp_path: Path) -> None:
    def trained(wrap: Callable[..., Any], file: str = "") -> Any:
        net, frozen = nn.Linear(3, 2, rng=0), nn.Linear(2, 2, rng=1)
        adam, sgd = optim.Adam(net.parameters(), lr=1e-2), optim.SGD(frozen.parameters(), lr=1e-2)
        (noted,) = adam.param_groups

        @wrap
        @lite.enable_grad()
        def update(x: Any, done: Any) -> Any:
            noted["lr"] = 1e-2 * (1 - done / 4)  # as in TorchRL's scripts, of an integer
            for optimizer in (adam, sgd):
                optimizer.zero_grad()
            loss = (frozen(net(x)) ** 2).mean()
            loss.backward()
            adam.step()
            sgd.step()
            return loss.detach(), done + 1

        step, count = update, np.zeros((), np.int64)
        if file:
            update.lower(BATCHES[0][0], count).save(file)
            step = lite.load_step(file)
        for x, _ in BATCHES:
            loss, count = step(x, count)
        if file:
            return {f"{name} {key}": step.state[name, key] for name, key in step.state.keys(True, True)}
        noted["lr"], rate = 1.0, noted["lr"]  # the group is still the optimiser's
        assert adam.param_groups[0]["lr"] == 1.0
        sets = {"net": net.state_dict(), "frozen": frozen.state_dict()}
        found = {f"{name} {key}": np.array(x) for name, one in sets.items() for key, x in one.items()}
        return {**found, "adam param_groups.0.lr": np.array(rate), "loss": np.array(loss)}

    plain, stepped = both_forms(trained)
    assert plain["adam param_groups.0.lr"] == 2.5e-3
    check(stepped, plain)
    loaded = trained(lite.jit, str(tmp_path / "step.onnx"))
    shared = plain.keys() & loaded.keys()
    assert len(shared) == 5
    check({key: loaded[key] for key in shared}, {key: plain[key] for key in shared})


def test_rates_of_the_trace_alone_are_refused() -> None:
    net = nn.Linear(3, 2, rng=0)
    sgd = optim.SGD(net.parameters(), lr=1e-2)

    @lite.jit
    @lite.enable_grad()
    def update(x: Any, rate: Any) -> None:
        sgd.param_groups[0]["lr"] = rate if rate.ndim else 0.5
        net(x).sum().backward()
        sgd.step()

    x, message = BATCHES[0][0], "the function changes lr of an optimiser"
    raises(RuntimeError, f"{message} to what no argument says, got 0.5", update, x, np.ones(()))
    raises(RuntimeError, message, update, x, np.ones(1))
    assert sgd.param_groups[0]["lr"] == 1e-2


@each_case("change", ["replace", "add"])
def test_other_groups_are_refused_and_not_kept(change: str) -> None:
    net, more = nn.Linear(3, 2, rng=0), nn.Parameter(np.ones(1))
    sgd = optim.SGD(net.parameters(), lr=1e-2)
    groups, (group,) = sgd.param_groups, sgd.param_groups

    @lite.jit
    def update(rate: Any) -> None:
        if change == "replace":
            sgd.param_groups = [{**group, "lr": rate}]
        else:
            sgd.add_param_group({"params": [more]})

    raises(RuntimeError, "other groups of an optimiser", update, np.ones(()))
    assert sgd.param_groups is groups
    assert len(groups) == 1
    assert groups[0] is group
    assert group["lr"] == 1e-2
