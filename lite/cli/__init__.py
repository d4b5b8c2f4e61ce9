"""Command line: the one place that composes lite, lite.kernels and lite.models."""
