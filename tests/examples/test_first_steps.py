"""The notebook runs from top to bottom, and what it shows is HTML in which data is text."""

import copy
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from helpers.notebooks import execute, outputs

pytestmark = pytest.mark.processes

NOTEBOOK = json.loads(Path(__file__).with_name("first_steps.ipynb").read_text(encoding="utf-8"))
HOSTILE = "<script>window.bad = 1</script><img src=x onerror=alert(1)>"
# Of these lite's HTML consists.
TAGS = {"style", "div", "span", "details", "summary", "table", "tr", "th", "td"}


class Read(HTMLParser):
    """The tags and the text of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name not in ("class", "open", "style", "title", "colspan")]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The notebook with its outputs, and with a cell more, which shows what somebody else put into data."""
    for name in ("nbclient", "ipykernel", "matplotlib"):
        if os.environ.get("LITE_REQUIRE_PARITY") != "1":
            pytest.importorskip(name, reason="needs the dev extra: pip install -e '.[dev]'")
    for name in ("onnxruntime", "tokenizers"):
        pytest.importorskip(name, reason="needs the llm extra: pip install -e '.[llm]'")
    more = copy.deepcopy(NOTEBOOK)
    shows = [f"TensorDict({{{HOSTILE!r}: {HOSTILE!r}}})", f"History(role={HOSTILE!r}, content={HOSTILE!r})"]
    for number, source in enumerate(shows):
        more["cells"].append(
            {"cell_type": "code", "id": f"hostile-{number}", "metadata": {}, "execution_count": None}
            | {"outputs": [], "source": source}
        )
    return execute(more, tmp_path_factory.mktemp("notebook"))


def test_it_is_kept_without_outputs() -> None:
    for cell in NOTEBOOK["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    assert len({cell["id"] for cell in NOTEBOOK["cells"]}) == len(NOTEBOOK["cells"])


def test_no_cell_fails_or_warns(executed: dict[str, Any]) -> None:
    failed = [output for output in outputs(executed) if output["output_type"] == "error"]
    assert not failed, "\n".join(failed[0]["traceback"])
    assert [output["text"] for output in outputs(executed) if output.get("name") == "stderr"] == []
    code = [cell for cell in executed["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert all(cell["outputs"] for cell in code)


def test_what_is_shown(executed: dict[str, Any]) -> None:
    shown = [output["data"] for output in outputs(executed) if "data" in output]
    assert sum("image/png" in data for data in shown) == 2
    pages = ["".join(data["text/html"]) for data in shown if "text/html" in data]
    every = "\n".join(pages)
    for sign in ("lite-td", "lite-turn", "lite-assistant", "lite-p5"):  # TensorDict, History, LogProbs
        assert sign in every
    for page in pages:
        assert Read(page).tags <= TAGS
    texts = [Read(page).text for page in pages]
    assert any("<up & down>" in text for text in texts)
    assert any("<|im_end|>" in text for text in texts)
    assert not re.search(r"<\||<up|<script|<img", every)


def test_what_others_put_into_data_is_text(executed: dict[str, Any]) -> None:
    for cell in executed["cells"][-2:]:
        (output,) = cell["outputs"]
        read = Read("".join(output["data"]["text/html"]))
        assert read.tags <= TAGS
        assert read.text.count(HOSTILE) == 2


def test_a_cell_that_fails_is_seen(tmp_path: Path) -> None:
    """What the other tests rely on."""
    pytest.importorskip("nbclient", reason="needs the dev extra: pip install -e '.[dev]'")
    pytest.importorskip("ipykernel", reason="needs the dev extra: pip install -e '.[dev]'")
    broken = copy.deepcopy(NOTEBOOK)
    broken["cells"] = broken["cells"][:1]
    broken["cells"].append(
        {"cell_type": "code", "id": "broken", "metadata": {}, "execution_count": None}
        | {"outputs": [], "source": "import warnings\nwarnings.warn('old')\nunknown"}
    )
    found = outputs(execute(broken, tmp_path))
    assert [output["output_type"] for output in found] == ["stream", "error"]
    assert found[0]["name"] == "stderr"
    assert found[1]["ename"] == "NameError"
