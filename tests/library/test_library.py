"""The library: search, tags, removal, and the same after the index is lost."""

import errno
import hashlib
import io
import json
import multiprocessing
import os
import random
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspection.spoken import RATE_HZ, pcm, story
from sqlalchemy import event
from typer.testing import CliRunner

from studio.annotation.edits import AnnotationEdit, PutLayer
from studio.annotation.layers import AnnotationLayer
from studio.cli import cli
from studio.core import durable
from studio.core.clips import wav_bytes, write_wav
from studio.core.errors import BadFile, BadOption, BadText, Unavailable
from studio.core.files import read_bounded
from studio.core.traces.trace_writer import TraceWriter
from studio.library.index import Query
from studio.library.library import Library


@pytest.fixture
def trace(tmp_path: Path) -> bytes:
    writer = TraceWriter(tmp_path / "a", {"vocoder": "tiny"})
    writer.write(*story())
    return writer.close().read_bytes()


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    found = Library(tmp_path / "library")
    yield found
    found.close()


def said(number: int) -> bytes:
    return wav_bytes(pcm(2 + number), RATE_HZ)


def names(library: Library, **wanted: object) -> list[str]:
    return [one.note.title for one in library.find(Query(**wanted))[0]]  # type: ignore[arg-type]


def everything(library: Library) -> list[dict[str, object]]:
    return [one.to_dict() for one in library.find(Query(limit=1000))[0]]


def test_trace_is_added_once_and_returned_byte_for_byte(library: Library, trace: bytes) -> None:
    entry = library.add(trace, title="First", tags=["demo"])
    assert entry.sha256 == hashlib.sha256(trace).hexdigest()
    assert (entry.kind, entry.text, entry.voice, entry.speaker) == ("trace", "One  two 3", "v", "a")
    assert (entry.words, entry.duration_ms, entry.vocoder) == (3, 250.0, "tiny")
    again = library.add(trace, tags=["seen twice"])
    assert again.note.title == "First" and again.note.tags == ("demo", "seen twice")
    assert again.note.added_at == entry.note.added_at
    assert library.find(Query()) == ([again], 1)
    assert library.read(again) == trace and np.array_equal(library.open(again).pcm, pcm())


def test_recording_keeps_its_text(library: Library) -> None:
    entry = library.add(said(1), "Speech flows", title="mine")
    assert (entry.kind, entry.text, entry.voice) == ("recording", "Speech flows", "")
    assert library.open(entry).pcm.shape == (3 * 600,)
    with pytest.raises(BadText):
        library.add(said(2), "x" * 100_001)
    for bad in (b"", b"RIFF", b"no trace at all"):
        with pytest.raises(BadFile):
            library.add(bad)
    assert library.find(Query())[1] == 1 and len([*library.root.glob("sounds/*/*")]) == 1


def test_search_finds_matches(library: Library, trace: bytes) -> None:
    library.add(trace, title="typed live", tags=["demo"])
    library.add(said(1), "Straße 100% wide", title="one", tags=["Demo", "noise here"])
    library.add(said(2), "die STRASSE_x", title="two")
    assert names(library) == ["two", "one", "typed live"]
    assert names(library, text="strasse") == ["two", "one"]
    assert names(library, text="100%") == ["one"] and names(library, text="e_x") == ["two"]
    assert names(library, text="wide ONE") == ["one"] and names(library, text="wide two") == []
    assert names(library, voice="v") == names(library, voice="v:a") == ["typed live"]
    assert names(library, voice="v:b") == [] and names(library, tag="demo") == ["typed live"]
    assert names(library, limit=1, offset=1) == ["one"] and library.find(Query(limit=1))[1] == 3
    added_s = [library.entry(one.sha256).note.added_at for one in library.find(Query())[0]]
    first_s, last_s = min(added_s), max(added_s)
    assert len(names(library, since_s=first_s, until_s=last_s + 1.0)) == 3
    assert names(library, until_s=first_s) == [] and names(library, since_s=last_s + 1.0) == []
    assert library.tags() == [("Demo", 1), ("demo", 1), ("noise here", 1)]


def test_notes_change_and_bad_ones_are_refused(library: Library) -> None:
    entry = library.add(said(1), tags=["a", "b"])
    entry = library.update_note(entry, title="now", add=["c"], drop=["a"])
    assert library.entry(entry.name).note == entry.note and entry.note.tags == ("b", "c")
    assert library.update_note(entry, title="").note.title == ""
    for tags in (["a,b"], [""], [" a"], ["x" * 61], ["two\nlines"], [f"t{n}" for n in range(33)]):
        with pytest.raises(BadOption):
            library.update_note(entry, add=tags)
    with pytest.raises(BadOption):
        library.update_note(entry, title="two\nlines")
    assert library.entry(entry.sha256[:6]).note.tags == ("b", "c")


def test_names_are_digits_and_stay_in_the_folder(library: Library) -> None:
    entry = library.add(said(1))
    for name in ("", "abc", "../../etc", entry.name.upper() + "G", "%" * 8, "000000"):
        with pytest.raises(BadOption):
            library.entry(name)
    library.remove(library.entry(entry.name))
    assert library.find(Query()) == ([], 0)
    assert not list(library.root.glob("*/*/*"))


def test_names_are_found_by_the_primary_key(library: Library) -> None:
    """Not by a look at every row: an assignment has up to a thousand names."""
    kept = [library.add(said(number)) for number in range(1, 4)]
    queries: list[tuple[str, Any]] = []
    engine = library._index._engine
    event.listen(engine, "before_cursor_execute", lambda *given: queries.append(given[2:4]))
    assert library.entry(kept[0].sha256[:6]) == library.entry(kept[0].sha256) == kept[0]
    entries = library.entries([one.sha256 for one in kept[1:]] + ["0" * 64])
    assert entries == {one.sha256: one for one in kept[1:]}
    assert len(queries) == 6, "of entries and of their tags"
    with engine.connect() as connection:
        for query, values in [*queries]:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", values).all()
            assert plan and not [step for *_, step in plan if step.startswith("SCAN")], query


@pytest.mark.parametrize("harm", ["gone", "damaged", "another schema"])
def test_index_is_rebuilt_from_the_folder(library: Library, trace: bytes, harm: str) -> None:
    library.add(trace, title="typed", tags=["x", "y"])
    library.add(said(3), "a recording")
    before = everything(library)
    library.close()
    file = library.root / "index.sqlite"
    if harm == "gone":
        file.unlink()
    elif harm == "damaged":
        file.write_bytes(random.Random(1).randbytes(8192))
    else:
        import sqlite3

        with sqlite3.connect(file) as connection:
            connection.execute("DROP TABLE kept")
            connection.execute("PRAGMA user_version = 999")
        connection.close()
    again = Library(library.root)
    assert everything(again) == before
    again.close()


def test_rebuild_lists_what_it_cannot_read(library: Library, trace: bytes) -> None:
    kept = library.add(trace)
    other, third = library.add(said(1), "one"), library.add(said(2), "two", title="stays")
    path = library.path(kept)
    path.write_bytes(path.read_bytes()[:-1])
    library._note(other.sha256).write_text("{]")
    library._note(third.sha256).unlink()
    seen: list[tuple[int, int]] = []
    count, problems = library.rebuild(lambda done, of: seen.append((done, of)))
    assert count == 2 and len(problems) == 2 and seen[-1] == (3, 3), "a damaged note takes away no utterance"
    assert "does not match its name" in "".join(problems) and "note" in "".join(problems)
    with pytest.raises(BadFile, match="is damaged"):
        library.read(kept)


def _keeps(root: Path, numbers: list[int]) -> None:
    library = Library(root)
    for number in numbers:
        library.add(said(number), f"number {number}", tags=[f"t{number % 3}"])
    library.close()
    os._exit(0)


def test_several_processes_add_at_once(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("fork")
    at_once = [spawn.Process(target=_keeps, args=(tmp_path / "library", [k, k + 10, 30])) for k in range(3)]
    for one in at_once:
        one.start()
    for one in at_once:
        one.join(60)
        assert one.exitcode == 0
    library = Library(tmp_path / "library")
    before = everything(library)
    assert len(before) == 7 and library.rebuild() == (7, []) and everything(library) == before
    library.close()


def test_command_line_covers_all_operations(tmp_path: Path, trace: bytes) -> None:
    (tmp_path / "a.trace").write_bytes(trace)
    write_wav(tmp_path / "b.wav", pcm(), RATE_HZ)
    (tmp_path / "b.txt").write_text("what it says\n")

    def run_command(*words: str, status: int = 0) -> str:
        done = CliRunner().invoke(cli, ["library", *words, "--data", str(tmp_path)])
        assert done.exit_code == status, done.output
        return done.stdout

    assert "One  two 3 [x]" in run_command("add", str(tmp_path / "a.trace"), "--tag", "x")
    assert "what it says" in run_command("add", str(tmp_path / "b.wav"))
    found = json.loads(run_command("find", "two", "--json"))
    name = found["entries"][0]["name"]
    assert found["of"] == 1 and found["entries"][0]["options"] == {}
    assert "Mine" in run_command("note", name, "--title", "Mine", "--untag", "x") and run_command("tags") == ""
    path = run_command("path", name).strip()
    assert "3 words" in CliRunner().invoke(cli, ["inspect", path]).stdout
    assert run_command("rebuild") == "2 utterances\n"
    run_command("remove", name)
    assert "Mine" not in run_command("find")
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_bytes(b"no trace")
    assert run_command("rebuild", status=1) == "1 utterances\n"


@pytest.mark.parametrize(
    "meta",
    ['{"options": {"a": NaN}}', '{"options": {"a": 1e999}}', r'{"voice": "\ud800"}', r'{"options": {"\ud800": 1}}'],
)
def test_unreadable_trace_is_not_added(library: Library, trace: bytes, meta: str) -> None:
    with zipfile.ZipFile(io.BytesIO(trace)) as kept:
        parts = {name: kept.read(name) for name in kept.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in (parts | {"meta.json": meta.encode()}).items():
            archive.writestr(name, data)
    with pytest.raises(BadFile, match=r"meta\.json is not JSON"):
        library.add(out.getvalue())
    assert library.find(Query())[1] == 0 and not list(library.root.glob("sounds/*/*"))


@pytest.mark.parametrize(
    "note",
    [
        '{"title": "", "text": "", "tags": [], "added_at": Infinity}',
        r'{"title": "\ud800", "text": "", "tags": [], "added_at": 1}',
        '{"title": "", "text": "%s", "tags": [], "added_at": 1}' % ("long " * 30_000),
        "[" * 50_000,
    ],
)
def test_damaged_note_does_not_affect_others(library: Library, note: str) -> None:
    good, bad = library.add(said(1), "one"), library.add(said(2), "two")
    next(library.root.glob(f"notes/*/{bad.sha256}.json")).write_text(note)
    strange = wav_bytes(pcm(), RATE_HZ)
    strange = strange[:24] + bytes(4) + strange[28:]  # a rate of zero
    sha256 = hashlib.sha256(strange).hexdigest()
    (library.root / "sounds" / sha256[:2]).mkdir(exist_ok=True)
    (library.root / "sounds" / sha256[:2] / f"{sha256}.wav").write_bytes(strange)
    count, problems = library.rebuild()
    assert count == 2 and len(problems) == 2
    assert {one.sha256 for one in library.find(Query())[0]} == {good.sha256, bad.sha256}
    assert library.update_note(library.entry(bad.sha256), title="again").note.title == "again"
    assert len(library.rebuild()[1]) == 1, "the note is whole again"


def test_unreadable_folder_is_not_empty(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = library.add(said(1), "one")
    library.annotate(entry, "a", AnnotationEdit("e", (PutLayer("l1", "faults", "regions", ()),), at=1.0))
    library.assignments.make("t", "", [AnnotationLayer("faults", "regions", ())], [entry.sha256], ["Anna"])

    def refuses(_: object) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refuses)
        for work in (
            library.assignments.all,
            lambda: library.annotations.of(entry.sha256),
            lambda: library.annotations.remove(entry.sha256),
            library.rebuild,
        ):
            with pytest.raises(Unavailable, match="Permission denied"):
                work()
    assert library.find(Query())[1] == 1 and library.annotations.of(entry.sha256) and library.assignments.all()


def test_unknown_assignment_cannot_be_removed(library: Library) -> None:
    with pytest.raises(BadFile, match="no such assignment"):
        library.assignments.remove("0" * 16)


def test_duplicate_tag_in_a_note_is_one(library: Library) -> None:
    entry = library.add(said(1), "one")
    note = next(library.root.glob(f"notes/*/{entry.sha256}.json"))
    note.write_text('{"title": "one", "text": "", "tags": ["b", "a", "b"], "added_at": 1}')
    assert library.rebuild() == (1, []) and library.entry(entry.sha256).note.tags == ("a", "b")


def test_rebuild_hides_nothing_and_includes_concurrent_changes(library: Library, trace: bytes) -> None:
    entries = [library.add(said(number), f"text {number}") for number in range(4)]
    other = Library(library.root)  # as an annotator's or owner's server has it open

    listed: list[int] = []

    def meanwhile(done: int, of: int) -> None:
        listed.append(other.find(Query())[1])
        if done == 2:
            other.update_note(entries[0], title="changed")
            other.remove(entries[1])
            other.add(said(9), "kept meanwhile")
            other.annotate(entries[2], "a", AnnotationEdit("e", (PutLayer("l", "faults", "regions", ()),), 1.0))

    assert library.rebuild(meanwhile) == (4, []) and listed == [4, 4, 4, 4]
    for one in (library, other):
        assert {entry.text for entry in one.find(Query())[0]} == {"text 0", "text 2", "text 3", "kept meanwhile"}
        assert one.entry(entries[0].sha256).note.title == "changed"
    assert [*library.root.glob("index.sqlite?*")] == []
    other.close()


def test_leftover_index_of_an_interrupted_rebuild_is_replaced(library: Library) -> None:
    for number in range(3):
        library.add(said(number), f"text {number}")
    library.close()
    with closing(sqlite3.connect(library.root / "index.sqlite", isolation_level=None)) as index:
        index.execute("DELETE FROM kept WHERE text <> 'text 1'")
        index.execute("PRAGMA user_version = 1")
    assert Library(library.root).find(Query())[1] == 3


def test_journal_of_the_old_index_is_removed_before_the_new_one_is_renamed(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite replays a journal left by a crash into whatever database has its name."""
    library.add(said(1), "text 1")
    library.close()
    journal = library.root / "index.sqlite-journal"
    (library.root / "index.sqlite").unlink()
    journal.write_bytes(b"of a crash")
    publish, was_there = durable.publish, list[bool]()
    monkeypatch.setattr(
        durable, "publish", lambda part, path: (was_there.append(journal.exists()), publish(part, path))
    )
    again = Library(library.root)
    assert was_there == [False] and again.find(Query())[1] == 1
    again.close()


def test_rebuild_keeps_temporarily_unreadable_entries(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = library.add(said(1), "text 1", title="mine")
    library.add(said(2), "text 2")
    real = read_bounded

    def fails(path: Path, most_bytes: int) -> bytes:
        if path.stem == kept.sha256:
            raise OSError(errno.EIO, "Input/output error")
        return real(path, most_bytes)

    with monkeypatch.context() as patch:
        for module in ("entries", "library"):
            patch.setattr(f"studio.library.{module}.read_bounded", fails)
        _, (problem,) = library.rebuild()
        assert "Input/output error" in problem
        assert library.find(Query())[1] == 2 and library.entry(kept.sha256) == kept
        with pytest.raises(Unavailable):
            library.read(kept)
    assert library.read(kept) == said(1) and library.rebuild() == (2, [])


def test_entry_added_again_after_a_partial_removal_exists(library: Library) -> None:
    kept = library.add(said(1), "text 1")
    library.path(kept).unlink()  # as a removal that fails before the index does
    again = library.add(said(1), "text 1")
    assert library.read(again) == said(1) and library.rebuild() == (1, [])


def test_missing_index_is_reported_and_rebuilt(library: Library) -> None:
    library.add(said(1), "text 1")
    (library.root / "index.sqlite").unlink()
    with pytest.raises(Unavailable, match="rebuild"):
        library.find(Query())
    assert library.rebuild() == (1, []) and library.find(Query())[1] == 1


@pytest.mark.parametrize("damage", [slice(0, 100), slice(4096, 8192), slice(100, None)])
def test_damaged_index_is_rebuilt(library: Library, damage: slice) -> None:
    for number in range(30):
        library.add(said(number), f"text {number}", tags=["t"])
    library.close()
    file = library.root / "index.sqlite"
    data = bytearray(file.read_bytes())
    data[damage] = b"\xa5" * len(data[damage])
    file.write_bytes(data)
    again = Library(library.root)
    assert again.find(Query())[1] == 30 and again.tags() == [("t", 30)]
    again.close()
