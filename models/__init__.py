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

from lite._arrays.public import import_on_first_use

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
