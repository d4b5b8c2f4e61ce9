"""Rules of functions that show arrays or write them to files."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from lite._transforms.vmap.level import Level
from lite._transforms.vmap.registry import rule


@rule(np.array_repr, np.array_str, np.array2string)
def _text(level: Level, a: Any, *args: Any, **kwargs: Any) -> str:
    return repr(a)


@rule(np.save, np.savez, np.savez_compressed, np.savetxt)
def _refuse(level: Level, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "an array inside vmap stands for one element along the mapped dimension and is not saved: return it "
        "from the mapped function and save the result."
    )
