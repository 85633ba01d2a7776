"""Sounds for a draft: the owner's recordings (uploaded, or in a folder of the server), and synthesis by its voices."""

import logging
import secrets
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.core import durable
from studio.core.cards import Card
from studio.core.errors import BadFile, BadOption, Busy, Closing, StudioError
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
        self._lock = threading.Lock()

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
        folder = self._uploads / campaign / system
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
                durable.make_folder(folder)
                durable.publish(part, folder / file)
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
        uploads = self._uploads / campaign
        if not uploads.is_dir():
            raise BadFile("no file has come", "choose sounds first")
        with self._lock:
            try:
                warnings = extend_campaign(self._listening, campaign, uploads, run=self._run)[1]
            except (BadFile, BadOption):
                shutil.rmtree(uploads, ignore_errors=True)
                raise
            shutil.rmtree(uploads, ignore_errors=True)
            return warnings

    def _check_space(self, new_bytes: int) -> None:
        sizes = [path.stat().st_size for path in self._uploads.rglob("*") if path.is_file()]
        if len(sizes) >= MAX_FILES or sum(sizes) + new_bytes > MAX_BYTES:
            raise BadFile(
                f"{len(sizes)} files wait to be taken in", "take them in, or use `studio campaign import` for so many"
            )


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
