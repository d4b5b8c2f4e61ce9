"""Responses to prompts in the forms in which TRL and others keep them, one object a line."""

import json
from pathlib import Path
from typing import Any


def _turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


_SUM = "What is 12 + 30?"
FILE: list[dict[str, Any]] = [
    {"prompt": _SUM, "response": "41"},
    {"prompt": _SUM, "completion": "42", "reward": 1.0},
    {"prompt": [_turn("user", _SUM)], "completion": [_turn("assistant", "forty-two")]},
    {"prompt": "Copy: sun sea", "completion": "sun sea"},
    {"messages": [_turn("user", "Copy: sun sea"), _turn("assistant", "sea sun")]},
    {"messages": [_turn("system", "Be brief."), _turn("user", "Hi"), _turn("assistant", "Ho\n\u00fc\u4f60")]},
    {"prompt": "Say <b>", "completion": "<script>x</script><img src=x>"},
]


def write(file: Path) -> Path:
    """Write them, with a blank line and without a newline at the end."""
    first, *others = (json.dumps(row) for row in FILE)
    file.write_text(f"{first}\n\n" + "\n".join(others), encoding="utf-8")
    return file
