"""Read the files of a model folder: none that a link brings from elsewhere, and JSON of limited size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lite._files.onnx.arrays import check_links

MAX_CONFIG_BYTES = 16 << 20
MAX_TOKENIZER_BYTES = 256 << 20


def read_text(path: Path, *, folder: Path | None = None, max_bytes: int = MAX_CONFIG_BYTES) -> str:
    """The UTF-8 text of a file of a model folder, by default the one that it is in.

    Raises:
        ValueError: it is a link out of the folder, larger than ``max_bytes`` or not UTF-8.
    """
    check_links(path, folder or path.parent)
    size = path.stat().st_size
    if size > max_bytes:
        raise ValueError(f"{path} has {size} bytes; a file of this kind may have at most {max_bytes}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from None


def read_json_object(path: Path, *, max_bytes: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in a file, or ``{}`` when there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(read_text(path, max_bytes=max_bytes))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    except ValueError as error:  # not UTF-8, too large, or a number of thousands of digits
        raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(value).__name__}")
    return value
