"""Training steps as graphs (`lite.jit`) on a GPU, where their state stays, beside the CPU and torch there.

    python bench/cuda_jit.py [--rounds N]       # needs a GPU, onnxruntime-gpu, and torch for it
    python bench/cuda_jit.py --device cpu       # that it runs; writes nothing

A step is forward, backward and Adam of a network with tanh; its data is copied to the GPU, and its loss from
there. Losses are compared before anything is timed. Neither side rounds products to TF32.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import torch
from jit_steps import learning, regression
from side_by_side import arguments, machine, measure, place, report, rows_of

import lite
from lite import TensorDict, nn, optim

CASES = [((8, 64, 64, 4), 32), ((256, 1024, 1024, 1024, 16), 1024), ((256, 4096, 4096, 16), 4096)]
GPU = [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"]
RATE = 1e-3


def network(lib: Any, sizes: tuple[int, ...]) -> Any:
    layers = [(lib.Linear(*pair), lib.Tanh()) for pair in itertools.pairwise(sizes)]
    return lib.Sequential(*[layer for pair in layers for layer in pair][:-1])


def in_lite(theirs: Any, sizes: tuple[int, ...], x: Any, y: Any, providers: Any) -> Callable[[], float]:
    net, adam = network(nn, sizes), optim.Adam(RATE)
    net.load_state_dict({name: value.cpu() for name, value in theirs.state_dict().items()})

    step = lite.jit(regression(net, adam), donate=("params", "state"), providers=providers)
    call = learning(step, TensorDict.from_module(net), adam, x, y)
    return lambda: float(call())


def in_torch(net: Any, x: Any, y: Any, device: str) -> Callable[[], float]:
    net = net.to(device)
    adam = torch.optim.Adam(net.parameters(), lr=RATE)

    def call() -> float:
        there = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
        loss = torch.nn.functional.mse_loss(net(there[0]), there[1])
        adam.zero_grad()
        loss.backward()
        adam.step()
        return float(loss)

    return call


def main() -> None:
    parser = arguments(__doc__, rounds=20)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    rows = []
    for sizes, batch in CASES if on_gpu else CASES[:1]:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((batch, sizes[0]), np.float32)
        y = rng.standard_normal((batch, sizes[-1]), np.float32)
        torch.manual_seed(0)
        net = network(torch.nn, sizes)
        calls = {"lite": in_lite(net, sizes, x, y, GPU if on_gpu else None)}
        if batch < 4096:  # where a step of the CPU takes a second
            calls["lite, CPU"] = in_lite(net, sizes, x, y, None)
        calls["torch"] = in_torch(net, x, y, options.device)
        losses = {name: [call() for _ in range(4)] for name, call in calls.items()}
        for name, found in losses.items():
            np.testing.assert_allclose(found, losses["torch"], rtol=1e-4, err_msg=name)
        title = f"{'-'.join(map(str, sizes))}, batch {batch}"
        rows += rows_of(title, measure(calls, options.rounds))
    if on_gpu:
        about = machine(torch, onnxruntime) | {"gpu": torch.cuda.get_device_name()}
        report(place(options), "cuda_jit", "Training steps on a GPU", rows, about)
    else:
        print(f"{len(rows)} lines; times are taken on a GPU only")


if __name__ == "__main__":
    main()
