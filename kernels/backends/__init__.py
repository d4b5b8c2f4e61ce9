"""Backends of the kernels: a prebuilt library, Numba, or plain NumPy.

`choice` decides, once; `jit` marks what is to be compiled and makes functions of it accordingly. `prebuilt`
finds and loads libraries, which are told by the digest of `sources`. Of Numba: `compiler` imports it, or says
what to do; `cache` keeps what it has compiled, `portable` says for which other machines; `warmup` compiles
everything.
"""
