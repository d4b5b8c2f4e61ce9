"""Whole training steps as graphs (`lite.jit`) beside torch, JAX, NumPy by hand, and TorchRL.

`python bench/test_jit.py` runs all, each on as many threads (`--threads`, 1 unless given).

A step is forward, backward and Adam, and of DQN the targets' soft update, too. `--only PATTERN` runs the
cases whose names match. Losses of three steps are compared before the steps are timed.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

THREADS = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else "1"
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = THREADS  # before NumPy and torch are imported
if THREADS == "1":
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax  # noqa: E402
import numpy as np  # noqa: E402
import tensordict  # noqa: E402
import torch  # noqa: E402
import torchrl  # noqa: E402
from side_by_side import arguments, machine, measure, place, report, row  # noqa: E402
from torchrl.objectives import DQNLoss as TorchDQNLoss  # noqa: E402
from torchrl.objectives import SoftUpdate as TorchSoftUpdate  # noqa: E402

import lite  # noqa: E402
from lite import TensorDict, nn, optim, value_and_grad  # noqa: E402
from lite.nn.losses import DQNLoss  # noqa: E402

warnings.simplefilter("ignore")
Alternatives = dict[str, Callable[[], Any]]
TIMES = 20  # steps in a row


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def same(first: list[float], *others: list[float]) -> None:
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-3)


class ByHand:
    """Backpropagation and Adam of a network with two hidden layers of tanh, in NumPy."""

    def __init__(self, weights: list[np.ndarray]) -> None:
        self.weights = [w.copy() for w in weights]
        self.first = [np.zeros_like(w) for w in weights]
        self.second = [np.zeros_like(w) for w in weights]
        self.step = 0

    def __call__(self, x: np.ndarray, y: np.ndarray) -> Any:
        w1, b1, w2, b2, w3, b3 = self.weights
        h1 = np.tanh(x @ w1.T + b1)
        h2 = np.tanh(h1 @ w2.T + b2)
        error = h2 @ w3.T + b3 - y
        loss = (error * error).mean()
        g = error * np.float32(2 / error.size)
        g2 = (g @ w3) * (1 - h2 * h2)
        g1 = (g2 @ w2) * (1 - h1 * h1)
        self.step += 1
        root = (1 - 0.999**self.step) ** 0.5
        rate, eps = 1e-3 * root / (1 - 0.9**self.step), 1e-8 * root
        grads = (g1.T @ x, g1.sum(0), g2.T @ h1, g2.sum(0), g.T @ h2, g.sum(0))
        for p, g, m, v in zip(self.weights, grads, self.first, self.second, strict=True):
            m += (g - m) * np.float32(0.1)
            v += (g * g - v) * np.float32(0.001)
            p -= np.float32(rate) * m / (np.sqrt(v) + np.float32(eps))
        return loss


def jax_step(params: Any, first: Any, second: Any, count: Any, x: Any, y: Any) -> Any:
    def objective(params: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = params
        h = jax.numpy.tanh(jax.numpy.tanh(x @ w1.T + b1) @ w2.T + b2)
        return ((h @ w3.T + b3 - y) ** 2).mean()

    loss, grads = jax.value_and_grad(objective)(params)
    count = count + 1
    first = [m + (g - m) * 0.1 for m, g in zip(first, grads, strict=True)]
    second = [v + (g * g - v) * 0.001 for v, g in zip(second, grads, strict=True)]
    root = (1 - 0.999**count) ** 0.5
    rate, eps = 1e-3 * root / (1 - 0.9**count), 1e-8 * root
    rows = zip(params, first, second, strict=True)
    params = [p - rate * m / (jax.numpy.sqrt(v) + eps) for p, m, v in rows]
    return loss, params, first, second, count


def mlp(batch: int) -> Alternatives:
    """8-64-64-4 with tanh and Adam."""
    layers = (torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh())
    torch_net = torch.nn.Sequential(*layers, torch.nn.Linear(64, 4))
    net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    net.load_state_dict(torch_net.state_dict())
    weights = [param.data.copy() for param in net.parameters()]
    x, y = numbers(batch, 8), numbers(batch, 4, seed=1)
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    adam, torch_adam = optim.Adam(1e-3), torch.optim.Adam(torch_net.parameters(), lr=1e-3)

    def update(params: Any, state: Any, x: Any, y: Any) -> Any:
        def objective(params: Any) -> Any:
            with params.to_module(net):
                return ((net(x) - y) ** 2).mean()

        loss, grads = value_and_grad(objective)(params)
        return loss, *adam.update(params, grads, state)

    def learning(update: Callable[..., Any]) -> Callable[[], Any]:
        params = TensorDict.from_module(net).data.clone()
        held = [params, adam.init(params)]

        def call() -> Any:
            loss, *held[:] = update(*held, x, y)
            return loss

        return call

    def theirs() -> Any:
        torch_adam.zero_grad()
        loss = torch.nn.functional.mse_loss(torch_net(tx), ty)
        loss.backward()
        torch_adam.step()
        return loss

    compiled = jax.jit(jax_step, donate_argnums=(0, 1, 2, 3))
    zeros = [jax.numpy.zeros_like(w) for w in weights]
    held = [
        [jax.numpy.asarray(w) for w in weights],
        zeros,
        list(map(jax.numpy.copy, zeros)),
        jax.numpy.float32(0),
    ]
    jx, jy = jax.numpy.asarray(x), jax.numpy.asarray(y)

    def in_jax() -> Any:
        loss, *held[:] = compiled(*held, jx, jy)
        return jax.block_until_ready(loss)

    by_hand = ByHand(weights)
    threads = int(THREADS)
    found = {
        "lite": learning(lite.jit(update, donate=("params", "state"), threads=threads)),
        "lite, plain": learning(update),
        "torch": theirs,
        "by hand": lambda: by_hand(x, y),
        "JAX, jit": in_jax,
    }
    same(*[[float(call()) for _ in range(3)] for call in found.values()])
    return found


def dqn() -> Alternatives:
    """DQN of 4-128-128-2 with double targets, Adam and the soft update, batches of 64."""
    cells = {"num_cells": [128, 128]}
    torch_net = torchrl.modules.MLP(in_features=4, out_features=2, activation_class=torch.nn.ReLU, **cells)
    net = nn.MLP(4, 2, activation_class=nn.ReLU, **cells)
    net.load_state_dict(torch_net.state_dict())
    loss = DQNLoss(nn.QValueActor(net, action_space="categorical"), double_dqn=True)
    actor = torchrl.modules.QValueActor(torch_net, in_keys=["observation"], action_space="categorical")
    torch_loss = TorchDQNLoss(actor, double_dqn=True, action_space="categorical", delay_value=True)
    torch_loss.make_value_estimator(gamma=0.99)
    target = TorchSoftUpdate(torch_loss, tau=0.01)
    torch_adam = torch.optim.Adam(torch_loss.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)
    flag = rng.random((64, 1)) < 0.1
    after = {"observation": numbers(64, 4, seed=2), "reward": numbers(64, 1, seed=3)}
    entries = {"observation": numbers(64, 4), "action": rng.integers(2, size=64)}
    batch = TensorDict({**entries, "next": {**after, "done": flag, "terminated": flag}}, batch_size=[64])
    torch_batch = tensordict.TensorDict(batch.to_dict(), batch_size=[64]).apply(torch.as_tensor)
    adam = optim.Adam(1e-3)
    everything = TensorDict.from_module(loss)

    def update(params: Any, state: Any, targets: Any, batch: Any) -> Any:
        def objective(params: Any) -> Any:
            with params.to_module(loss), targets.to_module(loss):
                return loss(batch)["loss"]

        value, grads = value_and_grad(objective)(params)
        params, state = adam.update(params, grads, state)
        optim.soft_update(targets["target_value_network_params"], params["value_network_params"], 0.01)
        return value, params, state

    def learning(update: Callable[..., Any]) -> Callable[[], Any]:
        params = everything.select("value_network_params").data.clone()
        targets = everything.select("target_value_network_params").data.clone()
        held = [params, adam.init(params)]

        def call() -> Any:
            value, *held[:] = update(*held, targets, batch)
            return value

        return call

    def theirs() -> Any:
        value = torch_loss(torch_batch)["loss"]
        value.backward()
        torch_adam.step()
        torch_adam.zero_grad()
        target.step()
        return value

    threads = int(THREADS)
    found = {
        "lite": learning(lite.jit(update, donate=("params", "state", "targets"), threads=threads)),
        "lite, plain": learning(update),
        "torchrl": theirs,
    }
    same(*[[float(call()) for _ in range(3)] for call in found.values()])
    return found


def forward() -> Alternatives:
    """policy(td) of two layers, beside the session alone."""
    policy = nn.TensorDictModule(nn.MLP(4, 2, num_cells=[64]), ["observation"], ["action"])
    td = TensorDict(observation=numbers(1, 4), batch_size=[1])
    call = lite.jit(lambda td: policy(td), threads=int(THREADS))
    call(td)
    session = call.lower(td)._runner._session.session
    feeds = {session.get_inputs()[0].name: numbers(1, 4)}
    feeds |= {
        x.name: one.array for x in session.get_inputs()[1:] for one in [call.lower(td)._runner._taken[x.name]]
    }
    return {
        "lite": lambda: call(td),
        "lite, plain": lambda: policy(td),
        "session.run": lambda: session.run(None, feeds),
    }


CASES: dict[str, Callable[[], Alternatives]] = {
    "MLP, Adam, batch 32": lambda: mlp(32),
    "MLP, Adam, batch 256": lambda: mlp(256),
    "DQN update, batch 64": dqn,
    "policy(td) of two layers": forward,
}


def repeated(call: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(TIMES):
            call()

    return run


def main() -> None:
    parser = arguments(__doc__, rounds=51)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", metavar="PATTERN", help="of the names of cases")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    rows = []
    for case, make in CASES.items():
        if not re.search(asked.only or "", case):
            continue
        taken = measure({name: repeated(call) for name, call in make().items()}, asked.rounds)
        each = {name: {key: value / TIMES for key, value in found.items()} for name, found in taken.items()}
        for name in each:
            if name != "lite":
                rows.append(row(case, name, each))
                r = rows[-1]
                times_taken = f"{1e3 * r['lite_ms']:8.1f} us {name:14s} {1e3 * r['other_ms']:8.1f} us"
                print(f"{case:28s} {times_taken} {r['ratio']:.2f}")
    versions = {"torch": torch.__version__, "jax": jax.__version__, "torchrl": torchrl.__version__}
    about = machine() | versions | {"threads": asked.threads}
    report(place(asked, part=bool(asked.only)), "jit", "Training steps as graphs", rows, about)


if __name__ == "__main__":
    main()
