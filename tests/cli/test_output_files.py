"""Pages are written where there is a folder, over nothing that is read; rows are counted in their file."""

import os
import re
from pathlib import Path

import pytest
from helpers.cases import raises

from lite.cli.output_files import appended, check_file, rows_written


def test_a_page_needs_a_folder_and_a_file_of_its_own(tmp_path: Path) -> None:
    page, read, link = tmp_path / "page.html", tmp_path / "rows", tmp_path / "link"
    check_file("--html", str(page), str(read), None)
    read.write_text("rows")
    link.symlink_to(read)
    check_file("--html", str(page), str(read), None)
    page.write_text("an older page")
    check_file("--html", str(page), str(read), None)
    with pytest.raises(FileNotFoundError, match=r"--html .*: there is no folder .*none"):
        check_file("--html", str(tmp_path / "none" / "page.html"))
    raises(IsADirectoryError, "is a folder", check_file, "--html", str(tmp_path))
    with pytest.raises(ValueError, match="is another file of this command"):  # neither is there yet
        check_file("--html", str(tmp_path / "new"), str(tmp_path / "." / "new"))
    for name in (read, link):
        with pytest.raises(ValueError, match="is another file of this command"):
            check_file("--html", str(name), None, str(read))


def test_an_interrupt_counts_what_is_in_the_file(tmp_path: Path) -> None:
    """It may come when a row is written and not yet counted, or half written."""
    rows = tmp_path / "rows.jsonl"

    def interrupted() -> None:
        with appended(str(rows), {"command": "score"}, 0) as write:
            assert write is not None
            write({"line": 1})
            with open(rows, "a", encoding="utf-8") as file:
                file.write('{"line": 2}\n{"line"')
            raise KeyboardInterrupt

    raises(KeyboardInterrupt, r"^2 lines are in .*rows\.jsonl", interrupted)


def test_rows_of_two_commands_do_not_mix(tmp_path: Path) -> None:
    rows, run = str(tmp_path / "rows.jsonl"), {"command": "score"}
    with appended(rows, run, 0) as write, appended(os.devnull, run, 0), appended(os.devnull, run, 0):
        assert write is not None
        write({"line": 1})
        message = re.escape(f"--output {rows}: another command writes there now")
        raises(ValueError, message, appended(rows, run, 1).__enter__)
    raises(ValueError, "has written there meanwhile", appended(rows, run, 0).__enter__)
    with open(rows, "a", encoding="utf-8") as file:
        file.write('{"line"')  # of a command that was killed
    assert [row["line"] for row in rows_written(rows, run, iter([{}]))] == [1]
    with appended(rows, run, 1) as write:
        assert write is not None
        write({"line": 2})
    assert [row["line"] for row in rows_written(rows, run, iter([{}, {}]))] == [1, 2]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that takes nothing")
def test_a_full_disk_names_the_file() -> None:
    def written() -> None:
        with appended("/dev/full", {}, 0) as write:
            assert write is not None
            write({"line": 1})

    raises(OSError, "No space left on device: '/dev/full'", written)
