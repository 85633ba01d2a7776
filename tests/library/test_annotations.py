"""Annotations of library utterances: durable before acknowledged, concurrent, crash-safe."""

import errno
import json
import multiprocessing
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspection.spoken import RATE_HZ, pcm
from typer.testing import CliRunner

from studio.annotation import edits
from studio.annotation.edits import (
    AnnotationConflict,
    AnnotationEdit,
    DropLayer,
    DropMark,
    PutLayer,
    PutMark,
    SetDone,
    parse_edit,
)
from studio.annotation.layers import AnnotationMark as Mark
from studio.cli import cli
from studio.core.clips import wav_bytes
from studio.core.errors import BadFile, BadOption, NotStored
from studio.library import annotations
from studio.library.entries import LibraryEntry
from studio.library.library import Library

SAMPLES = 3 * 600
LAYER = PutLayer("l1", "faults", "regions", ("click", "wrong prosody"))


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    found = Library(tmp_path / "library")
    yield found
    found.close()


@pytest.fixture
def entry(library: Library) -> LibraryEntry:
    return library.add(wav_bytes(pcm(3), RATE_HZ), "Speech flows")


def put(name: str, start: int = 0, end: int = 10, was: int = 0, label: str = "click") -> PutMark:
    return PutMark("l1", Mark(start, end, label, "", name), was)


def edit(name: str, *changes: edits.Change) -> AnnotationEdit:
    return AnnotationEdit(name, changes, at=1.0)


def journal(library: Library) -> Path:
    (found,) = library.root.glob("annotations/*/*/*.jsonl")
    return found


def again(library: Library) -> Library:
    """The library as another process sees it."""
    return Library(library.root)


def test_refused_edits_read_the_sound_once(library: Library, entry: LibraryEntry, monkeypatch: Any) -> None:
    reads: list[str] = []
    read = library.read
    monkeypatch.setattr(library, "read", lambda one: reads.append(one.sha256) or read(one))
    for number in range(3):
        with pytest.raises(AnnotationConflict):
            library.annotate(entry, "me", edit(f"e{number}", put("m1")))  # there is no such layer
        assert library.document(entry, "me").samples == SAMPLES
    assert reads == [entry.sha256]


def test_edit_is_durable_and_visible_to_others(library: Library, entry: LibraryEntry) -> None:
    library.annotate(entry, "Änne", edit("e1", LAYER, put("m1", 5, 9), put("m2", 5, 7)))
    after = library.annotate(entry, "Änne", edit("e2", put("m1", 6, 9, was=1), DropMark("l1", "m2", 1), SetDone(True)))
    other = again(library).document(entry, "Änne")
    assert other.to_dict() == after.to_dict()
    assert other.to_dict()["layers"][0]["marks"] == [["m1", 2, 6, 9, "click", ""]]
    assert (other.revision, other.is_done, other.samples, other.rate_hz) == (2, True, SAMPLES, RATE_HZ)
    assert other.annotation().validated().layers[0].labels == ("click", "wrong prosody")
    head = json.loads(journal(library).read_text(encoding="utf-8").splitlines()[0])
    assert (head["annotator"], head["utterance"]) == ("Änne", entry.sha256), "the file names its contents"
    assert again(library).document(entry, "Bo").layers == {}, "annotators are separate"


def test_resent_edit_is_applied_once(library: Library, entry: LibraryEntry) -> None:
    library.annotate(entry, "a", edit("e1", LAYER, put("m1")))
    for kept in (library, again(library)):
        assert kept.annotate(entry, "a", edit("e1", LAYER, put("m1"))).revision == 1


@pytest.mark.parametrize(
    "late",
    [
        put("m1", 3, 4, was=1),  # moved meanwhile
        DropMark("l1", "m1", 1),
        DropMark("l1", "gone", 0),
        put("m1", 3, 4),  # created by both
        PutLayer("l1", "renamed", "regions", (), 1),
        DropLayer("l1", 2),  # it has a mark that this window has not seen
        PutMark("l2", Mark(0, 1, id="m9")),
    ],
)
def test_unseen_changes_are_not_overwritten(library: Library, entry: LibraryEntry, late: edits.Change) -> None:
    library.annotate(entry, "a", edit("e1", LAYER, put("m1")))
    library.annotate(entry, "a", edit("e2", PutLayer("l1", "faults", "regions", (), 1), put("m1", 2, 3, was=1)))
    library.annotate(entry, "a", edit("e3", put("m2")))
    before = journal(library).read_bytes()
    with pytest.raises(AnnotationConflict):
        library.annotate(entry, "a", edit("e4", put("m3"), late))
    assert journal(library).read_bytes() == before, "all of an edit or nothing"
    assert library.annotate(entry, "a", edit("e5", DropLayer("l1", 3))).layers == {}


@pytest.mark.parametrize(
    "bad",
    [
        put("m1", 0, SAMPLES + 1),
        put("m1", 9, 8),
        put("m1", 8, 8),
        put("m1", label="x" * 4001),
        put("m1", label="a\x01b"),
        PutLayer("l2", "faults", "regions", ()),  # the name of another
        PutLayer("l2", " ", "regions", ()),
        PutLayer("l2", "x", "clouds", ()),
        PutLayer("l2", "x", "points", ("a", "a")),
        PutLayer("l2", "x", "points", tuple(map(str, range(edits.MAX_LABELS + 1)))),
    ],
)
def test_invalid_edit_is_refused_and_creates_no_file(library: Library, entry: LibraryEntry, bad: edits.Change) -> None:
    with pytest.raises(BadOption):
        library.annotate(entry, "a", edit("e1", LAYER, bad))
    assert [*library.root.glob("annotations/*/*/*")] == []
    for name in ("", " a", "a\nb", "x" * 81):
        with pytest.raises(BadOption):
            library.annotate(entry, name, edit("e1", LAYER))


def test_counts_are_bounded(library: Library, entry: LibraryEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "MAX_MARKS", 3)
    monkeypatch.setattr(annotations, "MAX_ANNOTATORS", 1)
    library.annotate(entry, "a", edit("e1", LAYER, *(put(f"m{n}") for n in range(3))))
    with pytest.raises(BadOption, match="3 marks"):
        library.annotate(entry, "a", edit("e2", put("m4")))
    with pytest.raises(BadOption, match="1 people"):
        library.annotate(entry, "b", edit("e1", LAYER))
    layers = [PutLayer(f"x{n}", f"x{n}", "points", ()) for n in range(edits.MAX_LAYERS)]
    with pytest.raises(BadOption, match="layers already"):
        library.annotate(entry, "a", edit("e2", *layers))


def test_partial_line_was_never_acknowledged(library: Library, entry: LibraryEntry) -> None:
    library.annotate(entry, "a", edit("e1", LAYER, put("m1")))
    whole = journal(library).read_bytes()
    library.annotate(entry, "a", edit("e2", put("m2")))
    longer = journal(library).read_bytes()
    for cut in (len(whole) + 1, len(whole) + 20, len(longer) - 1):
        journal(library).write_bytes(longer[:cut])
        assert again(library).document(entry, "a").revision == 1
    journal(library).write_bytes(whole + b"\0" * 100)  # left by a power cut
    kept = again(library)
    assert kept.annotate(entry, "a", edit("e3", put("m3"))).revision == 2
    assert [*again(library).document(entry, "a").layers["l1"].marks] == ["m1", "m3"]


def test_damaged_journal_is_named_and_left_alone(library: Library, entry: LibraryEntry) -> None:
    library.annotate(entry, "a", edit("e1", LAYER, put("m1")))
    library.annotate(entry, "a", edit("e2", put("m2")))
    lines = journal(library).read_bytes().splitlines(keepends=True)
    for bad in ([lines[0], b"{}\n", lines[2]], [lines[0], lines[1][:30] + b"\n", lines[2]], [b"[]\n"], [lines[1]]):
        journal(library).write_bytes(b"".join(bad))
        for work in (lambda: library.document(entry, "a"), lambda: library.annotate(entry, "a", edit("e3", put("m3")))):
            with pytest.raises(BadFile, match="is damaged: line"):
                work()
        assert journal(library).read_bytes() == b"".join(bad)


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("part", [slice(0, 30), slice(30, None), slice(0, 1), slice(-2, None)])
def test_torn_last_line_is_skipped_reported_and_cut_off(
    library: Library, entry: LibraryEntry, part: slice, end: bytes
) -> None:
    library.annotate(entry, "a", edit("e1", LAYER, put("m1")))
    before = journal(library).read_bytes()
    library.annotate(entry, "a", edit("e2", put("m2")))
    torn = before + journal(library).read_bytes()[len(before) : -1][part] + end
    journal(library).write_bytes(torn)
    assert library.document(entry, "a").marks == again(library).document(entry, "a").marks == 1
    (problem,) = library.annotations.problems()
    assert "incomplete line" in problem
    assert library.annotate(entry, "a", edit("e2", put("m2"))).revision == 2
    assert library.annotations.problems() == [] and again(library).document(entry, "a").marks == 2


def test_torn_journal_without_lines_starts_anew(library: Library, entry: LibraryEntry) -> None:
    library.annotate(entry, "a", edit("e1", LAYER, put("m1")))
    journal(library).write_bytes(journal(library).read_bytes()[-40:])
    assert library.annotations.of(entry.sha256) == []
    assert library.annotate(entry, "a", edit("e1", LAYER, put("m1"))).marks == 1


def test_full_disk_loses_nothing(library: Library, entry: LibraryEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    library.annotate(entry, "a", edit("e1", LAYER, put("m1")))
    before = journal(library).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(NotStored, match="No space left"):
            library.annotate(entry, "a", edit("e2", put("m2")))
    assert journal(library).read_bytes() == before
    assert library.annotate(entry, "a", edit("e2", put("m2"))).revision == 2


def test_long_journal_is_compacted(library: Library, entry: LibraryEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annotations, "MAX_EDITS", 5)
    library.annotate(entry, "a", edit("e0", LAYER, put("m1")))
    other = again(library)
    for n in range(1, 40):
        kept = library if n % 2 else other
        after = kept.annotate(entry, "a", edit(f"e{n}", put("m1", n, n + 5, was=n)))
        assert after.revision == n + 1
        assert len(journal(library).read_bytes().splitlines()) <= 9
    assert again(library).document(entry, "a").to_dict() == after.to_dict()
    assert again(library).annotate(entry, "a", edit("e38", put("m1"))).revision == 40, "the edit id is still known"


def test_small_journal_stays_within_its_limit(
    library: Library, entry: LibraryEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annotations, "MAX_JOURNAL_BYTES", 4000)
    library.annotate(entry, "a", edit("e0", LAYER, put("m0")))
    for n in range(1, 60):  # the same mark repeatedly: the state stays small
        library.annotate(entry, "a", edit(f"e{n}", put("m0", n, n + 5, was=n)))
        assert journal(library).stat().st_size <= 4000
    with pytest.raises(BadOption, match="too large"):
        for n in range(100):
            library.annotate(entry, "a", edit(f"f{n}", put(f"n{n}")))
    assert again(library).document(entry, "a").marks > 5


def write_many(root: Path, name: str, who: str, count: int) -> None:
    kept = Library(root)
    entry = kept.entry(name)
    for n in range(count):
        kept.annotate(
            entry,
            who,
            AnnotationEdit(f"{who}{os.getpid()}x{n}", (PutMark("l1", Mark(n, n + 5, id=f"p{os.getpid()}x{n}")),)),
        )
    kept.close()


def test_several_processes_write_to_one_journal(
    library: Library, entry: LibraryEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annotations, "MAX_EDITS", 7)  # and compact it concurrently
    for who in ("a", "b"):
        library.annotate(entry, who, edit("e1", LAYER))
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=write_many, args=(library.root, entry.name, who, 40)) for who in "aabb"]
    for one in workers:
        one.start()
    for one in workers:
        one.join(60)
        assert one.exitcode == 0
    assert [(one.annotator, one.marks, one.revision) for one in library.annotations.of(entry.sha256)] == [
        ("a", 80, 81),
        ("b", 80, 81),
    ]


def test_annotations_are_deleted_with_their_utterance_and_survive_a_copy(
    library: Library, entry: LibraryEntry, tmp_path: Path
) -> None:
    library.annotate(entry, "a", edit("e1", LAYER, put("m1")))
    library.annotate(entry, "b", edit("e1", LAYER))
    shutil.copytree(library.root, tmp_path / "copy", ignore=shutil.ignore_patterns("index.sqlite", "lock"))
    copied = Library(tmp_path / "copy")
    assert [one.annotator for one in copied.annotations.of(entry.sha256)] == ["a", "b"]
    assert copied.rebuild() == (1, [])
    library.annotations.remove(entry.sha256, "b")
    assert [one.annotator for one in library.annotations.of(entry.sha256)] == ["a"]
    library.remove(entry)
    assert [*library.root.glob("annotations/*/*")] == []
    with pytest.raises(BadFile):
        library.annotate(entry, "a", edit("e2", LAYER))
    assert copied.document(entry, "a").marks == 1
    copied.close()


def test_line_is_synced_before_it_is_acknowledged(
    library: Library, entry: LibraryEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.annotate(entry, "a", edit("e1", LAYER))
    synced: list[bytes] = []
    real = os.fsync

    def sync(descriptor: int) -> None:
        real(descriptor)
        synced.append(journal(library).read_bytes())

    monkeypatch.setattr(os, "fsync", sync)
    library.annotate(entry, "a", edit("e2", put("m1")))
    assert synced and synced[-1] == journal(library).read_bytes()
    assert b'"e2"' in synced[-1]


def studio(library: Library, *arguments: str) -> str:
    out = CliRunner().invoke(cli, ["library", *arguments, "--data", str(library.root.parent)])
    if out.exception and not isinstance(out.exception, SystemExit):
        raise out.exception
    assert out.exit_code == 0, out.output
    return out.output


def test_command_line_lists_exports_imports_and_compares(library: Library, entry: LibraryEntry, tmp_path: Path) -> None:
    library.annotate(entry, "Anna", edit("e1", LAYER, put("m1", 100, 500), put("m2", 300, 900, label="odd")))
    assert "Anna: 2 marks" in studio(library, "annotations", entry.name)
    file = tmp_path / "a.TextGrid"
    studio(library, "annotations", entry.name, "-o", str(file))
    assert "Bo: 2 marks" in studio(library, "annotate", entry.name, "--from", str(file), "--annotator", "Bo")
    both = [sorted((m.start_sample, m.end_sample, m.label) for layer in one.annotation().layers for m in layer.marks)
            for one in library.annotations.of(entry.sha256)]  # fmt: skip
    assert both[0] == both[1] == [(100, 500, "click"), (300, 900, "odd")]
    shown = studio(library, "annotations", entry.name, "--agreement", "faults")
    assert "Anna, Bo" in shown and "1.000" in shown
    [corpus] = json.loads(studio(library, "agreement", "--layer", "faults", "--json"))
    assert (corpus["layer"], corpus["sounds"], corpus["annotators"]) == ("faults", 1, ["Anna", "Bo"])
    assert (corpus["boundary_f1"]["value"], corpus["alpha_marks"]["value"], corpus["matched"]["n"]) == (1.0, 1.0, 4)
    assert corpus["boundary_f1"]["low"] is None, "one utterance has no interval"
    assert "faults" in studio(library, "agreement")
    for wrong in (["--layer", "words"], ["--tag", "none"]):
        with pytest.raises(BadOption, match="layers of two annotators"):
            studio(library, "agreement", *wrong)
    assert "<TIME" not in studio(library, "annotations", entry.name, "--annotator", "Bo", "--format", "csv")
    for wrong in (["annotations", entry.name, "--format", "csv"], ["annotations", entry.name, "-o", "a.doc"]):
        with pytest.raises(BadOption):
            studio(library, *wrong)
    (tmp_path / "bad.eaf").write_text("<nothing/>")
    with pytest.raises(BadFile):
        studio(library, "annotate", entry.name, "--from", str(tmp_path / "bad.eaf"), "--annotator", "Bo")


@pytest.mark.parametrize(
    "bad",
    [
        None,
        [],
        {"edit": "e1", "changes": []},
        {"edit": "E 1", "changes": [{"op": "done", "is_done": True}]},
        {"edit": "e1", "changes": [{"op": "done", "is_done": 1}]},
        {"edit": "e1", "changes": [{"op": "burn", "layer": "l", "mark": "m", "was": 0}]},
        {"edit": "e1", "changes": [{"op": "drop_layer", "layer": "../x", "was": 0}]},
        {"edit": "e1", "changes": [{"op": "drop_layer", "layer": "l", "was": -1}]},
        {"edit": "e1", "changes": [{"op": "put_mark", "layer": "l", "mark": "m", "was": 0, "start": 1.5, "end": 2}]},
        {"edit": "e1", "changes": [{"op": "done", "is_done": True}] * (edits.MAX_CHANGES + 1)},
    ],
)
def test_invalid_edit_is_refused(bad: object) -> None:
    with pytest.raises(BadOption):
        parse_edit(bad, 0.0)
