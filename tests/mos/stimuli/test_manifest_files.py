"""Manifests: three equivalent formats, and what is refused, with its line."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from soundmaking import folder, put, write_csv

from studio.core.errors import BadFile
from studio.mos.campaign import manifest as drafts
from studio.mos.campaign.manifest import ItemSpec, SystemSpec
from studio.mos.stimuli import manifest_files as manifests
from studio.mos.stimuli.manifest_files import CONTROL, read_manifest
from studio.mos.store.sounds import read_sound


def write_json(root, **lists):
    (root / "m.json").write_text(json.dumps(lists))
    return root / "m.json"


def test_folder_of_systems(tmp_path):
    found = read_manifest(folder(tmp_path))
    assert found.systems == [SystemSpec("bdl"), SystemSpec("slt")]
    assert found.items == [ItemSpec("i1"), ItemSpec("i2")]
    assert found.files == {(i, s): tmp_path / s / f"{i}.wav" for s in ("bdl", "slt") for i in ("i1", "i2")}
    assert all(read_sound(path).rate_hz == 16_000 for path in found.files.values())
    assert found.warnings == ["2 of 2 items have no text to show: i1, i2"]


def test_three_formats_are_equivalent(tmp_path):
    folder(tmp_path / "f")
    write_csv(tmp_path / "f", 'item,text\ni1,One.\ni2,"Two, that is."\n', "texts.csv")
    rows = "\n".join(
        f'{s},{i},f/{s}/{i}.wav,"{t}"' for s in ("bdl", "slt") for i, t in (("i1", "One."), ("i2", "Two, that is."))
    )
    by_csv = read_manifest(write_csv(tmp_path, f"\ufeffsystem,item,file,text\n{rows}\n"))
    by_json = read_manifest(
        write_json(
            tmp_path,
            systems=[{"name": "bdl"}, {"name": "slt", "voice": None}],
            items=[{"name": "i1", "text": "One."}, {"name": "i2", "text": "Two, that is."}],
            files=[{"system": s, "item": i, "file": f"f/{s}/{i}.wav"} for s in ("bdl", "slt") for i in ("i1", "i2")],
        )
    )
    assert read_manifest(tmp_path / "f") == by_csv == by_json
    assert by_csv.items == [ItemSpec("i1", "One."), ItemSpec("i2", "Two, that is.")] and by_csv.warnings == []


def test_texts_beside_the_sounds(tmp_path):
    folder(tmp_path)
    write_csv(tmp_path, "i1|Plain text, with a | in it\n\ni2|Zwei\n", "texts.txt")
    assert [i.text for i in read_manifest(tmp_path).items] == ["Plain text, with a | in it", "Zwei"]
    write_csv(tmp_path, "i1|x\ni3|nobody says this\n", "texts.txt")
    with pytest.raises(BadFile, match=r"line 2 of texts\.txt: there is no sound of the item 'i3'"):
        read_manifest(tmp_path)
    write_csv(tmp_path, "i1 no bar\n", "texts.txt")
    with pytest.raises(BadFile, match=r"line 1 of texts\.txt has no \|"):
        read_manifest(tmp_path)


def test_training_traps_and_golds(tmp_path):
    folder(tmp_path)
    put(tmp_path, "training/slt/easy.wav", "trap/choose-two=2.wav", "gold/bdl/clear=5.wav", "gold/bdl/named=slt.wav")
    found = read_manifest(tmp_path)
    assert {s.name: s.role for s in found.systems} == {"bdl": "test", "slt": "test", CONTROL: "anchor"}
    roles = {item.name: (item.role, item.expected) for item in found.items if item.role != "test"}
    assert roles == {
        "easy": ("training", None),
        "choose-two": ("trap", "2"),
        "clear": ("gold", "5"),
        "named": ("gold", "slt"),
    }
    assert found.files["choose-two", CONTROL] == tmp_path / "trap" / "choose-two=2.wav"
    assert found.files["clear", "bdl"] == tmp_path / "gold" / "bdl" / "clear=5.wav"


def test_expected_answers_may_be_in_the_texts(tmp_path):
    folder(tmp_path)
    put(tmp_path, "trap/choose.wav")
    with pytest.raises(BadFile, match="no expected answer was given for choose"):
        read_manifest(tmp_path)
    write_csv(tmp_path, "item,text,expected\nchoose,,-2\n", "texts.csv")
    assert read_manifest(tmp_path).items[-1].expected == "-2"
    write_csv(tmp_path, "item,text,expected\nchoose,,nobody\n", "texts.csv")
    with pytest.raises(BadFile, match="neither a score nor a system was given for choose"):
        read_manifest(tmp_path)


def test_role_of_a_system_by_name_or_in_json(tmp_path):
    put(tmp_path, *(f"{s}/i1.wav" for s in ("slt", "Reference", "anchor 3500", "GroundTruth")))
    assert {s.name: s.role for s in read_manifest(tmp_path).systems} == {
        "slt": "test",
        "Reference": "reference",
        "anchor 3500": "anchor",
        "GroundTruth": "test",
    }
    voice = {"voice": "lark", "options": {"m": 3}}
    path = write_json(
        tmp_path,
        systems=[{"name": "slt", "voice": voice}, {"name": "real", "role": "reference"}],
        items=[{"name": "i1"}],
        files=[{"system": s, "item": "i1", "file": "slt/i1.wav"} for s in ("slt", "real")],
    )
    assert read_manifest(path).systems == [SystemSpec("slt", voice=voice), SystemSpec("real", "reference")]


def test_every_missing_sound_is_listed(tmp_path):
    folder(tmp_path)
    put(tmp_path, "slt/i3.wav", "slt/i4.wav", "bdl/i5.wav")
    with pytest.raises(BadFile, match=r"system 'bdl' lacks i3, i4; system 'slt' lacks i5; every system"):
        read_manifest(tmp_path)


def test_empty_manifest_is_refused(tmp_path):
    with pytest.raises(BadFile, match="nothing to rate"):
        read_manifest(tmp_path)
    put(tmp_path, "training/slt/a.wav")
    with pytest.raises(BadFile, match="nothing to rate"):
        read_manifest(tmp_path)
    with pytest.raises(BadFile, match="nothing to rate"):
        read_manifest(write_csv(tmp_path, "system,item,file\n"))


def test_non_audio_file_is_named(tmp_path):
    folder(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "slt" / "i1.lab").write_text("x")
    (tmp_path / "slt" / ".DS_Store").write_text("x")
    assert read_manifest(tmp_path).warnings[0].endswith("left out: notes.txt, slt/i1.lab")


def test_differing_texts_are_refused(tmp_path):
    folder(tmp_path)
    rows = "slt,i1,slt/i1.wav,One\nbdl,i1,bdl/i1.wav,Won\n"
    with pytest.raises(BadFile, match=r"line 3 of m\.csv: the text of item 'i1' differs from line 2 of m\.csv"):
        read_manifest(write_csv(tmp_path, "system,item,file,text\n" + rows))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("", "the first line names system, item, file"),
        ("system,item\n", "no column file, but system, item; the first line names system, item, file"),
        ("system,item,file,colour\n", "colour, which are not known; the first line names system, item, file"),
        ("system,item,file,File\n", "two columns 'file'"),
    ],
)
def test_columns_are_checked(tmp_path, head, message):
    with pytest.raises(BadFile, match=message):
        read_manifest(write_csv(tmp_path, head))


def test_links_out_of_a_folder_are_refused(tmp_path):
    put(tmp_path, "secret/i1.wav", "in/slt/i1.wav")
    (tmp_path / "in" / "bdl").symlink_to(tmp_path / "secret")
    with pytest.raises(BadFile, match="'bdl' leads out of the folder 'in'"):
        read_manifest(tmp_path / "in")
    (tmp_path / "in" / "bdl").unlink()
    (tmp_path / "secret" / "texts.csv").write_text("root:x:0:0\n")
    (tmp_path / "in" / "texts.csv").symlink_to(tmp_path / "secret" / "texts.csv")
    with pytest.raises(BadFile, match=r"'texts\.csv' leads out") as refused:
        read_manifest(tmp_path / "in")
    assert "root:x" not in str(refused.value)


def test_names_of_folders_and_files_are_checked(tmp_path):
    put(tmp_path, "slt/i1.wav", "=cmd/i1.wav")
    with pytest.raises(BadFile, match="begins with ="):
        read_manifest(tmp_path)
    put(tmp_path / "b", "slt/i1.wav", "slt/@i2.wav")
    with pytest.raises(BadFile, match=r"slt/@i2\.wav: the item '@i2' begins with @"):
        read_manifest(tmp_path / "b")
    put(tmp_path / "c", "slt/i1.wav", "slt/i1.WAV")
    with pytest.raises(BadFile, match="is there twice"):
        read_manifest(tmp_path / "c")
    put(tmp_path / "d", "slt/i1.wav")
    (tmp_path / "d" / "slt" / "i1.wav").rename(tmp_path / "d" / "slt" / "\udcff.wav")  # a name that is not UTF-8
    with pytest.raises(BadFile, match="control characters"):
        read_manifest(tmp_path / "d")


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("MAX_SYSTEMS", 1, "more than 1 systems"),
        ("MAX_ITEMS", 1, "more than 1 items"),
        ("MAX_FILES", 3, "more than 3 sounds"),
    ],
)
def test_limits_on_counts(tmp_path, monkeypatch, limit, value, message):
    monkeypatch.setattr(drafts, limit, value)
    with pytest.raises(BadFile, match=message):
        read_manifest(folder(tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", r"m\.json: manifest is \[1, 2\]; input should be an object"),
        ("{}", "lacks systems, items, files; known are files, items, systems"),
        ("{", "is not JSON"),
        ("[" * 200_000, "is not JSON"),
        ('{"systems": 1, "items": [], "files": []}', r"m\.json: manifest\.systems is 1; .* array"),
        ('{"systems": [1], "items": [], "files": []}', r"manifest\.systems\[0\] is 1; .* object"),
        (
            '{"systems": [{"name": "a", "colour": "b"}], "items": [], "files": []}',
            r"systems\[0\]\] has unknown keys: colour; known are name, role, voice",
        ),
        ('{"systems": [{"name": 3}], "items": [], "files": []}', r"systems\[0\]\.name is 3; .* string"),
        ('{"systems": [{"name": null}], "items": [], "files": []}', r"systems\[0\]\.name is None; .* string"),
        ('{"systems": [{"name": "a"}, {"name": "a"}], "items": [], "files": []}', r"systems\[1\].* is there twice"),
        ('{"systems": [{"name": "a", "role": "x"}], "items": [], "files": []}', "it may be test, reference, anchor"),
        ('{"systems": [{"name": "a", "voice": "x"}], "items": [], "files": []}', "voice is 'x'; .* object"),
        ('{"systems": [], "items": [{"name": "a"}, {"name": "a"}], "files": []}', r"items\[1\].* is there twice"),
        (
            '{"systems": [], "items": [], "files": [{"system": "a", "item": "b", "file": "c"}]}',
            r"files\[0\].*not listed",
        ),
        ('{"systems": [{"name": "\\ud800"}], "items": [], "files": []}', "is not JSON: .* hex escape"),
        ('{"systems": [{"name": "\\u0007"}], "items": [], "files": []}', "control characters"),
        ('{"systems": [], "items": [], "files": []}', "nothing to rate"),
    ],
)
def test_invalid_json_is_refused(tmp_path, text, message):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(BadFile, match=message):
        read_manifest(tmp_path / "m.json")


def test_entries_without_a_sound_are_refused(tmp_path):
    put(tmp_path, "slt/i1.wav")
    files = [{"system": "slt", "item": "i1", "file": "slt/i1.wav"}]
    items = [{"name": "i1"}, {"name": "t", "role": "trap", "expected": "1"}]
    with pytest.raises(BadFile, match="no sound was given for t"):
        read_manifest(write_json(tmp_path, systems=[{"name": "slt"}], items=items, files=files))
    with pytest.raises(BadFile, match="no sound was given for idle"):
        read_manifest(write_json(tmp_path, systems=[{"name": "slt"}, {"name": "idle"}], items=items[:1], files=files))


def test_other_files_are_refused(tmp_path, monkeypatch):
    with pytest.raises(BadFile, match="no folder or file"):
        read_manifest(tmp_path / "absent")
    (tmp_path / "m.xlsx").write_bytes(b"PK")
    with pytest.raises(BadFile, match=r"give a folder, a \.csv or a \.json file"):
        read_manifest(tmp_path / "m.xlsx")
    (tmp_path / "m.csv").write_bytes("system,item,file\nslé,ä,ö.wav\n".encode() + b"\xff")
    with pytest.raises(BadFile, match="is UTF-8, but not at byte"):
        read_manifest(tmp_path / "m.csv")
    monkeypatch.setattr(manifests, "MAX_MANIFEST_BYTES", 10)
    with pytest.raises(BadFile, match="a manifest names sounds"):
        read_manifest(tmp_path / "m.csv")


@pytest.mark.parametrize("name", ["manifest.json", "manifest.csv"])
def test_manifest_in_a_folder_takes_precedence_and_is_reported(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "takes"
    (folder / "raw").mkdir(parents=True)
    for k in (1, 2):
        (folder / "raw" / f"{k}.wav").write_bytes(b"RIFF")
    files = [{"system": system, "item": "hello", "file": f"raw/{k}.wav"} for k, system in ((1, "heron"), (2, "teal"))]
    if name.endswith("json"):
        whole = {"systems": [{"name": "heron"}, {"name": "teal"}], "items": [{"name": "hello", "text": "Hello."}]}
        (folder / name).write_text(json.dumps(whole | {"files": files}))
    else:
        rows = ["system,item,file,text", *(f"{f['system']},hello,{f['file']},Hello." for f in files)]
        (folder / name).write_text("\n".join(rows))
    found = read_manifest(folder)
    assert [s.name for s in found.systems] == ["heron", "teal"], "not the folder's name"
    assert (found.items[0].name, found.items[0].text) == ("hello", "Hello.")
    assert f"takes was read by its {name}" in found.warnings


def test_folder_with_two_manifests_is_refused_with_both_names(tmp_path: Path) -> None:
    for name in ("manifest.json", "manifest.csv"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(BadFile, match=r"manifest\.json and manifest\.csv"):
        read_manifest(tmp_path)


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
        ("bdl,i1,slt,,,", "is not a sound file; they end in .wav, .flac"),
        ("bdl,i1,notes.txt,,,", "is not a sound file; they end in .wav, .flac"),
        ("bdl,i1,,,,", "is not a sound file; they end in .wav, .flac"),
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
        ("bdl\x00,i1,slt/i1.wav,,,", "holds NUL characters"),
        (",i1,slt/i1.wav,,,", r"line 3 of m\.csv: the name '' is not allowed"),
        ("bdl,,slt/i1.wav,,,", "the name '' is not allowed"),
        ("<b>bdl</b>,i1,slt/i1.wav,,,", "is not allowed"),
        ("b/dl,i1,slt/i1.wav,,,", "is not allowed"),
        ("x" * 81 + ",i1,slt/i1.wav,,,", "has 81 characters; 80 are allowed"),
        ("bdl,i1,slt/i1.wav," + "x" * 4001 + ",,", "has 4001 characters; 4000 are allowed"),
        ("bdl,i1,slt/i1.wav,Hello, you,,", r"line 3 of m\.csv has 7 cells, its header 6; put quotes"),
        ('bdl,i1,slt/i1.wav,"x"y,,', "is not CSV"),
        ('bdl,i1,slt/i1.wav,"never closed', "is not CSV"),
    ],
)
def test_refused_rows_are_named_by_line(tmp_path, row, message):
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
def test_no_csv_raises_an_untyped_error(tmp_path_factory, cells, head):
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


def test_short_rows_have_empty_cells_at_their_end(tmp_path):
    folder(tmp_path)
    rows = "slt,i1,slt/i1.wav,One\nbdl,i1,bdl/i1.wav\n"
    assert [item.text for item in read_manifest(write_csv(tmp_path, "system,item,file,text\n" + rows)).items] == ["One"]
