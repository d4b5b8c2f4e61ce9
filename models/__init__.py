"""Exported ONNX models run through onnxruntime: language models, and any other graph.

Six folders, each of which imports only those before it (`generation` and `text` do not know each other):

- `graph`: any ONNX graph: its files, sessions, calls
- `decoder`: a language model as rows of tokens to extend, fork, cut and score
- `generation`: the token loop, its options, and rows of several threads in one run
- `text`: conversations, chat templates, the tokenizer, the data classes
- `wrapper`: language models as modules on TensorDicts
- `tiny_chat`: the small chat model that ships with the package

A wrapper's call goes input -> calls -> loop -> decoder -> cache -> binding -> session, and back to output.
Names are loaded on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lite.models.decoder.conventions import GraphSpec, Padding
    from lite.models.decoder.decoder import OnnxDecoder
    from lite.models.decoder.protocol import Decoder
    from lite.models.decoder.scoring import full_logits, score
    from lite.models.generation.loop import Generated, Step, generate, stream
    from lite.models.generation.options import GenerationConfig
    from lite.models.graph.model_config import ModelConfig
    from lite.models.graph.module import OnnxModule
    from lite.models.text.builtin_templates import add_chat_template
    from lite.models.text.data import ChatHistory, LogProbs, Masks, Text, Tokens
    from lite.models.text.history import ContentBase, History
    from lite.models.text.template_rendering import Rendered, render_chat
    from lite.models.text.tokenizer import Tokenizer
    from lite.models.tiny_chat.embedded import embedded_model_path
    from lite.models.wrapper.onnx_wrapper import OnnxWrapper
    from lite.models.wrapper.options import LLMWrapperBase

_MODULE_OF = {
    "ChatHistory": "text.data",
    "ContentBase": "text.history",
    "Decoder": "decoder.protocol",
    "Generated": "generation.loop",
    "GenerationConfig": "generation.options",
    "GraphSpec": "decoder.conventions",
    "History": "text.history",
    "LLMWrapperBase": "wrapper.options",
    "LogProbs": "text.data",
    "Masks": "text.data",
    "ModelConfig": "graph.model_config",
    "OnnxDecoder": "decoder.decoder",
    "OnnxModule": "graph.module",
    "OnnxWrapper": "wrapper.onnx_wrapper",
    "Padding": "decoder.conventions",
    "Rendered": "text.template_rendering",
    "Step": "generation.loop",
    "Text": "text.data",
    "Tokenizer": "text.tokenizer",
    "Tokens": "text.data",
    "add_chat_template": "text.builtin_templates",
    "embedded_model_path": "tiny_chat.embedded",
    "full_logits": "decoder.scoring",
    "generate": "generation.loop",
    "render_chat": "text.template_rendering",
    "score": "decoder.scoring",
    "stream": "generation.loop",
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
