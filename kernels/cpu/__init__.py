"""Numba CPU implementations (private)."""
