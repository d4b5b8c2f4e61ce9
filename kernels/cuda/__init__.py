"""The compiled parts of the kernels on NVIDIA GPUs, imported for the first array in CUDA memory.

`scans` has the recursions in time, `multistep_return` the windows of n steps, `log_softmax` rows of logits,
`sample_tokens` draws from them, `token_log_probs` scores what was drawn. `_arrays` describes device memory,
`_gpu` is the device and stream of a call, `_checks` looks at values there, `_copies` copies. `_sequences` and
`_layouts` say where sequences and rows lie; `_filters`, `_details`, `_softmax`, `_threads`, `_vectors` and
`_numbers` are functions that kernels call. `_jit` compiles.
"""
