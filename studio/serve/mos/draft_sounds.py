"""The owner's recordings for a draft: uploads of the browser, or a folder in the data folder."""

import secrets
import shutil
import threading
from pathlib import Path

from studio.core import durable
from studio.core.errors import BadFile, BadOption, Closed, StudioError, Unavailable
from studio.mos.campaign.manifest import SOUNDS
from studio.mos.campaign.names import check_name
from studio.mos.service import ListeningTests
from studio.mos.stimuli.building import extend_campaign, require_draft
from studio.mos.store.sounds import MAX_FILE_BYTES as LARGEST_SOUND_BYTES
from studio.mos.store.sounds import TELEPHONE_RATE_HZ, read_sound

UPLOAD = "/mos/owner/sounds"
MAX_FILE_BYTES = LARGEST_SOUND_BYTES
MAX_FILES, MAX_BYTES = 2000, 2 * 2**30  # uploads that are not imported yet, of all drafts
FOLDER = "sounds"  # in the data folder, filled by the server's operator
_MAX_FOLDERS = 200


class DraftSounds:
    """Two folders beside the clips: ``uploads``, emptied by an import, and ``sounds``, only read."""

    def __init__(self, listening: ListeningTests) -> None:
        self._listening = listening
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

        Raises:
            BadOption: there is no such draft, or a name is not allowed.
            BadFile: it is not a usable sound, or too many uploads wait for the import.
        """
        with self._listening.store.read() as session:
            require_draft(session, campaign)
        for one in (system, file, Path(file).stem):
            check_name(one)  # excludes slashes and a leading dot
        suffix = Path(file).suffix.lower()
        if suffix not in SOUNDS:
            raise BadFile(f"{file:.80} is not a WAV or FLAC file", "convert it to mono 16-bit WAV")
        folder = self._uploads / campaign / system
        with self._lock:
            self._check_space(len(content))
            durable.make_folder(self._uploads)
            part = self._uploads / f".{secrets.token_hex(8)}{suffix}"
            try:
                part.write_bytes(content)
                try:
                    read_sound(part, lowest_rate_hz=TELEPHONE_RATE_HZ)
                except BadFile as error:
                    raise BadFile(error.what.replace(part.name, file), error.do) from error
                durable.make_folder(folder)
                durable.publish(part, folder / file)
            finally:
                part.unlink(missing_ok=True)

    def take(self, campaign: str, folder: str | None) -> list[str]:
        """Import sounds into a draft and return warnings for the experimenter.

        Args:
            folder: one of ``folders``; None for the uploads, which are deleted once they are imported or rejected, and
                stay where the disk or the database failed.

        Raises:
            BadFile, BadOption: as ``extend`` does, or there is nothing to import.
        """
        with self._listening.store.read() as session:
            require_draft(session, campaign)
        if folder is not None:
            if folder not in self.folders():
                raise BadOption(f"there is no folder {folder!r}", f"put one into {FOLDER}/ of the server's data folder")
            return extend_campaign(self._listening, campaign, self._folders / folder)[1]
        uploads = self._uploads / campaign
        if not uploads.is_dir():
            raise BadFile("no file has come", "choose sounds first")
        with self._lock:
            try:
                warnings = extend_campaign(self._listening, campaign, uploads)[1]
            except StudioError as error:
                if not isinstance(error, (Unavailable, Closed)):
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
