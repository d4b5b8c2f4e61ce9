"""Values of JSON lines with their numbers, and the messages for lines that are none."""

import io

import pytest

from lite.data.tables.json_lines import json_lines


def test_blank_lines_count():
    assert [tuple(line) for line in json_lines(io.StringIO('1\n\n{"a": 2}'))] == [
        (1, "1\n", 1),
        (3, '{"a": 2}', {"a": 2}),
    ]


@pytest.mark.parametrize("text", ["1\n{", "1\n" + "[" * 100_000])
def test_no_json(text):
    with pytest.raises(ValueError, match=r"^<stdin>, line 2: not JSON"):
        list(json_lines(io.StringIO(text)))


def test_too_long():
    assert len(list(json_lines(io.StringIO("123\n456\n"), longest=5))) == 2
    with pytest.raises(ValueError, match=r"^<stdin>, line 2: longer than 5 characters$"):
        list(json_lines(io.StringIO("123\n45678\n"), longest=5))


def test_other_encodings(tmp_path):
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'"\xe9"\n')
    with (
        open(path, encoding="utf-8") as file,
        pytest.raises(ValueError, match=r"latin\.jsonl is not text in UTF-8"),
    ):
        list(json_lines(file))
