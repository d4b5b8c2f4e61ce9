"""Files of external data: a model may name only those of its own folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath


def check_links(file: Path, folder: Path) -> None:
    """Raise ValueError if a file of a model folder, or a folder in it, is a link to something outside.

    Such a file could show any other to a model. Links to ``blobs`` are those of download caches, which have a
    folder of links (``snapshots/REVISION``) beside it.
    """
    target, home = file.resolve(), folder.resolve()
    allowed = [home]
    for place in (home, *home.parents):
        if place.parent.name == "snapshots":
            allowed += [place, place.parents[1] / "blobs"]
            break
    if not any(target.is_relative_to(place) for place in allowed):
        raise ValueError(f"{file} is a link out of its folder, to {target}")


def check_external_files(graph: Path, names: Iterable[str]) -> None:
    """Raise unless every external data file of `graph` exists and lies in its folder; see `check_links`."""
    for name in sorted(names):
        parts = PurePosixPath(name).parts + PureWindowsPath(name).parts
        if not name or ".." in parts or PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor:
            raise ValueError(f"{graph}: refers to external data outside its folder: {name!r}")
        if not (graph.parent / name).is_file():
            raise FileNotFoundError(
                f"{graph}: its external data file {name!r} is missing from {graph.parent}"
            )
        check_links(graph.parent / name, graph.parent)
