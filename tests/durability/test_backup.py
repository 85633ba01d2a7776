"""Backups are taken beside a running server, hold all acknowledged data, and are verified before use."""

import json
import os
import shutil
import sqlite3
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from durability.site import Site, found_in
from mos.conftest import new_database, postgresql
from mos.world import World
from serve.serving import eventually
from typer.testing import CliRunner

from studio.backup.containers import MANIFEST
from studio.backup.create import create_backup
from studio.backup.database import tables_size
from studio.backup.restore import check_backup, restore_backup
from studio.cli import cli
from studio.core.errors import BadFile, BadOption, NotStored
from studio.mos.import_export.merge import merge_from
from studio.mos.service import open_listening_tests
from studio.mos.store.database import Store

__all__ = ["postgresql"]  # a fixture


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "data")
    for number in range(3):
        made.save(number)
    yield made
    made.close()


@pytest.mark.parametrize("name", ["backup", "backup.zip"])
def test_backup_under_load_holds_all_acknowledged_data(site: Site, tmp_path: Path, name: str) -> None:
    stop = threading.Event()
    errors: list[BaseException] = []

    def go_on() -> None:
        number = 3
        try:
            while not stop.is_set():
                site.save(number)
                number += 1
        except BaseException as error:  # noqa: BLE001 - the test fails with it
            errors.append(error)

    saving = threading.Thread(target=go_on)
    saving.start()
    backups: list[tuple[Path, set[str]]] = []
    for round_ in range(4):
        eventually(lambda: errors or len(site.saved) > len(backups[-1][1] if backups else ()), "more is saved")
        before, target = set(site.saved), tmp_path / f"{round_}" / name
        made = create_backup(site.data, "", target)
        assert made.missing == () and made.counts["answers"] * 4 >= len(before) - 3
        backups.append((target, before))
    eventually(lambda: errors or len(site.saved) > len(backups[-1][1]), "more is saved")
    stop.set()
    saving.join(60)
    assert errors == []
    for target, before in backups:
        data = target.with_name("restored")
        assert check_backup(target).counts["campaigns"] == 2
        restored = restore_backup(target, data)
        assert restored.problems == () and found_in(data) >= before
    assert (data.stat().st_mode & 0o777, (data / "studio.sqlite").stat().st_mode & 0o777) == (0o700, 0o600)
    with closing(open_listening_tests("", data)) as listening:
        assert listening.access.first_token is None and site.token is not None
        listening.access.check_owner(site.token)


def test_commands_report_what_they_did(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems, settings and lexicon are saved although they lie outside the data folder."""
    words = tmp_path / "words.txt"
    words.write_text("kettle /kEtl/\n")
    settings = f'[serve]\nport = 7000\nlexicon = "{words}"\n'
    (tmp_path / "server.toml").write_text(settings)
    (tmp_path / "mine.toml").write_text('[systems.espeak]\nkind = "command"\ncommand = "espeak-ng --stdout"\n')
    monkeypatch.setenv("STUDIO_SYSTEMS", str(tmp_path / "mine.toml"))

    def run(*arguments: object, status: int = 0) -> str:
        done = CliRunner().invoke(cli, [str(one) for one in arguments])
        assert done.exit_code == status, done.output
        return done.output

    target, data = tmp_path / "b.zip", tmp_path / "restored"
    said = run("backup", target, "--data", site.data, "--settings", tmp_path / "server.toml")
    assert "2 campaigns, 3 answers, 8 clips, 4 utterances, 1 journals" in said and f"studio restore {target}" in said
    assert "is whole: 2 campaigns, 3 answers" in run("restore", target, "--check")
    said = run("restore", target, "--data", data)
    assert "4 utterances" in said
    for name, use in (
        ("settings.toml", "--settings"),
        ("systems.toml", "STUDIO_SYSTEMS"),
        ("given-lexicon.txt", "--lexicon"),
    ):
        assert f"{data / name}: " in said and use in said
    assert (data / "settings.toml").read_text() == settings
    assert (data / "systems.toml").read_text() == (tmp_path / "mine.toml").read_text()
    assert (data / "given-lexicon.txt").read_text() == words.read_text()
    plain = run("backup", tmp_path / "plain", "--data", site.data)
    assert "given with --settings or --lexicon is not in the backup" in plain
    assert found_in(data) >= site.saved
    for arguments in (["backup", target, "--data", site.data], ["restore", target, "--data", data]):
        assert isinstance(CliRunner().invoke(cli, [str(one) for one in arguments]).exception, BadOption)
    assert found_in(data) >= site.saved, "nothing was replaced"


def rewritten(change: Callable[[dict[str, bytes]], None]) -> Callable[[Path], None]:
    """Change the files of a ZIP."""

    def work(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        change(files)
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)

    return work


def renamed(to: str) -> Callable[[dict[str, bytes]], None]:
    """Rename a file, in the manifest too."""

    def change(files: dict[str, bytes]) -> None:
        name = next(one for one in files if one.startswith("clips/"))
        files[to] = files.pop(name)
        manifest = json.loads(files[MANIFEST])
        manifest["files"][to] = manifest["files"].pop(name)
        files[MANIFEST] = json.dumps(manifest).encode()

    return change


def change_one(files: dict[str, bytes]) -> None:
    name = next(one for one in files if one.startswith("library/sounds/"))
    files[name] = files[name][:-1] + b"\xff"


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-2000]),
    "no zip": lambda path: path.write_bytes(b"backup" * 1000),
    "no manifest": rewritten(lambda files: files.pop(MANIFEST)),
    "a file less": rewritten(lambda files: files.pop("studio.sqlite")),
    "a byte": rewritten(change_one),
    "a longer file": rewritten(lambda files: files.update({"studio.sqlite": files["studio.sqlite"] + b"x" * 4096})),
    "no database": rewritten(lambda files: files.update({"studio.sqlite": b"x" * 4096})),
    "above": rewritten(renamed("../evil.wav")),
    "far above": rewritten(renamed("clips/../../evil.wav")),
    "absolute": rewritten(renamed("/tmp/evil.wav")),
    "backslash": rewritten(renamed("..\\evil.wav")),
    "its manifest": rewritten(lambda files: files.update({MANIFEST: b"[" * 100_000})),
    "another's": rewritten(lambda files: files.update({MANIFEST: b'{"format": "x", "schema": 1}'})),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_backup_is_refused_and_leaves_nothing(site: Site, tmp_path: Path, damage: str) -> None:
    target, data = tmp_path / "b.zip", tmp_path / "restored"
    create_backup(site.data, "", target)
    DAMAGES[damage](target)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadFile):
        check_backup(target)
    with pytest.raises(BadFile):
        restore_backup(target, data)
    assert sorted(tmp_path.rglob("*")) == before


def test_links_in_a_folder_are_not_followed(site: Site, tmp_path: Path) -> None:
    target, data = tmp_path / "b", tmp_path / "restored"
    create_backup(site.data, "", target)
    clip = next(target.glob("clips/*/*.wav"))
    shutil.move(clip, tmp_path / "elsewhere.wav")
    clip.symlink_to(tmp_path / "elsewhere.wav")
    with pytest.raises(BadFile):
        restore_backup(target, data)
    assert not data.exists()


@pytest.mark.parametrize("name", ["backup", "backup.zip"])
def test_interrupted_backup_leaves_nothing(site: Site, tmp_path: Path, name: str) -> None:
    calls: list[int] = []

    def interrupt(done: int, of: int) -> None:
        calls.append(done)
        if len(calls) == 5:
            raise KeyboardInterrupt

    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(KeyboardInterrupt):
        create_backup(site.data, "", tmp_path / name, progress=interrupt)
    assert sorted(tmp_path.rglob("*")) == before


def test_unsaveable_data_is_reported(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadFile, match="no data folder"):
        create_backup(tmp_path / "absent", "", tmp_path / "b")
    with pytest.raises(BadFile, match="in the data folder"):
        create_backup(site.data, "", site.data / "b")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 50, 50))
        with pytest.raises(NotStored, match="are free"):
            create_backup(site.data, "", tmp_path / "b")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/studio.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(BadFile, match="damaged"):
        create_backup(tmp_path / "bad", "", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_missing_clip_is_reported(site: Site, tmp_path: Path) -> None:
    clip = next((site.data / "clips").glob("*/*.wav"))
    clip.unlink()
    assert create_backup(site.data, "", tmp_path / "b").missing == (clip.relative_to(site.data).as_posix(),)


def test_older_database_is_saved_unchanged_and_restored_as_the_newest(tmp_path: Path) -> None:
    from durability.database_paths import Migrations

    old = Migrations(tmp_path)
    old.prepare(0)
    (tmp_path / "data").mkdir()
    shutil.move(old.file(0), tmp_path / "data/studio.sqlite")
    create_backup(tmp_path / "data", "", tmp_path / "b")
    restore_backup(tmp_path / "b", tmp_path / "restored")
    with closing(sqlite3.connect(tmp_path / "restored/studio.sqlite")) as connection:
        assert connection.execute("SELECT name FROM campaign").fetchall() == [("c0",)]
        assert connection.execute("SELECT max(version) FROM schema_version").fetchone()[0] > 1


def test_postgresql_is_saved_and_restored_in_either_direction(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url, other = (new_database("postgresql", tmp_path, request) for _ in range(2))
    made = Site(tmp_path / "data", url)
    for number in range(3):
        made.save(number)
    backup = create_backup(made.data, url, tmp_path / "b.zip")
    assert backup.database == "postgresql" and backup.counts["answers"] == 3
    assert tables_size(url) > 100_000, "the space check counts its tables"
    restore_backup(tmp_path / "b.zip", tmp_path / "file")
    assert found_in(tmp_path / "file") >= made.saved
    restored = restore_backup(tmp_path / "b.zip", tmp_path / "server", other)
    assert restored.counts["answers"] == 3 and not (tmp_path / "server/studio.sqlite").exists()
    assert found_in(tmp_path / "server", other) >= made.saved
    with pytest.raises(BadOption, match="not empty"):
        restore_backup(tmp_path / "b.zip", tmp_path / "again", other)
    assert not (tmp_path / "again").exists()
    with closing(open_listening_tests(other, tmp_path / "server")) as listening:
        world = World(listening.store, tmp_path / "server/clips")
        world.listening = listening
        rater = world.join("P99")
        rater.to_trials()
        rater.finish()  # ids continue after the copied ones
    made.close()
    with closing(open_listening_tests("", tmp_path / "third")) as third:
        assert len(merge_from(third, str(tmp_path / "file/studio.sqlite"))) == 2
    Store(url).close()
    assert os.environ.get("STUDIO_DATABASE") is None
