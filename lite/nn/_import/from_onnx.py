"""`from_onnx`: an ONNX file as a module that learns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lite._arrays.caller import warn
from lite._arrays.dtypes import is_floating
from lite.nn._export.contract import Contract, Keys, keys_for, read_contract
from lite.nn._import.module import GraphModule, Source, graph_module
from lite.nn._modules.module import Module
from lite.nn.tensordict_modules.module import TensorDictModule


def from_onnx(
    model: str | os.PathLike[str] | bytes,
    *,
    trainable: bool | str | Iterable[str] | Callable[[str], bool] | None = None,
    in_keys: Keys | None = None,
    out_keys: Keys | None = None,
    outputs: Sequence[str] | None = None,
    dtype: DTypeLike | None = np.float32,
    checkpoint: bool | int = False,
) -> Module:
    """An ONNX graph as a module that runs by NumPy's functions, and whose weights are its parameters.

    The graph may come from any exporter; neither the onnx package nor onnxruntime is needed. Nothing in the
    file is run as code. Exporters write equal weights of fresh layers once (zeros of biases, say): these
    learn as one, after a warning. Some write a matrix twice that is also an embedding, or a layer's that is
    called twice: these learn apart, after a warning.

    Args:
        model: path of the ONNX file, or its bytes.
        trainable: which weights have `requires_grad`: True or None for all but statistics of normalisations
            (of an input, too: its mean and deviation, or a factor and an offset before the first product;
            all four arrays of `FrozenBatchNorm2d`), the factor and offset behind a last Tanh or layer (bounds
            and statistics of actions), tables of rotations, of sines and of places (`SpatialSoftmax`),
            masks, single factors, epsilons of norms, slopes of heads (ALiBi) and quantised weights; False for
            none; names or patterns ("*.bias") of those that learn, one or several; or a function of a name.
        in_keys, out_keys: keys for the inputs and outputs, a list in the graph's order or a dict by name.
            With these, or a contract beside the file (``policy.onnx.json``), a `TensorDictModule` is made,
            whose entries have the batch in front, as those of `lite.models.OnnxModule`.
        outputs: names of what to compute, also inner values, such as the features before the last layer.
        dtype: what float16 and bfloat16 weights are held and computed in; None for themselves.
        checkpoint: compute segments of the graph again in the backward pass (`lite.checkpoint`); True or the
            number: a decoder takes a third more time, memory grows by two hidden states a segment.

    Returns:
        A `GraphModule`, or a `TensorDictModule` around one. Float initializers with dimensions are parameters
        under their names, others constants; in a graph without these, its nodes Constant are its weights.

    Raises:
        FileNotFoundError: there is no such file, or one of its external data is missing.
        NotImplementedError: an operator has no rule; the message names it and its node.
        ValueError: no ONNX model, one whose nodes are in no order, or external data outside of its folder;
            keys, `outputs` or weights to learn that the graph does not have; a `checkpoint` below 0; a
            `dtype` of no floats.

    Source:
        ONNX, https://onnx.ai/onnx/operators/.

    Example:
        >>> import numpy as np, tempfile
        >>> from lite import nn
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     x = np.zeros((1, 3), np.float32)
        ...     net = nn.from_onnx(nn.Linear(3, 1).to_onnx(f"{folder}/net.onnx", x, contract=False))
        >>> net(x).shape, net.weight.shape
        ((1, 1), (1, 3))
    """
    chosen = None if outputs is None else tuple(outputs)
    compute_dtype = None if dtype is None else np.dtype(dtype).name
    if dtype is not None and not is_floating(np.dtype(dtype)):
        raise ValueError(f"dtype must be one of floats, or None, got {dtype!r}.")
    if isinstance(model, bytes):
        path, source = None, Source(None, model, chosen, compute_dtype)
    elif isinstance(model, str | os.PathLike):
        path = Path(model).resolve() if Path(model).is_file() else None
        if path is None:
            raise FileNotFoundError(f"model: there is no ONNX file {os.fspath(model)!r}.")
        source = Source(path, None, chosen, compute_dtype)
    else:
        raise TypeError(f"model must be a path or bytes, got {type(model).__name__}.")
    if not isinstance(checkpoint, int | np.integer) or checkpoint < 0:
        raise ValueError(f"checkpoint must be True, False or a number of segments, got {checkpoint!r}.")
    module = graph_module(source, trainable)
    module.checkpoint = checkpoint
    if twice := [f"{other} has the numbers of {name}" for name, other in _written_twice(module)]:
        warn(
            f"{path or 'the model'}: {', '.join(twice[:8])}{', ...' * (len(twice) > 8)}. If the network has "
            "them once (tied embeddings, a layer that is called twice), they learn apart here, and "
            "torch.onnx.export keeps them one with do_constant_folding=False where dynamo=False, else with "
            "optimize=False.",
        )
    contract = None if path is None else read_contract(path)
    if in_keys is None and out_keys is None and contract is None:
        return module
    agreed = contract or Contract((), ())
    module._keep_batch_first(agreed.axes())
    return TensorDictModule(
        module,
        keys_for("in_keys", in_keys, module.input_names, agreed.inputs),
        keys_for("out_keys", out_keys, module.output_names, agreed.outputs),
    )


def _written_twice(module: GraphModule) -> list[tuple[str, str]]:
    """Matrices, each with another one of its numbers, as it is or turned."""
    found, kept = [], dict[tuple[object, ...], tuple[str, NDArray[np.generic]]]()
    for name, array in module.weights(module.learning_weights()).items():
        if array.ndim != 2:
            continue
        key = (*sorted(array.shape), array.diagonal()[:64].tobytes())  # these are a turned one's, too
        first, rows = kept.setdefault(key, (name, array))
        same = any(x.shape == rows.shape and np.array_equal(x, rows) for x in (array, array.T))
        if name != first and same and np.ptp(rows) > 0:
            found.append((first, name))
    return found
