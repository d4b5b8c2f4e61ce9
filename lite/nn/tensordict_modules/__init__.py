"""Modules that read entries of a TensorDict and write others."""
