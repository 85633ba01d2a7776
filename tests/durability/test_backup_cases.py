"""Backups of folders that change during the backup, hold unusual files, or were restored before."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from durability.site import Site, default_signals, found_in
from durability.write_paths import recording
from needs import needs

from studio.backup import create
from studio.backup.containers import MANIFEST
from studio.backup.create import create_backup
from studio.backup.restore import check_backup, restore_backup
from studio.core.errors import BadFile, BadOption, NotStored
from studio.library.index import Query
from studio.library.library import Library
from studio.serve.mos.draft_audio import DraftSounds


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "data")
    made.save(0)
    yield made
    made.close()


@pytest.mark.parametrize("name", ["b", "b.zip"])
def test_every_saved_file_can_be_restored(site: Site, tmp_path: Path, name: str) -> None:
    (site.data / "settings.toml").write_text("[serve]\nport = 1\n")  # as after a restore
    (site.data / MANIFEST).write_text("{}")  # as after unpacking a backup by hand
    DraftSounds(site.listening).store("d", "clara:m?m=2", "item.wav", recording(2, frames=22))
    (tmp_path / "other.toml").write_text("[serve]\nport = 2\n")
    create_backup(site.data, "", tmp_path / name, {"settings.toml": tmp_path / "other.toml"})
    restore_backup(tmp_path / name, tmp_path / "restored")
    assert found_in(tmp_path / "restored") >= site.saved
    assert (tmp_path / "restored/uploads/d/clara:m?m=2/item.wav").read_bytes() == recording(2, frames=22)
    assert (tmp_path / "restored/settings.toml").read_text() == "[serve]\nport = 2\n"
    assert not list((tmp_path / "restored").glob("studio.sqlite-*")), "the database is one file"


def test_removed_speakers_are_not_in_a_backup(site: Site, tmp_path: Path) -> None:
    for name in ("0123456789abcdef", ".0123456789abcdef", ".fedcba9876543210.removed"):
        (site.data / "speakers" / name).mkdir(parents=True)
        (site.data / "speakers" / name / "recording.wav").write_bytes(b"RIFF")
    create_backup(site.data, "", tmp_path / "b", {})
    stored = {path.relative_to(tmp_path / "b").as_posix() for path in (tmp_path / "b").rglob("recording.wav")}
    assert stored == {"speakers/0123456789abcdef/recording.wav"}


@pytest.mark.parametrize("name", ["b", "b.zip"])
def test_times_of_files_are_restored(site: Site, tmp_path: Path, name: str) -> None:
    """A sound whose note is lost was added when its file was changed."""
    (sound,) = (site.data / "library/sounds").glob(f"*/{site.utterance.sha256}.wav")
    os.utime(sound, (1_000_000_000.25, 1_000_000_000.25))
    next((site.data / "library/notes").glob(f"*/{site.utterance.sha256}.json")).unlink()
    part = site.data / "library/index.sqlite.0123456789abcdef.part-journal"  # of a rebuild that was killed
    part.write_bytes(b"x")
    backup = create_backup(site.data, "", tmp_path / name)
    assert not any("part-journal" in file for file in backup.files)
    restore_backup(tmp_path / name, tmp_path / "restored")
    restored = tmp_path / "restored" / sound.relative_to(site.data)
    assert restored.stat().st_mtime == 1_000_000_000.25
    with closing(Library(tmp_path / "restored/library")) as library:
        assert library.entry(site.utterance.sha256).note.added_at == 1_000_000_000.25


@pytest.mark.parametrize("name", [b"a\\b.wav", b"a\xff.wav"])
def test_unrestorable_name_is_refused_immediately(site: Site, tmp_path: Path, name: bytes) -> None:
    needs(sys.platform == "linux", "Linux: elsewhere no file has such a name")
    (site.data / "sounds").mkdir()
    Path(os.fsdecode(os.fsencode(site.data / "sounds") + b"/" + name)).write_bytes(b"x")
    with pytest.raises(BadFile, match="rename it"):
        create_backup(site.data, "", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_system_named_like_an_incomplete_file_is_saved(site: Site, tmp_path: Path) -> None:
    DraftSounds(site.listening).store("d", "v1.part", "item.wav", recording(2, frames=22))
    made = create_backup(site.data, "", tmp_path / "b")
    assert "uploads/d/v1.part/item.wav" in made.files and "uploads/d/system/item.wav" in made.files


def test_links_are_followed_but_not_in_cycles(site: Site, tmp_path: Path) -> None:
    for name in ("clips", "uploads"):
        shutil.move(site.data / name, tmp_path / name)
        (site.data / name).symlink_to(tmp_path / name)
    (site.data / "a").symlink_to(site.data / "library")  # is listed before the folder itself
    (site.data / "library/back").symlink_to(site.data)
    (site.data / "above").symlink_to(tmp_path)  # also leads to the backup in progress
    (site.data / "nowhere").symlink_to(tmp_path / "nothing")
    os.mkfifo(site.data / "pipe")
    assert create_backup(site.data, "", tmp_path / "b").missing == ()
    restore_backup(tmp_path / "b", tmp_path / "restored")
    assert found_in(tmp_path / "restored") >= site.saved
    assert not (tmp_path / "restored/uploads").is_symlink()


def test_unreadable_folder_is_reported(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("notes"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(NotStored, match=r"Permission denied: .*notes"):
        create_backup(site.data, "", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_file_deleted_during_the_backup_is_left_out(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = create._size

    def deleting(path: Path) -> int:
        if path.name == "item.wav":
            shutil.rmtree(site.data / "uploads")
        return size(path)

    monkeypatch.setattr(create, "_size", deleting)
    made = create_backup(site.data, "", tmp_path / "b")
    assert made.counts["answers"] == 1 and not any(name.startswith("uploads") for name in made.files)


def test_uploads_accepted_after_the_snapshot_are_saved(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = create.snapshot

    def then_take(url: str, target: Path) -> str:
        kind = snapshot(url, target)
        DraftSounds(site.listening).take("d", None)
        return kind

    monkeypatch.setattr(create, "snapshot", then_take)
    create_backup(site.data, "", tmp_path / "b")
    assert not list(site.data.glob("uploads/*/*/*"))
    restore_backup(tmp_path / "b", tmp_path / "restored")
    assert found_in(tmp_path / "restored") >= site.saved  # which looks for the upload


def test_utterance_is_never_saved_without_its_note(site: Site, tmp_path: Path) -> None:
    count = 0

    def keep(done: int, of: int) -> None:
        nonlocal count
        count += 1
        if count < 30:
            site.library.add(recording(100 + count), f"Text {count}", title="kept meanwhile")

    create_backup(site.data, "", tmp_path / "b", progress=keep)
    restore_backup(tmp_path / "b", tmp_path / "restored")
    with closing(Library(tmp_path / "restored/library")) as library:
        entries = library.find(Query(limit=1000))[0]
    assert len(entries) > 2 and all(one.text for one in entries)


def test_trace_deleted_during_the_backup_causes_another_snapshot(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, looks = create.named_files, 0

    def gone_at_first(file: Path) -> set[str]:
        nonlocal looks
        looks += 1
        return named(file) | ({"clips/ab/gone.trace"} if looks == 1 else set())

    monkeypatch.setattr(create, "named_files", gone_at_first)
    assert create_backup(site.data, "", tmp_path / "b").missing == () and looks == 2
    check_backup(tmp_path / "b")


@pytest.mark.parametrize("name", ["b.tar.gz", "b.tar", "full", "empty.zip", "x/../data/b", "link", "cycle"])
def test_unusable_target_is_refused(site: Site, tmp_path: Path, name: str) -> None:
    for folder in ("x", "full", "full/one", "empty.zip"):
        (tmp_path / folder).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    (tmp_path / "cycle").symlink_to(tmp_path / "cycle")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((BadOption, BadFile)):
        create_backup(site.data, "", tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before


def test_mount_point_is_refused(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_backup(site.data, "", tmp_path / "b")
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "mounted")
    (tmp_path / "mounted").mkdir()
    with pytest.raises(BadOption, match="mount point"):
        create_backup(site.data, "", tmp_path / "mounted")
    with pytest.raises(BadOption, match="mount point"):
        restore_backup(tmp_path / "b", tmp_path / "mounted")


def test_database_urls(site: Site, tmp_path: Path) -> None:
    for address in ("nonsense", "mysql://host/x", "sqlite://"):
        with pytest.raises(BadOption):
            create_backup(site.data, address, tmp_path / "b")
    create_backup(site.data, f"sqlite:///{site.data}/studio.sqlite", tmp_path / "b")
    data = tmp_path / "restored"
    data.mkdir()
    with pytest.raises(BadOption, match="lies in the new data folder"):
        restore_backup(tmp_path / "b", data, f"sqlite:///{data}/other.sqlite")
    restore_backup(tmp_path / "b", data, f"sqlite:///{data}/studio.sqlite")
    assert found_in(data) >= site.saved
    address = f"sqlite:///{tmp_path}/elsewhere.sqlite"
    restore_backup(tmp_path / "b", tmp_path / "again", address)
    assert found_in(tmp_path / "again", address) >= site.saved


@pytest.mark.parametrize("change", [{"size": -5}, {"sha256": "x"}, {"size": None}])
def test_manifest_without_valid_sizes_and_digests_is_refused(
    site: Site, tmp_path: Path, change: dict[str, object]
) -> None:
    create_backup(site.data, "", tmp_path / "b")
    manifest = json.loads((tmp_path / "b" / MANIFEST).read_text())
    next(iter(manifest["files"].values())).update(change)
    (tmp_path / "b" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(BadFile, match="manifest"):
        check_backup(tmp_path / "b")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("name", ["b", "b.zip"])
def test_stopped_command_leaves_no_backup(site: Site, tmp_path: Path, name: str, number: signal.Signals) -> None:
    (site.data / "sounds").mkdir()
    with (site.data / "sounds/long.wav").open("wb") as file:
        file.truncate(2_000_000_000)  # takes no space, and seconds to copy
    out = tmp_path / "out"
    arguments = ["backup", str(out / name), "--data", str(site.data)]
    command = [sys.executable, "-c", "from studio.cli import main; main()", *arguments]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, preexec_fn=default_signals, **streams) as process:  # noqa: PLW1509
        until = time.monotonic() + 60
        while not list(out.glob("*.part")) and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(number)
        said = process.communicate(timeout=60)[0]
    assert process.returncode != 0, said
    left = [path.name for path in out.iterdir()]
    assert all(one.endswith(".part") for one in left) if number == signal.SIGKILL else left == []
    if number == signal.SIGINT:
        assert "stopped: there is no backup" in said
    site.save(1)  # and the server continues


def test_zip_is_private_and_stores_sounds_unchanged(site: Site, tmp_path: Path) -> None:
    create_backup(site.data, "", tmp_path / "b.zip")
    assert (tmp_path / "b.zip").stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        kinds = {Path(one.filename).suffix: one.compress_type for one in archive.infolist()}
    assert kinds[".wav"] == zipfile.ZIP_STORED and kinds[".sqlite"] == zipfile.ZIP_DEFLATED
