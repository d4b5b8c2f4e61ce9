"""`--ray`: a class of batches, applied to rows by the actors of a Ray cluster."""

from __future__ import annotations

import argparse
import builtins
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lite.data.tables.ray_runtime import RayConnection

_MOST_BLOCKS = 4096  # of a table; Ray keeps books on each


def rows_on_ray(
    args: argparse.Namespace, model: Path, records: list[dict[str, Any]], kind: type, job: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The results of a class for records, in order.

    If actors or machines fail, Ray repeats their rows; each result is given once.

    Args:
        args: "ray", "threads", "batch_size" and what opens the model, of the command.
        model: the model.
        records: the rows, mappings with the same keys.
        kind: `ScoreBatches` or `GenerateBatches`.
        job: arguments for it, beyond those that open the model.

    Raises:
        ImportError: without Ray; the message has the pip command.
        ValueError: of the class, for a row.
        ConnectionError: there is no cluster at the address.
    """
    if not records:
        return
    cpus = args.threads or 1
    opened = {"model": str(model.absolute()), "device": args.device, "variant": args.variant}
    opened["adapter"] = None if args.adapter is None else str(Path(args.adapter).absolute())
    with _cluster(args.ray) as ray:
        nodes = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
        most = sum(int(processors) // cpus for processors in nodes)
        if not most:
            raise ValueError(f"--threads {cpus}: no machine of the cluster has that many processors")
        blocks = min(-(-len(records) // args.batch_size), _MOST_BLOCKS)
        size = min(most, blocks)
        data = ray.data.from_items(records, override_num_blocks=blocks).map_batches(
            kind,
            fn_constructor_kwargs={**opened, **job},
            compute=ray.data.ActorPoolStrategy(min_size=1, initial_size=size, max_size=size),
            num_cpus=cpus,
        )
        try:
            yield from data.iter_rows()
        except ray.exceptions.RayError as error:
            raise _said_by_the_class(error) from None


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Ray, connected as `RayConnection` says; its data sets keep their order, and quiet."""
    connection = RayConnection({"address": address or None})
    ray, logger = connection.ray, logging.getLogger("ray.data")
    context, told = ray.data.DataContext.get_current(), logger.level
    before = context.enable_progress_bars, context.execution_options.preserve_order
    context.enable_progress_bars, context.execution_options.preserve_order = False, True
    logger.setLevel(logging.ERROR)
    try:
        yield ray
    finally:
        context.enable_progress_bars, context.execution_options.preserve_order = before
        logger.setLevel(told)
        connection.close()


def _said_by_the_class(error: BaseException) -> BaseException:
    """The exception that the class raised, restored from the text in which Ray wraps it."""
    for line in reversed(str(error).splitlines()):
        found = re.match(r"(?:\w+\.)*(\w+): (.+)", line.strip())
        kind = getattr(builtins, found[1], None) if found else None
        if found and isinstance(kind, type) and issubclass(kind, Exception):
            return kind(found[2])
    return error
