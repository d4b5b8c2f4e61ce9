"""Hostile chat templates, each rendered in a process with limits on memory and time."""

import json
import re
import subprocess
import sys

import pytest
from helpers.models import template_attacks

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="the limits are read from /proc"),
]

# What does no harm and fails nowhere.
HARMLESS = {
    "dates of any width", "digits", "nested generation and loops", "many outputs", "many names",
    "a forged mark at the end", "a forged mark",
}  # fmt: skip


@pytest.fixture(scope="module")
def ends() -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, template_attacks.__file__], capture_output=True, text=True, timeout=600, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_ends_in_time_and_space(ends: dict[str, str]) -> None:
    for name in sorted(template_attacks.attacks()):
        end = re.fullmatch(r"(?s)(.*) \[([\d.]+) s, (\d+) MB\]", ends[name])
        assert end is not None, name
        assert end[1].startswith("text: " if name in HARMLESS else "ValueError: the chat template "), end[0]
        assert float(end[2]) < template_attacks.GIVEN, name
        assert int(end[3]) < 800, name
