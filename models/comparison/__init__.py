"""Whether two ways of computing log-probs agree, and if not, why.

- `logged`: responses with the log-probs that another tool wrote
- `differences`: what the difference of two columns of log-probs amounts to, in numbers
- `causes`: which of the usual mistakes explains it
- `mismatch`: the public function over these
"""
