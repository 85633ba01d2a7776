"""Praat's TextGrids: words, segments and seams of an utterance written, and words of a reference read, by praatio."""

from pathlib import Path

from studio.core.errors import BadFile, NeedsPackage
from studio.core.trace import Trace
from studio.measure.word_timing import SpokenSpan

_WORDS = "words"
_INSTALL = "pip install 'streaming-tts-studio[app]'"


def spans(trace: Trace) -> list[SpokenSpan]:
    """Words of a trace that were spoken, in the time of its sound without the pauses."""
    rate_hz = trace.rate_hz
    return [
        SpokenSpan(word.text, word.start / rate_hz, word.end / rate_hz)
        for word in trace.words()
        if word.start is not None and word.end is not None and word.end > word.start
    ]


def write_textgrid(trace: Trace, path: Path) -> None:
    """Write the tiers ``words``, ``segments`` (what each saw) and ``seams``, in the time of the sound without pauses.

    Raises:
        BadFile: the place cannot be written, or there is no sound.
        NeedsPackage: praatio is not there.
    """
    try:
        from praatio import textgrid
        from praatio.utilities.constants import Interval, Point
    except ImportError as error:
        raise NeedsPackage("TextGrids are written by praatio", _INSTALL) from error
    length_s = len(trace.pcm) / trace.rate_hz
    if not length_s:
        raise BadFile("there is no sound", "a TextGrid needs a length")
    texts = {word.i: word.text for word in trace.words()}
    segments = [
        Interval(one.start / trace.rate_hz, one.end / trace.rate_hz, " ".join(texts.get(i, "?") for i in one.seen))
        for one in trace.segments()
        if one.end > one.start
    ]
    grid = textgrid.Textgrid(0.0, length_s)
    words = [Interval(one.start_s, one.end_s, one.text) for one in spans(trace)]
    for name, entries in ((_WORDS, words), ("segments", segments)):
        if entries:
            grid.addTier(textgrid.IntervalTier(name, entries, 0.0, length_s))
    seams = [Point(one.start, "seam") for one in segments if one.start > 0]
    if seams:
        grid.addTier(textgrid.PointTier("seams", seams, 0.0, length_s))
    if not grid.tierNames:
        raise BadFile("no word of it has a time", "give its words with --reference")
    try:
        grid.save(str(path), format="long_textgrid", includeBlankSpaces=True)
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error.strerror}", "give another place with --textgrid") from error


def read_words(path: Path) -> list[SpokenSpan]:
    """Words of the tier ``words`` of a TextGrid, in UTF-8 or UTF-16.

    Raises:
        BadFile: it is absent, damaged, or has no such tier.
        NeedsPackage: praatio is not there.
    """
    try:
        from praatio import textgrid
        from praatio.utilities.constants import Interval
        from praatio.utilities.errors import PraatioException
    except ImportError as error:
        raise NeedsPackage("TextGrids are read by praatio", _INSTALL) from error
    try:
        grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=False)
    except FileNotFoundError as error:
        raise BadFile(f"there is no TextGrid {path}", "check the path") from error
    except (PraatioException, OSError, ValueError, KeyError, IndexError) as error:
        raise BadFile(f"{path} cannot be read as a TextGrid: {error!s:.200}", "Praat writes them") from error
    names = {name.lower(): name for name in grid.tierNames}
    if _WORDS not in names:
        raise BadFile(f"{path} has no tier named words", f"its tiers are {', '.join(grid.tierNames) or 'none'}"[:200])
    entries = [entry for entry in grid.getTier(names[_WORDS]).entries if isinstance(entry, Interval)]
    if len(entries) < len(grid.getTier(names[_WORDS]).entries):
        raise BadFile(f"the tier words of {path} holds points", "it must hold intervals")
    return [SpokenSpan(entry.label, entry.start, entry.end) for entry in entries if entry.label.strip()]
