"""Exported ONNX language models run through onnxruntime.

Names are loaded on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lite.models.chat_template import Rendered, render_chat
    from lite.models.chat_templates import add_chat_template
    from lite.models.decoder import OnnxDecoder
    from lite.models.decoder_protocol import Decoder
    from lite.models.embedded import embedded_model_path
    from lite.models.generation import Generated, Step, generate, stream
    from lite.models.generation_config import GenerationConfig
    from lite.models.graph_spec import GraphSpec, Padding
    from lite.models.history import ContentBase, History
    from lite.models.llm_data import ChatHistory, LogProbs, Masks, Text, Tokens
    from lite.models.llm_wrapper import LLMWrapperBase
    from lite.models.model_config import ModelConfig
    from lite.models.onnx_module import OnnxModule
    from lite.models.onnx_wrapper import OnnxWrapper
    from lite.models.scoring import full_logits, score
    from lite.models.tokenizer import Tokenizer

_MODULE_OF = {
    "ChatHistory": "llm_data",
    "ContentBase": "history",
    "Decoder": "decoder_protocol",
    "Generated": "generation",
    "GenerationConfig": "generation_config",
    "GraphSpec": "graph_spec",
    "History": "history",
    "LLMWrapperBase": "llm_wrapper",
    "LogProbs": "llm_data",
    "Masks": "llm_data",
    "ModelConfig": "model_config",
    "OnnxDecoder": "decoder",
    "OnnxModule": "onnx_module",
    "OnnxWrapper": "onnx_wrapper",
    "Padding": "graph_spec",
    "Rendered": "chat_template",
    "Step": "generation",
    "Text": "llm_data",
    "Tokenizer": "tokenizer",
    "Tokens": "llm_data",
    "add_chat_template": "chat_templates",
    "embedded_model_path": "embedded",
    "full_logits": "scoring",
    "generate": "generation",
    "render_chat": "chat_template",
    "score": "scoring",
    "stream": "generation",
}

__all__ = [
    "ChatHistory",
    "ContentBase",
    "Decoder",
    "Generated",
    "GenerationConfig",
    "GraphSpec",
    "History",
    "LLMWrapperBase",
    "LogProbs",
    "Masks",
    "ModelConfig",
    "OnnxDecoder",
    "OnnxModule",
    "OnnxWrapper",
    "Padding",
    "Rendered",
    "Step",
    "Text",
    "Tokenizer",
    "Tokens",
    "add_chat_template",
    "embedded_model_path",
    "full_logits",
    "generate",
    "render_chat",
    "score",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'lite.models' has no attribute {name!r}")
    return getattr(import_module(f"lite.models.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
