"""How long the tests take, out of what `.ci/run` printed.

    (time .ci/run) 2>&1 | tee LOG
    python bench/suite_times.py LOG

`.ci/run` runs all tests while everything else runs beside them, so a suite that has the machine to itself
takes less. `results/tests.md` gets a row for each step that ended with a line of pytest.
"""

import argparse
import re
from pathlib import Path

from side_by_side import RESULTS, machine

# What the steps of `.ci/run` run, by the beginning of their names.
SUITES = {
    "tests, as the README says": "every behaviour once: `pytest`",
    "the tests that they leave out": "the rest of `pytest --all`",
    "parity with torch": "what needs torch or jax: `pytest tests/parity` and a few files",
    "kernels compiled beforehand": "kernels from a library, and who calls them: "
    "`LITE_KERNELS=prebuilt pytest tests/kernels tests/nn` and others",
    "kernels without the compiler": "kernels, on NumPy: `LITE_KERNELS=numpy pytest tests/kernels`",
    "blocks of the READMEs": "Python blocks of the READMEs",
    "CUDA kernels compiled": "CUDA kernels, compiled",
}
LAST = re.compile(r"^=* ?(?:(\d+) failed, )?(\d+) passed(?:, (\d+) skipped)?[^\n]* in ([\d.]+)s", re.M)


def suites(log: str) -> list[str]:
    """The rows of the table.

    Raises:
        ValueError: something failed, or a step is not in the log.
    """
    rows = []
    steps = re.split(r"^== (?=[a-zA-Z])", log, flags=re.M)  # pytest has lines of =, too
    for name, what in SUITES.items():
        texts = [step for step in steps if step.startswith(name)]
        found = LAST.search(texts[0]) if texts else None
        if found is None:
            raise ValueError(f"the log has no result of the step {name!r}")
        failed, passed, skipped, seconds = found.groups()
        if failed:
            raise ValueError(f"{failed} tests of the step {name!r} failed: broken code tells no time")
        rows.append(f"| {what} | {passed} | {skipped or 0} | {float(seconds):.0f} |")
    whole = re.search(r"^real\s+(\d+)m([\d.]+)s", log, flags=re.M)
    if whole is not None:
        rows.append(f"| `.ci/run`, with its installations | | | {60 * int(whole[1]) + float(whole[2]):.0f} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path, help="what `.ci/run` printed")
    rows = suites(parser.parse_args().log.read_text(encoding="utf-8"))
    about = machine()
    del about["load_before"]  # of another moment
    lines = [
        "# How long the tests take",
        "",
        f"{', '.join(f'{key} {value}' for key, value in about.items())}.",
        "Out of one `.ci/run` (`python bench/suite_times.py`), which runs the first two rows beside the",
        "others, and asks for more random cases than `pytest --all` alone.",
        "",
        "| tests | passed | skipped | s |",
        "|---|--:|--:|--:|",
        *rows,
    ]
    text = "\n".join(lines) + "\n"
    (RESULTS / "tests.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
