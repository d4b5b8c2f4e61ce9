"""Layers with torch's names and weights, one family per file.

`large_arrays` says which calls compiled code computes, `windows` is what convolution and pooling share;
`recurrent_cells` has the steps that `recurrent` walks through time.
"""
