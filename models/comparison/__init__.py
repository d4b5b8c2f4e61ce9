"""Whether two ways of computing log-probs agree, and if not, why.

- `logged`: responses with the log-probs that another tool wrote
- `causes`: which of the usual mistakes explains it
- `mismatch`: what the difference of two columns of log-probs amounts to, and the public function over these
"""
