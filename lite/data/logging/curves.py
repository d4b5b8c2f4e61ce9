"""plot_csv: curves of what several runs have logged."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lite._show.page import WIDE, escape, heading, page, svg
from lite.kernels._install import install, needed

Array: TypeAlias = np.ndarray[Any, Any]
Folder: TypeAlias = str | os.PathLike[str]

_HIGH, _LEFT, _LINE = 240, 70, 18  # of a drawing in HTML: its height, the room for numbers, a line of text
_COLOURS = ("#3b7dd8", "#d8743b", "#3ba55d", "#a04bc4", "#c4444b", "#8a7a2f")


class Curve(NamedTuple):
    """A number over steps: the mean of several runs, and how far one deviation goes."""

    label: str
    steps: Array
    low: Array
    mean: Array
    high: Array


def plot_csv(
    runs: Mapping[str, Folder | Sequence[Folder]] | Sequence[Folder] | Folder,
    path: Folder,
    *,
    scalars: Sequence[str] | None = None,
    points: int = 200,
) -> Path:
    """Draw what `CSVLogger` has logged: for each number a curve with a band of one deviation over seeds.

    Curves of several runs are read at common steps, those that all of them have reached, by straight lines
    between the steps that were logged. NaN are left out.

    Args:
        runs: the folder of an experiment, `<log_dir>/<exp_name>`, or several, those of one setting with
            several seeds; or such by the name of the setting, to be compared.
        path: path of the file that is written: `.png`, by matplotlib (extra `logging`), or `.html`, a page
            without scripts.
        scalars: the names of the numbers; by default all that each setting has.
        points: how many steps a curve is drawn at.

    Returns:
        the path.

    Raises:
        ValueError: another kind of file, or nothing to draw.
        FileNotFoundError: a run is not such a folder, or has no such number.
        ImportError: `.png` without matplotlib.

    Example:
        >>> import tempfile
        >>> from lite.data import CSVLogger, plot_csv
        >>> folder = tempfile.mkdtemp()
        >>> for seed in range(3):
        ...     logger = CSVLogger(f"seed{seed}", log_dir=folder)
        ...     for step in range(10):
        ...         logger.log_scalar("reward", step + seed, step=step)
        >>> plot_csv([f"{folder}/seed{seed}" for seed in range(3)], f"{folder}/curves.html").name
        'curves.html'
    """
    path = Path(path)
    if path.suffix not in (".png", ".html"):
        raise ValueError(f"path must end in .png or .html, got {path.name!r}.")
    settings = _settings(runs)
    drawn = {
        name: [_curve(label, folders, name, points) for label, folders in settings.items()]
        for name in (_common(settings) if scalars is None else scalars)
    }
    if not drawn:
        raise ValueError(f"runs must have numbers in common, got none for {list(settings)}.")
    if path.suffix == ".html":
        sections = [heading(name) + _drawing(name, curves) for name, curves in drawn.items()]
        path.write_text(page("Curves", sections), encoding="utf-8")
    else:
        _write_png(path, drawn)
    return path


def _settings(runs: Any) -> dict[str, list[Path]]:
    """Folders by the name of their setting."""
    named = runs if isinstance(runs, Mapping) else {"": runs}
    found = {
        label: [Path(entry) for entry in ([folders] if isinstance(folders, str | os.PathLike) else folders)]
        for label, folders in named.items()
    }
    if not found or not all(found.values()):
        raise ValueError(f"runs must have a folder for each setting, got {runs!r}.")
    return found


def _common(settings: Mapping[str, Sequence[Path]]) -> list[str]:
    """The names of the numbers that all runs have, in order."""
    each = []
    for folders in settings.values():
        for folder in folders:
            inside = folder / "scalars"
            if not inside.is_dir():
                raise FileNotFoundError(
                    f"runs must be folders <log_dir>/<exp_name> of CSVLogger: no {inside}."
                )
            files = inside.rglob("*.csv")
            each.append({file.relative_to(inside).with_suffix("").as_posix() for file in files})
    return sorted(set.intersection(*each))


def _read(file: Path) -> tuple[Array, Array]:
    """Steps and values; of a step that was logged again, as by a run that went on, the last."""
    steps, values = np.loadtxt(file, delimiter=",", ndmin=2, usecols=(0, 1)).reshape(-1, 2).T
    steps, last = np.unique(steps[::-1], return_index=True)
    values = values[::-1][last]
    kept = np.isfinite(values)
    if not kept.any():
        raise ValueError(f"{file} has no finite number.")
    return steps[kept], values[kept]


def _curve(label: str, folders: Sequence[Path], name: str, points: int) -> Curve:
    read = [_read(folder / "scalars" / f"{name}.csv") for folder in folders]
    start, end = max(steps[0] for steps, _ in read), min(steps[-1] for steps, _ in read)
    if len(read) == 1 and len(read[0][0]) <= points:
        steps = read[0][0]
    else:
        steps = np.linspace(start, max(start, end), points)
    values = np.stack([np.interp(steps, *run) for run in read])
    mean, deviation = values.mean(0), values.std(0)
    return Curve(label, steps, mean - deviation, mean, mean + deviation)


def _write_png(path: Path, drawn: Mapping[str, Sequence[Curve]]) -> None:
    needed("matplotlib", "curves in a .png need matplotlib", install("logging"))
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3 * len(drawn)), layout="constrained")
    for axes, (name, curves) in zip(
        np.ravel(figure.subplots(len(drawn), squeeze=False)), drawn.items(), strict=True
    ):
        for number, curve in enumerate(curves):
            colour = _COLOURS[number % len(_COLOURS)]
            axes.plot(curve.steps, curve.mean, color=colour, label=curve.label)
            axes.fill_between(curve.steps, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
        axes.set(title=name, xlabel="step")
        if any(curve.label for curve in curves):
            axes.legend()
    figure.savefig(path)


def _drawing(name: str, curves: Sequence[Curve]) -> str:
    """The curves as SVG."""
    left = min(curve.steps[0] for curve in curves)
    right = max(max(curve.steps[-1] for curve in curves), np.nextafter(left, np.inf))
    low = min(curve.low.min() for curve in curves)
    high = max(max(curve.high.max() for curve in curves), np.nextafter(low, np.inf))
    top = _LINE * (1 + len(curves)) if any(curve.label for curve in curves) else _LINE

    def places(steps: Array, values: Array) -> str:
        x = _LEFT + (WIDE - _LEFT - 10) * (steps - left) / (right - left)
        y = top + _HIGH * (high - values) / (high - low)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

    floor = top + _HIGH
    parts = [f'<path class="axis" d="M{_LEFT} {top}V{floor}H{WIDE - 10}"/>']
    for x, anchor, step in ((_LEFT, "start", left), (WIDE - 10, "end", right)):
        parts.append(f'<text x="{x}" y="{floor + _LINE}" text-anchor="{anchor}">{step:g}</text>')
    for y, value in ((top, high), (floor, low)):
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{value:.4g}</text>')
    for number, curve in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        band = places(
            np.concatenate([curve.steps, curve.steps[::-1]]), np.concatenate([curve.high, curve.low[::-1]])
        )
        parts.append(f'<polygon points="{band}" style="fill: {colour}; opacity: .2"/>')
        line = f"fill: none; stroke: {colour}; stroke-width: 2"
        parts.append(f'<polyline points="{places(curve.steps, curve.mean)}" style="{line}"/>')
        if curve.label:
            y = _LINE * (number + 1)
            parts.append(f'<text x="{_LEFT}" y="{y - 4}" style="fill: {colour}">{escape(curve.label)}</text>')
    return svg(name, floor + _LINE + 8, parts)
