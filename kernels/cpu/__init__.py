"""The compiled parts of the kernels on the CPU, imported on a kernel's first call.

`returns` has the recursions backwards in time, `multistep_return` the windows of n steps, `log_softmax` rows
of logits, `sample_tokens` draws from them, `layers` is for `lite.nn`. `vectors/` turns formulas into vector
instructions. Where nothing is compiled, `plain_returns` and `plain_rows` compute the same in NumPy.
"""
