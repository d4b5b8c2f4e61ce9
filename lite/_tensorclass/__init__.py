"""Dataclasses over TensorDicts: `tensorclass` has the base class, `decorator` makes other classes such,
`fields` are what both hold. `typed` has TypedTensorDict, which declares its entries in the same way.
"""

from lite._tensorclass.tensorclass import TensorClass, _restore

__all__ = ["TensorClass", "_restore"]  # where pickles of version 0.1 look them up
