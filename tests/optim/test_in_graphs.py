"""Optimisers over parameters in steps that are graphs: what they leave in parameters and in their state."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.training_states import check, states

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
