"""A recording that is to be sent through a voice, and what places its words: a TextGrid, an aligner, or the voice."""

from dataclasses import replace

import numpy as np

from studio.core.errors import BadFile, BadOption
from studio.core.traces.forced import Recording, WordSpan
from studio.inspection.textgrid import words_of

ALIGNER = "pocketsphinx"


def by_textgrid(pcm: np.ndarray, rate_hz: int, data: bytes, name: str) -> Recording:
    """A recording int16 [T] whose words, and where they lie, are the tier ``words`` of a TextGrid. Raises BadFile."""
    spans = [WordSpan(one.text, one.start_s, one.end_s) for one in words_of(data, name)]
    if not spans:
        raise BadFile(f"the tier words of {name} holds no word", "give the TextGrid of this recording")
    return Recording(pcm, rate_hz, spans=spans, placed_by=name)


def by_aligner(recording: Recording) -> Recording:
    """The words placed by the studio's aligner.

    Raises:
        BadFile: it finds another text.
        BadOption: they are placed already.
        NeedsPackage: it is not installed.
    """
    from studio.measure.recognisers.pocketsphinx import PocketSphinx

    if recording.spans:
        raise BadOption("an aligner and a TextGrid both place the words", "choose one of them")
    found = PocketSphinx().align(recording.pcm, recording.rate_hz, recording.text)
    words = recording.text.split()
    if found is None or len(found) != len(words):
        raise BadFile("the aligner does not find this text in the recording", "let the voice or a TextGrid place them")
    spans = [WordSpan(word, one.start_s, one.end_s) for word, one in zip(words, found, strict=True)]
    return replace(recording, spans=spans, placed_by=ALIGNER)
