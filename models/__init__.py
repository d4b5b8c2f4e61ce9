"""Exported ONNX language models run through onnxruntime."""

from lite.models.decoder import OnnxDecoder
from lite.models.generation import Generated, Step, generate, stream
from lite.models.generation_config import GenerationConfig
from lite.models.graph_spec import GraphSpec, Padding
from lite.models.model_config import ModelConfig
from lite.models.scoring import full_logits, score

__all__ = [
    "Generated",
    "GenerationConfig",
    "GraphSpec",
    "ModelConfig",
    "OnnxDecoder",
    "Padding",
    "Step",
    "full_logits",
    "generate",
    "score",
    "stream",
]
