"""A program as a system: one process for each cut of the text."""

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator

from studio.systems.adapters.processes import environment, kill, last_line, start
from studio.systems.base import CutAdapter
from studio.systems.settings import CommandSystem
from studio.systems.sound import SystemFailed

_PLACEHOLDER = "{text}"
_BLOCK_BYTES = 16_384


class CommandAdapter(CutAdapter):
    """Runs the command without a shell, in a separate process group that is killed when the utterance is over."""

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
            while block := await process.stdout.read(_BLOCK_BYTES):
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
