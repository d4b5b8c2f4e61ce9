"""Intended differences of reductions and scans; lite's results are checked by an oracle besides.

The oracle is the same reduction of every array alone (see `fuzz_steps_reduce`), so that the rules only
have to say where tensordict is wrong.
"""

from __future__ import annotations

from typing import Any

from fuzz_case import Case, lazy_somewhere, rule
from fuzz_sides import arrays

ONE_DIM = ("prod", "amax", "amin", "max", "min")  # what torch reduces over one dim only
FLOATING = ("mean", "nanmean", "std", "var", "softmax", "logsumexp")
NAMES = (
    "names after `softmax`, `logsumexp`, `cummax(return_indices=False)`, `atleast_nd`, `broadcast_to`, "
    "`tile`, `to_lazystack`"
)
NO_INTEGERS = ("floating point", "not implemented for")  # torch's messages


def reduces(case: Case, *names: str) -> bool:
    """Whether the step is a reduction or scan, of these names if there are any."""
    kind, _, name = case.name.partition(" ")
    return kind in ("reduce", "scan") and (not names or name in names)


def given(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = case.step.facts["kwargs"]
    return found


def integers(case: Case) -> bool:
    return any(a.dtype.kind in "biu" for a in arrays(case.target) if a.dtype != object)


@rule("`sum(dim=None)`, reductions with `keepdim=True` alone")
def _(case: Case) -> bool:
    if not reduces(case) or reduces(case, "all", "any", "logsumexp"):
        return False
    dim = given(case).get("dim", ...)
    return dim is None or (dim is ... and "keepdim" in given(case))


@rule("`prod`, `amax`, `amin`, `max`, `min` over several dims")
def _(case: Case) -> bool:
    if reduces(case, "prod") and "keepdim" in given(case) and case.other == "RuntimeError":
        return True  # which reshapes every array to the batch size
    return reduces(case, *ONE_DIM) and isinstance(given(case).get("dim"), tuple)


@rule('`amax`, `max`, ... with `dim="feature"`')
def _(case: Case) -> bool:
    return reduces(case, *ONE_DIM) and "call_on_nested=True" in case.message


@rule("nested batch sizes longer than the parent's after `amax`, `max`, `cummax`")
def _(case: Case) -> bool:
    names = (*ONE_DIM, "cummax", "cummin", "logsumexp")
    return reduces(case, *names) and case.kind == "batch_size" and "/" in case.path


@rule("`mean`, `std`, `var`, `norm`, `quantile`, `logsumexp`, `softmax` of integers")
def _(case: Case) -> bool:
    refused = case.other in ("RuntimeError", "NotImplementedError") and any(
        text in case.message for text in NO_INTEGERS
    )
    return reduces(case, *FLOATING) and integers(case) and (refused or case.kind == "dtype")


@rule("reductions over a dim with one object per element")
def _(case: Case) -> bool:
    # The oracle has compared the arrays, so that only objects can differ in kind or be left out.
    return reduces(case) and (case.other == "RecursionError" or case.kind in ("keys", "kind"))


@rule("`max(dim)` of a TensorDict with objects")
def _(case: Case) -> bool:
    pair = reduces(case, "max", "min", "cummax", "cummin") and isinstance(case.ours, tuple)
    return pair and case.kind == "keys" and case.path[:3] in ("[0]", "[1]")


@rule(NAMES)
def _(case: Case) -> bool:
    return reduces(case) and case.kind == "names"


@rule("empty `amax`, `max`")
def _(case: Case) -> bool:
    return (
        reduces(case, "amax", "amin", "max", "min")
        and case.error == "ValueError"
        and case.kind == "error class"
    )


@rule("dims of `sum(dim, reduce=True)`")
def _(case: Case) -> bool:
    if not reduces(case) or not given(case).get("reduce") or "dim" not in given(case):
        return False
    if given(case).get("return_indices") is False and case.kind == "value":
        return True
    dim, ndim = given(case)["dim"], case.target.ndim
    dims = dim if isinstance(dim, tuple) else (dim,)
    if dim == "feature":
        return lazy_somewhere(case.target) or "keepdim" in given(case)
    return lazy_somewhere(case.target) or not all(0 <= d < ndim for d in dims)


@rule("`softmax` of a lazy stack")
def _(case: Case) -> bool:
    # nansum and the like refuse a lazy stack of which some leaf is ragged, or was before it was indexed
    refused = not case.error and "to be cast to a regular TensorDict" in case.message
    return (reduces(case, "softmax") or (reduces(case) and refused)) and lazy_somewhere(case.target)


@rule("`all(dim)`, `any(dim)` of uint8")
def _(case: Case) -> bool:
    return reduces(case, "all", "any") and case.kind == "dtype"


@rule("`abs`, `**`, `sub`, `exp` ... of a TensorDict without arrays")
def _(case: Case) -> bool:
    return reduces(case) and "at least one tensor" in case.message


@rule("dims named twice in a reduction without arrays")
def _(case: Case) -> bool:
    twice = (
        case.error == "ValueError" and not case.other and "names a dimension twice" in str(case.ours_error)
    )
    return reduces(case) and twice and not list(case.target.keys(True, True))


@rule("`logsumexp()` of a batch without dims")
def _(case: Case) -> bool:
    return reduces(case, "logsumexp") and not case.target.ndim and given(case).get("dim") is None


@rule("stacks and concatenations of different dtypes")
def _(case: Case) -> bool:
    return reduces(case) and bool(given(case).get("reduce")) and case.kind == "dtype"
