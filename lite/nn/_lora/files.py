"""Files of adapters: PEFT's folders and safetensors files, and onnxruntime's `.onnx_adapter`."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.dtypes import is_inexact
from lite._files.commit import new_file
from lite._files.flat import read_safetensors, write_safetensors
from lite._files.mapping import read_file
from lite._files.onnx.adapters import MAX_BYTES, adapter_bytes, read_adapter
from lite._files.onnx.arrays import check_links
from lite.nn._lora.linear import Adapter, matrices
from lite.nn._lora.projections import peft_name

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
ONNX_SUFFIX = ".onnx_adapter"
_MAX_CONFIG = 1 << 20  # bytes
_MAX_ALPHA = 1e9
_PREFIX = "base_model.model."  # of names in PEFT's files
_KEY = re.compile(
    r"(?:base_model\.model\.)?(?P<name>.*?)\.?lora_(?P<matrix>[AB])(?:\.MatMul|\.default)?\.weight"
)
_PLAIN = re.compile(r"[\w.-]+")  # PEFT's patterns may be any regular expression, whose match may take forever
_PARTS = ("q_proj", "k_proj", "v_proj")  # some exporters join these to `_FUSED`
_FUSED = "qkv_proj"
# Settings of PEFT with which an adapter is more than two matrices.
_REFUSED = ("use_dora", "lora_bias", "modules_to_save", "alora_invocation_tokens", "trainable_token_indices")
# Initialisations that subtract B A from the weights, so that the adapter does not fit the plain model.
_RESIDUAL = ("pissa", "olora", "corda", "loftq", "lora_ga")


@dataclass(frozen=True)
class LowRank:
    """The matrices of an adapter.

    Attributes:
        a: (rank, in).
        b: (out, rank).
        scale: the factor of their product.
    """

    a: NDArray[Any]
    b: NDArray[Any]
    scale: float


# -- reading -------------------------------------------------------------------------------------


def read(path: Path, argument: str) -> dict[str, LowRank]:
    """The adapters in a file or folder, by the paths of their layers.

    Args:
        path: path of the file or folder.
        argument: its name in messages.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged, a link out of its folder, or does not hold pairs of matrices.
    """
    folder = path if path.is_dir() else path.parent
    file = path / WEIGHTS if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"{argument}: there is no adapter {str(file)!r}.")
    check_links(file, folder)
    try:
        if file.suffix == ONNX_SUFFIX:
            arrays = read_adapter(read_file(str(file), MAX_BYTES))
            return _paired({name: array.T for name, array in _matrices_of(arrays)}, {})
        arrays = read_safetensors(str(file))[0]
        return _paired(arrays, _config(folder / CONFIG))
    except ValueError as error:
        raise ValueError(f"{argument}: {str(file)!r} is not an adapter that can be read: {error}") from None


def _matrices_of(arrays: Mapping[str, NDArray[Any]]) -> list[tuple[str, NDArray[Any]]]:
    """The arrays by name, two-dimensional; matrices of a graph are transposed."""
    for name, array in arrays.items():
        if array.ndim != 2:
            raise ValueError(f"{name!r} has shape {array.shape}, no matrix")
    return list(arrays.items())


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"there is no {CONFIG} beside it, which has r and lora_alpha")
    check_links(path, path.parent)
    try:
        config = json.loads(read_file(str(path), _MAX_CONFIG))
    except RecursionError:
        raise ValueError(f"{CONFIG} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{CONFIG}: {error}") from None
    if not isinstance(config, dict) or config.get("peft_type", "LORA") != "LORA":
        raise ValueError(f"{CONFIG} must describe an adapter with peft_type LORA")
    for name in _REFUSED:
        if config.get(name):
            raise ValueError(f"{CONFIG} has {name}={config[name]!r}, which is more than two matrices")
    if not isinstance(config.get("use_rslora") or False, bool):
        raise ValueError(f"{CONFIG} must have a bool use_rslora, got {config['use_rslora']!r}")
    first = str(config.get("init_lora_weights")).lower()
    if first.startswith(_RESIDUAL):
        raise ValueError(
            f"{CONFIG} has init_lora_weights={first!r}, so it is for other weights than the model's: write "
            "it with save_pretrained(..., path_initial_model_for_weight_conversion=...)"
        )
    if config.get("bias", "none") != "none":
        raise ValueError(f"{CONFIG} has bias={config['bias']!r}: biases are frozen here")
    return config


def _paired(arrays: Mapping[str, NDArray[Any]], config: Mapping[str, Any]) -> dict[str, LowRank]:
    """The matrices of each name, with the scale that a configuration gives; 1 without one."""
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for key, array in arrays.items():
        match = _KEY.fullmatch(key)
        if match is None:
            raise ValueError(f"{key!r} is not a matrix of a low-rank adapter")
        own = found.setdefault(match["name"], {})
        if match["matrix"] in own:
            raise ValueError(f"{match['name']!r} has two matrices {match['matrix']}")
        own[match["matrix"]] = array
    pairs = {}
    for name, own in found.items():
        if own.keys() != {"A", "B"}:
            raise ValueError(f"{name!r} has the matrix {min(own)} alone")
        a, b = own["A"], own["B"]
        if not (a.ndim == b.ndim == 2 and a.shape[0] == b.shape[1] > 0):
            raise ValueError(f"the matrices of {name!r} have shapes {a.shape} and {b.shape}")
        if not (is_inexact(a.dtype) and is_inexact(b.dtype)):
            raise ValueError(f"the matrices of {name!r} have dtypes {a.dtype} and {b.dtype}")
        pairs[peft_name(name)] = LowRank(a, b, _scale(name, a.shape[0], config) if config else 1.0)
    return pairs


def _scale(name: str, rank: int, config: Mapping[str, Any]) -> float:
    """alpha / rank of a layer, with the alpha of the first pattern that matches it, or the common one."""
    alpha, patterns = config.get("lora_alpha"), config.get("alpha_pattern") or {}
    if not isinstance(patterns, dict):
        raise ValueError(f"{CONFIG} must have a dict alpha_pattern, got {patterns!r}")
    for pattern, other in reversed(patterns.items()):
        if not _PLAIN.fullmatch(pattern):
            raise ValueError(f"{CONFIG} has alpha_pattern {pattern!r}: only names of layers are read")
        if name == pattern or name.endswith(f".{pattern}"):
            alpha = other
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < _MAX_ALPHA:
        raise ValueError(f"{CONFIG} must have a positive lora_alpha, got {alpha!r}")
    return alpha / math.sqrt(rank) if config.get("use_rslora") else alpha / rank


def layers_of(found: Mapping[str, LowRank], names: Iterable[str]) -> list[str]:
    """The layers of `names` that a file has matrices for; if there are none, all layers of the file."""
    own = [
        name
        for name in names
        if name in found
        or (name.endswith(_FUSED) and any(name.removesuffix(_FUSED) + part in found for part in _PARTS))
    ]
    return own or list(found)


def fitting(
    found: Mapping[str, LowRank], adapters: Iterable[Adapter], argument: str
) -> list[tuple[Adapter, LowRank]]:
    """The matrices of a file for each adapter of a module.

    Adapters for queries, keys and values become one adapter of a layer that computes all three: it has the
    sum of their ranks, and zeros where one does not change the other.

    Args:
        found: the matrices of the file, by layer.
        adapters: adapters of the module.
        argument: the file's name in messages.

    Raises:
        ValueError: the file has too few or too many, or matrices of other sizes.
    """
    left, pairs = dict(found), []
    for one in adapters:
        mine = left.pop(one.name, None)
        a, b = one.parameters
        if mine is None and one.name.endswith(_FUSED):
            mine = _joined(one.name.removesuffix(_FUSED), left, b.shape[0], argument)
        if mine is None:
            have = ", ".join(list(found)[:8]) or "nothing"
            raise ValueError(f"{argument}: it has nothing for {one.name!r}; it has {have}.")
        if mine.a.shape[1] != a.shape[1] or mine.b.shape[0] != b.shape[0]:
            raise ValueError(
                f"{argument}: the adapter of {one.name!r} is for {mine.a.shape[1]} inputs and "
                f"{mine.b.shape[0]} outputs, the layer has {a.shape[1]} and {b.shape[0]}."
            )
        pairs.append((one, mine))
    if left:
        raise ValueError(
            f"{argument}: the module has no adapter of {', '.join(list(left)[:8])}; see targets of lora()."
        )
    return pairs


def _joined(prefix: str, left: dict[str, LowRank], outputs: int, argument: str) -> LowRank | None:
    """One adapter from those of queries, keys and values, some of which may be missing."""
    parts = [left.pop(prefix + part, None) for part in _PARTS]
    given = [part for part in parts if part is not None]
    if not given:
        return None
    query, key, value = (None if part is None else part.b.shape[0] for part in parts)
    key, value = key or value, value or key  # keys and values have one size
    if key is None or value is None:
        other = outputs - (query or 0)
        key = value = other // 2
    sizes = [outputs - key - value, key, value]
    b = np.zeros((outputs, sum(part.a.shape[0] for part in given)), given[0].b.dtype)
    row = column = 0
    for part, size in zip(parts, sizes, strict=True):
        if part is not None:
            rank = part.a.shape[0]
            if part.b.shape[0] != size:
                raise ValueError(
                    f"{argument}: {prefix}q_proj, k_proj and v_proj do not make {outputs} outputs."
                )
            b[row : row + size, column : column + rank] = part.b * (part.scale / given[0].scale)
            column += rank
        row += size
    return LowRank(np.concatenate([part.a for part in given]), b, given[0].scale)


# -- writing -------------------------------------------------------------------------------------


def write_onnx(path: Path, values: Mapping[str, NDArray[Any]]) -> None:
    """An `.onnx_adapter` of values by the names of a graph's inputs."""
    content = adapter_bytes(values)
    with new_file(str(path)) as file:
        file.write(content)


def write_peft(folder: Path, adapters: Iterable[Adapter], others: Iterable[str], qkv: Any) -> None:
    """Write PEFT's two files.

    Args:
        folder: the folder to write to.
        adapters: the adapters.
        others: paths that have no adapter.
        qkv: sizes of queries, keys and values, to write a layer of all three as three; None to keep it.
    """
    pairs: dict[str, LowRank] = {}
    for one in adapters:
        a, b = (parameter.data for parameter in one.parameters)
        if qkv is not None and one.name.endswith(_FUSED):
            pairs |= _split(one.name.removesuffix(_FUSED), LowRank(a, b, one.scale), qkv)
        else:
            pairs[one.name] = LowRank(a, b, one.scale)
    arrays: dict[str, Any] = {}
    for name, pair in pairs.items():
        for key, array in zip(matrices(name), (pair.a, pair.b), strict=True):
            arrays[_PREFIX + key.removeprefix(".")] = array
    content = json.dumps(_described(pairs, set(others)), indent=2).encode()
    with new_file(str(folder / CONFIG)) as file:  # both take their places at the end, or neither
        file.write(content)
        file.flush()
        write_safetensors(str(folder / WEIGHTS), arrays, {"format": "pt"})


def _split(prefix: str, pair: LowRank, sizes: Iterable[int]) -> dict[str, LowRank]:
    ends = np.cumsum(list(sizes))
    if len(ends) != 3 or ends[-1] != pair.b.shape[0]:
        raise ValueError(f"qkv must be three sizes that add up to {pair.b.shape[0]}, got {sizes!r}.")
    rows = np.split(pair.b, ends[:2])
    return {prefix + part: LowRank(pair.a, b, pair.scale) for part, b in zip(_PARTS, rows, strict=True)}


def _described(pairs: Mapping[str, LowRank], others: set[str]) -> dict[str, Any]:
    ranks = {name: pair.a.shape[0] for name, pair in pairs.items()}
    alphas = {name: _plain(pair.scale * ranks[name]) for name, pair in pairs.items()}
    (rank, _), (alpha, _) = (Counter(x.values()).most_common(1)[0] for x in (ranks, alphas))
    last = {name.rpartition(".")[2] for name in pairs}
    alike = last.isdisjoint(name.rpartition(".")[2] for name in others)
    return {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": None,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "target_modules": sorted(last if alike else pairs),
        "rank_pattern": {name: x for name, x in ranks.items() if x != rank},
        "alpha_pattern": {name: x for name, x in alphas.items() if x != alpha},
        "bias": "none",
        "fan_in_fan_out": False,
        "use_rslora": False,
        "use_dora": False,
        "inference_mode": True,
    }


def _plain(number: float) -> float:
    return int(number) if number == int(number) else number
