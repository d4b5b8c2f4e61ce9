"""The backends of `Collector(...)`: this process, worker processes, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lite._lazy_hooks import implementation

SELECTORS = ("backend", "backend_options", "num_collectors", "sync")


def collector_elsewhere(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The collector of another backend that arguments of `Collector` select; None for this process.

    Raises:
        TypeError: `num_collectors` or `sync` is of another type.
        ValueError: arguments exclude each other, or the backend is unknown.
    """
    backend, options, count, sync = (kwargs.get(name) for name in SELECTORS)
    if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
        raise TypeError(f"num_collectors must be an integer from 1 on, got {count!r}.")
    if count is not None and count < 1:
        raise ValueError(f"num_collectors must be an integer from 1 on, got {count}.")
    backend = backend or ("direct" if count is None else "process")
    if backend not in ("direct", "process", "ray"):
        raise ValueError(f"backend must be 'direct', 'process' or 'ray', got {backend!r}.")
    given = {name: value for name, value in kwargs.items() if name not in SELECTORS}
    if backend == "direct":
        if (count or 1) != 1 or sync is not None or options:
            raise ValueError("num_collectors, sync and backend_options need backend='process' or 'ray'.")
        return None
    if not isinstance(sync, bool | None):
        raise TypeError(f"sync must be True, False or None, got {sync!r}.")
    taken = {*given, *SELECTORS, "num_workers", *("create_env_fn", "policy")[: len(args)]}
    if twice := taken.intersection(options or {}):
        raise ValueError(f"backend_options must not have {sorted(twice)}, which are arguments.")
    given |= options or {}
    if not args and "create_env_fn" not in given:
        raise TypeError("create_env_fn must be given: environments, or what makes them.")
    makers, *others = args or (given.pop("create_env_fn"),)
    if isinstance(makers, Sequence):
        if not makers or count not in (None, len(makers)):
            raise ValueError(
                f"num_collectors must be the number of environments, {len(makers)}, got {count}."
            )
    else:
        makers = [makers] * (count or 1)
    if backend == "ray":
        given |= {"num_collectors": len(makers), "sync": bool(sync)}
        name = "ray_collector"
    else:
        name = "multi_sync_collector" if sync else "multi_async_collector"
    return implementation(name, None, "lite.data")(makers, *others, **given)
