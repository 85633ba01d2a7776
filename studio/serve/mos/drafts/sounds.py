"""Sounds that an owner brings to a draft: files sent by the browser, or a folder that lies in the data folder."""

import secrets
import shutil
import threading
from pathlib import Path

from studio.core import durable
from studio.core.errors import BadFile, BadOption, Closed, StudioError, Unavailable
from studio.mos.campaign.draft import SOUNDS
from studio.mos.campaign.names import check_name
from studio.mos.making.building import draft_of, extend
from studio.mos.service import Listening
from studio.mos.store.sounds import MAX_FILE_BYTES as LARGEST_SOUND_BYTES
from studio.mos.store.sounds import TELEPHONE_RATE_HZ, read_clip

UPLOAD = "/mos/owner/sounds"
MAX_FILE_BYTES = LARGEST_SOUND_BYTES
MAX_FILES, MAX_BYTES = 2000, 2 * 2**30  # that were sent and not taken in yet, of all drafts
FOLDER = "sounds"  # in the data folder: whoever runs the server puts folders there
_MOST_FOLDERS = 200


class DraftSounds:
    """Two folders beside the clips: ``uploads``, emptied whenever they are taken in, and ``sounds``, only read."""

    def __init__(self, listening: Listening) -> None:
        self._listening = listening
        data = listening.clips.root.parent
        self._uploads, self._folders = data / "uploads", data / FOLDER
        self._lock = threading.Lock()

    def folders(self) -> list[str]:
        """What lies in the folder of sounds and may be taken in, by name: folders and manifests."""
        if not self._folders.is_dir():
            return []
        return [path.name for path in sorted(self._folders.iterdir()) if _may_be_taken(path)][:_MOST_FOLDERS]

    def keep(self, campaign: str, system: str, file: str, content: bytes) -> None:
        """Keep a file until it is taken in.

        Raises:
            BadOption: there is no such draft, or a name is not allowed.
            BadFile: it is no sound that can be taken, or too much waits to be taken in.
        """
        with self._listening.store.read() as session:
            draft_of(session, campaign)
        for one in (system, file, Path(file).stem):
            check_name(one)  # so no slash, and no full stop at its beginning
        ending = Path(file).suffix.lower()
        if ending not in SOUNDS:
            raise BadFile(f"{file:.80} is not a WAV or FLAC file", "convert it to mono 16-bit WAV")
        folder = self._uploads / campaign / system
        with self._lock:
            self._check_room(len(content))
            durable.make_folder(self._uploads)
            part = self._uploads / f".{secrets.token_hex(8)}{ending}"
            try:
                part.write_bytes(content)
                try:
                    read_clip(part, lowest_rate_hz=TELEPHONE_RATE_HZ)
                except BadFile as error:
                    raise BadFile(error.what.replace(part.name, file), error.do) from error
                durable.make_folder(folder)
                durable.publish(part, folder / file)
            finally:
                part.unlink(missing_ok=True)

    def take(self, campaign: str, folder: str | None) -> list[str]:
        """Bring sounds into a draft; answers what the experimenter should know.

        Args:
            folder: one of ``folders``; None for what was sent, which is deleted once it was taken in or refused, and
                stays where the disk or the database failed.

        Raises:
            BadFile, BadOption: as ``extend`` does, or there is nothing to be taken.
        """
        with self._listening.store.read() as session:
            draft_of(session, campaign)
        if folder is not None:
            if folder not in self.folders():
                raise BadOption(f"there is no folder {folder!r}", f"put one into {FOLDER}/ of the server's data folder")
            return extend(self._listening, campaign, self._folders / folder)[1]
        sent = self._uploads / campaign
        if not sent.is_dir():
            raise BadFile("no file has come", "choose sounds first")
        with self._lock:
            try:
                warnings = extend(self._listening, campaign, sent)[1]
            except StudioError as error:
                if not isinstance(error, (Unavailable, Closed)):
                    shutil.rmtree(sent, ignore_errors=True)
                raise
            shutil.rmtree(sent, ignore_errors=True)
            return warnings

    def _check_room(self, coming: int) -> None:
        sizes = [path.stat().st_size for path in self._uploads.rglob("*") if path.is_file()]
        if len(sizes) >= MAX_FILES or sum(sizes) + coming > MAX_BYTES:
            raise BadFile(
                f"{len(sizes)} files wait to be taken in", "take them in, or use `studio campaign import` for so many"
            )


def _may_be_taken(path: Path) -> bool:
    try:
        check_name(path.name)
    except BadOption:
        return False
    return not path.is_symlink() and (path.is_dir() or path.suffix.lower() in (".csv", ".json"))
