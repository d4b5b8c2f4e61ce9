"""Layers with torch's names and weights."""
