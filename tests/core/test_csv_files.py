"""Tables of many programs are read alike; what is no table is refused with its line."""

import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.core import csv_files
from studio.core.csv_files import MAX_LINES, column_key, parse_number, read_table
from studio.core.errors import BadFile

WANTED = [{"item": "café", "start_s": "0,5"}, {"item": "a;b, c", "start_s": ""}]
COMMAS = 'item,start_s\ncafé,"0,5"\n"a;b, c",\n'
SEMICOLONS = 'item;start_s\ncafé;0,5\n"a;b, c";\n'
TABS = "item\tstart_s\ncafé\t0,5\na;b, c\t\n"


def rows(source: bytes | str | Path) -> list[dict[str, str]]:
    return [row for _, row in read_table(source).rows]


@pytest.mark.parametrize(
    "text",
    [
        COMMAS,
        SEMICOLONS,
        TABS,
        SEMICOLONS.replace(";", "|").replace("a|b", "a;b"),
        "sep=;\n" + SEMICOLONS,
        "\ufeffsep=;\r\n" + SEMICOLONS.replace("\n", "\r\n"),
        '"sep=,"\n' + COMMAS,
        "SEP=\\t\n" + TABS,
        "sep=\t\n" + TABS,
        "\n\n  \n;;\n" + SEMICOLONS,
        COMMAS.replace("\n", "\r"),
        COMMAS.replace("item,start_s", " Item , START-S "),
        COMMAS.replace("café,", "  café , ").replace('"a;b, c"', ' "a;b, c"  '),
        "\ufeff" + COMMAS,
        COMMAS.replace("item,start_s", '"item","start_s"'),
        COMMAS.replace("\n", "\n,\n\n"),
        COMMAS.replace("item", "item,,").replace("café", "café,1,").replace('c"', 'c",2,'),
        ',item,start_s\n0,café,"0,5"\n1,"a;b, c",\n',
        'item,start_s\ncafé,"0,5"\n"a;b, c"\n',
    ],
    ids=lambda text: repr(text[:24]),
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_every_way_to_write_a_table_is_read_alike(text: str, encoding: str, tmp_path: Path) -> None:
    data = text.encode("utf-8" if encoding == "cp1252" and "\ufeff" in text else encoding)
    (tmp_path / "t.csv").write_bytes(data)
    assert rows(data) == rows(tmp_path / "t.csv") == WANTED


@pytest.mark.parametrize(
    "text",
    [
        "a b score\nx y 1\nz w 2,5\n",
        '"a" "b" "score"\n"1" "x" "y" 1\n"2" "z" "w" 2,5\n',  # write.table of R, with the names of rows
        'a\tb\tscore\n1\tx\ty\t1\n2\tz\tw\t"2,5"\n',
        "# from the lab\na;b;score\nx;y;1\nz;w;2,5\n",
        "# from the lab\n\nsep=;\na;b;score\nx;y;1\nz;w;2,5\n",
        "# from the lab\n# 2026\n\n#\r\n a;b;score\nx;y;1\nz;w;2,5\n",
    ],
)
def test_tables_of_r(text: str) -> None:
    assert rows(text) == [{"a": "x", "b": "y", "score": "1"}, {"a": "z", "b": "w", "score": "2,5"}]


@pytest.mark.parametrize("text", ["the text here\nrain falls today\n", "# a b\nx 1\n", "a b c\nx 1\ny z 2\n"])
def test_blanks_of_texts_do_not_part_cells(text: str) -> None:
    assert len(read_table(text).columns) == 1


@pytest.mark.parametrize(("text", "column"), [("# a\n# id,b\n1,2\n", "# id"), ("# a\n# b\nc\n1\n", "# a")])
def test_a_line_that_may_be_the_header_is_no_comment(text: str, column: str) -> None:
    assert read_table(text).titles[0] == column


def test_blanks_behind_comments_are_read_once() -> None:
    start = time.process_time()
    read_table("# a\n" + " " * 200_000)
    assert time.process_time() - start < 4, "milliseconds on a machine without other load"


def test_lines_are_counted_as_an_editor_does() -> None:
    table = read_table('\nsep=;\r\n\r\na;b\r\n1;"x\r\ny"\r\n\r\n2;z\r\n')
    assert table.columns == ("a", "b") and [line for line, _ in table.rows] == [6, 8]


def test_quotes_in_tables_without_quoting_are_characters() -> None:
    assert rows('item\ttext\n1\t"Hello," she said.\n2\t"Go\n') == [
        {"item": "1", "text": '"Hello," she said.'},
        {"item": "2", "text": '"Go'},
    ]


def test_exact_tables_keep_blanks() -> None:
    table = read_table('a,b\n x , "y"\n', exact=True)
    assert [row for _, row in table.rows] == [{"a": " x ", "b": ' "y"'}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\n1,2\n1,2,3\n", "line 3 of the table has 3 cells, its header 2; put quotes"),
        (b"a,b\nHello, you,\n", "line 2 of the table has 3 cells"),
        (b"a,A\n1,2\n", "two columns 'a'"),
        (b'a,b\n"x"y,1\n', "line 2 of the table is not CSV"),
        (b'a,b\n1,"x\n', "line 2 of the table is not CSV"),
        (b"a\n" + b"x" * 200_000, "larger than field limit"),
        (b"a,b\n1,\0\n", "NUL"),
        ("a,b\né,ü,ö\n".encode() + b"\xff", "is UTF-8, but not at byte"),
        (b"a," * 1001, "columns"),
        (b"a\n" + b"1\n" * MAX_LINES, "more than 500,000 lines"),
    ],
)
def test_damaged_tables_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(BadFile, match=message):
        rows(data)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"no column b, but A, c; the first line names a, b, and if wanted d"):
        read_table("A,c\n").need("a", "b", more=("d",))
    with pytest.raises(BadFile, match="there is no file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(BadFile, match=r"at most 10 are read"):
        read_table(b"a" * 11, max_bytes=10)


@pytest.mark.parametrize(
    ("text", "value"), [("1,25", 1.25), (" 1.25 ", 1.25), ("+.5", 0.5), ("\u22122", -2.0), ("1e-3", 0.001), ("7.", 7.0)]
)
def test_numbers_with_a_point_or_a_comma(text: str, value: float) -> None:
    assert parse_number(text, "here") == value


@pytest.mark.parametrize("text", ["", "nan", "1.234,5", "0x10", "1 2", "9" * 61, "one"])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(BadFile, match=r"line 3: .* is not a number"):
        parse_number(text, "line 3")


def test_names_of_columns() -> None:
    assert [column_key(one) for one in (" Model A ", "START-s", "é")] == ["model_a", "start_s", "é"]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_raise_another_error(data: bytes) -> None:
    with suppress(BadFile):
        rows(data)


@pytest.mark.parametrize("line", ["0.1,0.2,x\n", "\n", ",,\n", '"a","b"\n'])
def test_twelve_megabytes_take_two_seconds_at_most(line: str) -> None:
    data = b"a,b,c\n" + line.encode() * (12_000_000 // len(line))
    start = time.process_time()
    with suppress(BadFile):
        rows(data)
    assert time.process_time() - start < 4, "2 s on a machine without other load"


@pytest.mark.parametrize(
    "text",
    [
        "a,b,\n1,2,3\n 4 ,,\n,5\n\n , ,\n6\n7,8,9\n",
        "sep=;\n\na;b\n1;2\n\n3;4\n",
        'a,b\n1,"two\nlines"\n3,4\n',
        'a,b\r\n\r\n1,"two\r\nlines"\r\n3,"\r\n\r\n"\r\n5,6\r\n"\r7",8\r\n',
        'a,b\n1,"two\nlines"\n3,4\n5,6" 7\n',
        "a,b\n1,2\n3,4\n5,6\n7,8,9\n",
        'a,b\n1,2\n3,4,5\n6,"7" 8\n',
        'a,b\n1,2\n3,4\n6,"7" 8\n',
        "a,b\n" + "1,2\n" * 9,
        "a\n",
    ],
)
def test_a_table_by_column_is_that_of_its_rows(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(csv_files, "_ROWS_AT_A_TIME", 3)

    def by_row() -> tuple[list[int], dict[str, list[str]]]:
        table = read_table(text, "t.csv", max_lines=9)
        rows = list(table.rows)
        return [number for number, _ in rows], {c: [row[c] for _, row in rows] for c in table.columns}

    def by_column() -> tuple[list[int], dict[str, list[str]]]:
        numbers, cells = read_table(text, "t.csv", max_lines=9).by_column()
        return list(numbers), cells

    try:
        expected = by_row()
    except BadFile as error:
        with pytest.raises(BadFile, match=re.escape(error.what)):
            by_column()
    else:
        assert by_column() == expected
