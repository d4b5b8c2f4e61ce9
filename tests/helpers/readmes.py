"""The Python in the READMEs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(readme: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / readme).read_text(encoding="utf-8"), re.M | re.S)


def stated(source: str) -> list[tuple[str, str]]:
    """Lines of the form `expression   # value`, where the value is Python."""
    return re.findall(r"^(\S.*?)\s+# ((?:array\(.*?\)|\([\d, ]+\)))", source, re.M)
