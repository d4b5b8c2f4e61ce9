"""Exported ONNX language models run through onnxruntime.

Names are loaded on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lite.models.decoder import OnnxDecoder
    from lite.models.embedded import embedded_model_path
    from lite.models.generation import Generated, Step, generate, stream
    from lite.models.generation_config import GenerationConfig
    from lite.models.graph_spec import GraphSpec, Padding
    from lite.models.model_config import ModelConfig
    from lite.models.scoring import full_logits, score

_MODULE_OF = {
    "Generated": "generation",
    "GenerationConfig": "generation_config",
    "GraphSpec": "graph_spec",
    "ModelConfig": "model_config",
    "OnnxDecoder": "decoder",
    "Padding": "graph_spec",
    "Step": "generation",
    "embedded_model_path": "embedded",
    "full_logits": "scoring",
    "generate": "generation",
    "score": "scoring",
    "stream": "generation",
}

__all__ = [
    "Generated",
    "GenerationConfig",
    "GraphSpec",
    "ModelConfig",
    "OnnxDecoder",
    "Padding",
    "Step",
    "embedded_model_path",
    "full_logits",
    "generate",
    "score",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'lite.models' has no attribute {name!r}")
    return getattr(import_module(f"lite.models.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
