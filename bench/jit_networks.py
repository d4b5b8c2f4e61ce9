"""Steps of networks for `bench/test_jit.py`: the forward pass, the backward pass and Adam."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from jit_steps import Alternatives, regression, with_and_without

import lite
from lite import TensorDict, nn, optim, value_and_grad

Learning = Callable[[Callable[..., Any]], Callable[[], Any]]
RATE = 1e-3


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers in float32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def same(alternatives: Alternatives) -> Alternatives:
    """The alternatives, whose first three losses are the same."""
    first, *others = [[float(call()) for _ in range(3)] for call in alternatives.values()]
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-3)
    return alternatives


def told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, which are printed."""
    for r in rows:
        taken = f"{1e3 * r['lite_ms']:8.1f} us {r['against']:22s} {1e3 * r['other_ms']:8.1f} us"
        print(f"{r['case']:32s} {taken} {r['ratio']:.2f}")
    return rows


def by_hand(weights: list[np.ndarray], x: np.ndarray, y: np.ndarray) -> tuple[Any, list[np.ndarray]]:
    """Loss and gradients of a network with two hidden layers of tanh, and the mean squared error."""
    w1, b1, w2, b2, w3, b3 = weights
    h1 = np.tanh(x @ w1.T + b1)
    h2 = np.tanh(h1 @ w2.T + b2)
    error = h2 @ w3.T + b3 - y
    loss = (error * error).mean()
    g = error * np.float32(2 / error.size)
    g2 = (g @ w3) * (1 - h2 * h2)
    g1 = (g2 @ w2) * (1 - h1 * h1)
    return loss, [g1.T @ x, g1.sum(0), g2.T @ h1, g2.sum(0), g.T @ h2, g.sum(0)]


class ByHand:
    """Steps of `by_hand` with Adam, in NumPy."""

    def __init__(self, weights: list[np.ndarray]) -> None:
        self.weights = [w.copy() for w in weights]
        self.first = [np.zeros_like(w) for w in weights]
        self.second = [np.zeros_like(w) for w in weights]
        self.step = 0

    def __call__(self, x: np.ndarray, y: np.ndarray) -> Any:
        loss, grads = by_hand(self.weights, x, y)
        self.step += 1
        root = (1 - 0.999**self.step) ** 0.5
        rate, eps = RATE * root / (1 - 0.9**self.step), 1e-8 * root
        for p, g, m, v in zip(self.weights, grads, self.first, self.second, strict=True):
            m += (g - m) * np.float32(0.1)
            v += (g * g - v) * np.float32(0.001)
            p -= np.float32(rate) * m / (np.sqrt(v) + np.float32(eps))
        return loss


def jax_mlp(weights: Any, x: Any, y: Any) -> Any:
    """The loss in JAX."""
    w1, b1, w2, b2, w3, b3 = weights
    h = jax.numpy.tanh(jax.numpy.tanh(x @ w1.T + b1) @ w2.T + b2)
    return ((h @ w3.T + b3 - y) ** 2).mean()


def jax_step(params: Any, first: Any, second: Any, count: Any, x: Any, y: Any) -> Any:
    """The step in JAX."""
    loss, grads = jax.value_and_grad(jax_mlp)(params, x, y)
    count = count + 1
    first = [m + (g - m) * 0.1 for m, g in zip(first, grads, strict=True)]
    second = [v + (g * g - v) * 0.001 for v, g in zip(second, grads, strict=True)]
    root = (1 - 0.999**count) ** 0.5
    rate, eps = RATE * root / (1 - 0.9**count), 1e-8 * root
    rows = zip(params, first, second, strict=True)
    params = [p - rate * m / (jax.numpy.sqrt(v) + eps) for p, m, v in rows]
    return loss, params, first, second, count


def in_jax(weights: list[np.ndarray], x: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    """A call of `jax_step`, compiled, with donated state."""
    compiled = jax.jit(jax_step, donate_argnums=(0, 1, 2, 3))
    zeros = [jax.numpy.zeros_like(w) for w in weights]
    params = [jax.numpy.asarray(w) for w in weights]
    held = [params, zeros, list(map(jax.numpy.copy, zeros)), jax.numpy.float32(0)]
    jx, jy = jax.numpy.asarray(x), jax.numpy.asarray(y)

    def call() -> Any:
        loss, *held[:] = compiled(*held, jx, jy)
        return jax.block_until_ready(loss)

    return call


def steps(net: Any, x: np.ndarray, y: np.ndarray, threads: int) -> Alternatives:
    """Regression by a network of lite, with and without a graph."""
    adam = optim.Adam(RATE)
    return with_and_without(regression(net, adam), TensorDict.from_module(net), adam, x, y, threads=threads)


def torch_steps(given: Any, call: Callable[[Any, Any], Any], x: np.ndarray, y: np.ndarray) -> Alternatives:
    """Regression in torch by `call` of copies of a module or a dict of parameters, and an input.

    With Adam as scripts make it, and with the fastest that torch has on a CPU.
    """
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)

    def learning(**how: bool) -> Callable[[], Any]:
        own = copy.deepcopy(given)
        adam = torch.optim.Adam(own.values() if isinstance(own, dict) else own.parameters(), lr=RATE, **how)

        def step() -> Any:
            adam.zero_grad()
            loss = torch.nn.functional.mse_loss(call(own, tx), ty)
            loss.backward()
            adam.step()
            return loss

        return step

    return {"torch": learning(), "torch, fused Adam": learning(fused=True)}


def run(net: Any, x: Any) -> Any:
    """The network's result."""
    return net(x)


def torch_compiled(
    net: Callable[[dict[str, Any], Any], Any], params: dict[str, Any], x: np.ndarray, y: np.ndarray
) -> Callable[[], Any]:
    """The same with the whole step given to torch.compile, Adam's formula too, as to jax.jit and lite.jit."""
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    params = {name: param.detach().clone() for name, param in params.items()}
    zeros = {name: torch.zeros_like(param) for name, param in params.items()}

    def step(params: Any, first: Any, second: Any, count: Any, x: Any, y: Any) -> Any:
        def objective(params: Any) -> Any:
            return torch.nn.functional.mse_loss(net(params, x), y)

        grads, loss = torch.func.grad_and_value(objective)(params)
        count = count + 1
        first = {name: m + (grads[name] - m) * 0.1 for name, m in first.items()}
        second = {name: v + (grads[name] ** 2 - v) * 0.001 for name, v in second.items()}
        root = (1 - 0.999**count) ** 0.5
        rate, eps = RATE * root / (1 - 0.9**count), 1e-8 * root
        params = {name: p - rate * first[name] / (second[name].sqrt() + eps) for name, p in params.items()}
        return loss, params, first, second, count

    compiled = torch.compile(step)
    held = [params, zeros, zeros, torch.zeros(())]

    @torch.no_grad()
    def call() -> Any:
        loss, *held[:] = compiled(*held, tx, ty)
        return loss

    return call


def torchs_style(net: Any, x: np.ndarray, y: np.ndarray, threads: int) -> Callable[[], Any]:
    """Regression by a network of lite, by `backward` and an optimiser over its parameters, as a graph."""
    adam = optim.Adam(net.parameters(), lr=RATE)

    @lite.jit(threads=threads)
    @lite.enable_grad()
    def call() -> Any:
        adam.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        adam.step()
        return loss.detach()

    return call


def tanh_network(lib: Any, outputs: int) -> Any:
    """8-64-64 and the outputs."""
    return lib.Sequential(
        *(lib.Linear(8, 64), lib.Tanh(), lib.Linear(64, 64), lib.Tanh(), lib.Linear(64, outputs))
    )


def mlp(batch: int, threads: int) -> Alternatives:
    """8-64-64-4 with tanh."""
    torch_net, net, changed = tanh_network(torch.nn, 4), tanh_network(nn, 4), tanh_network(nn, 4)
    for other in (net, changed):
        other.load_state_dict(torch_net.state_dict())
    x, y = numbers(batch, 8), numbers(batch, 4, seed=1)
    weights = [param.data.copy() for param in net.parameters()]
    by_hand = ByHand(weights)
    return same(
        {
            **steps(net, x, y, threads),
            "lite, backward()": torchs_style(changed, x, y, threads),
            **torch_steps(torch_net, run, x, y),
            "torch.compile": torch_compiled(*functional(torch_net), x, y),
            "by hand": lambda: by_hand(x, y),
            "JAX, jit": in_jax(weights, x, y),
        }
    )


def functional(net: Any) -> tuple[Callable[[dict[str, Any], Any], Any], dict[str, Any]]:
    """A network of torch as a function of its parameters, and these."""
    return lambda params, x: torch.func.functional_call(net, params, (x,)), dict(net.named_parameters())


def ensemble(count: int, threads: int) -> Alternatives:
    """Critics 8-64-64-1 with their parameters side by side, on one batch of 64."""
    critics = [tanh_network(torch.nn, 1) for _ in range(count)]
    base = tanh_network(nn, 1)
    mine = []
    for critic in critics:
        base.load_state_dict(critic.state_dict())
        mine.append(TensorDict.from_module(base).data.clone())
    stacked = lite.stack(mine)
    x, y = numbers(64, 8), numbers(count, 64, 1, seed=1)
    adam = optim.Adam(RATE)

    def one(params: Any, x: Any) -> Any:
        with params.to_module(base):
            return base(x)

    def update(params: Any, state: Any, x: Any, y: Any) -> Any:
        def objective(params: Any) -> Any:
            return ((lite.vmap(one, (0, None))(params, x) - y) ** 2).mean()

        loss, grads = value_and_grad(objective)(params)
        return loss, *adam.update(params, grads, state)

    params, _ = torch.func.stack_module_state(critics)
    skeleton = tanh_network(torch.nn, 1).to("meta")

    def mapped(params: Any, x: Any) -> Any:
        return torch.func.vmap(lambda p: torch.func.functional_call(skeleton, p, (x,)))(params)

    return same(
        {
            **with_and_without(update, stacked, adam, x, y, threads=threads),
            **torch_steps(params, mapped, x, y),
            "torch.compile": torch_compiled(mapped, params, x, y),
        }
    )


def convolutions(batch: int, threads: int) -> Alternatives:
    """The network of Mnih et al. (2015) for frames of Atari games."""

    def layers(lib: Any) -> Any:
        return lib.Sequential(
            *(lib.Conv2d(4, 32, 8, 4), lib.ReLU(), lib.Conv2d(32, 64, 4, 2), lib.ReLU()),
            *(lib.Conv2d(64, 64, 3, 1), lib.ReLU(), lib.Flatten(), lib.Linear(3136, 512), lib.ReLU()),
            lib.Linear(512, 6),
        )

    return network(
        layers(torch.nn), layers(nn), numbers(batch, 4, 84, 84), numbers(batch, 6, seed=1), threads
    )


def recurrent(times: int, threads: int) -> Alternatives:
    """GRU 8-64 over sequences, a batch of 32."""
    torch_net, net = torch.nn.GRU(8, 64, batch_first=True), nn.GRU(8, 64, batch_first=True)
    x, y = numbers(32, times, 8), numbers(32, times, 64, seed=1)
    return network(torch_net, net, x, y, threads, torch_call=lambda net, x: net(x)[0], call=_First(net))


class _First(nn.Module):
    """The first result of a module."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Any) -> Any:
        return self.net(x)[0]


def network(
    torch_net: Any,
    net: Any,
    x: np.ndarray,
    y: np.ndarray,
    threads: int,
    torch_call: Callable[[Any, Any], Any] | None = None,
    call: Any = None,
) -> Alternatives:
    """Steps of a network of each side with the same weights."""
    net.load_state_dict(torch_net.state_dict())
    theirs = torch_steps(torch_net, torch_call or run, x, y)
    if torch_call is None:
        theirs["torch.compile"] = torch_compiled(*functional(torch_net), x, y)
    return same({**steps(call or net, x, y, threads), **theirs})


def forward(threads: int) -> Alternatives:
    """policy(td) of two layers, beside the session alone."""
    policy = nn.TensorDictModule(nn.MLP(4, 2, num_cells=[64]), ["observation"], ["action"])
    td = TensorDict(observation=numbers(1, 4), batch_size=[1])
    call = lite.jit(lambda td: policy(td), threads=threads)
    call(td)
    session = call.lower(td)._runner._session.session
    feeds = {session.get_inputs()[0].name: numbers(1, 4)}
    taken = call.lower(td)._runner._taken
    feeds |= {x.name: taken[x.name].array for x in session.get_inputs()[1:]}
    return {
        "lite": lambda: call(td),
        "lite, plain": lambda: policy(td),
        "session.run": lambda: session.run(None, feeds),
    }
