"""Array kernels: multi-step returns, log-probs of tokens, sampling."""
