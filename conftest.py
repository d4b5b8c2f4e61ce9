"""Where pytest finds the examples of public classes: in their files, while `__module__` names a package."""

import doctest
import inspect
from types import ModuleType
from typing import Any

from lite._arrays.public import written_in

_is_from = doctest.DocTestFinder._from_module  # type: ignore[attr-defined]


def _stands_in(self: doctest.DocTestFinder, module: ModuleType, value: Any) -> bool:
    if inspect.isclass(value) and value in written_in:
        return written_in[value] == module.__name__
    return bool(_is_from(self, module, value))


doctest.DocTestFinder._from_module = _stands_in  # type: ignore[attr-defined]
