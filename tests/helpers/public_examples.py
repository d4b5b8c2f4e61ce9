"""A plugin of pytest, named in pyproject.toml: examples of public classes stand in their files.

Their `__module__` names the package that exports them, where doctest would look for them in vain.
"""

import doctest
import inspect
from types import ModuleType
from typing import Any

_is_from = doctest.DocTestFinder._from_module  # type: ignore[attr-defined]


def _stands_in(self: doctest.DocTestFinder, module: ModuleType, value: Any) -> bool:
    from lite._arrays.public import written_in  # late: tests/conftest.py sets up what lite finds at import

    if inspect.isclass(value) and value in written_in:
        return written_in[value] == module.__name__
    return bool(_is_from(self, module, value))


doctest.DocTestFinder._from_module = _stands_in  # type: ignore[attr-defined]
