"""TextGrids: write an utterance's words, segments and seams; read a reference's words."""

from pathlib import Path

from studio.core.errors import BadFile, bad_file
from studio.core.files import read_bounded
from studio.core.traces.textgrid import MAX_BYTES, TextGridEntry, TextGridTier, read_tiers, write_tiers
from studio.core.traces.trace import Trace
from studio.measure.word_timing import SpokenSpan

_WORDS = "words"


def word_spans(trace: Trace) -> list[SpokenSpan]:
    """Spoken words of a trace, in the time of its sound without pauses."""
    rate_hz = trace.rate_hz
    return [
        SpokenSpan(word.text, word.start / rate_hz, word.end / rate_hz)
        for word in trace.words()
        if word.start is not None and word.end is not None and word.end > word.start
    ]


def write_textgrid(trace: Trace, path: Path) -> None:
    """Write the tiers ``words``, ``segments`` (labelled with the words seen) and ``seams``, in the time without pauses.

    Raises BadFile, Unavailable: the file cannot be written; BadFile: there is no sound.
    """
    length_s = len(trace.pcm) / trace.rate_hz
    if not length_s:
        raise BadFile("there is no sound", "a TextGrid needs a length")
    texts = {word.i: word.text for word in trace.words()}
    segments = [
        TextGridEntry(one.start / trace.rate_hz, one.end / trace.rate_hz, " ".join(texts.get(i, "?") for i in one.seen))
        for one in trace.segments()
        if one.end > one.start
    ]
    words = [TextGridEntry(one.start_s, one.end_s, one.text) for one in word_spans(trace)]
    seams = [TextGridEntry(one.start_s, one.start_s, "seam") for one in segments if one.start_s > 0]
    tiers = [
        TextGridTier(_WORDS, False, words),
        TextGridTier("segments", False, segments),
        TextGridTier("seams", True, seams),
    ]
    tiers = [tier for tier in tiers if tier.entries]
    if not tiers:
        raise BadFile("no word of it has a time", "give its words with --reference")
    with bad_file(f"{path} cannot be written", "give another place with --textgrid"):
        path.write_text(write_tiers(tiers, length_s), encoding="utf-8")


def read_words(path: Path) -> list[SpokenSpan]:
    """Words of the tier ``words`` of a TextGrid, in UTF-8 or UTF-16.

    Raises BadFile: it is absent, damaged, or has no such tier; Unavailable: the disk or its permissions fail.
    """
    with bad_file(f"the TextGrid {path} cannot be read", "check the path"):
        return parse_words(read_bounded(path, MAX_BYTES), str(path))


def parse_words(data: bytes, name: str) -> list[SpokenSpan]:
    """``read_words`` of bytes; ``name`` is used in messages. Raises BadFile."""
    try:
        tiers = read_tiers(data)
    except BadFile as error:
        raise BadFile(f"{name} cannot be read as a TextGrid: {error.what}", error.do) from error
    words_tier = next((tier for tier in tiers if tier.name.lower() == _WORDS), None)
    if words_tier is None:
        names = ", ".join(tier.name for tier in tiers)
        raise BadFile(f"{name} has no tier named words", f"its tiers are {names or 'none'}"[:200])
    if words_tier.is_points:
        raise BadFile(f"the tier words of {name} holds points", "it must hold intervals")
    words = [one for one in words_tier.entries if one.text.strip()]
    if wrong := next((one for one in words if not 0 <= one.start_s < one.end_s), None):
        raise BadFile(f"{name}: “{wrong.text[:40]}” lies from {wrong.start_s:g} to {wrong.end_s:g} s", "mend the tier")
    return [SpokenSpan(one.text.strip(), one.start_s, one.end_s) for one in words]
