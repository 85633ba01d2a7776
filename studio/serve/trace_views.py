"""Work on traces beside speech: views, sounds, comparisons, and recomputation by the engine's voices.

It runs in two processes of lower priority (``studio.core.worker``), so that it delays no listener: one opens traces and
packs what pages draw, the other holds the voices that recompute. The server passes paths and bytes, and gets bytes.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from studio.core.clips import wav_bytes
from studio.core.errors import BadFile, BadMessage, Busy
from studio.core.ports import Engine
from studio.core.sound_files import read_mono
from studio.core.speakers import sound_comment
from studio.core.traces.captions import formatted, timed_cues
from studio.core.traces.teacher_forcing import (
    CallerGone,
    NotSupported,
    SupportsAttention,
    SupportsOverlappedVocoding,
    SupportsRecomputer,
    SupportsTeacherForcing,
    TeacherForcingRequest,
    never_stop,
    stored_attention,
)
from studio.core.traces.trace import Trace, open_trace
from studio.core.traces.trace_reader import read_trace_wav
from studio.core.traces.trace_writer import save_trace
from studio.core.worker import WorkerLost, WorkerProcess
from studio.inspection.bundle import pack, pack_attention, pack_prosody
from studio.inspection.comparison.compare import UtteranceComparison, compare, compared_utterance, labels
from studio.inspection.timing import with_aligned_words
from studio.serve.middleware.addresses import address_of
from studio.serve.middleware.turns import Turns
from studio.serve.responses import PRIVATE

MEDIA_TYPE = "application/octet-stream"
MAX_COMPARED_BYTES = 64_000_000  # of the samples of a comparison
MAX_PITCH_S = 660.0  # ten minutes and the rest of a sentence
MAX_WAITING, MAX_WAITING_PER_ADDRESS = 400, 100  # requests that wait for a trace: in total, and of one address
_POLL_S = 0.25  # how often the connection is checked
_IDLE_S = 1800.0  # after which the processes' memory is given back
_PIECE_BYTES = 64 * 1024


def _import_readers() -> None:
    """Import what the calls need; this module is imported already."""
    from studio.library import exchange, library  # noqa: F401


# Started by the calls that pages make before one that needs it: a start takes seconds on a busy machine.
VIEWS = WorkerProcess("trace", _import_readers, idle_s=_IDLE_S)
VOICES = WorkerProcess("voice", idle_s=_IDLE_S)
T = TypeVar("T")
LoadTrace = Callable[[], Trace]  # pickled: a ``partial`` of a function of a module
LoadSound = Callable[[], tuple[np.ndarray, int]]  # as well


async def run_while_connected(request: Request, work: Callable[[Callable[[], bool]], T]) -> T:
    """Run ``work`` in a thread.

    ``work``: takes a function that is False once the client has disconnected, and then raises ``CallerGone`` or
    ``WorkerLost``. Raises CallerGone: the client has disconnected.
    """
    disconnected = threading.Event()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(_POLL_S)
        disconnected.set()

    watching = asyncio.create_task(watch())
    try:
        return await run_in_threadpool(work, lambda: not disconnected.is_set())
    except WorkerLost as error:
        if disconnected.is_set():
            raise CallerGone("the client is gone") from error
        raise
    finally:
        watching.cancel()


class TraceViews:
    """Opens traces and packs them for pages, in the trace process."""

    def __init__(self) -> None:
        self._turns = Turns(MAX_WAITING, MAX_WAITING_PER_ADDRESS)

    async def compute(self, request: Request, function: Callable[..., T], *arguments: Any) -> T:
        """``function(*arguments)`` in the trace process, when it is the address's turn.

        Raises Busy, CallerGone, and what ``function`` raises.
        """
        async with self._turns.turn(address_of(request)):
            if await request.is_disconnected():
                raise CallerGone("the client is gone")
            return await run_while_connected(
                request, lambda is_connected: VIEWS.call(function, *arguments, should_continue=is_connected)
            )

    async def view(self, request: Request, load: LoadTrace) -> Response:
        """What the page draws of a trace. Raises Busy, and what ``load`` raises."""
        return bundle(await self.compute(request, _view, load))

    async def prosody(self, request: Request, load_sound: LoadSound) -> Response:
        """Level and pitch, which the page requests after the picture. Raises Busy, and what ``load_sound`` raises.

        Args:
            load_sound: samples int16 [T] and their rate; reads only the audio of a trace. Pickled.
        """
        return bundle(await self.compute(request, _prosody, load_sound))

    async def comparison(
        self, request: Request, loads: Sequence[LoadTrace], pack_part: Callable[[UtteranceComparison], bytes]
    ) -> Response:
        """A part of a comparison, by a pickled function.

        Raises Busy, BadMessage, and BadFile with the number of the trace that cannot be opened.
        """
        return bundle(await self.compute(request, _comparison, loads, pack_part, MAX_COMPARED_BYTES))


class Recomputation:
    """Runs the engine's voices again over traces and recordings, one at a time.

    In the voice process, where the engine can be opened there; else in a thread.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._running = threading.Lock()

    async def run(self, request: Request, work: Callable[..., bytes], *arguments: Any) -> bytes:
        """``work(engine, should_continue, *arguments)``. Raises Busy, CallerGone, and what ``work`` raises."""
        return await run_while_connected(request, lambda is_connected: self._run(is_connected, work, arguments))

    async def attention(self, request: Request, load: LoadTrace) -> Response:
        """Attention and likelihood of each frame of a trace, packed."""
        return bundle(await self.run(request, _attention, load))

    def _run(self, is_connected: Callable[[], bool], work: Callable[..., bytes], arguments: tuple[Any, ...]) -> bytes:
        if not self._running.acquire(blocking=False):
            raise Busy("another recording or utterance is being recomputed", "try again in a moment")
        try:
            if not isinstance(self.engine, SupportsRecomputer):
                return work(self.engine, is_connected, *arguments)
            recomputer = self.engine.recomputer()
            return VOICES.call(work, recomputer, never_stop, *arguments, should_continue=is_connected)
        finally:
            self._running.release()


def bundle(content: bytes) -> Response:
    """A binary response for the page's scripts, which is sent as fast as the client reads."""
    headers = PRIVATE | {"Content-Length": str(len(content))}
    return StreamingResponse(pieces(content), media_type=MEDIA_TYPE, headers=headers)


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    """A large body in pieces, between which the event loop serves others."""
    for at in range(0, len(content), _PIECE_BYTES):
        yield content[at : at + _PIECE_BYTES]
        await asyncio.sleep(0)


@contextmanager
def uploaded_file() -> Generator[None]:
    """Turns the BadFile (404) of an uploaded file into BadMessage (422)."""
    try:
        yield
    except BadFile as error:
        raise BadMessage(error.what, error.do) from error


# --- in the processes --------------------------------------------------------------------------------


def stored_sound(path: Path) -> tuple[np.ndarray, int]:
    """Samples int16 [T] of a trace, and their rate. Raises BadFile."""
    return read_mono(read_trace_wav(path))


def sound_of(load: LoadTrace) -> tuple[np.ndarray, int]:
    """Samples int16 [T] of a loaded trace, and their rate."""
    trace = load()
    return trace.pcm, trace.rate_hz


def wav_file(path: Path, as_heard: bool) -> bytes:
    """A trace's audio as a WAV file; ``as_heard`` adds the waits as silence. Raises BadFile."""
    if not as_heard:
        return read_trace_wav(path)
    trace = open_trace(path)
    return wav_bytes(trace.pcm_with_waits(), trace.rate_hz, sound_comment(trace.meta))


def captions_file(path: Path, suffix: str, as_heard: bool) -> bytes:
    """A trace's captions, in the time of its sound as ``wav_file``. Raises BadFile, also where no word has a time."""
    trace = with_aligned_words(open_trace(path))
    return formatted(timed_cues(trace, as_heard=as_heard), suffix).encode("utf-8")


def _view(load: LoadTrace) -> bytes:
    return pack(with_aligned_words(load()))


def _prosody(load_sound: LoadSound) -> bytes:
    return pack_prosody(*load_sound(), max_s=MAX_PITCH_S)


def _comparison(loads: Sequence[LoadTrace], pack_part: Callable[[UtteranceComparison], bytes], max_bytes: int) -> bytes:
    traces: list[Trace] = []
    for number, load in enumerate(loads, 1):
        try:
            traces.append(with_aligned_words(load()))
        except BadFile as error:
            raise BadFile(f"number {number} of {len(loads)} cannot be opened: {error.what}", error.do) from error
        if sum(one.pcm.nbytes for one in traces) > max_bytes:
            raise BadMessage("together they are too long to be compared here", "studio compare has no such limit")
    utterances = [compared_utterance(*one) for one in zip(labels(traces), traces, strict=True)]
    return pack_part(compare(utterances))


def _attention(engine: Any, should_continue: Callable[[], bool], load: LoadTrace) -> bytes:
    trace = load()
    result = stored_attention(trace)
    if result is None:
        if not isinstance(engine, SupportsAttention):
            raise NotSupported("this server's engine cannot compute the attention of a net", "`studio inspect` can")
        result = engine.compute_attention(trace, should_continue)
    return pack_attention(result, trace.p_eos)


def overlapped(engine: Any, should_continue: Callable[[], bool], load: LoadTrace, path: Path) -> bytes:
    """Vocode a trace again, overlapped, into a new trace; returns nothing."""
    trace = load()
    if not isinstance(engine, SupportsOverlappedVocoding):
        raise NotSupported("this server's engine has no frames to vocode", "`studio compare --overlapped` may")
    save_trace(engine.vocode_overlapped(trace, should_continue), path)
    return b""


def forced(
    engine: Any,
    should_continue: Callable[[], bool],
    read: Callable[[], TeacherForcingRequest],
    voice: str,
    path: Path,
) -> bytes:
    """Teacher-force a recording into a new trace; returns nothing."""
    if not isinstance(engine, SupportsTeacherForcing):
        raise NotSupported("this server's engine takes no recordings", "`studio force` does")
    with uploaded_file():
        trace = engine.teacher_force(replace(read(), voice=voice), should_continue)
    save_trace(trace, path)
    return b""
