"""`--ray`: a class that works on batches, run over rows in the actors of a Ray cluster."""

from __future__ import annotations

import argparse
import builtins
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_MOST_BLOCKS = 4096  # of a table; Ray keeps books on each


def rows_on_ray(
    args: argparse.Namespace, records: list[dict[str, Any]], kind: type, job: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The rows that a class gives for records, in order.

    Whatever becomes of actors and machines meanwhile, Ray has each row done, and gives it once.

    Args:
        args: "ray", "model", "device", "threads", and "batch_size" of the command.
        records: the rows, mappings with the same keys.
        kind: `ScoreBatches` or `GenerateBatches`.
        job: arguments for it, beyond those that open the model.

    Raises:
        ImportError: without Ray; the message has the pip command.
        ValueError: of the class, for a row.
        ConnectionError: there is no cluster at the address.
    """
    ray = import_ray()
    if not records:
        return
    cpus = args.threads or 1
    opened = {"model": str(Path(args.model).absolute()), "device": args.device}
    opened |= {name: getattr(args, name) for name in ("variant", "adapter") if hasattr(args, name)}
    with _cluster(ray, args.ray):
        most = int(ray.cluster_resources().get("CPU", 0)) // cpus
        if not most:
            raise ValueError(f"--threads {cpus}: no machine of the cluster has that many processors free")
        blocks = min(-(-len(records) // args.batch_size), _MOST_BLOCKS)
        data = ray.data.from_items(records, override_num_blocks=blocks).map_batches(
            kind,
            fn_constructor_kwargs={**opened, **job},
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
            num_cpus=cpus,
        )
        try:
            yield from data.iter_rows()
        except ray.exceptions.RayError as error:
            raise _said_by_the_class(error) from None


def import_ray() -> Any:
    """The module, with its data sets, or ImportError with the command that installs it."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError(
            f'--ray needs Ray: pip install "tensordict-lite[ray]"; the import said: {error}'
        ) from error
    return ray


@contextmanager
def _cluster(ray: Any, address: str) -> Iterator[None]:
    """A connection to the cluster of an address, or else to a new one on this machine, for a while.

    Where the process is connected already, that is what is used, and it stays.
    """
    connected = ray.is_initialized()
    if not connected:
        start = not address and "RAY_ADDRESS" not in os.environ
        more: dict[str, Any] = {"include_dashboard": False} if start else {}
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns of its own default
        ray.init(address=address or None, log_to_driver=False, logging_level=logging.ERROR, **more)
    context = ray.data.DataContext.get_current()
    before = context.enable_progress_bars, context.execution_options.preserve_order
    context.enable_progress_bars, context.execution_options.preserve_order = False, True
    told = logging.getLogger("ray.data").level
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars, context.execution_options.preserve_order = before
        logging.getLogger("ray.data").setLevel(told)
        if not connected:
            ray.shutdown()


def _said_by_the_class(error: BaseException) -> BaseException:
    """What the class raised, without what Ray says around it, which has it as text only."""
    for line in reversed(str(error).splitlines()):
        found = re.match(r"(?:\w+\.)*(\w+): (.+)", line.strip())
        kind = getattr(builtins, found[1], None) if found else None
        if found and isinstance(kind, type) and issubclass(kind, Exception):
            return kind(found[2])
    return error
