"""Files to compare: a trace, or a WAV whose text and words' times lie beside it."""

from pathlib import Path

from studio.core.traces.trace import Trace, open_trace
from studio.inspection.batch.sources import find_sources
from studio.inspection.opening import open_file, placed
from studio.inspection.textgrid import read_words


def open_source(path: Path, text: str = "") -> Trace:
    """An utterance; ``FILE.txt`` beside a WAV says its words, ``FILE.TextGrid`` where they lie.

    Args:
        text: what a WAV says without ``FILE.txt``.

    Raises:
        BadFile: it is absent or damaged, or its TextGrid is.
        NeedsPackage: a TextGrid without praatio.
    """
    if path.is_dir():  # a trace that a crash left
        return open_trace(path, str(path))
    (source,) = find_sources([path])
    is_wav = path.suffix.lower() == ".wav"
    trace = open_file(path, (source.text or text) if is_wav else None)
    return placed(trace, read_words(source.reference)) if is_wav and source.reference else trace
