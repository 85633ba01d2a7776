"""A program as a system: one process for each cut of the text."""

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import AsyncIterator
from typing import Any

from studio.core.checks import escape_unprintable
from studio.systems.base import CutAdapter
from studio.systems.settings import CommandSystem
from studio.systems.sound import SystemFailed

_PLACEHOLDER = "{text}"
_BLOCK_BYTES = 16_384
_MAX_ERROR_BYTES = 4_000


class CommandAdapter(CutAdapter):
    """Runs the command without a shell, in a process group of its own that is killed when the utterance is over."""

    def __init__(self, system: CommandSystem) -> None:
        self._arguments = shlex.split(system.command)
        self.rate_hz = system.sample_rate_hz

    async def fetch(self, text: str, speaker: str) -> AsyncIterator[bytes]:
        """Blocks of the program's standard output. Raises SystemFailed."""
        text = " ".join(text.replace("\0", " ").split())
        takes_argument = any(_PLACEHOLDER in one for one in self._arguments)
        try:
            process = await asyncio.create_subprocess_exec(
                *(_filled(one, text, speaker) for one in self._arguments),
                stdin=asyncio.subprocess.DEVNULL if takes_argument else asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                env=_environment(),
            )
        except OSError as error:
            why = f"{self._arguments[0]} cannot be started: {error.strerror or error}"
            raise SystemFailed(why, "install it, or give its whole path in the system's command") from error
        feeding = asyncio.create_task(_feed(process, "" if takes_argument else text + "\n"))
        errors = asyncio.create_task(_last_bytes(process.stderr))
        try:
            assert process.stdout is not None
            while block := await process.stdout.read(_BLOCK_BYTES):
                yield block
            status = await process.wait()
            if status:
                said = escape_unprintable((await errors).decode("utf-8", "replace").strip().rpartition("\n")[2])[:300]
                ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
                raise SystemFailed(
                    f"{self._arguments[0]} {ended}: {said or 'it said nothing'}", "run it by hand to see why"
                )
        finally:
            _kill(process)
            for task in (feeding, errors):
                task.cancel()
            process._transport.close()  # pyright: ignore[reportAttributeAccessIssue] - sound that nobody reads keeps it open
            await asyncio.wait((asyncio.ensure_future(process.wait()), feeding, errors), timeout=1.0)


def _filled(argument: str, text: str, speaker: str) -> str:
    """An argument with the text in it: never one that begins with a hyphen, which would be an option."""
    if argument == _PLACEHOLDER and text.startswith("-"):
        return f" {text}"
    return argument.replace("{voice}", speaker).replace(_PLACEHOLDER, text)


def _environment() -> dict[str, str]:
    """The environment without the studio's own settings, which hold its key."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STUDIO_")}


async def _feed(process: asyncio.subprocess.Process, text: str) -> None:
    if (stdin := process.stdin) is None:
        return
    with contextlib.suppress(ConnectionError):  # the program may not read all of it
        stdin.write(text.encode("utf-8", "replace"))
        await stdin.drain()
    stdin.close()


async def _last_bytes(stream: Any) -> bytes:
    """The end of a stream, which is read to its end."""
    last = b""
    while block := await stream.read(_MAX_ERROR_BYTES):
        last = (last + block)[-_MAX_ERROR_BYTES:]
    return last


def _kill(process: asyncio.subprocess.Process) -> None:
    """End the program and whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
