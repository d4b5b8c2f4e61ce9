"""The small chat model that ships with the package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_PACKAGE = "tensordict_lite_tiny_chat"  # a wheel beside lite's own (kernels/prebuild/wheel.py)


def embedded_model_path() -> Path:
    """Return the directory of the embedded chat model (ONNX graph, tokenizer, configuration, model card).

    Raises:
        FileNotFoundError: the model is not installed.

    Example:
        >>> from lite.models import embedded_model_path
        >>> embedded_model_path().name
        'tiny_chat'
    """
    folder = Path(__file__).parent / "assets" / "tiny_chat"
    if not (folder / "model.onnx").is_file():
        package = find_spec(_PACKAGE)
        if package is None or package.origin is None:
            raise FileNotFoundError(
                f"the embedded model is not installed: {folder / 'model.onnx'} does not exist, nor the "
                f"package {_PACKAGE}, a wheel beside lite's own, of the extras llm, llm-cpu and llm-numpy."
            )
        folder = Path(package.origin).parent / "tiny_chat"
    return folder
