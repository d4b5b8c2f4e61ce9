"""The table of derivatives, and the list of functions that have none worth the name."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.formulas import FORMULAS
from lite._transforms.registry import Registry

_registry = Registry()
RULES = _registry.rules
# A rule has the signature of the function that it stands for, and gets its arguments, `out` excepted.
rule = _registry.rule
# A formula of other functions that have rules needs nothing else: they note what it computes.
composed = rule
rules_of = _registry.rules_of
RULES.update(FORMULAS)

# Functions whose results do not change where they change continuously: they are called with values.
FLAT: set[Any] = {
    *(np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.min_scalar_type, np.common_type),
    *(np.may_share_memory, np.shares_memory, np.iscomplexobj, np.isrealobj),
    *(np.all, np.any, np.argmax, np.argmin, np.argsort, np.argpartition, np.nonzero),
    *(np.count_nonzero, np.searchsorted, np.digitize, np.lexsort, np.nanargmax, np.nanargmin),
    *(np.isclose, np.array_equal, np.array_equiv, np.isposinf, np.isneginf, np.isin),
    *(np.round, np.around, np.fix, np.array_repr, np.array_str, np.array2string),
}


def flat(*functions: Any) -> None:
    """Add functions to the list of those without a derivative."""
    FLAT.update(functions)
