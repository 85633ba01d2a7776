"""Texts and names of a folder of sounds: metadata, encodings, accents, subfolders."""

import unicodedata

import pytest
from soundmaking import folder, put, write_csv

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.names import check_name
from studio.mos.stimuli.manifest_files import read_manifest


def texts_of(root):
    return [(item.name, item.text) for item in read_manifest(root).items]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("texts.csv", "item;text\ni1;Hello 5.\ni2;Rain, again?\n"),
        ("texts.csv", 'sep=;\r\nItem ; Text\r\n i1 ;"Hello 5."\r\ni2;Rain, again?\r\n'),
        ("texts.csv", "i1|Hello 5.|Hello five.\ni2|Rain, again?|Rain, again?\n"),
        ("texts.tsv", "item\ttext\ni1\tHello 5.\ni2\tRain, again?\n"),
        ("texts.txt", "i1|Hello 5.\ni2|Rain, again?\n"),
        ("texts.txt", "i1|Hello 5.|Hello five.\ni2|Rain, again?|Rain, again?\n"),
        ("texts.txt", "wavs/i1.wav|Hello 5.|Hello five.\n\nwavs/i2.wav||Rain, again?\n"),
        ("texts.txt", "i1\tHello 5.\ni2\tRain, again?\n"),
        ("texts.txt", 'item,text\ni1,Hello 5.\ni2,"Rain, again?"\n'),
        ("metadata.csv", "i1|Hello 5.|Hello five.\ni2|Rain, again?|x\n"),
        ("metadata.tsv", "path\tsentence\ni1.wav\tHello 5.\ni2.wav\tRain, again?\n"),
        ("metadata.txt", "i1|Hello 5.\ni2|Rain, again?\n"),
        ("metadata.csv", 'file_name,transcription\ni1.wav,Hello 5.\ni2.wav,"Rain, again?"\n'),
        ("Texts.CSV", 'item,text\ni1.wav,Hello 5.\ni2.WAV,"Rain, again?"\n'),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_raters_see_the_raw_text_of_every_kind_of_file(tmp_path, name, text, encoding):
    (folder(tmp_path) / name).write_bytes(text.encode(encoding))
    assert texts_of(tmp_path) == [("i1", "Hello 5."), ("i2", "Rain, again?")]


def test_metadata_of_a_whole_corpus_is_read_for_the_scripts_that_are_there(tmp_path):
    (folder(tmp_path) / "metadata.csv").write_text("LJ1|a|a\ni1|One 1.|One one.\nLJ2|b|b\ni2|Two.|Two.\n")
    found = read_manifest(tmp_path)
    assert [item.text for item in found.items] == ["One 1.", "Two."]
    assert found.warnings == ["2 lines of metadata.csv are of no script that has sounds, left out"]


def test_corpora_with_their_metadata_in_folders_of_systems(tmp_path):
    put(tmp_path, *(f"{system}/data/wavs/{item}.wav" for system in ("bdl", "slt") for item in ("i1", "i2")))
    (tmp_path / "bdl/data/metadata.csv").write_text("i1|One 1.|One one.\ni2|Two.|Two.\ni3|x|x\n")
    (tmp_path / "slt/data/notes.txt").write_text("x")
    found = read_manifest(tmp_path)
    assert [item.text for item in found.items] == ["One 1.", "Two."] and len(found.files) == 4
    assert found.warnings == [
        "1 lines of bdl/data/metadata.csv are of no script that has sounds, left out",
        "1 files are not sounds of a system, left out: slt/data/notes.txt",
    ]


def test_sounds_in_several_subfolders_only_are_told(tmp_path):
    put(tmp_path, *(f"bdl/{part}/deep/i1.wav" for part in ("p", "q")))
    with pytest.raises(BadFile, match=r"nothing to rate; the sounds of 2 subfolders were not read: bdl/p, bdl/q"):
        read_manifest(tmp_path)


def test_manifest_with_paths_of_windows(tmp_path):
    put(tmp_path, "bdl/i1.wav", "slt/i1.wav")
    text = "system\titem\tfile\nbdl\ti1\tbdl\\i1.wav\nslt\ti1\t.\\slt\\i1.wav\n"
    assert len(read_manifest(write_csv(tmp_path, text, "list.tsv")).files) == 2
    (tmp_path / "in").mkdir()
    with pytest.raises(BadFile, match="leads out of the folder"):
        read_manifest(write_csv(tmp_path / "in", "system,item,file\nbdl,i1,..\\bdl\\i1.wav\n"))


def test_text_with_a_bar_is_whole_where_lines_are_no_metadata(tmp_path):
    (folder(tmp_path) / "texts.txt").write_text("i1|One | two.\ni2|Two.\n")
    assert texts_of(tmp_path) == [("i1", "One | two."), ("i2", "Two.")]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("other", ["NFC", "NFD"])
def test_accents_in_names_are_one_name_in_either_form(tmp_path, form, other):
    for system in ("bdl", "früh"):
        put(
            tmp_path,
            unicodedata.normalize(form, f"{system}/café.wav"),
            f"{unicodedata.normalize(form, system)}/日本.wav",
        )
    texts = unicodedata.normalize(other, "item,text\ncafé,Ein Café.\n日本,x\n")
    (tmp_path / "texts.csv").write_text(texts, encoding="utf-8")
    found = read_manifest(tmp_path)
    assert [one.name for one in found.systems] == ["bdl", "früh"] and [one.name for one in found.items] == [
        "café",
        "日本",
    ]
    rows = "".join(f"{s},{i},{s}/{i}.wav\n" for s in ("bdl", "früh") for i in ("café", "日本"))
    listed = read_manifest(write_csv(tmp_path, unicodedata.normalize(other, f"system,item,file\n{rows}")))
    assert listed.files.keys() == found.files.keys()


def test_names_that_a_page_could_run_are_refused_in_every_alphabet():
    for name in ("né<b>", "a/é", "é\u202e", "\u0301a", "é" * 81, "日" * 81, "a\u200bb"):
        with pytest.raises(BadOption, match="is not allowed"):
            check_name(name)


def test_subfolders_are_told_or_read(tmp_path):
    put(folder(tmp_path), "slt/sub/i1.wav", "slt/notes/readme.wav")
    found = read_manifest(tmp_path)
    told = "the sounds of 2 subfolders were not read: slt/notes, slt/sub; move them up to be read"
    assert told in found.warnings and found.files[("i1", "slt")] == tmp_path / "slt/i1.wav"


def test_only_subfolder_with_sounds_is_read(tmp_path):
    put(tmp_path, "slt/wavs/i1.wav", "bdl/wavs/i1.wav", "trap/control/t=2.wav")
    (tmp_path / "slt" / "log").mkdir()
    found = read_manifest(tmp_path)
    assert found.files[("i1", "slt")] == tmp_path / "slt/wavs/i1.wav"
    assert {item.name for item in found.items if item.role == "trap"} == {"t"}
