"""Training steps in torch's style, and what they change: parameters, buffers, gradients, optimisers."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.compared import assert_same, on_both

import lite
from lite import TensorDict

Wrap = Callable[[Callable[..., Any]], Any]  # lite.jit, or what leaves a step as it is


def learner(loss: Callable[..., Any], *optimizers: Any) -> Callable[..., Any]:
    """A step of the optimisers down the gradients of a loss, which it returns."""

    @lite.enable_grad()
    def learn(*batch: Any) -> Any:
        value = loss(*batch)
        value.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return value.detach()

    return learn


def transitions(x: Any) -> TensorDict:
    """A batch of steps from x to -x, none of which ends an episode."""
    ends = {name: np.zeros((len(x), 1), bool) for name in ("done", "terminated")}
    following = TensorDict(observation=-x, reward=x[:, :1], **ends, batch_size=[len(x)])
    return TensorDict(observation=x, action=np.arange(len(x)) % 2, next=following, batch_size=[len(x)])


def both_forms(trained: Callable[[Wrap], Any]) -> tuple[Any, Any]:
    """What a program leaves that wraps its steps: as graphs, and as they are."""
    return trained(lambda fn: lite.jit(fn, threads=1)), trained(lambda fn: fn)


def states(net: Any, optimizer: Any) -> dict[str, Any]:
    found = {name: np.array(value) for name, value in net.state_dict().items()}
    found |= {f"grad {name}": param.grad for name, param in net.named_parameters()}
    for i, state in optimizer.state_dict()["state"].items():
        found |= {f"{name} {i}": value for name, value in state.items()}
    return found


check = functools.partial(assert_same, rtol=1e-5, atol=1e-6)

# A decorator of tests that get what wraps their steps: they return the same with graphs as without.
same_in_graphs = on_both(lambda body: check(*both_forms(body)))
