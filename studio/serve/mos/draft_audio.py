"""Sounds for a draft: the owner's recordings (uploaded, or in a folder of the server), and synthesis by its voices."""

import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.core import durable
from studio.core.cards import Card
from studio.core.errors import BadFile, BadOption, Busy, Closing, NotStored, StudioError
from studio.core.ports import Engine, SpeakRequest, Utterance
from studio.core.sound_files import SUFFIXES
from studio.core.worker import call_here
from studio.mos.campaign.names import check_name
from studio.mos.service import ListeningTests
from studio.mos.stimuli.building import extend_campaign, require_draft
from studio.mos.stimuli.editing import missing_speech
from studio.mos.stimuli.speech import SpeechTask, engine_speaker, speak_all
from studio.mos.store.sounds import TELEPHONE_RATE_HZ, read_sound

UPLOAD = "/mos/owner/sounds"
MAX_FILES, MAX_BYTES = 2000, 2 * 2**30  # uploads that are not imported yet, of all drafts
FOLDER = "sounds"  # in the data folder, filled by the server's operator
_MAX_FOLDERS = 200
_MAX_TRIES = 5
_STALE_S = 86_400.0
_Version = tuple[int, int, int]  # of a file: its inode, size and time of change


def check_sound(path: Path) -> None:
    """Raise BadFile where a file is no sound that a listening test can play."""
    read_sound(path, lowest_rate_hz=TELEPHONE_RATE_HZ)


class DraftSounds:
    """Two folders beside the clips: ``uploads``, emptied by an import, and ``sounds``, only read."""

    def __init__(self, listening: ListeningTests, run: Callable[..., Any] = call_here) -> None:
        """``run``: calls what reads foreign files, in another process beside speech."""
        self._listening, self._run = listening, run
        data = listening.clips.root.parent
        self._uploads, self._folders = data / "uploads", data / FOLDER
        self._lock, self._importing = threading.Lock(), threading.Lock()

    def folders(self) -> list[str]:
        """Names of the folders and manifests that can be imported."""
        if not self._folders.is_dir():
            return []
        return [path.name for path in sorted(self._folders.iterdir()) if _is_importable(path)][:_MAX_FOLDERS]

    def store(self, campaign: str, system: str, file: str, content: bytes) -> None:
        """Store an upload until it is imported.

        Raises BadOption: there is no such draft, or a name is not allowed; BadFile: it is not a usable sound, or too
        many uploads wait for the import.
        """
        with self._listening.store.read() as session:
            require_draft(session, campaign)
        for one in (system, file, Path(file).stem):
            check_name(one)  # excludes slashes and a leading dot
        suffix = Path(file).suffix.lower()
        if suffix not in SUFFIXES:
            raise BadFile(f"{file:.80} is not a sound file", f"they end in {', '.join(SUFFIXES)}")
        durable.make_folder(self._uploads)
        part = self._uploads / f".{secrets.token_hex(8)}{suffix}"
        try:
            with self._lock:
                self._check_space(len(content))
                part.write_bytes(content)
            try:
                self._run(check_sound, part)
            except BadFile as error:
                raise BadFile(error.what.replace(part.name, file), error.do) from error
            with self._lock:
                _publish(part, self._uploads / campaign / system / file)
        finally:
            part.unlink(missing_ok=True)

    def take(self, campaign: str, folder: str | None) -> list[str]:
        """Import sounds into a draft and return warnings for the experimenter.

        Raises BadFile, BadOption, DraftConflict: as ``extend_campaign`` does, or there is nothing to import.

        Args:
            folder: one of ``folders``; None for the uploads, which are deleted once they are imported or rejected, and
                stay after any other error: the same import may succeed later.
        """
        with self._listening.store.read() as session:
            require_draft(session, campaign)
        if folder is not None:
            if folder not in self.folders():
                raise BadOption(f"there is no folder {folder!r}", f"put one into {FOLDER}/ of the server's data folder")
            return extend_campaign(self._listening, campaign, self._folders / folder, run=self._run)[1]
        private = durable.part_of(self._uploads / ".import")  # which a backup leaves out
        with self._importing:
            try:
                if not (files := self._link_uploads(campaign, private)):
                    raise BadFile("no file has come", "choose sounds first")
                try:
                    warnings = extend_campaign(self._listening, campaign, private / campaign, run=self._run)[1]
                except (BadFile, BadOption):
                    self._remove(campaign, files)
                    raise
                self._remove(campaign, files)
                return warnings
            finally:
                shutil.rmtree(private, ignore_errors=True)

    def _link_uploads(self, campaign: str, private: Path) -> dict[Path, _Version]:
        """Link the uploads of a draft into a folder, since more may come during the import; returns what they are now.

        Another server of the same data folder stores uploads, too, and does not know of this import.
        """
        self._remove_stale()
        files: dict[Path, _Version] = {}
        with self._lock:
            for path in _files_in(self._uploads / campaign):
                link = private / path.relative_to(self._uploads)
                link.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # another server has just imported it
                    files[path] = _version(path)
                    _link(path, link)
        return files

    def _remove(self, campaign: str, files: Mapping[Path, _Version]) -> None:
        """Delete uploads that were imported or rejected, and none that has come since, under the same name."""
        with self._lock:
            for path, version in files.items():
                with suppress(OSError):
                    if _version(path) == version:
                        path.unlink()
            for folder in (*{path.parent for path in files}, self._uploads / campaign):
                with suppress(OSError):  # it is not empty
                    folder.rmdir()

    def _remove_stale(self) -> None:
        """Delete the links and the incomplete files that a crash left behind."""
        for left in self._uploads.glob(".*"):
            with suppress(OSError):
                if left.stat().st_mtime < time.time() - _STALE_S:
                    shutil.rmtree(left) if left.is_dir() else left.unlink()

    def _check_space(self, new_bytes: int) -> None:
        sizes: dict[int, int] = {}  # by inode: links take no space
        for path in _files_in(self._uploads):
            with suppress(FileNotFoundError):  # imported meanwhile
                number, size_bytes, _ = _version(path)
                sizes[number] = size_bytes
        if len(sizes) >= MAX_FILES or sum(sizes.values()) + new_bytes > MAX_BYTES:
            raise BadFile(
                f"{len(sizes)} files wait to be taken in", "take them in, or use `studio campaign import` for so many"
            )


def _files_in(folder: Path) -> Iterator[Path]:
    """The files below a folder; none where it is missing, or is removed meanwhile."""
    return (Path(root, name) for root, _, names in os.walk(folder) for name in names)


def _version(path: Path) -> _Version:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _link(path: Path, link: Path) -> None:
    try:
        link.hardlink_to(path)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copy2(path, link)


def _publish(part: Path, path: Path) -> None:
    """Move an upload to its name, in a folder that another server may delete while it is empty. Raises NotStored."""
    for _ in range(_MAX_TRIES):
        with suppress(FileNotFoundError):
            durable.make_folder(path.parent)
            return durable.publish(part, path)
    raise NotStored(f"{path.name:.80} could not be stored", "send it again")


def _is_importable(path: Path) -> bool:
    try:
        check_name(path.name)
    except BadOption:
        return False
    return not path.is_symlink() and (path.is_dir() or path.suffix.lower() in (".csv", ".json"))


_RETRY_S = 2.0  # between two attempts to get a slot

log = logging.getLogger("studio.serve")


class SpeakingStopped(StudioError):
    """Stopped by the owner; the finished texts are kept."""

    code = "stopped"


@dataclass
class SpeakingJob:
    """The synthesis of one draft: its progress and how it ended."""

    campaign: str
    of: int
    done: int = 0
    is_over: bool = False
    error: str = ""
    notes: tuple[str, ...] = ()


class DraftSpeaker:
    """Synthesizes one draft at a time, one text after the other, so that live typing is hardly affected."""

    def __init__(self, listening: ListeningTests, engine: Engine, run: Callable[..., Any] = call_here) -> None:
        """``run``: as of ``DraftSounds``."""
        self._listening, self._engine, self._run_elsewhere = listening, engine, run
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._job: SpeakingJob | None = None

    def begin(self, name: str) -> None:
        """Start to synthesize the missing texts of a draft. Raises BadOption, Busy."""
        with self._listening.store.read() as session:
            sayings = missing_speech(session, require_draft(session, name))
        if not sayings:
            raise BadOption("there is nothing to speak", "add a voice and texts first")
        with self._lock:
            if self._job is not None and not self._job.is_over:
                raise Busy(f"{self._job.campaign!r} is being spoken", "wait until it is done")
            self._stop.clear()
            self._job = SpeakingJob(name, sum(len(one.texts) for one in sayings))
            threading.Thread(target=self._run, args=(self._job, sayings), daemon=True).start()

    def stop(self, name: str) -> None:
        """Stop after the current text."""
        if self._job is not None and self._job.campaign == name:
            self._stop.set()

    def progress(self, name: str) -> dict[str, Any] | None:
        """The progress of a draft; None if its synthesis was not started by this server."""
        job = self._job
        if job is None or job.campaign != name:
            return None
        return {"done": job.done, "of": job.of, "over": job.is_over, "error": job.error, "notes": list(job.notes)}

    def _run(self, job: SpeakingJob, sayings: Sequence[SpeechTask]) -> None:
        def spoken() -> None:
            job.done += 1
            if self._stop.is_set():
                raise SpeakingStopped("it was stopped", "what was spoken is kept: begin again to go on")

        try:
            out = self._listening.clips.root.parent / "spoken" / job.campaign
            speak = engine_speaker(_RetryingEngine(self._engine, self._stop), is_guest=True)
            manifest = speak_all(sayings, out, speak, spoken)
            job.notes = tuple(extend_campaign(self._listening, job.campaign, manifest, run=self._run_elsewhere)[1])
        except StudioError as error:
            job.error = str(error)
        except Exception:
            log.exception("the synthesis of a draft failed")
            job.error = "it could not be spoken; the server's log says why"
            raise
        finally:
            job.is_over = True


class _RetryingEngine:
    """Retries ``open`` while the engine has no free slot."""

    def __init__(self, engine: Engine, stop: threading.Event) -> None:
        self._engine, self._stop = engine, stop

    def cards(self) -> Sequence[Card]:
        return self._engine.cards()

    def open(self, request: SpeakRequest) -> Utterance:
        while True:
            try:
                return self._engine.open(request)
            except Closing:
                raise
            except Busy:
                if self._stop.wait(_RETRY_S):
                    raise SpeakingStopped("it was stopped", "what was spoken is kept: begin again to go on") from None

    def is_loaded(self, voice: str) -> bool:
        return self._engine.is_loaded(voice)

    def free_slots(self) -> int:
        return self._engine.free_slots()

    def drain(self) -> None:
        self._engine.drain()

    def close(self) -> None:
        pass  # owned by the server
