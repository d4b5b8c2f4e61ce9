"""Gradients and optimisers beside torch's, beside backpropagation written by hand in NumPy, and beside JAX.

`python bench/test_grad.py` runs all, each on as many threads (`--threads`, 1 unless given).

`--only PATTERN` runs the cases whose names match. Gradients are compared before they are
timed.
"""

import os
import re
import sys
from collections.abc import Callable
from typing import Any

THREADS = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else "1"
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = THREADS  # before NumPy and torch are imported
if THREADS == "1":
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from jit_networks import by_hand, jax_mlp, numbers, tanh_network, told  # noqa: E402
from jit_steps import Alternatives  # noqa: E402
from side_by_side import arguments, machine, measure, place, report, rows_of  # noqa: E402

import lite  # noqa: E402
from lite import TensorDict, from_modules, nn, optim, value_and_grad, vmap  # noqa: E402

SHAPES = [(64, 8), (64,), (64, 64), (64,), (4, 64), (4,)]
CRITICS = 64
STEPS = 32


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-5)


def mlp(batch: int) -> Alternatives:
    """8-64-64-4 with tanh."""
    torch_net, net = tanh_network(torch.nn, 4), tanh_network(nn, 4)
    net.load_state_dict(torch_net.state_dict())
    weights = [param.data for param in net.parameters()]
    x, y = numbers(batch, 8), numbers(batch, 4, seed=1)
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    params = TensorDict.from_module(net)

    @value_and_grad
    def functional(params: Any, x: Any, y: Any) -> Any:
        with params.to_module(net):
            return ((net(x) - y) ** 2).mean()

    def backward() -> Any:
        net.zero_grad()
        with lite.enable_grad():
            loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        return loss

    def theirs() -> Any:
        torch_net.zero_grad()
        loss = torch.nn.functional.mse_loss(torch_net(tx), ty)
        loss.backward()
        return loss

    compiled = jax.jit(jax.value_and_grad(jax_mlp))
    jax_weights, jx, jy = [jax.numpy.asarray(w) for w in weights], jax.numpy.asarray(x), jax.numpy.asarray(y)
    theirs()
    expected = [param.grad.numpy() for param in torch_net.parameters()]
    for found in (
        list(functional(params, x, y)[1].values(True, True)),
        by_hand(weights, x, y)[1],
        compiled(jax_weights, jx, jy)[1],
    ):
        for ours, other in zip(found, expected, strict=True):
            close(ours, other)
    backward()
    for param, other in zip(net.parameters(), expected, strict=True):
        close(param.grad, other)
    return {
        "lite": lambda: functional(params, x, y),
        "lite, backward()": backward,
        "torch": theirs,
        "by hand": lambda: by_hand(weights, x, y),
        "JAX, jit": lambda: jax.block_until_ready(compiled(jax_weights, jx, jy)),
    }


def gru() -> Alternatives:
    """A GRU of 8 inputs and 64 units over 32 steps of 32 sequences."""
    torch_net = torch.nn.GRU(8, 64, batch_first=True)
    net = nn.GRU(8, 64, batch_first=True)
    net.load_state_dict(torch_net.state_dict())
    x = numbers(32, STEPS, 8)
    tx, params = torch.from_numpy(x), TensorDict.from_module(net)

    @value_and_grad
    def functional(params: Any, x: Any) -> Any:
        with params.to_module(net):
            return (net(x)[0] ** 2).mean()

    def theirs() -> None:
        torch_net.zero_grad()
        (torch_net(tx)[0] ** 2).mean().backward()

    def backward() -> None:
        net.zero_grad()
        with lite.enable_grad():
            loss = (net(x)[0] ** 2).mean()
        loss.backward()

    theirs()
    _, grads = functional(params, x)
    for name, param in torch_net.named_parameters():
        close(grads[name], param.grad.numpy())
    return {"lite": lambda: functional(params, x), "lite, backward()": backward, "torch": theirs}


def ensemble() -> Alternatives:
    """64 critics 8-64-64-1 of one batch of 32, as one network by vmap."""

    def critic_of(lib: Any) -> Any:
        return lib.Sequential(
            *(lib.Linear(8, 64), lib.ReLU(), lib.Linear(64, 64), lib.ReLU(), lib.Linear(64, 1))
        )

    torch_nets, nets = ([critic_of(lib) for _ in range(CRITICS)] for lib in (torch.nn, nn))
    for net, other in zip(nets, torch_nets, strict=True):
        net.load_state_dict(other.state_dict())
    x, y = numbers(32, 8), numbers(32, 1, seed=1)
    tx, ty = torch.from_numpy(x), torch.from_numpy(y)
    params, critic, torch_critic = from_modules(*nets), nets[0], torch_nets[0]

    def values(params: Any, x: Any) -> Any:
        with params.to_module(critic):
            return critic(x)

    @value_and_grad
    def functional(params: Any) -> Any:
        return ((vmap(values, (0, None))(params, x) - y) ** 2).mean()

    stacked, _ = torch.func.stack_module_state(torch_nets)
    mapped = torch.vmap(lambda p, x: torch.func.functional_call(torch_critic, p, (x,)), (0, None))

    def theirs() -> None:
        for param in stacked.values():
            param.grad = None
        ((mapped(stacked, tx) - ty) ** 2).mean().backward()

    theirs()
    _, grads = functional(params)
    for name, param in stacked.items():
        close(grads[tuple(name.split("."))], param.grad.numpy())
    return {"lite": lambda: functional(params), "torch": theirs}


def adam(shapes: list[tuple[int, ...]]) -> Alternatives:
    start = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    ours = [nn.Parameter(array.copy()) for array in start]
    grads = [0.1 * array for array in start]
    for param, grad in zip(ours, grads, strict=True):
        param.grad = grad
    params = TensorDict({str(i): array.copy() for i, array in enumerate(start)})
    tree = TensorDict({str(i): grad for i, grad in enumerate(grads)})
    functions = optim.Adam(1e-3)
    state = functions.init(params)
    found: Alternatives = {
        "lite": optim.Adam(ours, lr=1e-3).step,
        "lite, update_": lambda: functions.update_(params, tree, state),
        "lite, update": lambda: functions.update(params, tree, state),
    }
    theirs = {}
    for name, how in (
        ("torch", {}),
        ("torch, foreach", {"foreach": True}),
        ("torch, fused", {"fused": True}),
    ):
        theirs[name] = [torch.nn.Parameter(torch.from_numpy(array.copy())) for array in start]
        for param, grad in zip(theirs[name], grads, strict=True):
            param.grad = torch.from_numpy(grad)
        found[name] = torch.optim.Adam(theirs[name], lr=1e-3, **how).step
    for run in found.values():
        run()
    for i, array in enumerate(theirs["torch"]):
        close(ours[i].data, array.detach().numpy())
        close(params[str(i)], array.detach().numpy())
    return found


CASES: dict[str, Callable[[], Alternatives]] = {
    "MLP 8-64-64-4, batch 32": lambda: mlp(32),
    "MLP 8-64-64-4, batch 256": lambda: mlp(256),
    "GRU 8-64, 32 steps, batch 32": gru,
    "64 critics 8-64-64-1, batch 32": ensemble,
    "Adam, 20 leaves of 64x64": lambda: adam([(64, 64)] * 20),
    "Adam, the MLP's leaves": lambda: adam(SHAPES),
}


def main() -> None:
    parser = arguments(__doc__, rounds=101)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", metavar="PATTERN", help="of the names of cases")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    lite.kernels.set_num_threads(asked.threads)
    rows: list[dict[str, Any]] = []
    for case, make in CASES.items():
        if not re.search(asked.only or "", case):
            continue
        # After JAX, threads spin for a while, so rounds have pauses.
        rows += told(rows_of(case, measure(make(), asked.rounds, times=5)))
    about = machine(torch, jax) | {"threads": asked.threads}
    report(place(asked, part=bool(asked.only)), "grad", "Gradients and optimisers", rows, about)


if __name__ == "__main__":
    main()
