"""Exported ONNX models run through onnxruntime: language models, and any other graph.

Nine folders, each of which imports only those before it (`comparison`, `generation` and `text` do not know
each other):

- `graph`: any ONNX graph: its files, sessions, calls
- `decoder`: a language model as rows of tokens to extend, fork, cut and score
- `learning`: a decoder's graph as a module, whose log-probs have gradients
- `comparison`: whether two ways of computing log-probs agree, and if not, why
- `generation`: the token loop, its options, and rows of several threads in one run
- `text`: conversations, chat templates, the tokenizer, the data classes
- `wrapper`: language models as modules on TensorDicts
- `batches`: language models on tables, as jobs on many machines run them
- `tiny_chat`: the small chat model that ships with the package

A wrapper's call goes input -> calls -> loop -> decoder -> cache -> binding -> session, and back to output.
Names are loaded on first use, so that importing this package costs next to nothing.
"""

from typing import TYPE_CHECKING

from lite._arrays.public import import_on_first_use

if TYPE_CHECKING:
    from lite.models.batches.generate_batches import GenerateBatches as GenerateBatches
    from lite.models.batches.score_batches import ScoreBatches as ScoreBatches
    from lite.models.comparison.logged import LoggedResponse as LoggedResponse
    from lite.models.comparison.logged import read_log_probs as read_log_probs
    from lite.models.comparison.mismatch import Mismatch as Mismatch
    from lite.models.comparison.mismatch import mismatch as mismatch
    from lite.models.decoder.choices import ChoiceScores as ChoiceScores
    from lite.models.decoder.choices import score_choices as score_choices
    from lite.models.decoder.conventions import GraphSpec as GraphSpec
    from lite.models.decoder.conventions import Padding as Padding
    from lite.models.decoder.decoder import OnnxDecoder as OnnxDecoder
    from lite.models.decoder.protocol import Decoder as Decoder
    from lite.models.decoder.protocol import RewindableDecoder as RewindableDecoder
    from lite.models.decoder.scoring import full_logits as full_logits
    from lite.models.decoder.scoring import score as score
    from lite.models.decoder.scoring import score_details as score_details
    from lite.models.generation.grammar import Grammar as Grammar
    from lite.models.generation.loop import Generated as Generated
    from lite.models.generation.loop import Step as Step
    from lite.models.generation.loop import generate as generate
    from lite.models.generation.loop import generate_each as generate_each
    from lite.models.generation.loop import stream as stream
    from lite.models.generation.options import GenerationConfig as GenerationConfig
    from lite.models.generation.prefix_cache import PrefixCache as PrefixCache
    from lite.models.graph.model_config import ModelConfig as ModelConfig
    from lite.models.graph.module import OnnxModule as OnnxModule
    from lite.models.text.builtin_templates import add_chat_template as add_chat_template
    from lite.models.text.data import ChatHistory as ChatHistory
    from lite.models.text.data import LogProbs as LogProbs
    from lite.models.text.data import Masks as Masks
    from lite.models.text.data import Sampling as Sampling
    from lite.models.text.data import Text as Text
    from lite.models.text.data import Tokens as Tokens
    from lite.models.text.history import ContentBase as ContentBase
    from lite.models.text.history import History as History
    from lite.models.text.streaming import TextIteratorStreamer as TextIteratorStreamer
    from lite.models.text.streaming import TextStreamer as TextStreamer
    from lite.models.text.template_rendering import Rendered as Rendered
    from lite.models.text.template_rendering import render_chat as render_chat
    from lite.models.text.tokenizer import Tokenizer as Tokenizer
    from lite.models.tiny_chat.embedded import embedded_model_path as embedded_model_path
    from lite.models.wrapper.kl import KLComputation as KLComputation
    from lite.models.wrapper.kl import RetrieveKL as RetrieveKL
    from lite.models.wrapper.kl import RetrieveLogProb as RetrieveLogProb
    from lite.models.wrapper.onnx_wrapper import OnnxWrapper as OnnxWrapper
    from lite.models.wrapper.options import LLMWrapperBase as LLMWrapperBase
    from lite.models.wrapper.trainable import TrainablePolicy as TrainablePolicy

# The public names by the file that defines them.
_NAMES = {
    "graph.model_config": "ModelConfig",
    "graph.module": "OnnxModule",
    "decoder.choices": "ChoiceScores score_choices",
    "decoder.conventions": "GraphSpec Padding",
    "decoder.decoder": "OnnxDecoder",
    "decoder.protocol": "Decoder RewindableDecoder",
    "decoder.scoring": "full_logits score score_details",
    "comparison.logged": "LoggedResponse read_log_probs",
    "comparison.mismatch": "Mismatch mismatch",
    "generation.loop": "Generated Step generate generate_each stream",
    "generation.grammar": "Grammar",
    "generation.options": "GenerationConfig",
    "generation.prefix_cache": "PrefixCache",
    "text.builtin_templates": "add_chat_template",
    "text.data": "ChatHistory LogProbs Masks Sampling Text Tokens",
    "text.history": "ContentBase History",
    "text.streaming": "TextIteratorStreamer TextStreamer",
    "text.template_rendering": "Rendered render_chat",
    "text.tokenizer": "Tokenizer",
    "wrapper.kl": "KLComputation RetrieveKL RetrieveLogProb",
    "wrapper.onnx_wrapper": "OnnxWrapper",
    "wrapper.options": "LLMWrapperBase",
    "wrapper.trainable": "TrainablePolicy",
    "batches.generate_batches": "GenerateBatches",
    "batches.score_batches": "ScoreBatches",
    "tiny_chat.embedded": "embedded_model_path",
}
__all__, __getattr__, __dir__ = import_on_first_use(globals(), _NAMES)
