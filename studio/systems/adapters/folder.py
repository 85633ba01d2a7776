"""A folder of sounds as a system: ``NAME.wav`` speaks the text of ``NAME.txt``."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from studio.core.files import decode_text, read_bounded
from studio.systems.base import CutAdapter
from studio.systems.settings import FolderSystem
from studio.systems.sound import SystemFailed

_MAX_FILES = 10_000
_MAX_TEXT_BYTES, _MAX_SOUND_BYTES = 65_536, 400_000_000
_BLOCK_BYTES = 65_536


class FolderAdapter(CutAdapter):
    """Finds the sound of a whole text; white space and case do not matter."""

    cannot = ("nothing but the texts in its folder", "no text while it speaks", "no word times: they are estimates")

    def __init__(self, system: FolderSystem) -> None:
        self._folder = Path(system.folder).expanduser()
        self.rate_hz = None

    async def fetch(self, text: str, speaker: str) -> AsyncIterator[bytes]:
        """The bytes of a WAV. Raises SystemFailed: no file has this text, or it cannot be read."""
        data = await asyncio.to_thread(self._read, text)
        for at in range(0, len(data), _BLOCK_BYTES):
            yield data[at : at + _BLOCK_BYTES]

    def _read(self, text: str) -> bytes:
        try:
            for path in sorted(self._folder.glob("*.txt"))[:_MAX_FILES]:
                if _plain(decode_text(read_bounded(path, _MAX_TEXT_BYTES), path.name)) == _plain(text):
                    return read_bounded(path.with_suffix(".wav"), _MAX_SOUND_BYTES)
        except OSError as error:
            raise SystemFailed(f"a sound cannot be read: {error.strerror}", "see its folder") from error
        raise SystemFailed(f"no sound speaks {text.strip()[:60]!r}", "its folder needs NAME.txt beside NAME.wav")


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
