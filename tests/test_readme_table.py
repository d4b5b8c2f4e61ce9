"""No number stands in README's table of measurements that the benchmarks have not written down."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def readme_table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.delitem(sys.modules, "readme_table", raising=False)
    import readme_table as module

    return module


def test_the_table_is_made_from_the_results(readme_table: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme_table.replaced(readme) == readme, "run python bench/readme_table.py --write"


def test_only_names_and_sizes_of_cases_are_no_result(readme_table: ModuleType) -> None:
    """Digits in the template are versions, widths and counts that name a case, or links."""
    plain = re.sub(r"\{\w+\}|\]\([^)]*\)", "", readme_table.LINES)
    assert set(re.findall(r"[\d.]*\d", plain)) == {"0.15.3", "100", "64", "4", "128", "135", "8"}


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
