"""Losses of language models.

grpo          losses on log-probs of tokens, as functions
grpo_losses   the same as modules: GRPO, DAPO, CISPO
sft           what assistants said
dpo           which of two responses was preferred
token_scores  what a language model scores of a batch, and which tokens count
"""
