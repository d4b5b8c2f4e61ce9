"""Conversions of other data to TensorDicts and back: `from_python` and `to_python` (dicts, tuples,
dataclasses, lists, structured arrays), `pytree`, `torch`, `tables`, `state_dict`.
"""
