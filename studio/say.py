"""Speak text from a terminal as it arrives: at once, at a typist's pace, from recorded arrivals, or from a pipe."""

import codecs
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from studio.core.clips import wav_bytes, write_wav
from studio.core.errors import BadFile, BadOption, BadText, Full, StudioError
from studio.core.events import Audio, Event, Failed, Text, Unsupported
from studio.core.files import read_bounded
from studio.core.ports import Engine, SpeakRequest, Utterance
from studio.core.time import Clock
from studio.core.traces.trace import Trace, collect
from studio.core.traces.trace_writer import TraceWriter

MAX_ARRIVALS_BYTES = 16_000_000
MAX_ARRIVAL_MS = 86_400_000.0  # a day
_CHARACTERS_PER_WORD = 6  # five letters and a space: how typing speed is counted
_PUSHED_CHARS = 65_536
STANDARD_OUTPUT = Path("-")
_FULL_MS = 250.0  # until a text that was too much is tried again


@dataclass(frozen=True)
class Arrival:
    """Text that arrives ``t_ms`` after the start; None comes when it comes (a pipe)."""

    t_ms: float | None
    text: str


@dataclass(frozen=True)
class Spoken:
    """What was made, and what broke it off before its end."""

    trace: Trace
    broken_by: BaseException | None = None

    def whole(self) -> Trace:
        """The trace; raises what broke it off, if anything did."""
        if self.broken_by:
            raise self.broken_by
        return self.trace


def at_once(text: str) -> Iterator[Arrival]:
    """The whole text at the start. Raises BadText when there is none."""
    if not text.strip():
        raise BadText("the text is empty", 'give some: studio say "Good morning." -o out.wav')
    yield Arrival(0.0, text)


def typed(text: str, words_per_minute: float) -> Iterator[Arrival]:
    """The text a character at a time, six characters a word."""
    if not 1 <= words_per_minute <= 2000:
        raise BadOption(f"nobody types {words_per_minute} words a minute", "give 1 to 2000")
    for i, arrival in enumerate(text):
        yield Arrival(i * 60_000.0 / (words_per_minute * _CHARACTERS_PER_WORD), arrival)


def recorded(path: Path) -> list[Arrival]:
    """Arrivals of a file of lines ``{"t_ms": 0, "text": "Hel"}``. Raises BadFile naming the line that is wrong."""
    shape = 'every line must be {"t_ms": number, "text": "..."}, times from 0, never going back, at most a day'
    try:
        lines = read_bounded(path, MAX_ARRIVALS_BYTES).decode("utf-8").splitlines()
    except OSError as error:
        raise BadFile(
            f"the arrivals {path} cannot be read: {error.strerror}", "give a file of lines with --arrivals"
        ) from error
    except UnicodeDecodeError as error:
        raise BadFile(f"the arrivals {path} are no text in UTF-8", shape) from error
    arrivals: list[Arrival] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value: Any = json.loads(line)
            t_ms, text = value["t_ms"], value["text"]
        except (ValueError, TypeError, KeyError) as error:
            raise BadFile(f"line {number} of {path} is not an arrival", shape) from error
        earlier = arrivals[-1].t_ms if arrivals else 0.0
        numeric = isinstance(t_ms, int | float) and not isinstance(t_ms, bool)
        if not numeric or not isinstance(text, str) or not (earlier or 0.0) <= t_ms <= MAX_ARRIVAL_MS:
            raise BadFile(f"line {number} of {path} is not an arrival", shape)
        arrivals.append(Arrival(float(t_ms), text))
    if not any(a.text.strip() for a in arrivals):
        raise BadText(f"{path} holds no text", shape)
    return arrivals


def piped(descriptor: int) -> Iterator[Arrival]:
    """Text of a pipe as it comes, decoded across its chunks. Raises BadText where it is not UTF-8."""
    decoder, read_bytes = codecs.getincrementaldecoder("utf-8")(), 0
    is_over = False
    while not is_over:
        chunk = os.read(descriptor, _PUSHED_CHARS)
        is_over = not chunk
        try:
            text = decoder.decode(chunk, final=is_over)
        except UnicodeDecodeError as error:
            raise BadText(
                f"what comes through the pipe is no text in UTF-8 near byte {read_bytes + error.start:,}",
                "pipe text, or convert it first: iconv -f latin1 -t utf-8",
            ) from error
        read_bytes += len(chunk)
        if text:
            yield Arrival(None, text)


def speak(
    engine: Engine,
    request: SpeakRequest,
    arrivals: Iterable[Arrival],
    clock: Clock,
    trace_folder: Path | None = None,
    told: Callable[[float], None] | None = None,
) -> Spoken:
    """Speak arrivals at their times, and write the trace live where a folder is given.

    What was made stays when the text breaks off, the voice fails, the trace's disk is full, or somebody presses Ctrl+C.

    Args:
        told: hears how many seconds of sound there are, after each piece.

    Raises:
        BadFile: no trace can be written there.
    """
    utterance = engine.open(request)
    about = utterance.provenance
    try:
        writer = TraceWriter(trace_folder, about) if trace_folder else None
    except OSError as error:
        raise _unkept(trace_folder, error) from error
    broken: list[BaseException] = []
    sender = threading.Thread(target=_send, args=(utterance, arrivals, clock, broken), daemon=True)
    sender.start()

    def noted(event: Event) -> None:
        nonlocal writer
        try:
            if writer:
                writer.write(event)
        except OSError as error:
            broken.append(_unkept(trace_folder, error))
            utterance.cancel()
            if writer:
                writer.drop()
            writer = None
        if told and isinstance(event, Audio):
            told((event.sample + len(event.pcm)) / utterance.card.sample_rate_hz)

    def interrupted() -> None:
        broken.append(KeyboardInterrupt())
        utterance.cancel()

    def watched() -> Iterator[Event]:
        for event in utterance.events():
            noted(event)
            yield event

    with _ended_softly(interrupted):
        trace = collect(about, watched())
    sender.join(timeout=1.0)
    try:
        if writer:
            writer.close()
    except OSError as error:
        broken.append(_unkept(trace_folder, error))
    last = trace.events[-1]
    if not broken and isinstance(last, Failed):
        broken.append(StudioError(last.message))
    return Spoken(trace, broken[0] if broken else None)


def _unkept(folder: Path | None, error: OSError) -> BadFile:
    why = error.strerror or error
    return BadFile(f"the trace {folder} cannot be written: {why}", "give another place with --trace")


@contextmanager
def _ended_softly(end: Callable[[], None]) -> Generator[None]:
    """Meanwhile the first Ctrl+C or SIGTERM calls ``end`` on a thread of its own; a second does what it always does.

    As an exception it would come wherever the main thread happens to be: between the trace and the sound, too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(number: int, frame: object) -> None:
        restore()
        threading.Thread(target=end, daemon=True).start()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, first) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        restore()


def _send(utterance: Utterance, arrivals: Iterable[Arrival], clock: Clock, broken: list[BaseException]) -> None:
    start = clock.now_ms()
    try:
        some = False
        for arrival in arrivals:
            if arrival.t_ms is not None:
                clock.sleep_ms(start + arrival.t_ms - clock.now_ms())
            for at in range(0, len(arrival.text), _PUSHED_CHARS):
                _push(utterance, arrival.text[at : at + _PUSHED_CHARS], clock)
            some = some or bool(arrival.text.strip())
        if not some:
            raise BadText("no text came", "pipe some into it")
        utterance.end()
    except Exception as error:  # noqa: BLE001 - whatever it is, nobody else would end the utterance
        broken.append(error)
        utterance.cancel()


def _push(utterance: Utterance, text: str, clock: Clock) -> None:
    """Push, as soon as there is room: a pipe is read no faster than the voice speaks."""
    while True:
        try:
            return utterance.push_text(text)
        except Full:
            clock.sleep_ms(_FULL_MS)


@contextmanager
def progress() -> Generator[Callable[[float], None]]:
    """A line on a terminal that says how many seconds have been spoken; nothing elsewhere."""
    with Console(stderr=True).status("waiting for text") as status:
        yield lambda seconds: status.update(f"{seconds:.1f} s spoken")


def check_place(path: Path | None, option: str, suffix: str) -> None:
    """Whether a file can be written there, before anything is spoken. Raises BadFile."""
    if path is None or (path.exists() and not path.is_file() and not path.is_dir()):  # a device or a pipe knows best
        return
    problem = ""
    if path.is_dir():
        problem = "it is a folder"
    elif not path.parent.is_dir():
        problem = f"there is no folder {path.parent}"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        problem = "you may not write there"
    elif path.suffix.lower() != suffix:
        problem = f"it does not end in {suffix}"
    if problem:
        raise BadFile(f"{path} cannot be written: {problem}", f"give a file like {option} out{suffix}")


def unspoken(trace: Trace) -> list[str]:
    """What the voice could not say, each with the reason. Raises BadText when nothing was left to say."""
    text = "".join(event.text for event in trace.events if isinstance(event, Text))
    left_out = [event for event in trace.events if isinstance(event, Unsupported)]
    told = [f"{text[event.char_start : event.char_end].strip()[:40]!r}: {event.why}" for event in left_out]
    if not len(trace.pcm):
        why = f": {', '.join(told[:5])}" if told else ""
        raise BadText(f"nothing of the text can be spoken{why}", "give words in Latin letters")
    return told


def check_output() -> None:
    """Whether a WAV may go to standard output. Raises BadFile where that is a terminal."""
    if sys.stdout.isatty():
        raise BadFile("a WAV is no text, and standard output is a terminal", 'pipe it: studio say "..." -o - | aplay')


def save(trace: Trace, wav: Path, *, as_heard: bool) -> float:
    """Write the sound of a trace; gives its length in seconds. Raises BadFile when the place cannot be written.

    Args:
        wav: ``STANDARD_OUTPUT`` for that.
    """
    pcm = trace.as_heard() if as_heard else trace.pcm
    if wav == STANDARD_OUTPUT:
        sys.stdout.buffer.write(wav_bytes(pcm, trace.rate_hz))
        sys.stdout.buffer.flush()
        return len(pcm) / trace.rate_hz
    try:
        write_wav(wav, pcm, trace.rate_hz)
    except OSError as error:
        raise BadFile(f"{wav} cannot be written: {error.strerror}", "give another place with -o") from error
    return len(pcm) / trace.rate_hz


def loudspeaker() -> Any:
    """What plays sound on this machine. Raises BadOption where there is none, with what it needs."""
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        raise BadOption(
            "there is no -o, and sound cannot be played here",
            "name a file with -o, or install sounddevice (.venv/bin/pip install sounddevice) and PortAudio "
            "(on Debian: apt install libportaudio2)",
        ) from error
    return sounddevice


def play(trace: Trace, *, as_heard: bool) -> None:
    """Play a trace's sound on this machine's loudspeaker. Raises BadOption without the desktop group."""
    sounddevice = loudspeaker()
    try:
        sounddevice.play(trace.as_heard() if as_heard else trace.pcm, trace.rate_hz, blocking=True)
    except sounddevice.PortAudioError as error:
        raise BadOption(f"sound cannot be played here: {error}", "name a file with -o") from error
