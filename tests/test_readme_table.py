"""No number stands in README's table of measurements that the benchmarks have not written down."""

import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from helpers import bench_files

ROOT = Path(__file__).parents[1]


@pytest.fixture
def readme_table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return bench_files.imported("readme_table", monkeypatch)


def test_the_table_is_made_from_the_results(readme_table: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme_table.replaced(readme) == readme, "run python bench/readme_table.py --write"


def test_only_names_and_sizes_of_cases_are_no_result(readme_table: ModuleType) -> None:
    """Digits in the template are versions, widths and counts that name a case, or links."""
    plain = re.sub(r"\{\w+\}|\]\([^)]*\)", "", readme_table.LINES)
    assert set(re.findall(r"[\d.]*\d", plain)) == {"0.15.3", "100", "64", "135", "8"}


def test_what_was_not_measured_is_an_error(readme_table: ModuleType) -> None:
    with pytest.raises(LookupError, match="'no such case'"):
        readme_table.ratios("kernels", "no such case")
    with pytest.raises(LookupError, match="has no row"):
        readme_table.ratios("data", r"SliceSampler of 1e\+08", "not measured")  # a row without a number


def test_numbers_have_two_digits(readme_table: ModuleType) -> None:
    values = (0.301, 0.996, 1.0, 9.96, 42.6, 99.6, 162.6, 3991.0)
    assert [readme_table.number(x) for x in values] == ["0.3", "1", "1", "10", "43", "100", "160", "4000"]
    assert readme_table.span([2.0, 1.04, 1.0]) == "1 to 2"
    assert readme_table.span([1.04, 1.0]) == "1"


def test_each_line_is_of_one_file(readme_table: ModuleType) -> None:
    for line in readme_table.LINES.splitlines():
        names = re.findall(r"\{(\w+)\}", line)
        assert len({readme_table.FORMULAS[name][0] for name in names}) == 1, line
    assert set(re.findall(r"\{(\w+)\}", readme_table.LINES)) == set(readme_table.FORMULAS)


def test_a_part_of_the_figures_has_dashes(readme_table: ModuleType, tmp_path: Path) -> None:
    rows = [{"case": "write a folder", "ratio": 2.0}, {"case": "mapped td[0]", "ratio": 9.0}]
    (tmp_path / "files.json").write_text(json.dumps({"rows": rows}))
    linear = {"case": "Linear(2, 2) of (1, 2)", "against": "torch", "ratio": 0.5}
    (tmp_path / "layers.json").write_text(json.dumps({"rows": [linear]}))
    found = {claim.source: claim.here for claim in readme_table.claims(tmp_path)}
    assert found["files"] == "2"
    assert found["layers"] == "- (strided convolutions) to - (pooling); linear layers 0.5"
    assert found["data"] is None
