"""Dataclasses over TensorDicts: `tensorclass` (the base class), `fields` and their options, `decorator`."""

from lite._tensorclass.tensorclass import _restore as _restore  # pickles of version 0.1 look it up here
