"""Kernels compiled beforehand, for machines that lack a compiler: `python -m lite.kernels.prebuild`.

`signatures` lists what kernels are called with, `targets` what they are compiled for. `kernel_object` has
Numba compile them for one target, in a process of its own, into an object file, which `library` links with
`entries.c` (how CPython calls them) into a shared library, and describes in a manifest; `wheel` packs
libraries for pip. Nothing else imports this package, which needs Numba; what it makes is found, checked and
loaded by `backends/prebuilt.py`.
"""
