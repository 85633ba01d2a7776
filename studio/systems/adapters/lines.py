"""Programs that take text while they speak: JSON lines in, JSON lines and samples out (docs/systems.md).

A program that has completed an utterance is reused for later ones, so that its model is loaded once.
"""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

import studio.systems.line_runner
from studio.systems.adapters.programs import environment, kill, last_line, start
from studio.systems.adapters.sockets import while_sending
from studio.systems.base import MAX_MESSAGE_BYTES, CharTimes, LiveAdapter
from studio.systems.settings import LinesSystem, PythonSystem
from studio.systems.sound import HIGHEST_RATE_HZ, LOWEST_RATE_HZ, RATE_HZ, SampleBytes, SystemFailed

_LONGEST_LINE_BYTES = 65_536
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Ready(BaseModel):
    """The first message of a program."""

    type: Literal["ready"]
    rate_hz: Annotated[int, Field(ge=LOWEST_RATE_HZ, le=HIGHEST_RATE_HZ)] = RATE_HZ


class AudioHead(BaseModel):
    """Number of bytes of s16le that follow."""

    type: Literal["audio"]
    bytes: Annotated[int, Field(ge=0, le=MAX_MESSAGE_BYTES)]


class Word(BaseModel):
    """Times of characters [char_start, char_end) of the utterance's text, in seconds from its first sample."""

    type: Literal["word"]
    char_start: Annotated[int, Field(ge=0)]
    char_end: Annotated[int, Field(ge=0)]
    start_s: Seconds
    end_s: Seconds


class End(BaseModel):
    """The utterance is spoken."""

    type: Literal["end"]


class Error(BaseModel):
    """The utterance has failed."""

    type: Literal["error"]
    message: str = ""


_ANSWERS: TypeAdapter[Ready | AudioHead | Word | End | Error] = TypeAdapter(
    Annotated[Ready | AudioHead | Word | End | Error, Field(discriminator="type")]
)


class _Program:
    """A running program, idle or speaking an utterance.

    Attributes:
        rate_hz: 0 until it is ready.
        has_whole_text: the current utterance's text was sent completely.
    """

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self.process, self._name = process, name
        self.errors = asyncio.create_task(last_line(process.stderr))
        self.rate_hz = 0
        self.has_whole_text = False

    async def send(self, **message: str) -> None:
        """Write a line. Raises SystemFailed."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            await self.process.stdin.drain()
        except (ConnectionError, RuntimeError):
            raise await self._ended() from None

    async def answer(self) -> Ready | AudioHead | Word | End | Error:
        """The next line. Raises SystemFailed."""
        assert self.process.stdout is not None
        try:
            line = await self.process.stdout.readline()
        except ValueError:  # longer than the limit
            line = b"a long line\n"
        if not line:
            raise await self._ended()
        try:
            return _ANSWERS.validate_json(line)
        except ValidationError:
            what = f"{self._name} wrote {line[:80]!r}, which is no line of the protocol"
            raise SystemFailed(what, "let it print to standard error; see docs/systems.md") from None

    async def sound(self, count: int) -> bytes:
        """The next ``count`` bytes. Raises SystemFailed."""
        assert self.process.stdout is not None
        try:
            return await self.process.stdout.readexactly(count)
        except asyncio.IncompleteReadError:
            raise await self._ended() from None

    async def _ended(self) -> SystemFailed:
        await asyncio.wait((self.errors,), timeout=1.0)
        error_line = self.errors.result() if self.errors.done() else ""
        return SystemFailed(f"{self._name} ended: {error_line or 'it said nothing'}", "run it by hand to see why")

    async def close(self) -> None:
        """Kill it."""
        await kill(self.process, self.errors)


class LinesAdapter(LiveAdapter):
    """Programs of the line protocol, each of which speaks one utterance at a time."""

    cannot = ("no options", "no revision")

    def __init__(self, system: LinesSystem | PythonSystem) -> None:
        if isinstance(system, PythonSystem):
            python, entry = shlex.split(system.python)
            self._arguments, self._name = [python, str(Path(studio.systems.line_runner.__file__)), entry], entry
        else:
            self._arguments = shlex.split(system.command)
            self._name = self._arguments[0]
        self._idle: list[_Program] = []

    async def converse(self, texts: AsyncIterator[str], speaker: str) -> AsyncIterator[np.ndarray | CharTimes]:
        program = await self._program()
        is_whole = False
        try:
            if not program.rate_hz:
                ready = await program.answer()
                if not isinstance(ready, Ready):
                    raise SystemFailed(f"{self._name} did not begin with ready", "see docs/systems.md")
                program.rate_hz = ready.rate_hz
            async for piece in while_sending(_send(program, texts, speaker), _received(program)):
                yield piece
            is_whole = True
        finally:
            if is_whole:
                self._idle.append(program)
            else:
                await program.close()

    async def _program(self) -> _Program:
        while self._idle:
            program = self._idle.pop()
            if program.process.returncode is None:
                return program
            await program.close()
        process = await start(self._arguments, environment(), has_input=True, limit=_LONGEST_LINE_BYTES)
        return _Program(process, self._name)

    async def close(self) -> None:
        """Kill the idle programs."""
        for program in self._idle:
            await program.close()


async def _send(program: _Program, texts: AsyncIterator[str], speaker: str) -> None:
    program.has_whole_text = False
    await program.send(type="start", speaker=speaker)
    async for text in texts:
        await (program.send(type="text", text=text) if text else program.send(type="flush"))
    program.has_whole_text = True
    await program.send(type="end")


async def _received(program: _Program) -> AsyncIterator[np.ndarray | CharTimes]:
    samples = SampleBytes(program.rate_hz)
    while True:
        match await program.answer():
            case AudioHead() as head:
                pcm = samples.feed(await program.sound(head.bytes))
                if len(pcm):
                    yield pcm
            case Word() as word:
                yield CharTimes(word.char_start, word.char_end, word.start_s, word.end_s, "aligner")
            case Error() as error:
                raise SystemFailed(f"the system says: {error.message:.300}", "see its log")
            case End() if not program.has_whole_text:
                raise SystemFailed("the system ended its speech before the text had ended", "see docs/systems.md")
            case End():
                yield samples.finish()
                return
            case Ready():
                pass
