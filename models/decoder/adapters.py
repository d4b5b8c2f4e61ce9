"""LoRA adapters from onnxruntime's own files (`.onnx_adapter`): values for optional inputs of a graph.

A graph made for adapters (by Olive, say) has the low-rank matrices as inputs with initializers, which hold
without an adapter. onnxruntime's `RunOptions.add_active_adapter` has no effect on runs with an IOBinding, so
the file's parameters are bound as inputs instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lite._files.onnx.external import check_links
from lite.models.decoder.conventions import optional_inputs
from lite.models.graph.session import NodeArg, SessionLike, import_onnxruntime


def load_adapters(
    adapters: Mapping[str, str | Path], sessions: list[SessionLike]
) -> dict[str, list[dict[str, Any]]]:
    """Read the files of adapters.

    Args:
        adapters: path of the file of each, by name.
        sessions: of the graphs that they are for.

    Returns:
        For each adapter the OrtValues of the inputs that it gives, by name, one mapping per graph.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file is no adapter, a link out of its folder, or not one of this model: the message says
            which input differs.
    """
    if not adapters:
        return {}
    optional = [optional_inputs(session) for session in sessions]
    loaded = {}
    for name, path in adapters.items():
        if not Path(path).is_file():
            raise FileNotFoundError(f"adapters[{name!r}]: there is no file {str(path)!r}")
        check_links(Path(path), Path(path).parent)
        try:
            file = import_onnxruntime().AdapterFormat.read_adapter(str(path))
            parameters = file.get_parameters()
        except Exception as error:  # onnxruntime's exceptions have no common base but Exception
            raise ValueError(
                f"adapters[{name!r}]: {str(path)!r} is no adapter file of onnxruntime: {error}"
            ) from None
        for key, value in parameters.items():
            declared = [inputs[key] for inputs in optional if key in inputs]
            if not declared:
                known = ", ".join(sorted({key for inputs in optional for key in inputs})) or "none"
                raise ValueError(
                    f"adapters[{name!r}]: {str(path)!r} is for another model: the graph has no optional "
                    f"input {key!r}, it has {known}"
                )
            _check_value(name, key, value, declared[0])
            value.file = file  # the value lies in its memory, and does not keep it alive
        loaded[name] = [{key: parameters[key] for key in inputs if key in parameters} for inputs in optional]
    return loaded


def _check_value(name: str, key: str, value: Any, declared: NodeArg) -> None:
    shape = list(value.shape())
    fits = len(shape) == len(declared.shape) and all(
        size == got for size, got in zip(declared.shape, shape, strict=True) if isinstance(size, int)
    )
    if not fits or value.data_type() != declared.type:
        raise ValueError(
            f"adapters[{name!r}]: {key} must be a {declared.type} of shape {list(declared.shape)}, got a "
            f"{value.data_type()} of shape {shape}"
        )
