"""`lite score --html`: the responses of a file, token by token."""

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from helpers.models.real_models import MODELS

from lite.cli import main
from lite.models import OnnxDecoder, Tokenizer, full_logits, score

MODEL = MODELS / "optimum-llama"


def page_of(tmp_path: Path, rows: list[dict[str, object]], *flags: str) -> str:
    file, page = tmp_path / "in.jsonl", tmp_path / "page.html"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["score", str(file), "--model", str(MODEL), "--quiet", "--html", str(page), *flags]) == 0
    return page.read_text(encoding="utf-8")


def spans(html: str) -> list[tuple[str, str]]:
    """Text and title of each token."""
    found = re.findall(r'<span(?: class="[\w-]+")? title="([^"]*)">([^<]*)</span>', html)
    return [(unescape(text), unescape(title)) for title, text in found]


def test_each_token_has_its_log_prob(tmp_path: Path) -> None:
    html = page_of(tmp_path, [{"prompt": "hello", "response": " world"}], "--raw")
    tokenizer = Tokenizer.from_pretrained(MODEL)
    prompt, response = tokenizer.encode("hello"), tokenizer.encode(" world", add_special_tokens=False)
    (log_probs,) = score(OnnxDecoder(MODEL), [np.array(prompt + response)])
    found = spans(html)
    assert "".join(text for text, _ in found) == " world"
    assert len(found) == len(response)
    for (_, title), token, value in zip(found, response, log_probs[len(prompt) :], strict=True):
        said = re.search(r"log-prob (\S+), probability (\S+)%.*, id (\d+)", title)
        assert said is not None
        np.testing.assert_allclose(float(said[1]), value, atol=1e-4)
        np.testing.assert_allclose(float(said[2]) / 100, np.exp(value), atol=1e-4)
        assert int(said[3]) == token
    assert f"<td>{len(response)}</td>" in html


def test_hovering_tells_what_was_most_probable(tmp_path: Path) -> None:
    html = page_of(tmp_path, [{"prompt": "hello", "response": " world"}], "--raw")
    tokenizer, decoder = Tokenizer.from_pretrained(MODEL), OnnxDecoder(MODEL)
    prompt, response = tokenizer.encode("hello"), tokenizer.encode(" world", add_special_tokens=False)
    (logits,) = full_logits(decoder, [np.array(prompt + response)])
    for (_, title), values in zip(spans(html), logits[len(prompt) :], strict=True):
        lines = title.split("\n")
        assert len(lines) == 7  # its own, five alternatives, and what is left
        shares = np.exp(values.astype(np.float64) - values.max())
        shares /= shares.sum()
        best = np.argsort(-shares, kind="stable")[:5]
        for line, token in zip(lines[1:6], best.tolist(), strict=True):
            share, _, name = line.partition("% ")
            np.testing.assert_allclose(float(share) / 100, shares[token], atol=2e-4)
            text = tokenizer.decode([token])
            assert name == (
                f"id {token}" if not text or "\ufffd" in text else json.dumps(text, ensure_ascii=False)
            )
        np.testing.assert_allclose(float(lines[6].partition("%")[0]) / 100, 1 - shares[best].sum(), atol=2e-4)


def test_hostile_texts_and_conversations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "</script><script>alert(1)</script>"
    turns = [{"role": hostile, "content": hostile}, {"role": "assistant", "content": hostile}]
    ids = Tokenizer.from_pretrained(MODEL).encode("a prompt of ids")
    rows: list[dict[str, object]] = [{"messages": turns}, {"prompt": hostile, "response": "é 😀\n"}]
    html = page_of(tmp_path, [*rows, {"prompt_ids": ids, "response_ids": ids[1:]}], "--json")
    assert "<script" not in html
    assert unescape(html).count(f"{hostile}: {hostile}") == 1
    assert "line 1: log-prob" in html
    assert "line 2: log-prob" in html
    assert "a prompt of ids</div>" in html
    assert html.count(hostile.replace("<", "&lt;").replace(">", "&gt;")) >= 2
    assert len(capsys.readouterr().out.splitlines()) == 3  # what is printed stays what it was


def test_long_files_are_cut_and_counted(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"prompt": "a", "response": "b"} for _ in range(205)]
    html = page_of(tmp_path, rows, "--raw", "--batch-size", "64")
    assert html.count("<section>") == 200
    assert "and 5 more</p>" in html
    assert "<td>205</td>" in html


def test_pages_end_before_a_browser_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite.cli.pages.score._TOKENS_OF_PAGE", 5)
    rows: list[dict[str, object]] = [{"prompt": "a", "response": "b c d e"} for _ in range(3)]
    html = page_of(tmp_path, rows, "--raw", "--batch-size", "1")
    assert len(spans(html)) == 5
    assert "and 1 more</p>" in html
    each = len(Tokenizer.from_pretrained(MODEL).encode("b c d e", add_special_tokens=False))
    assert f"and {2 * each - 5} more tokens</p>" in html


def test_what_an_earlier_run_scored_is_named(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    rows: list[dict[str, object]] = [{"prompt": "a", "response": "b"}, {"prompt": "a", "response": "c"}]
    page_of(tmp_path, rows[:1], "--output", str(output))
    html = page_of(tmp_path, rows, "--output", str(output))
    assert html.count("<section>") == 1
    assert f"1 responses, which are in {output}" in html
