"""The class of a module's distribution, also by name, and errors of its constructor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lite.nn.distributions import distributions_maps


def distribution_of(given: Callable[..., Any] | str) -> Callable[..., Any]:
    """The class or function itself, or the class with this case-insensitive name.

    Raises:
        ValueError: the name is unknown, or the value is of another type.
    """
    if not isinstance(given, str):
        if not callable(given):
            raise ValueError(f"distribution_class must be a class, a function or a name, got {given!r}.")
        return given
    found = distributions_maps.get(given.lower())
    if found is None:
        raise ValueError(f"distribution_class {given!r} is unknown; there are {sorted(distributions_maps)}.")
    return found


def explained(err: Exception, module: Any, params: dict[str, Any]) -> Exception:
    """The error for a module whose distribution cannot be constructed; it lists the entries of the arguments.

    Args:
        err: the error of the constructor.
        module: a `ProbabilisticTensorDictModule`.
        params: keyword arguments from entries; None for those that are missing.
    """
    missing = [key for key, value in zip(module.in_keys, params.values(), strict=False) if value is None]
    name = getattr(module.distribution_class, "__name__", repr(module.distribution_class))
    if _is_about_keywords(err):
        return TypeError(
            f"in_keys must name the keywords of {name}: {err}, with dist_keys={module.dist_keys} and "
            f"distribution_kwargs={list(module.distribution_kwargs)}."
        )
    if missing:
        return KeyError(f"{name} needs entries that are not in the tensordict: {missing}; {err}")
    err.add_note(f"while making {name} from the entries {module.in_keys}")
    return err


def _is_about_keywords(err: Exception) -> bool:
    text = str(err)
    return isinstance(err, TypeError) and (
        "unexpected keyword argument" in text or "required positional argument" in text
    )
