"""What is printed holds no control characters from outside."""

import io
import json
import sys

import pytest

from studio.core.terminal import print_data, print_json, print_line
from studio.measure.report import console

HOSTILE = "a\x1b]0;title\x07b\x9b31mc\u202ed\x7fe\udcff"
CONTROLS = ("\x1b", "\x07", "\x9b", "\u202e", "\x7f", "\udcff")


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_lines_hold_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(HOSTILE)
    print_line(HOSTILE, err=True, colour="yellow")
    for said in capsys.readouterr():
        assert said == "a\\x1b]0;title\\x07b\\x9b31mc\\u202ed\\x7fe\\udcff\n"


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": HOSTILE + "é\n"})
    said = capsys.readouterr().out
    assert json.loads(said) == {"text": HOSTILE + "é\n"} and "é" in said
    assert not any(one in said for one in CONTROLS)


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", _Terminal())
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_line("a\x1b[2J", err=True, colour="red")
    assert sys.stderr.getvalue() == "\x1b[31ma\\x1b[2J\x1b[0m\n"


def test_file_content_is_exact_unless_a_terminal_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, wanted in ((io.StringIO(), "a\x9b"), (_Terminal(), "a\\x9b")):
        monkeypatch.setattr(sys, "stdout", stream)
        print_data("a\x9b")
        assert stream.getvalue() == wanted


def test_tables_hold_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table("column")
    table.add_row("a\x1b]0;b\x07")
    console().print(table)
    said = capsys.readouterr().out
    assert "a\\x1b]" in said and not any(one in said for one in CONTROLS)
