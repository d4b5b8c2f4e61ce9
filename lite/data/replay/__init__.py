"""Replay buffers: what keeps transitions, and what draws batches from them.

`samplers` has the base of all samplers and those that draw uniformly.
"""
