"""Exported policies as modules, on one thread: gradients beside torch's, values beside onnxruntime's.

    python bench/from_onnx.py [DIR]    # DIR: of bench/llm_models.py, for a language model, too

torch.onnx exports each network; `lite.nn.from_onnx` runs its nodes by NumPy's functions. Values of the
language model are those of 2 x 128 tokens. Memory is that of a process that opens the model with int4
weights and takes the gradient of adapters, less what it has before. Results go to
bench/results/from_onnx.md.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from side_by_side import arguments, machine, measure, place, report, resident, row, rows_of  # noqa: E402

from lite import TensorDict, enable_grad, nn, value_and_grad  # noqa: E402

Alternatives = dict[str, Callable[[], Any]]
HIDDEN = "/model/layers.30/final_norm_layernorm/output_0"


class Recurrent(torch.nn.Module):
    """An LSTM and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = torch.nn.LSTM(32, 64, batch_first=True), torch.nn.Linear(64, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0])


def _mlp(kind: Any, tanh: Any) -> list[Any]:
    return [kind(17, 64), tanh(), kind(64, 64), tanh(), kind(64, 6)]


def _atari() -> list[Any]:
    conv, relu = torch.nn.Conv2d, torch.nn.ReLU
    head = [torch.nn.Flatten(), torch.nn.Linear(3136, 512), relu(), torch.nn.Linear(512, 6)]
    return [conv(4, 32, 8, 4), relu(), conv(32, 64, 4, 2), relu(), conv(64, 64, 3), relu(), *head]


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    **{
        f"MLP 17-64-64-6, batch {rows}": (
            lambda: torch.nn.Sequential(*_mlp(torch.nn.Linear, torch.nn.Tanh)),
            (rows, 17),
        )
        for rows in (1, 64)
    },
    "Atari CNN, batch 32": (lambda: torch.nn.Sequential(*_atari()), (32, 4, 84, 84)),
    "LSTM 32-64, 16 x 32 steps": (Recurrent, (16, 32, 32)),
}


def exported(net: Any, x: Any) -> bytes:
    sink = io.BytesIO()
    torch.onnx.export(net, (x,), sink, dynamo=False)
    return sink.getvalue()


def gradients(net: Any, x: Any, graph: bytes) -> Alternatives:
    """Value and gradient of the mean of squares."""
    array = x.numpy()

    def of_torch() -> Any:
        net.zero_grad(set_to_none=True)
        loss = (net(x) ** 2).mean()
        loss.backward()
        return loss

    def of(module: Any) -> Callable[[], Any]:
        params = TensorDict.from_module(module).data.clone()

        @value_and_grad
        def step(params: Any) -> Any:
            with params.to_module(module):
                return (module(array) ** 2).mean()

        return lambda: step(params)[0]

    found: Alternatives = {"lite": of(nn.from_onnx(graph)), "torch": of_torch}
    if x.shape[1] == 17:
        own = nn.Sequential(*_mlp(nn.Linear, nn.Tanh))
        own.load_state_dict(net.state_dict())
        found["lite.nn"] = of(own)
    values = [float(run()) for run in found.values()]
    np.testing.assert_allclose(values, values[0], rtol=1e-4)
    return found


def values(graph: bytes | Path, inputs: dict[str, Any]) -> Alternatives:
    """The first output of a graph, without gradients."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    source = graph if isinstance(graph, bytes) else str(graph)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [session.get_outputs()[0].name]
    module = nn.from_onnx(graph, trainable=False, outputs=names)
    found: Alternatives = {
        "lite": lambda: module(**inputs),
        "onnxruntime": lambda: session.run(names, inputs)[0],
    }
    np.testing.assert_allclose(found["lite"](), found["onnxruntime"](), rtol=1e-3, atol=1e-3)
    return found


def decoder() -> dict[str, Any]:
    """Inputs of the language model."""
    ids = np.random.default_rng(0).integers(3, 49000, (2, 128))
    empty = np.zeros((2, 3, 0, 64), np.float32)
    given = {f"past_key_values.{i}.{kind}": empty for i in range(30) for kind in ("key", "value")}
    return {"input_ids": ids, "attention_mask": np.ones(ids.shape, np.int64), **given}


def int4(folder: Path) -> None:
    """Print what int4 weights take when they are open, after a step of adapters, and at its peak."""
    import numba  # noqa: F401  # which takes memory of its own

    before = resident("VmRSS")
    graph = folder / "genai-int4" / "model.onnx"
    net = nn.from_onnx(graph, outputs=[HIDDEN], trainable=False, checkpoint=True)
    net = nn.lora(net, rank=8, alpha=16, targets=["*qkv_proj"], rng=0)
    opened = resident("VmRSS") - before
    given = {name: x[:1, :16] if x.ndim == 2 else x[:1] for name, x in decoder().items()}
    with enable_grad():
        loss = (net(**{name: given[name] for name in net.input_names}) ** 2).mean()
    loss.backward()
    del loss
    print(opened, resident("VmRSS") - before, resident("VmHWM") - before)


def main() -> None:
    parser = arguments(__doc__, rounds=21)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--int4", action="store_true", help="used by the script itself")
    asked = parser.parse_args()
    if asked.int4:
        int4(asked.folder)
        return
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    about, rows, below = machine(torch, onnxruntime) | {"threads": 1}, [], ""
    for name, (make, shape) in NETWORKS.items():
        net, x = make(), torch.randn(shape)
        graph = exported(net, x)
        rows += rows_of(f"value and gradient, {name}", measure(gradients(net, x, graph), asked.rounds))
        inputs = {onnxruntime.InferenceSession(graph).get_inputs()[0].name: x.numpy()}
        rows.append(row(f"values, {name}", "onnxruntime", measure(values(graph, inputs), asked.rounds)))
    if asked.folder is not None:
        file = asked.folder / "genai-fp32" / "model.onnx"
        result = measure(values(file, decoder()), min(asked.rounds, 5))
        rows.append(row("values, language model, 2 x 128 tokens", "onnxruntime", result))
        command = [sys.executable, __file__, str(asked.folder), "--int4"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        opened, stays, peak = map(float, done.stdout.split())
        whole = sum(one.stat().st_size for one in file.parent.glob("model.onnx*")) / 2**20
        below = (
            f"\nint4 weights: {opened:.0f} MB when the model is open, {stays:.0f} MB after a step of adapters"
            f"\nwith 16 tokens, {peak:.0f} MB at its peak. The weights in float32 are {whole:.0f} MB.\n"
        )
    report(place(asked), "from_onnx", "Exported networks as modules", rows, about, below)


if __name__ == "__main__":
    main()
