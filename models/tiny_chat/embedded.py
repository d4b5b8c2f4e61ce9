"""The small chat model that ships with the package."""

from __future__ import annotations

from pathlib import Path


def embedded_model_path() -> Path:
    """Return the directory of the embedded chat model (ONNX graph, tokenizer, configuration, model card).

    Raises:
        FileNotFoundError: the installation was stripped of its package data.

    Example:
        >>> from lite.models import embedded_model_path
        >>> embedded_model_path().name
        'tiny_chat'
    """
    path = Path(__file__).parent / "assets" / "tiny_chat"
    if not (path / "model.onnx").is_file():
        raise FileNotFoundError(f"the embedded model is missing: {path / 'model.onnx'} does not exist.")
    return path
