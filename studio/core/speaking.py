"""Speak text as it arrives, through any engine, into a trace."""

import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from studio.core.clips import write_wav
from studio.core.errors import BadFile, BadOption, BadText, Closed, Full, StudioError, bad_file
from studio.core.events import Audio, Event, Failed
from studio.core.ports import Engine, SpeakRequest, Utterance
from studio.core.speakers import sound_comment
from studio.core.time import Clock
from studio.core.traces.trace import Trace, collect_trace
from studio.core.traces.trace_writer import TraceWriter

_CHARACTERS_PER_WORD = 6  # five letters and a space, as typing speed is counted
PUSH_CHARS = 65_536
_RETRY_MS = 250.0  # after Full


@dataclass(frozen=True)
class Arrival:
    """Text that arrives ``t_ms`` after the start; None for text that is pushed as soon as it is read (a pipe)."""

    t_ms: float | None
    text: str


@dataclass(frozen=True)
class SpeakResult:
    """The trace of the speech, and the error that ended it early, if any."""

    trace: Trace
    error: BaseException | None = None

    def unwrap(self) -> Trace:
        """The trace; raises the error if there is one."""
        if self.error:
            raise self.error
        return self.trace


def at_once(text: str) -> Iterator[Arrival]:
    """The whole text at the start. Raises BadText when it is empty."""
    if not text.strip():
        raise BadText("the text is empty", 'give some: studio say "Good morning." -o out.wav')
    yield Arrival(0.0, text)


def typed(text: str, words_per_minute: float) -> Iterator[Arrival]:
    """The text a character at a time, six characters a word."""
    if not 1 <= words_per_minute <= 2000:
        raise BadOption(f"the typing speed is {words_per_minute} words a minute", "give 1 to 2000")
    for i, char in enumerate(text):
        yield Arrival(i * 60_000.0 / (words_per_minute * _CHARACTERS_PER_WORD), char)


def speak(
    engine: Engine,
    request: SpeakRequest,
    arrivals: Iterable[Arrival],
    clock: Clock,
    trace_folder: Path | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> SpeakResult:
    """Speak arrivals at their times; with a folder, also write the trace live.

    The trace so far is returned when the text breaks off, the voice fails, the trace's disk is full, or on Ctrl+C.

    Args:
        on_progress: called with the seconds of sound so far, after each audio event.

    Raises:
        BadFile: the trace cannot be written.
    """
    utterance = engine.open(request)
    meta = utterance.provenance
    try:
        writer = TraceWriter(trace_folder, meta) if trace_folder else None
    except OSError as error:
        raise _unwritable(trace_folder, error) from error
    errors: list[BaseException] = []
    sender = threading.Thread(target=_send, args=(utterance, arrivals, clock, errors), daemon=True)
    sender.start()

    def record(event: Event) -> None:
        nonlocal writer
        try:
            if writer:
                writer.write(event)
        except OSError as error:
            errors.append(_unwritable(trace_folder, error))
            utterance.cancel()
            if writer:
                writer.drop()
            writer = None
        if on_progress and isinstance(event, Audio):
            on_progress((event.sample + len(event.pcm)) / utterance.card.sample_rate_hz)

    def interrupt() -> None:
        errors.append(KeyboardInterrupt())
        utterance.cancel()

    def recorded_events() -> Iterator[Event]:
        for event in utterance.events():
            record(event)
            yield event

    with _on_first_signal(interrupt):
        trace = collect_trace(meta, recorded_events())
    sender.join(timeout=1.0)
    try:
        if writer:
            writer.close()
    except OSError as error:
        errors.append(_unwritable(trace_folder, error))
    last = trace.events[-1]
    if isinstance(last, Failed):
        errors = [error for error in errors if not isinstance(error, Closed)]  # text that came after it had failed
    if not errors and isinstance(last, Failed):
        errors.append(StudioError(last.message))
    return SpeakResult(trace, errors[0] if errors else None)


def speak_once(engine: Engine, request: SpeakRequest, text: str) -> Trace:
    """Speak a complete text, without a clock and without a file."""
    utterance = engine.open(request)
    with suppress(Closed):  # it has failed already
        utterance.push_text(text)
        utterance.end()
    return collect_trace(utterance.provenance, utterance.events())


def save_audio(wav: Path, pcm: np.ndarray, rate_hz: int, meta: Mapping[str, Any] | None = None) -> None:
    """Write samples int16 [T] as a WAV file. Raises BadFile if that fails.

    ``meta``: of their trace; the file then says that it is synthetic speech (``sound_comment``).
    """
    with bad_file(f"{wav} cannot be written", "give another place with -o"):
        write_wav(wav, pcm, rate_hz, sound_comment(meta or {}))


def _unwritable(folder: Path | None, error: OSError) -> BadFile:
    why = error.strerror or error
    return BadFile(f"the trace {folder} cannot be written: {why}", "give another place with --trace")


@contextmanager
def _on_first_signal(callback: Callable[[], None]) -> Generator[None]:
    """Call ``callback`` in a separate thread at the first Ctrl+C or SIGTERM; a second one has its usual effect.

    KeyboardInterrupt could be raised anywhere in the main thread, also between writing the trace and the sound.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(number: int, frame: object) -> None:
        restore()
        threading.Thread(target=callback, daemon=True).start()

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    previous = {number: signal.signal(number, first) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        restore()


def _send(utterance: Utterance, arrivals: Iterable[Arrival], clock: Clock, errors: list[BaseException]) -> None:
    start = clock.now_ms()
    try:
        has_text = False
        for arrival in arrivals:
            if arrival.t_ms is not None:
                clock.sleep_ms(start + arrival.t_ms - clock.now_ms())
            for at in range(0, len(arrival.text), PUSH_CHARS):
                _push(utterance, arrival.text[at : at + PUSH_CHARS], clock)
            has_text = has_text or bool(arrival.text.strip())
        if not has_text:
            raise BadText("no text came", "pipe some into it")
        utterance.end()
    except Exception as error:  # noqa: BLE001 - nothing else would end the utterance
        errors.append(error)
        utterance.cancel()


def _push(utterance: Utterance, text: str, clock: Clock) -> None:
    """Push as soon as there is room, so that a pipe is read no faster than the voice speaks."""
    while True:
        try:
            return utterance.push_text(text)
        except Full:
            clock.sleep_ms(_RETRY_MS)
