"""The contract of an exported graph: a JSON file beside it that describes its inputs and outputs.

Its name is that of the graph with `.json` at the end: `policy.onnx.json`. Programs in any language that run
the graph read keys, shapes, dtypes and states from it, and so does `lite.models.OnnxModule`. It is untrusted,
as every file is: sizes are capped, types are checked, and it names no other file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lite._files.mapping import read_file
from lite._tree.keys import NestedKey

FORMAT = "lite-onnx-contract"
VERSION = 1
SUFFIX = ".json"
DIGEST = "lite_contract_sha256"  # in the metadata of the graph: which contract is its own
MAX_BYTES = 1 << 20
_MAX_TENSORS, _MAX_DIMS, _MAX_KEY_PARTS, _MAX_TEXT = 4096, 32, 32, 1024

Dim = int | str | None
Keys = Sequence[NestedKey] | Mapping[str, NestedKey]


@dataclass(frozen=True)
class ContractTensor:
    """An input or output.

    Attributes:
        name: the name in the graph.
        key: the key of the entry in a TensorDict, a name or a tuple of names.
        shape: its sizes; a name for a dynamic one, None for one that is computed from others.
        dtype: NumPy's name of the dtype.
        normalization: the normalization of an input in the graph, if any: the class of the module, and its
            numbers if they are few.
    """

    name: str
    key: NestedKey
    shape: tuple[Dim, ...]
    dtype: str
    normalization: dict[str, Any] | None = None


@dataclass(frozen=True)
class Contract:
    """The inputs and outputs of a graph.

    Attributes:
        inputs: the inputs, in the order of the graph.
        outputs: the outputs, in the order of the graph.
        states: names of inputs with the names of the outputs that are their next values.
        batch: the name of the dynamic size that is the batch, if there is one.
        interaction_type: the value of a distribution that the graph computes.
        opset: version of ONNX's operators.
        lite: the version of lite that wrote the contract.
    """

    inputs: tuple[ContractTensor, ...]
    outputs: tuple[ContractTensor, ...]
    states: dict[str, str] = field(default_factory=dict)
    batch: str | None = None
    interaction_type: str = "deterministic"
    opset: int = 0
    lite: str = ""

    def axes(self) -> dict[str, int | None]:
        """The batch axes of inputs and outputs by name; empty if the graph has no batch."""
        if self.batch is None:
            return {}
        return {
            tensor.name: tensor.shape.index(self.batch) if self.batch in tensor.shape else None
            for tensor in (*self.inputs, *self.outputs)
        }

    def to_bytes(self) -> bytes:
        """The content of the file."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "lite": self.lite,
            "opset": self.opset,
            "interaction_type": self.interaction_type,
            "batch": self.batch,
            "inputs": [_written(tensor) for tensor in self.inputs],
            "outputs": [_written(tensor) for tensor in self.outputs],
            "states": self.states,
        }
        return (_lines(content) + "\n").encode()


def keys_for(
    argument: str, given: Keys | None, names: Sequence[str], agreed: Iterable[ContractTensor]
) -> list[NestedKey]:
    """The keys of a graph's inputs, or of its outputs.

    Args:
        argument: "in_keys" or "out_keys".
        given: what the caller gave for it: a list in the graph's order, or a dict by name.
        names: the names in the graph, which are the keys that nobody gives.
        agreed: those that the contract gives.

    Raises:
        ValueError: names that the graph does not have, or another number of keys.
    """
    if given is not None and not isinstance(given, Mapping):
        listed: list[NestedKey] = [given] if isinstance(given, str | tuple) else list(given)
        if len(listed) != len(names):
            raise ValueError(
                f"{argument} has {len(listed)} keys for the {len(names)} of the graph: {list(names)}."
            )
        return listed
    chosen = {} if given is None else dict(given)
    if unknown := [name for name in chosen if name not in names]:
        raise ValueError(f"{argument} names {unknown}; the graph has {list(names)}.")
    known = {tensor.name: tensor.key for tensor in agreed} | chosen
    return [known.get(name, name) for name in names]


def digest(content: bytes) -> str:
    """The digest in the metadata of a graph that identifies its contract."""
    return hashlib.sha256(content).hexdigest()


def contract_path(graph: str | Path) -> Path:
    """The path of the contract of a graph."""
    graph = Path(graph)
    return graph.with_name(graph.name + SUFFIX)


def read_contract(graph: str | Path, metadata: Mapping[str, str] | None = None) -> Contract | None:
    """Read the contract of a graph; None if there is no file.

    Args:
        graph: path of the ONNX file.
        metadata: the metadata of the graph; if they identify a contract, the file must be that one.

    Raises:
        ValueError: the file is too large, is not a valid contract, or is the contract of another graph.
    """
    path = contract_path(graph)
    try:
        content = read_file(str(path), MAX_BYTES)
    except FileNotFoundError:
        return None
    wanted = (metadata or {}).get(DIGEST)
    if wanted is not None and wanted != digest(content):
        raise ValueError(
            f"{path} is not the contract that {Path(graph).name} was exported with: export both again, or "
            "remove it and give the keys yourself."
        )
    try:
        return parse(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def parse(content: bytes) -> Contract:
    """A contract from the bytes of its file.

    Raises:
        ValueError: the bytes are not a valid contract.
    """
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply.") from None
    except ValueError as error:  # no JSON, no UTF-8, or a number of thousands of digits
        raise ValueError(f"expected JSON: {error}") from None
    top = _object(value, "the contract")
    if top.get("format") != FORMAT:
        hint = " It is a step's, which lite.load_step opens." if "leaves" in top else ""
        raise ValueError(f"it must have the format {FORMAT!r}, got {_shown(top.get('format'))}.{hint}")
    if type(top.get("version")) is not int or top["version"] != VERSION:
        raise ValueError(f"version {_shown(top.get('version'))} is unknown here; this is version {VERSION}.")
    inputs, outputs = _tensors(top, "inputs"), _tensors(top, "outputs")
    states = _object(top.get("states", {}), "states")
    names = {tensor.name for tensor in inputs}, {tensor.name for tensor in outputs}
    for source, target in states.items():
        if source not in names[0] or not isinstance(target, str) or target not in names[1]:
            raise ValueError(f"states must pair inputs with outputs, got {_shown({source: target})}.")
    batch = top.get("batch")
    opset = top.get("opset", 0)
    if not isinstance(opset, int) or isinstance(opset, bool):
        raise ValueError(f"opset must be an integer, got {_shown(opset)}.")
    return Contract(
        inputs,
        outputs,
        dict(states),
        None if batch is None else _text(batch, "batch"),
        _text(top.get("interaction_type", ""), "interaction_type"),
        opset,
        _text(top.get("lite", ""), "lite"),
    )


def _lines(content: dict[str, Any]) -> str:
    """JSON in which each input and output is a line."""
    lines = []
    for name, value in content.items():
        if isinstance(value, list) and value:
            items = ",\n".join(f"    {json.dumps(item)}" for item in value)
            lines.append(f"  {json.dumps(name)}: [\n{items}\n  ]")
        else:
            lines.append(f"  {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _written(tensor: ContractTensor) -> dict[str, Any]:
    key = [tensor.key] if isinstance(tensor.key, str) else list(tensor.key)
    out: dict[str, Any] = {
        "name": tensor.name,
        "key": key,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
    }
    return out if tensor.normalization is None else {**out, "normalization": tensor.normalization}


def _tensors(top: dict[str, Any], where: str) -> tuple[ContractTensor, ...]:
    items = top.get(where)
    if not isinstance(items, list) or len(items) > _MAX_TENSORS:
        raise ValueError(f"{where} must be a list of at most {_MAX_TENSORS}, got {_shown(items)}.")
    found = tuple(_tensor(item, f"{where}[{i}]") for i, item in enumerate(items))
    for what in ("name", "key"):
        values = [getattr(tensor, what) for tensor in found]
        if len(set(values)) < len(values):
            raise ValueError(f"{where} has the same {what} twice.")
    return found


def _tensor(value: Any, where: str) -> ContractTensor:
    item = _object(value, where)
    parts, shape = item.get("key"), item.get("shape")
    if not isinstance(parts, list) or not 0 < len(parts) <= _MAX_KEY_PARTS:
        raise ValueError(f"the key of {where} must be a list of names, got {_shown(parts)}.")
    names = tuple(_text(part, f"the key of {where}") for part in parts)
    if not isinstance(shape, list) or len(shape) > _MAX_DIMS:
        raise ValueError(f"the shape of {where} must be a list of sizes, got {_shown(shape)}.")
    for size in shape:
        known = size is None or isinstance(size, str) or (type(size) is int and 0 <= size < 1 << 63)
        if not known or (isinstance(size, str) and len(size) > _MAX_TEXT):
            raise ValueError(f"the shape of {where} must have sizes and names, got {_shown(size)}.")
    normalization = item.get("normalization")
    return ContractTensor(
        _text(item.get("name"), f"the name of {where}"),
        names[0] if len(names) == 1 else names,
        tuple(shape),
        _text(item.get("dtype"), f"the dtype of {where}"),
        None if normalization is None else _object(normalization, f"the normalization of {where}"),
    )


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a JSON object, got {_shown(value)}.")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise ValueError(f"{where} must be a string of at most {_MAX_TEXT} characters, got {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
