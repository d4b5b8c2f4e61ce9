"""Dataclasses over TensorDicts: `tensorclass` has the base class, `decorator` makes other classes such,
`fields` are what both hold.
"""

from lite._tensorclass.tensorclass import _restore as _restore  # pickles of version 0.1 look it up here
