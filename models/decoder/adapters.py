"""LoRA adapters: values for a graph's optional inputs, of onnxruntime's files (`.onnx_adapter`) or arrays.

A graph made for adapters (by Olive, by `lite.nn.add_adapter_inputs`) has the low-rank matrices as inputs with
initializers, which hold without an adapter. Adapters that name projections give other graphs such inputs when
these are opened. onnxruntime's `RunOptions.add_active_adapter` has no effect on
runs with an IOBinding, so the values are bound as inputs instead. New values are other arrays, never written
into the old ones: a run that is under way ends with those that it began with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite._arrays.dtypes import as_dtype, is_inexact
from lite._files.onnx.adapters import MAX_BYTES, read_adapter
from lite._files.onnx.arrays import check_links
from lite.models.decoder.conventions import optional_inputs
from lite.models.graph.session import NodeArg, SessionLike
from lite.models.graph.tensors import ELEMENT_TYPES

AdapterSource: TypeAlias = str | Path | Mapping[str, ArrayLike]
Values: TypeAlias = dict[str, tuple[NDArray[Any], Any]]
LEARNT = "adapter.onnx_adapter"  # the file in the folder that `lite learn` writes


class AdapterValues:
    """The values of a graph's optional inputs under an adapter, for all bindings of it.

    Args:
        values: each array with the type argument that onnxruntime takes for it.

    Attributes:
        values: as given; another dict takes its place, and bindings notice that at their next run.
        version: how often that has happened.
    """

    def __init__(self, values: Values) -> None:
        self.values, self.version = values, 0

    def replace(self, values: Values) -> None:
        """Set other values for the next runs of bindings."""
        self.values = values
        self.version += 1


AdaptersByName: TypeAlias = dict[str, list[AdapterValues]]


class GivenAdapter(NamedTuple):
    """An adapter as it was given: for which graph is not looked at yet.

    Attributes:
        place: what it is, for messages.
        values: arrays by the names of a graph's inputs.
        cast: take floats of another type than the input's.
    """

    place: str
    values: Mapping[str, ArrayLike]
    cast: bool = True


def read_adapters(adapters: Mapping[str, AdapterSource], graph: Path | None) -> dict[str, GivenAdapter]:
    """Read adapters.

    Args:
        adapters: by name the path of the file of each (or of a folder of PEFT or of `lite learn`), or its
            values by the name of the input.
        graph: the file of the model that they are for, which PEFT's need.

    Raises:
        FileNotFoundError: there is no such file.
        ImportError: PEFT's files need the package safetensors.
        ValueError: a file is not an adapter, or a link out of its folder.
    """
    return {name: _read(f"adapters[{name!r}]", source, graph) for name, source in adapters.items()}


def _read(place: str, source: AdapterSource, graph: Path | None) -> GivenAdapter:
    if not isinstance(source, str | Path):
        return GivenAdapter(place, source)
    path = Path(source)
    if path.is_dir() and (path / LEARNT).is_file():
        path = path / LEARNT
    if (path.is_dir() or path.suffix == ".safetensors") and graph is not None:
        # This loads all rules of operators.
        from lite.nn import from_onnx, lora

        return GivenAdapter(place, lora(from_onnx(graph, trainable=False), adapter=path).adapter_inputs())
    if not path.is_file():
        raise FileNotFoundError(f"{place}: there is no file {str(path)!r}")
    check_links(path, path.parent)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        values = read_adapter(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{place}: {str(path)!r} is not an adapter file of onnxruntime: {error}") from None
    return GivenAdapter(f"{place}: {str(path)!r}", values, cast=False)


def fitted(adapters: Mapping[str, GivenAdapter], sessions: Sequence[SessionLike]) -> AdaptersByName:
    """For each adapter the values of the inputs that it gives, one object per graph.

    Args:
        adapters: as `read_adapters` gives them.
        sessions: sessions of the graphs that they are for.

    Raises:
        ValueError: one is not of this model: the message says which input differs.
    """
    found = {}
    for name, given in adapters.items():
        values = adapter_values(given.place, given.values, sessions, cast=given.cast)
        found[name] = list(map(AdapterValues, values))
    return found


def without_inputs(adapters: Iterable[GivenAdapter], sessions: Sequence[SessionLike]) -> set[str]:
    """The projections that adapters are beside for which no graph has inputs."""
    known = {key for session in sessions for key in optional_inputs(session)}
    return {projection_of(key) for given in adapters for key in given.values if key not in known} - {""}


def adapter_values(
    place: str, given: Mapping[str, ArrayLike], sessions: Sequence[SessionLike], *, cast: bool
) -> list[Values]:
    """Copies of arrays for the optional inputs of graphs: a dict for each graph.

    Args:
        place: what they are, for messages.
        given: arrays by the names of inputs.
        sessions: sessions of the graphs.
        cast: take floats of another type than the input's.

    Raises:
        ValueError: no graph has such an input, or it takes another type or shape; the message begins with
            `place`.
    """
    optional = [optional_inputs(session) for session in sessions]
    found: list[Values] = [{} for _ in sessions]
    for key, value in given.items():
        declared = next((inputs[key] for inputs in optional if key in inputs), None)
        if declared is None:
            known = ", ".join(sorted({key for inputs in optional for key in inputs})) or "none"
            raise ValueError(
                f"{place} is for another model: the graph has no optional input {key!r}, it has {known}"
            )
        item = _checked(place, key, np.asarray(value), declared, cast)
        for inputs, values in zip(optional, found, strict=True):
            if key in inputs:
                values[key] = item
    return found


def projection_of(name: str) -> str:
    """The projection that an adapter's input is beside, as `lite.nn.add_adapter_inputs` names it; or "".

    Example:
        >>> projection_of("model.layers.0.self_attn.q_proj.lora_A.weight")
        'model.layers.0.self_attn.q_proj'
    """
    ends = (".lora_A.weight", ".lora_B.weight")
    return next((name.removesuffix(end) for end in ends if name.endswith(end)), "")


def _checked(
    place: str, key: str, value: NDArray[Any], declared: NodeArg, cast: bool
) -> tuple[NDArray[Any], Any]:
    """A copy of an array as an input takes it, and the type argument for it."""
    kind = ELEMENT_TYPES.get(declared.type)
    dtype = None if kind is None else as_dtype(kind.name)
    fits = value.ndim == len(declared.shape) and all(
        size == got for size, got in zip(declared.shape, value.shape, strict=True) if isinstance(size, int)
    )
    if dtype is not None and cast and is_inexact(value.dtype) and is_inexact(dtype):
        value = value.astype(dtype, copy=False)
    if kind is None or not fits or value.dtype != dtype:
        raise ValueError(
            f"{place}: {key} must be a {declared.type} of shape {list(declared.shape)}, got {value.dtype} of "
            f"shape {list(value.shape)}"
        )
    return np.array(value, dtype, order="C"), kind.bound
