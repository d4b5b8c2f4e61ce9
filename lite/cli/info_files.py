"""`lite info PATH` for files and folders other than language models: their contents, and how to open them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import lite
from lite import NestedKey, TensorDict, is_leaf_nontensor
from lite._files.mapping import read_file
from lite._files.onnx.arrays import dtype_of
from lite._files.onnx.model import Value, read_model
from lite._tree.protocol import Container
from lite.cli.prompts import with_own_names
from lite.data.replay.storages import LazyStackStorage
from lite.data.tables.json_lines import json_lines
from lite.models.batches.rows import is_messages
from lite.nn._export.contract import contract_path, read_contract
from lite.nn._lora.files import read

_MAX_ABOUT, _MAX_CONTRACT = 1 << 20, 1 << 24  # bytes
_READERS = {
    ".h5": "from_h5",
    ".hdf5": "from_h5",
    ".parquet": "from_parquet",
    ".csv": "from_csv",
    ".json": "from_json",
}
_KINDS = {str: "text", bool: "boolean", int: "number", float: "number", list: "list", dict: "object"}
_TAKES = {  # rows with one of these sets of columns
    "lite generate --file {}": ({"prompt"}, {"messages"}),
    "lite score {}": (
        {"prompt", "response"},
        {"messages", "response"},
        {"prompt_ids", "response_ids"},
        {"text"},
    ),
    "lite mismatch DIR {}": ({"response_ids", "logprobs"},),
    "lite learn {} --method sft --output DIR": ({"prompt", "response"}, {"messages", "response"}, {"text"}),
    "lite learn {} --method dpo --output DIR": ({"chosen", "rejected"},),
}
_ADAPTERS = ("adapter.onnx_adapter", "adapter_model.safetensors")  # of `lite learn`, of PEFT


def describe(path: Path) -> dict[str, Any] | None:
    """The contents of a file or folder; None for the folder, or the graph, of a language model.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: the file is damaged, or of a kind that lite does not read.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    try:
        return _folder(path) if path.is_dir() else _file(path)
    except (ValueError, OSError, KeyError, TypeError) as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path}: {error}") from error  # of pandas and JSON, which do not name the file


def _file(path: Path) -> dict[str, Any] | None:
    if path.name.endswith((".onnx", ".onnx.json")):  # a graph, or the contract beside it
        return _graph(path.with_suffix("") if path.suffix == ".json" else path)
    if path.suffix == ".onnx_adapter" or path.name in _ADAPTERS:
        return _adapter(path)
    if path.suffix == ".jsonl":
        return _rows(path)
    if path.suffix in _READERS:
        name = _READERS[path.suffix]
        return _tree(path, getattr(lite, name)(path), f"lite.{name}")
    try:
        return _tree(path, TensorDict.load(path), "TensorDict.load")
    except ValueError as error:
        if "It is a pickle" in str(error) or path.suffix in (".tdz", ".npz", ".safetensors"):
            raise
    try:
        return _tree(path, lite.from_consolidated(path), "lite.from_consolidated")
    except ValueError:
        raise ValueError(f"{str(path)!r} is not a file that lite reads, or it is damaged") from None


def _rows(path: Path) -> dict[str, Any]:
    """The facts of rows that the commands for language models read or write."""
    columns: dict[str, Counter[str]] = {}
    made: dict[str, Any] = {}
    ways: list[str] = []
    rows = scored = tokens = 0
    log_prob = 0.0
    with path.open(encoding="utf-8-sig") as file:
        for number, text, value in json_lines(file):
            if not isinstance(value, dict):
                raise ValueError(f"{path}, line {number}: expected an object, got {text.strip()[:80]}")
            if not rows:
                if isinstance(value.get("run"), dict):  # what made the file, in its first line
                    made = value.pop("run")
                row = with_own_names(value)
                has = {name for name, item in row.items() if item is not None}
                if is_messages(row.get("messages")) and row["messages"][-1]["role"] == "assistant":
                    has.add("response")
                ways = [way for way, sets in _TAKES.items() if any(map(has.issuperset, sets))]
            rows += 1
            for name, item in value.items():
                columns.setdefault(name, Counter())[_KINDS.get(type(item), "null")] += 1
            if all(type(value.get(name)) in (int, float) for name in ("log_prob", "tokens")):
                scored, log_prob, tokens = scored + 1, log_prob + value["log_prob"], tokens + value["tokens"]
    facts: dict[str, Any] = {"json lines": str(path), "rows": rows}
    facts["columns"] = {
        name: " or ".join(kinds) + (f", in {kinds.total()}" if kinds.total() < rows else "")
        for name, kinds in columns.items()
    }
    if made:
        facts["run"] = made
    if tokens > 0 and scored == rows:
        facts |= {"tokens": tokens, "perplexity": float(np.exp(-log_prob / tokens))}
    if ways:
        facts["open"] = "; ".join(way.format(path) for way in ways)
    return facts


def _folder(path: Path) -> dict[str, Any] | None:
    if (path / "meta.json").is_file():
        return _tree(path, TensorDict.load(path), "TensorDict.load")
    buffers = [path]
    if not (path / "storage").is_dir():  # the folders of an ensemble are numbers
        buffers = sorted(
            (one for one in path.iterdir() if one.name.isdecimal()), key=lambda one: int(one.name)
        )
    places = [buffer / "storage" for buffer in buffers]
    if places and all((place / "storage_metadata.json").is_file() for place in places):
        lists = [place / LazyStackStorage.rows_file for place in places]
        storages = [TensorDict.load(x if x.is_file() else x.parent) for x in lists]
        about = [read_file(str(place / "storage_metadata.json"), _MAX_ABOUT) for place in places]
        facts = _tree(path, storages[0], "buffer.loads")
        del facts["batch_size"]
        return {
            "replay buffer": facts.pop("tensordict"),
            "rows": [json.loads(text)["len"] for text in about],
            "capacity": [storage.batch_size[0] for storage in storages],
            **facts,
        }
    # The model beside the adapter that `lite learn` writes is in a folder of its own.
    if any((path / name).is_file() for name in _ADAPTERS) and not any(path.glob("*.onnx")):
        return _adapter(path)
    return None


def _tree(path: Path, td: Container, function: str) -> dict[str, Any]:
    """The facts of a container that a function opened."""
    if "%state_dict" in td:
        return {
            "state dict": str(path),
            "entries": dict(_of_state(lite.load(path), "")),
            "open": _call("lite.load", path),
        }
    keys = sorted(td.keys(True, True, is_leaf=is_leaf_nontensor), key=_joined)
    return {
        "tensordict": str(path),
        "class": type(td).__name__,
        "batch_size": list(td.batch_size),
        "entries": {_joined(key): _entry(td, key) for key in keys},
        "open": _call(function, path),
    }


def _of_state(state: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """The values of nested dicts by their joined keys, each described in a few words."""
    for name, value in state.items():
        if isinstance(value, Mapping):
            yield from _of_state(value, f"{prefix}{name}, ")
        else:
            array = isinstance(value, np.ndarray)
            yield f"{prefix}{name}", _form(str(value.dtype), value.shape) if array else repr(value)[:80]


def _entry(td: Container, key: NestedKey) -> str:
    """An array as its dtype and shape, objects as their number; sizes in which rows differ are -1."""
    try:
        array = td.get(key)
        shape = array.shape
    except RuntimeError:  # rows of different shapes
        array, shape = td.get(key, as_list=True)[0], td.get_item_shape(key)
    while isinstance(array, list):
        array = array[0]
    if isinstance(array, np.ndarray):
        return _form(str(array.dtype), shape)
    count = int(np.prod(td.batch_size))
    return f"{count} object{'s' * (count != 1)}"


def _form(dtype: str, shape: Iterable[Any]) -> str:
    return f"{dtype}{list(shape)}"


def _joined(key: NestedKey) -> str:
    return key if isinstance(key, str) else ", ".join(key)


def _call(function: str, path: Path) -> str:
    return f"{function}({json.dumps(str(path), ensure_ascii=False)})"


def _adapter(path: Path) -> dict[str, Any]:
    file = path / _ADAPTERS[0] if (path / _ADAPTERS[0]).is_file() else path
    pairs = read(file, "PATH")
    scales = sorted({round(pair.scale, 6) for pair in pairs.values()})
    return {
        "adapter": str(path),
        "ranks": sorted({pair.a.shape[0] for pair in pairs.values()}),
        "scales": "in the matrices" if file.suffix == ".onnx_adapter" else scales,
        "matrices": {name: f"{pair.a.shape[1]} to {pair.b.shape[0]}" for name, pair in pairs.items()},
        "open": f"lite generate --model DIR --adapter {path}",
    }


def _graph(path: Path) -> dict[str, Any] | None:
    """What `lite info` prints for a graph file; None for the graph of a language model."""
    beside = contract_path(path)
    if beside.is_file() and "format" not in json.loads(read_file(str(beside), _MAX_CONTRACT)):
        return _step(path)
    contract = read_contract(path)
    if contract is not None:
        inputs, outputs = (
            {_joined(one.key or one.name): _form(one.dtype, one.shape) for one in tensors}
            for tensors in (contract.inputs, contract.outputs)
        )
        return {
            "policy": str(path),
            "inputs": inputs,
            "outputs": outputs,
            "states": contract.states,
            "interaction_type": contract.interaction_type,
            "opset": contract.opset,
            "open": _call("lite.models.OnnxModule", path),
        }
    model = read_model(path.read_bytes(), path.parent)
    if any(value.name == "input_ids" for value in model.graph.inputs):
        return None
    try:
        lite.nn.from_onnx(path, trainable=False)
        learns = "yes: lite.nn.from_onnx knows all operators"
    except NotImplementedError as error:
        learns = f"no: {error}"
    return {
        "graph": str(path),
        "producer": model.producer,
        "opset": model.opsets.get("", 0),
        "inputs": {value.name: _value(value) for value in model.graph.inputs},
        "outputs": {value.name: _value(value) for value in model.graph.outputs},
        "weights": len(model.graph.weights),
        "operators": dict(Counter(node.op for node in model.graph.nodes).most_common()),
        "learns": learns,
        "open": _call("lite.models.OnnxModule", path)[:-1] + ", in_keys=[...], out_keys=[...])",
    }


def _value(value: Value) -> str:
    return _form(str(dtype_of(value.element_type)), ["..."] if value.shape is None else value.shape)


def _step(path: Path) -> dict[str, Any]:
    step = lite.load_step(path)
    return {
        "step": str(path),
        "arguments": repr(step).removeprefix("Step(")[:-1],
        "inputs": {name: _form(str(dtype), shape) for name, (dtype, shape) in step.inputs.items()},
        "open": _call("lite.load_step", path),
    }
