"""What is checked of every name, text and path, whatever file it came from; the line to blame is named."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from soundmaking import put

from studio.core.errors import BadFile
from studio.mos.stimuli.manifest_files import read_manifest


def write_csv(root, text, name="m.csv"):
    (root / name).write_text(text, encoding="utf-8")
    return root / name


HEAD = "system,item,file,text,role,expected\n"
GOOD = "slt,i1,slt/i1.wav,,,\n"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("bdl,i1,../out.wav,,,", r"line 3 of m\.csv: '\.\./out\.wav' leads out of the folder"),
        ("bdl,i1,slt/../../out.wav,,,", "leads out of the folder"),
        ("bdl,i1,/etc/passwd,,,", "leads out of the folder"),
        ("bdl,i1,link.wav,,,", "leads out of the folder"),
        ("bdl,i1,linked/out.wav,,,", "leads out of the folder"),
        ("bdl,i1,loop.wav,,,", "cannot be followed|no file"),
        ("bdl,i1,absent.wav,,,", "there is no file 'absent.wav'"),
        ("bdl,i1,slt,,,", "not a WAV or FLAC"),
        ("bdl,i1,notes.txt,,,", "not a WAV or FLAC"),
        ("bdl,i1,,,,", "not a WAV or FLAC"),
        ("bdl,i1,big.wav,,,", "has 65 MiB; a sound may have 64 MiB"),
        ("slt,i1,slt/i1.wav,,,", r"line 3 of m\.csv: item 'i1' by system 'slt' is there twice; the first is line 2"),
        ("SLT,i1,slt/i1.wav,,,", r"the system 'SLT' differs only in capitals from line 2 of m\.csv"),
        ("slt,I1,slt/i1.wav,,,", "the item 'I1' differs only in capitals"),
        ("bdl,i1,slt/i1.wav,,trap,2", "the role of item 'i1' differs from line 2"),
        ("bdl,i1,slt/i1.wav,,chief,", "the role 'chief' is not known; it may be test, training, trap, gold"),
        ("=cmd|' /C calc'!A0,i1,slt/i1.wav,,,", r"line 3 of m\.csv: the system .* begins with =; a spreadsheet"),
        ("+bdl,i1,slt/i1.wav,,,", r"begins with \+"),
        ("-bdl,i1,slt/i1.wav,,,", "begins with -"),
        ("@bdl,i1,slt/i1.wav,,,", "begins with @"),
        ("bdl,=1+1,slt/i1.wav,,,", "the item '=1.1' begins with ="),
        ('bdl,i1,slt/i1.wav,"=HYPERLINK(""http://x"")",,', "the text .* begins with ="),
        ("bdl,i2,slt/i1.wav,,gold,=2", "the expected '=2' begins with ="),
        ("bdl,i1,=slt/i1.wav,,,", "the file '=slt/i1.wav' begins with ="),
        ('"b\tdl",i1,slt/i1.wav,,,', "holds control characters"),
        ('"b\ndl",i1,slt/i1.wav,,,', "line 4 of m.csv: the system .* holds control characters"),
        ("bdl\x00,i1,slt/i1.wav,,,", "holds control characters"),
        ("bdl,i1,slt/i1.wav\x00,,,", "holds control characters"),
        (",i1,slt/i1.wav,,,", r"line 3 of m\.csv: the name '' is not allowed"),
        ("bdl,,slt/i1.wav,,,", "the name '' is not allowed"),
        ("<b>bdl</b>,i1,slt/i1.wav,,,", "is not allowed"),
        ("b/dl,i1,slt/i1.wav,,,", "is not allowed"),
        ("x" * 81 + ",i1,slt/i1.wav,,,", "has 81 characters; 80 are allowed"),
        ("bdl,i1,slt/i1.wav," + "x" * 4001 + ",,", "has 4001 characters; 4000 are allowed"),
        ("bdl,i1,slt/i1.wav", r"line 3 of m\.csv has not 6 cells"),
        ("bdl,i1,slt/i1.wav,Hello, you,,", "has not 6 cells"),
        ('bdl,i1,slt/i1.wav,"x"y,,', "is not CSV"),
        ('bdl,i1,slt/i1.wav,"never closed', "is not CSV"),
    ],
)
def test_rows_that_are_refused_by_line(tmp_path, row, message):
    root = tmp_path / "in"
    put(root, "slt/i1.wav")
    put(tmp_path, "out.wav")
    (root / "link.wav").symlink_to(tmp_path / "out.wav")
    (root / "linked").symlink_to(tmp_path)
    (root / "loop.wav").symlink_to(root / "loop.wav")
    (root / "notes.txt").write_text("x")
    with (root / "big.wav").open("wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(BadFile, match=message):
        read_manifest(write_csv(root, HEAD + GOOD + row + "\n"))


@settings(max_examples=150, deadline=None)
@given(cells=st.lists(st.lists(st.text(max_size=12), min_size=1, max_size=6), max_size=4), head=st.booleans())
def test_no_csv_gets_past_a_typed_error(tmp_path_factory, cells, head):
    root = tmp_path_factory.mktemp("csv")
    put(root, "slt/i1.wav")
    text = "\n".join(",".join(row) for row in cells)
    (root / "m.csv").write_text((HEAD if head else "") + GOOD + text, encoding="utf-8", errors="replace", newline="")
    try:
        found = read_manifest(root / "m.csv")
    except BadFile:
        return
    assert all(path.is_relative_to(root) for path in found.files.values())
    assert not any(name[:1] in "=+-@" for spec in (*found.systems, *found.items) for name in (spec.name,))
