"""plot_csv."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.cases import raises

from lite.data import CSVLogger, plot_csv
from lite.data.logging.curves import WIDE, _curve


def logged(folder: Path, name: str, values: list[float], every: int = 1, scalar: str = "reward") -> Path:
    logger = CSVLogger(name, folder)
    for number, value in enumerate(values):
        logger.log_scalar(scalar, value, step=number * every)
    return folder / name


def test_seeds_are_read_at_common_steps(tmp_path: Path) -> None:
    """One has logged every step, the other every second and less far."""
    runs = [logged(tmp_path, "0", [0.0, 1.0, 2.0, 3.0, 4.0]), logged(tmp_path, "1", [2.0, 4.0], every=2)]
    curve = _curve("a", runs, "reward", 3)
    np.testing.assert_array_equal(curve.steps, [0, 1, 2])
    np.testing.assert_array_equal(curve.mean, [1, 2, 3])
    np.testing.assert_array_equal([curve.mean - curve.low, curve.high - curve.mean], np.ones((2, 3)))


def test_steps_that_were_logged_again_and_nan(tmp_path: Path) -> None:
    run = logged(tmp_path, "0", [1.0, 2.0, np.nan])
    logged(tmp_path, "0", [5.0])
    curve = _curve("", [run], "reward", 100)
    np.testing.assert_array_equal([curve.steps, curve.mean], [[0, 1], [5, 2]])
    raises(ValueError, "has no finite number", _curve, "", [logged(tmp_path, "1", [np.nan])], "reward", 9)


def test_a_page(tmp_path: Path) -> None:
    for seed in "01":
        run = logged(tmp_path, seed, [np.nan, 4.0, 4.0 + float(seed)])
        logged(tmp_path, seed, [1.0], scalar="train/loss")
    logged(tmp_path, "1", [1.0], scalar="of one alone")
    runs = {"<b>two</b>": [tmp_path / "0", run], "one": str(run)}
    text = plot_csv(runs, tmp_path / "curves.html").read_text()
    start = text.index("<svg")
    drawing = ElementTree.fromstring(text[start : text.index("</svg>") + 6])
    kinds = [element.tag.rpartition("}")[2] for element in drawing]
    assert (kinds.count("polyline"), kinds.count("polygon")) == (2, 2)
    assert "&lt;b&gt;two&lt;/b&gt;" in text
    assert "<b>" not in text
    assert [part.partition("</h2>")[0] for part in text.split("<h2>")[1:]] == ["reward", "train/loss"]
    # The mean of the seeds ends in the middle, one deviation above and below it.
    line = drawing.find("{*}polyline").attrib["points"].split()  # type: ignore[union-attr]
    ends = [[float(number) for number in point.split(",")] for point in (line[0], line[-1])]
    np.testing.assert_allclose(np.diff(ends, axis=0)[0, 0], WIDE - 10 - ends[0][0])
    np.testing.assert_allclose(np.array(ends)[:, 1], [36 + 18 + 240, 36 + 18 + 120])


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = logged(tmp_path, "0", [0.0, 1.0, 0.5])
    path = plot_csv({"a": run, "b": [run, run]}, tmp_path / "curves.png", scalars=["reward"])
    assert path.read_bytes().startswith(b"\x89PNG")


def test_errors(tmp_path: Path) -> None:
    run = logged(tmp_path, "0", [1.0])
    raises(ValueError, r"must end in \.png or \.html, got 'curves\.pdf'", lambda: plot_csv(run, "curves.pdf"))
    raises(ValueError, "a folder for each setting", lambda: plot_csv({"a": []}, "curves.html"))
    with pytest.raises(ValueError, match="numbers in common, got none"):
        plot_csv([run, logged(tmp_path, "1", [1.0], scalar="other")], "curves.html")
    with pytest.raises(FileNotFoundError, match=r"folders <log_dir>/<exp_name> of CSVLogger: no .*away"):
        plot_csv([run, tmp_path / "away"], "curves.html")
    raises(FileNotFoundError, "nothing", lambda: plot_csv(run, tmp_path / "curves.html", scalars=["nothing"]))
    assert not (tmp_path / "curves.html").exists()
