"""Functions and what else goes to another process as a pickle."""

from __future__ import annotations

import pickle
import sys
from typing import Any


def pickled(value: Any) -> bytes:
    """A pickle for another process.

    A pickle names functions and classes by their module, and a new process imports the file of `__main__`.
    A notebook or a prompt has none: there, what is written in it goes by value, if cloudpickle is installed.
    """
    sent: bytes = pickle.dumps(value)  # so that what a script cannot send is refused everywhere
    main = sys.modules["__main__"]
    if b"__main__" in sent and not getattr(main, "__file__", None) and not getattr(main, "__spec__", None):
        try:
            import cloudpickle
        except ImportError:
            return sent
        sent = cloudpickle.dumps(value)
    return sent
