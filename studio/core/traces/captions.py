"""Captions of an utterance: SRT and WebVTT, in the words as written."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path

from studio.core.errors import BadFile
from studio.core.traces.trace import Trace, sent_text

# Two lines of a subtitle, and the longest time that it stays, as broadcasters recommend.
MAX_LINE_CHARS, MAX_LINES, MAX_CUE_S = 42, 2, 7.0
PAUSE_S = 0.7  # a longer silence ends a cue
SUFFIXES = (".srt", ".vtt")
_SENTENCE_ENDS = (".", "!", "?", "…")


@dataclass(frozen=True)
class Cue:
    """A caption: lines of text shown from ``start_s`` to ``end_s``."""

    start_s: float
    end_s: float
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Token:
    text: str
    start_s: float
    end_s: float
    is_last: bool  # of its sentence


def cues(trace: Trace, *, as_heard: bool = False) -> list[Cue]:
    """The captions of an utterance.

    A cue ends with a sentence, before a silence of ``PAUSE_S``, and where its lines or its time are full.

    Args:
        as_heard: times of the sound with its audible pauses (``Trace.pcm_with_waits``).
    """
    out: list[Cue] = []
    held: list[_Token] = []
    for token in _tokens(trace, as_heard):
        if held and (
            held[-1].is_last
            or token.start_s - held[-1].end_s > PAUSE_S
            or token.end_s - held[0].start_s > MAX_CUE_S
            or len(_lines([*held, token])) > MAX_LINES
        ):
            out.append(_cue(held))
            held = []
        held.append(token)
    return [*out, _cue(held)] if held else out


def timed_cues(trace: Trace, *, as_heard: bool = False) -> list[Cue]:
    """As ``cues``, at least one. Raises BadFile: no word has a time."""
    captions = cues(trace, as_heard=as_heard)
    if not captions:
        raise BadFile("no word of it has a time", "captions need words with times")
    return captions


def formatted(captions: Sequence[Cue], suffix: str) -> str:
    """Captions in the format of a suffix, one of ``SUFFIXES``."""
    return webvtt(captions) if suffix.lower() == ".vtt" else srt(captions)


def srt(captions: Sequence[Cue]) -> str:
    """SubRip text."""
    blocks = (
        f"{number}\n{_clock(cue.start_s, ',')} --> {_clock(cue.end_s, ',')}\n" + "\n".join(cue.lines) + "\n"
        for number, cue in enumerate(captions, 1)
    )
    return "\n".join(blocks)


def webvtt(captions: Sequence[Cue]) -> str:
    """WebVTT text."""
    blocks = (
        f"{_clock(cue.start_s, '.')} --> {_clock(cue.end_s, '.')}\n{_escaped(chr(10).join(cue.lines))}\n"
        for cue in captions
    )
    return "\n".join(["WEBVTT\n", *blocks])


def write_captions(trace: Trace, path: Path, *, as_heard: bool = False) -> int:
    """Write SRT, or WebVTT to a ``.vtt`` file; returns the number of cues.

    Raises BadFile: no word has a time, or the file cannot be written.
    """
    captions = timed_cues(trace, as_heard=as_heard)
    try:
        path.write_text(formatted(captions, path.suffix), encoding="utf-8", newline="\n")
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error.strerror}", "give another place with --captions") from error
    return len(captions)


def _tokens(trace: Trace, as_heard: bool) -> Iterator[_Token]:
    """The spoken tokens as written, in order; no character is in two, whatever the words of a damaged trace say."""
    text, at = sent_text(trace.events), 0
    waits = trace.audible_waits() if as_heard else []
    starts = [sample for sample, _ in waits]
    silence = [0, *accumulate(samples for _, samples in waits)]

    for _, group in groupby(trace.words(), key=lambda word: word.written):
        timed = [word for word in group if word.start is not None and word.end is not None]
        if not timed:
            continue
        first, last = timed[0], timed[-1]
        written = text[max(at, first.char_start) : max(at, last.char_end)].strip()
        at = max(at, last.char_end)
        assert first.start is not None and last.end is not None, "they have times"
        if written:
            # A pause at a word's first sample comes before it, and one at its end after it.
            start = first.start + silence[bisect_right(starts, first.start)]
            end = last.end + silence[bisect_left(starts, last.end)]
            is_last = _ends_sentence(written, [word.text for word in timed])
            yield _Token(written, start / trace.rate_hz, end / trace.rate_hz, is_last)


def _ends_sentence(written: str, spoken: Sequence[str]) -> bool:
    """Whether a token ends its sentence: the full stop of an abbreviation ("Dr.", spoken "doctor") does not."""
    bare = written.rstrip("\"')]»”’")
    letters = bare.rstrip(".").lstrip("\"'([«“‘")
    is_as_written = [word.rstrip(".,!?").lower() for word in spoken] == [letters.lower()]
    is_short_form = bare.endswith(".") and letters.replace(".", "").isalpha() and not is_as_written
    return bare.endswith(_SENTENCE_ENDS) and not is_short_form


def _lines(tokens: Sequence[_Token]) -> list[str]:
    """The tokens in as few lines as fit; one that is too long has a line of its own."""
    lines = [tokens[0].text]
    for token in tokens[1:]:
        joined = f"{lines[-1]} {token.text}"
        if len(joined) <= MAX_LINE_CHARS:
            lines[-1] = joined
        else:
            lines.append(token.text)
    return lines


def _cue(tokens: Sequence[_Token]) -> Cue:
    lines = (line.replace("\n", " ") for line in _lines(tokens))
    return Cue(tokens[0].start_s, tokens[-1].end_s, tuple(lines))


def _clock(seconds: float, mark: str) -> str:
    ms = round(1000 * seconds)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}{mark}{ms % 1000:03}"


def _escaped(text: str) -> str:
    """Text escaped for WebVTT, where these signs begin tags, entities and times."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
