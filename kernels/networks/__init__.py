"""Convolutions and recurrent layers in compiled code, for `lite.nn`; `_layers.py` has the smaller ones."""
