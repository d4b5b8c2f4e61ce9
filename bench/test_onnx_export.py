"""Exported networks in onnxruntime beside what torch.onnx writes of the same network, in one process.

    python bench/test_onnx_export.py

Both graphs have the same weights and dynamic axes and run on one thread, in turns; times are of one run.
Where onnxscript is installed, the newer exporter of torch (dynamo=True) is there, too.
Results go to bench/results/onnx_export.json.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from side_by_side import arguments, machine, measure, place, report, row  # noqa: E402

from lite import nn  # noqa: E402

ROUND = 2e-3  # seconds that a round lasts, about
Axes = dict[str, dict[int, str]]


def mlp(n: Any, activation: str) -> Any:
    act = getattr(n, activation)
    return n.Sequential(n.Linear(8, 64), act(), n.Linear(64, 64), act(), n.Linear(64, 4))


def cases() -> list[tuple[str, Callable[[Any], Any], list[tuple[int, ...]], Axes]]:
    """Title, what makes the network of a library, shapes of the inputs, dynamic axes."""
    found: list[tuple[str, Callable[[Any], Any], list[tuple[int, ...]], Axes]] = []
    for rows in (1, 32, 256):
        for act in ("Tanh", "ReLU"):
            title = f"MLP 8-64-64-4, {act}, batch {rows}"
            found.append((title, lambda n, act=act: mlp(n, act), [(rows, 8)], {"input": {0: "batch"}}))
    for time, rows in ((1, 1), (32, 1), (32, 32)):
        axes = {"input": {0: "time", 1: "batch"}}
        shapes = [(time, rows, 16), (1, rows, 64)]
        title = f"GRU 16-64, {time} steps, batch {rows}"
        found.append((title, lambda n: n.GRU(16, 64), shapes, {**axes, "hx": {1: "batch"}}))
        title = f"LSTM 16-64, two layers, {time} steps, batch {rows}"
        found.append((title, lambda n: n.LSTM(16, 64, 2), shapes[:1], axes))
    found.append(
        (
            "convolutions of (8, 3, 32, 32)",
            lambda n: n.Sequential(
                n.Conv2d(3, 16, 4, 2), n.ReLU(), n.Conv2d(16, 16, 3), n.ReLU(), n.Flatten(), n.Linear(2704, 8)
            ),
            [(8, 3, 32, 32)],
            {"input": {0: "batch"}},
        )
    )
    return found


def torch_graph(module: Any, arrays: list[np.ndarray], axes: Axes, path: Path, dynamo: bool) -> bool:
    """Whether torch has written the graph."""
    names = list(axes)
    dims = tuple({axis: torch.export.Dim(label) for axis, label in axes[name].items()} for name in names)
    options: dict[str, Any] = (
        {"dynamic_shapes": dims, "external_data": False} if dynamo else {"dynamic_axes": axes}
    )
    with warnings.catch_warnings(), contextlib.suppress(ImportError), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(map(torch.from_numpy, arrays)),
            str(path),
            input_names=names,
            opset_version=20,
            dynamo=dynamo,
            verbose=False,
            **options,
        )
        return True
    return False


def opened(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def runner(path: Path, arrays: list[np.ndarray]) -> Callable[[], Any]:
    session = opened(path)
    given = {arg.name: x for arg, x in zip(session.get_inputs(), arrays, strict=True)}
    return lambda: session.run(None, given)


def main() -> None:
    asked = arguments(__doc__, rounds=51).parse_args()
    about = machine(torch, onnxruntime)
    rng, rows = np.random.default_rng(0), []
    for title, make, shapes, axes in cases():
        torch.manual_seed(0)
        theirs, mine = make(torch.nn).eval(), make(nn).eval()
        mine.load_state_dict(theirs.state_dict())
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        with tempfile.TemporaryDirectory() as folder:
            paths = {"lite": mine.to_onnx(f"{folder}/lite.onnx", *arrays, dynamic_axes=axes)}
            for dynamo in (False, True):
                path = Path(folder, f"{dynamo}.onnx")
                if torch_graph(theirs, arrays, axes, path, dynamo):
                    paths[f"torch.onnx, dynamo={dynamo}"] = path
            runs = {name: runner(path, arrays) for name, path in paths.items()}
            once = measure({"lite": runs["lite"]}, rounds=3, times=20)["lite"]["min_ms"]
            times = max(1, int(ROUND / (once * 1e-3)))
            taken = measure(runs, asked.rounds, pause=0, times=times)
            sizes = {name: path.stat().st_size for name, path in paths.items()}
        for name in list(paths)[1:]:
            more = {"lite_bytes": sizes["lite"], "other_bytes": sizes[name]}
            kib = f"{sizes['lite'] / 1024:.1f} KiB, {sizes[name] / 1024:.1f}"
            rows.append(row(f"{title} ({kib})", name, taken, **more))
    report(place(asked), "onnx_export", "Exported graphs in onnxruntime", rows, about)


if __name__ == "__main__":
    main()
