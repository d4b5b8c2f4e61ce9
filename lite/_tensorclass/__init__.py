"""Dataclasses over TensorDicts: `tensorclass` has the base class, `decorator` makes other classes such,
`fields` are what both hold. `typed` has TypedTensorDict, which declares its entries in the same way.
"""
