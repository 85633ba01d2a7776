"""Programs without a shell, each in a separate process group that is killed with it; and folders of sounds."""

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from studio.core.checks import escape_unprintable
from studio.core.files import decode_text, read_bounded
from studio.core.via import via_variables
from studio.systems.base import CutAdapter
from studio.systems.settings import CommandSystem, FolderSystem
from studio.systems.sound import SystemFailed

_PLACEHOLDER = "{text}"
_OUTPUT_BYTES, _BLOCK_BYTES = 16_384, 65_536
_MAX_FILES = 10_000
_MAX_TEXT_BYTES, _MAX_SOUND_BYTES = 65_536, 400_000_000
_MAX_ERROR_BYTES = 4_000


def environment() -> dict[str, str]:
    """The environment without the studio's own settings, which include its key."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STUDIO_")} | {**via_variables()}


async def start(
    arguments: Sequence[str], env: Mapping[str, str], *, has_input: bool, limit: int = 65_536
) -> asyncio.subprocess.Process:
    """Start a program. Raises SystemFailed: it cannot be started.

    Args:
        limit: longest line of its output, bytes.
    """
    try:
        return await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE if has_input else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=env,
            limit=limit,
        )
    except OSError as error:
        why = f"{arguments[0]} cannot be started: {error.strerror or error}"
        raise SystemFailed(why, "install it, or give its whole path in the system's command") from error


async def last_line(stream: Any) -> str:
    """Read a stream to its end; its last line, at most 300 characters, with unprintable ones escaped."""
    last = b""
    while block := await stream.read(_MAX_ERROR_BYTES):
        last = (last + block)[-_MAX_ERROR_BYTES:]
    return escape_unprintable(last.decode("utf-8", "replace").strip().rpartition("\n")[2])[:300]


async def kill(process: asyncio.subprocess.Process, *tasks: asyncio.Task[Any]) -> None:
    """Kill a program and its children, and cancel the tasks that serve it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for task in tasks:
        task.cancel()
    process._transport.close()  # pyright: ignore[reportAttributeAccessIssue] - unread output keeps it open
    await asyncio.wait((asyncio.ensure_future(process.wait()), *tasks), timeout=1.0)


class CommandAdapter(CutAdapter):
    """Runs the command for each cut of the text, and kills it when the utterance is over."""

    def __init__(self, system: CommandSystem) -> None:
        self._arguments = shlex.split(system.command)
        self.rate_hz = system.sample_rate_hz

    async def fetch(self, text: str, speaker: str) -> AsyncIterator[bytes]:
        """Blocks of the program's standard output. Raises SystemFailed."""
        text = " ".join(text.replace("\0", " ").split())
        takes_argument = any(_PLACEHOLDER in one for one in self._arguments)
        arguments = [_filled(one, text, speaker) for one in self._arguments]
        process = await start(arguments, environment(), has_input=not takes_argument)
        feeding = asyncio.create_task(_feed(process, "" if takes_argument else text + "\n"))
        errors = asyncio.create_task(last_line(process.stderr))
        try:
            assert process.stdout is not None
            while block := await process.stdout.read(_OUTPUT_BYTES):
                yield block
            status = await process.wait()
            if status:
                error_line = await errors
                ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
                raise SystemFailed(
                    f"{self._arguments[0]} {ended}: {error_line or 'it said nothing'}",
                    "run it by hand to see why",
                )
        finally:
            await kill(process, feeding, errors)


def _filled(argument: str, text: str, speaker: str) -> str:
    """An argument with the text in it; a leading hyphen gets a space before it, so that it is not read as an option."""
    if argument == _PLACEHOLDER and text.startswith("-"):
        return f" {text}"
    return argument.replace("{voice}", speaker).replace(_PLACEHOLDER, text)


async def _feed(process: asyncio.subprocess.Process, text: str) -> None:
    if (stdin := process.stdin) is None:
        return
    with contextlib.suppress(ConnectionError):  # the program may not read all of it
        stdin.write(text.encode("utf-8", "replace"))
        await stdin.drain()
    stdin.close()


class FolderAdapter(CutAdapter):
    """``NAME.wav`` of a folder speaks the text of ``NAME.txt``; white space and case do not matter."""

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
