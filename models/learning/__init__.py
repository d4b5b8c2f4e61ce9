"""Decoders as modules that learn: log-probs of tokens that are differentiable by the graph's weights.

- `output_layer`: the product that makes the logits, which is left out of the graph
- `recorded`: log-probs among the ids that tokens were drawn from
- `token_log_probs`: the module of these, on rows of tokens, which it lays out as the graph reads them
"""
