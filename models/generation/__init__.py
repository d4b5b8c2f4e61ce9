"""The token loop over a decoder. In reading order:

- `options`: names, defaults and checks of the options
- `response`: a response while it is written
- `sampling`: the next token of every open response
- `loop`: prompts in, tokens and their log-probs out
- `batching`: rows of several threads in one run
- `calls`: what a wrapper asks of its model
"""

from lite.models.generation.loop import Generated, Step, generate, stream

__all__ = [
    "Generated",
    "Step",
    "generate",
    "stream",
]  # where pickles look that were made when this was one file
