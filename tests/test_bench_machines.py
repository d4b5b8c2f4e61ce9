"""bench/machines.py: the page of several machines is that of what is kept."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def machines(pytestconfig: pytest.Config):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "bench"))
        import machines

        yield machines


def test_the_page_is_of_what_is_kept(machines) -> None:
    page = (ROOT / "bench" / "results" / "machines.md").read_text("utf-8")
    assert page == machines.page(machines.machines_in(machines.KEPT))


def test_ratios_of_two_folders_side_by_side(machines, tmp_path: Path) -> None:
    about = {"processor": "P", "cores": 2, "python": "3", "numpy": "2", "date": "day", "load_before": 0.5}
    rows = [{"case": "a", "against": "torch", "ratio": 2.0}, {"case": "b", "ratio": 1.23456}]
    (tmp_path / "nn.json").write_text(json.dumps({"about": about, "rows": rows}))
    of_groups = [{"group": "g", "ratio": 2.0}, {"group": "g", "ratio": 8.0}]
    found = {"about": about | {"load_before": 3.0}, "geometric_mean": 4.0, "rows": of_groups}
    (tmp_path / "tensordict.json").write_text(json.dumps(found))
    kept = machines.kept_of(tmp_path)
    page = machines.page({"one": kept, "other": {"nn": kept["nn"] | {"rows": [("a", "torch", 3.0)]}}})
    for line in (
        "| one | P | 2 | 3 | 2 | day | 3 |",
        "| all, mean | tensordict | 4 |  |",
        "| g, mean | tensordict | 4 |  |",
        "| a | torch | 2 | 3 |",
        "| b | tensordict | 1.23 |  |",
    ):
        assert line in page.splitlines()
