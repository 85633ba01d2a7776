"""Opening what is to be inspected: a trace as file, folder or bytes, or a recording with its text."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from studio.core import events as ev
from studio.core.clips import read_wav
from studio.core.errors import BadFile, BadOption, BadText
from studio.core.files import read_bounded
from studio.core.traces.trace import Trace, open_trace
from studio.core.traces.trace_reader import MAX_BYTES, MAX_LAYER_BYTES, read_audio, read_trace
from studio.measure.timing.word_timing import SpokenSpan

MAX_TEXT_CHARS = 100_000
_RIFF = b"RIFF"


def open_file(path: Path, text: str | None = None) -> Trace:
    """A trace (zip or folder), or a WAV file with its text.

    Args:
        text: what a recording says; a trace knows that itself.

    Raises:
        BadFile: it is absent, damaged, or neither.
        BadOption: a text was given for a trace.
        BadText: it is longer than 100,000 characters.
    """
    if path.is_file() and _begins_with_riff(path):
        try:
            return recording(*read_wav(read_bounded(path, MAX_BYTES["audio.wav"])), text or "")
        except OSError as error:
            raise BadFile(f"{path} cannot be read: {error.strerror}", "give a WAV of at most 512 MB") from error
    if text:
        raise BadOption(f"{path.name} is no WAV, so it takes no text", "give a WAV; a trace holds its own text")
    return open_trace(path, str(path))


@dataclass(frozen=True)
class Limits:
    """Bytes that the parts of a trace may unpack to, and each layer; and events, None for as many as fit."""

    parts: Mapping[str, int]
    layer: int
    events: int | None = None


def open_bytes(data: bytes, text: str = "", limits: Limits | None = None) -> Trace:
    """What somebody sent: a trace's zip or a WAV.

    Args:
        limits: a trace file's own where None.

    Raises:
        BadFile: it is neither, or damaged, or unpacks to more.
        BadText: the text is longer than 100,000 characters.
    """
    if data.startswith(_RIFF):
        return recording(*read_wav(data), text)
    chosen = limits or Limits(MAX_BYTES, MAX_LAYER_BYTES)
    return Trace(*read_trace(io.BytesIO(data), chosen.parts, chosen.layer, chosen.events))


def sound_of_bytes(data: bytes, most_bytes: int) -> tuple[np.ndarray, int]:
    """The samples int16 [T] and the rate of what somebody sent, a trace's zip or a WAV; nothing else of it is read.

    Args:
        most_bytes: that a trace's sound may unpack to.

    Raises:
        BadFile: it is neither, or damaged, or unpacks to more.
    """
    return read_wav(data if data.startswith(_RIFF) else read_audio(io.BytesIO(data), most_bytes))


def recording(pcm: np.ndarray, rate_hz: int, text: str) -> Trace:
    """A recording as a trace whose only clock is its own; where its words lie is not known.

    Args:
        pcm: int16 [T].
        text: what it says; words are what white space parts.
    """
    if len(text) > MAX_TEXT_CHARS:
        raise BadText(f"the text has {len(text):,} characters", f"give at most {MAX_TEXT_CHARS:,}")
    if not len(pcm):
        raise BadFile("the WAV holds no samples", "give one that does")
    events: list[ev.Event] = [ev.Text(char_start=0, text=text)] if text else []
    at = 0
    for i, word in enumerate(text.split()):
        start = text.index(word, at)
        at = start + len(word)
        events.append(ev.Committed(i=i, word=word, written=i, char_start=start, char_end=at))
    return Trace({"rate_hz": rate_hz, "source": "recording"}, events, pcm)


def placed(trace: Trace, words: Sequence[SpokenSpan]) -> Trace:
    """A recording whose words lie where a reference says, as an aligner's; its text is the reference's.

    Raises:
        BadFile: a word ends beyond the recording.
    """
    length_s = len(trace.pcm) / trace.rate_hz
    beyond = next((one for one in words if one.end_s > length_s + 0.1), None)
    if beyond is not None:
        raise BadFile(
            f"“{beyond.text}” ends at {beyond.end_s:.2f} s of {length_s:.2f} s", "give the TextGrid of this recording"
        )
    found = recording(trace.pcm, trace.rate_hz, " ".join(one.text for one in words))
    for i, one in enumerate(words):
        start, end = (min(round(at_s * trace.rate_hz), len(trace.pcm)) for at_s in (one.start_s, one.end_s))
        found.events.append(ev.WordStart(i=i, sample=start, source="aligner"))
        found.events.append(ev.WordEnd(i=i, sample=end, source="aligner"))
    return found


def _begins_with_riff(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == _RIFF
