"""Reports and tables: reproducible JSON, CSV that reads back unchanged; importing measure loads no torch."""

import csv
import io
import json
import pkgutil
import re
import subprocess
import sys

import pytest
from hypothesis import given as draws
from hypothesis import strategies as st

import studio.measure
from studio.measure.report import cell, git_sha, hardware, newest_results, plain, print_table, write_result
from studio.measure.tables import csv_text, plain_text, safe_cell

MODULES = [module.name for module in pkgutil.walk_packages(studio.measure.__path__, "studio.measure.")]
RUNS = re.compile(r"[\s\0\u200b\ufeff]*[=+\-@＝＋－＠]")
TYPED = (
    "nice\r=1+1",
    "x\r@SUM(1)",
    "a\n+1",
    "a\r\n-1",
    "nice;=1+1;",
    "a\t=1",
    "\t=1",
    "\n=1",
    "a\u2028=1",
    "＝1+1",
    " =1+1",
    "\xa0=1",
    "\u200b=1",
    "\ufeff=1",
    "\0=cmd|' /C calc'!A0",
    "\x0b=1",
    "'=1",
    "a\n'=1",
    "\r",
    '"\r=1',
    "",
)
NASTY = st.text(st.sampled_from("a1=+@;,'\"\t\r\n\v \0\u2028＝"), max_size=12)


def test_result_names_hardware_and_command(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "sys.argv", ["/usr/bin/studio", "bench", "latency", "--texts", "my texts.txt", "--cache", "/home/me", "--json"]
    )
    path = write_result("latency", {"rtf": 0.2, "none": float("nan"), "where": tmp_path}, tmp_path / "results")
    data = json.loads(path.read_text())
    assert path.name == f"latency-{data['date'][:10]}.json"
    assert data["command"] == "studio bench latency --texts 'my texts.txt' --json"
    assert data["rtf"] == 0.2
    assert data["none"] is None
    assert data["hardware"]["cores"] >= 1
    assert data["hardware"]["cpu"]
    assert {"python", "numpy"} <= set(data["versions"])


def test_command_contains_no_local_path(tmp_path, monkeypatch):
    said = [
        "--texts",
        "/home/me/a b.txt",
        "--recogniser",
        "whisper:/opt/w",
        "--work=/var/x/",
        "--voices",
        "work/voices",
        "1:3",
    ]
    monkeypatch.setattr("sys.argv", ["/usr/bin/studio", "eval", "wer", *said])
    data = json.loads(write_result("wer", {}, tmp_path).read_text())
    arguments = "--texts 'a b.txt' --recogniser whisper:w --work=x --voices work/voices 1:3"
    assert data["command"] == f"studio eval wer {arguments}"


def test_voices_get_separate_entries(tmp_path):
    today = write_result("wer", {"voice": "wren"}, tmp_path).name.removeprefix("wer-")
    assert write_result("wer", {"voice": "linnet:clara"}, tmp_path).name == f"wer-linnet-{today}"
    write_result("quality", {"voice": "wren"}, tmp_path)
    (tmp_path / "wer-2026-01-02.json").write_text("{}")
    (tmp_path / "wer-linnet-2026-01-02.json").write_text("{}")
    found = {voice: path.name for voice, path in newest_results("wer", tmp_path).items()}
    assert found == {"": f"wer-{today}", "linnet": f"wer-linnet-{today}"}


def test_no_checkout_no_sha(tmp_path):
    assert git_sha(tmp_path) == ""


def test_hardware_and_plain_values_are_json():
    json.dumps(hardware(), allow_nan=False)
    json.dumps(plain({1: (float("inf"), [float("nan")])}), allow_nan=False)


def test_tables_show_every_cell(capsys):
    print_table("A title", ["", "WER", "n"], [["teacher", 0.12345, 100], ["dMel", None, 7]], note="a note")
    out = capsys.readouterr().out
    for part in ("A title", "teacher", "0.123", "100", "dMel", "-", "a note"):
        assert part in out
    assert (cell(1.0), cell(None), cell("x")) == ("1.000", "-", "x")


def test_importing_measure_loads_no_torch():
    assert len(MODULES) > 10
    code = f"import sys; [__import__(name) for name in {MODULES}]; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def read(text: str) -> list[list[str]]:
    return [[plain_text(cell) for cell in row] for row in csv.reader(io.StringIO(text, newline=""), strict=True)]


@pytest.mark.parametrize("typed", TYPED)
def test_typed_text_is_one_cell_of_one_row(typed: str) -> None:
    rows = [["first", "comment", "last"], ["a", typed, "b"], ["c", "d", "e"]]
    assert read(csv_text(rows)) == rows


@pytest.mark.parametrize("typed", TYPED)
def test_no_cell_is_a_formula_with_any_separator(typed: str) -> None:
    """With our separator, another one, or line by line without quotes."""
    text = csv_text([["a", typed, "b"]])
    (row,) = csv.reader(io.StringIO(text, newline=""))
    pieces = [*row, *re.split(r"[;\t\r\n\u2028]", row[1]), *re.split(r"[;\t]|\r\n|\r|\n", text)]
    assert not [piece for piece in pieces if RUNS.match(piece)]


@draws(st.text() | NASTY)
def test_safe_cell_is_text_and_its_own_inverse(text: str) -> None:
    cell = safe_cell(text)
    assert isinstance(cell, str)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) and not RUNS.match(cell)
    assert plain_text(cell) == text
    assert read(csv_text([["x", text]])) == [["x", text]]


def test_column_names_are_cells_too() -> None:
    """A browser's device fields become columns in the export of raters."""
    assert csv_text([["device_a\r=1"]]) == '"device_a\r\'=1"\n'


def test_numbers_are_left_alone() -> None:
    assert csv_text([["score", "none"], [-3, None]]) == "score,none\n-3,\n"


def test_long_comment_takes_linear_time() -> None:
    """Every position where a cell may begin is visited once."""
    for typed in (" " * 4000, "\t" * 4000, "\n \t" * 1300, "\0" * 4000):
        assert plain_text(str(safe_cell(typed))) == typed
