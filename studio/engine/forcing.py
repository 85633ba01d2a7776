"""Teacher forcing in an engine: recordings become traces, and traces tell where the net attended.

Frames lie as in training: a recording's frame k is centred on its sample 600 k (``dmel``), and a time becomes the
frame boundary nearest to it, so that a word that ends at frame k ends at sample 600 k.
"""

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.clips import to_float, to_int16
from studio.core.errors import BadFile, BadText, BadVoice, Busy
from studio.core.options import default_options, merge_options
from studio.core.ports import MAX_SEED, Normaliser
from studio.core.text.typography import TOKEN
from studio.core.text.words import SpokenWord, WordStream, is_spoken
from studio.core.traces.forced import MAX_FORCED_S, MIN_FORCED_S, Attended, Left, Recording, Unable, WordSpan
from studio.core.traces.trace import Trace, collect
from studio.engine.alphabets import dmel
from studio.engine.families.base import family_info, family_names
from studio.engine.families.forcing import ForcedSegment, Forcible, Given, Spoken
from studio.engine.voices import Voice

_OF_SPEAKING = ("vocoder", "temperature")  # of provenance: here nothing is drawn
_BEYOND_S = 0.1  # a word may end after the recording's last whole frame
_LOOK_ON_S = 0.2  # whether anybody still waits
_LOUDER_LEVELS = 2.0  # than the speaker's silence, mean of the channels: speech has begun


class Forcing:
    """One pass at a time, on the thread of whoever asks; the net's weights are read, its slots are not touched."""

    def __init__(self) -> None:
        self._place = threading.Lock()

    @contextmanager
    def place(self) -> Generator[None]:
        """Room for one. Raises Busy."""
        if not self._place.acquire(blocking=False):
            raise Busy("another recording or utterance is being computed anew", "try again in a moment")
        try:
            yield
        finally:
            self._place.release()


def attend(voice: Voice, trace: Trace, wanted: Callable[[], bool]) -> Attended:
    """See ``studio.core.traces.forced.Attends``."""
    family, card = _forcible(voice), voice.card
    if not len(trace.frames):
        raise BadFile(
            "this utterance holds no frames", "its family keeps none, or it is a recording: send it through a model"
        )
    _check_length(len(trace.frames) * card.frame_samples / card.sample_rate_hz)
    if trace.meta.get("checkpoint_sha256", card.sha256) != card.sha256:
        raise BadVoice(
            f"{card.name} has other weights than when this was made", "what it attended to then cannot be told"
        )
    if trace.frames.shape[1:] != (dmel.CHANNELS,) or int(trace.frames.max()) >= dmel.LEVELS:
        raise BadFile("the frames of this trace are of another alphabet than its voice's", "the trace is damaged")
    speaker = _speaker(card, str(trace.meta.get("speaker", "")))
    spoken = spoken_segments(trace, card)
    words = _words_said(trace)
    given = Given(words, trace.frames, speaker, spoken[0].options, spoken, seed=_asked(trace, "seed", 0))
    return _joined(family, [*_segments(voice, family, given, wanted)], len(trace.frames))


def force(
    voice: Voice,
    speaker: str,
    recording: Recording,
    normalise: Normaliser,
    about: dict[str, Any],
    wanted: Callable[[], bool],
) -> Trace:
    """A recording through a voice's net, as a trace.

    Raises:
        BadText: there is no word in it.
        BadFile: it is too long or too short, or its words lie beyond its end.
        BadOption: the family takes no such options.
        Unable, Left: see ``studio.core.traces.forced``.
    """
    family, card = _forcible(voice), voice.card
    _check_length(len(recording.pcm) / recording.rate_hz)
    if len(recording.pcm) < MIN_FORCED_S * recording.rate_hz:
        raise BadFile("there is next to no sound in this recording", f"give at least {MIN_FORCED_S * 1000:.0f} ms")
    options = merge_options(card.options, recording.options, default_options(card.options))
    sound = dmel.resample(torch.from_numpy(to_float(recording.pcm)), recording.rate_hz, card.sample_rate_hz)
    frames = dmel.encode(sound).numpy()
    text = " ".join(span.text for span in recording.spans) if recording.spans else recording.text
    stream = WordStream(normalise)
    changes = stream.push(text)
    changes.extend(stream.end())
    if not changes.words:
        raise BadText("no word of the text can be spoken", "give what the recording says")
    length_s = len(recording.pcm) / recording.rate_hz
    if any(not 0.0 <= one.start_s < one.end_s <= length_s + _BEYOND_S for one in recording.spans):
        raise BadFile(f"a word lies beyond the recording's {length_s:.2f} s", "give the TextGrid of this recording")
    if any(after.start_s < one.start_s for one, after in pairwise(recording.spans)):
        raise BadFile("a word begins earlier than the one before it", "give the words in the order of their times")
    spans = _of_spoken(recording.spans, changes.words)
    starts, ends = ([card.time_base.frame_of_time(at_s) for at_s in side] for side in _sides(spans))
    silence = family.prompt(card.speakers.index(speaker)).astype(np.float32).mean()
    lead = card.time_base.frame_of_time(spans[0].start_s) if spans else _lead(frames, float(silence))
    words = [word.word for word in changes.words]
    given = Given(words, frames, card.speakers.index(speaker), options, (), starts, ends, lead)
    segments = [*_segments(voice, family, given, wanted)]
    events: list[ev.Event] = [ev.Text(char_start=0, text=text)]
    for one in changes.unsupported:
        events.append(ev.Unsupported(char_start=one.char_start, char_end=one.char_end, why=one.why))
    events += [ev.Committed(**vars(word)) for word in changes.words]
    events.append(ev.Audio(sample=0, pcm=to_int16(sound.numpy())))
    for one in segments:
        stop = one.first + len(one.p_eos)
        events.append(ev.Frames(first_frame=one.first, p_eos=[*map(float, one.p_eos)], levels=frames[one.first : stop]))
        events += [event for event in one.events if not (spans and isinstance(event, ev.WordStart | ev.WordEnd))]
    events += _placed(spans, card, sound.shape[-1]) if spans else []
    told = {
        "source": "forced",
        "placed_by": recording.placed_by or "p_eos",
        "voice": card.name,
        "speaker": speaker,
        "family": card.family,
        "options": options,
        "rate_hz": card.sample_rate_hz,
        "frame_samples": card.frame_samples,
    }
    about = {name: value for name, value in about.items() if name not in _OF_SPEAKING}
    trace = collect({**about, **told}, [_first_begins(one, lead * card.frame_samples) for one in events])
    trace.layers = _joined(family, segments, len(trace.frames)).layers()
    return trace


def _words_said(trace: Trace) -> list[str]:
    """The spoken words of a trace in order. Raises BadFile where one is missing, or is what nobody says."""
    words = trace.words()
    for place, word in enumerate(words):
        if word.i != place or not is_spoken(word.text):
            told = f"word {place} of the trace " + (f"is {word.text!r:.60}" if word.i == place else "is missing")
            raise BadFile(told, "it is damaged: a spoken word is at most 40 letters and a mark")
    return [word.text for word in words]


def _asked(trace: Trace, name: str, absent: Any) -> Any:
    """A setting that a trace says it was spoken with. Raises BadFile where it is none."""
    value = trace.meta.get(name, absent)
    if type(value) is not type(absent) or (name == "seed" and not 0 <= value <= MAX_SEED):
        raise BadFile(f"{name} of the trace is {value!r:.80}", "it is damaged: nobody speaks with that")
    return value


def spoken_segments(trace: Trace, card: Card) -> list[Spoken]:
    """The segments of a trace with the options that were in force when each was planned. Raises BadFile."""
    base = default_options(card.options)
    options = merge_options(card.options, _asked(trace, "options", {}), base)
    flushed, asked = 0, dict[int, tuple[dict[str, Any], int]]()
    for event in trace.events:
        if isinstance(event, ev.Options):
            options = merge_options(card.options, event.options, base)
        elif isinstance(event, ev.Flushed):
            flushed = event.words
        elif isinstance(event, ev.Segment):
            asked[event.index] = options, flushed
    segments = trace.segments()
    if not segments:
        raise BadFile("no segment of this utterance was spoken", "there is nothing that a net attended to")
    found: list[Spoken] = []
    ends = {word.i: word.end for word in trace.words()}
    said = 0  # words of the segments before
    for one, after in zip(segments, [*segments[1:], None], strict=True):
        words, seen = _range(one.words), _range(one.seen)
        stop = len(trace.frames) if after is None else after.frame
        options, flushed = asked[one.index]
        end = ends.get(words[-1]) if words else None
        spoke = None if end is None else end // card.frame_samples
        # a segment without a word of its own (IST-LM) is flushed where all words before it were
        is_flushed = words.start < flushed if words else 0 < flushed == said
        found.append(Spoken(words, seen, one.frame, stop, spoke, options, is_flushed))
        said = words.stop if words else said
    return found


def _forcible(voice: Voice) -> Any:
    if isinstance(voice.family, Forcible):
        return voice.family
    able = ", ".join(name for name in family_names() if family_info(name).can_force)
    raise Unable(
        f"{voice.card.name} is of the family {voice.card.family}, whose net cannot be given frames",
        f"these families can: {able}",
    )


def _check_length(length_s: float) -> None:
    if length_s > MAX_FORCED_S:
        raise BadFile(f"{length_s:.0f} s of sound are too long for this", f"give at most {MAX_FORCED_S:.0f} s")


def _speaker(card: Card, name: str) -> int:
    if name not in card.speakers:
        raise BadVoice(f"{card.name} has no speaker {name!r}", f"it has {', '.join(card.speakers)}")
    return card.speakers.index(name)


def _segments(voice: Voice, family: Forcible, given: Given, wanted: Callable[[], bool]) -> Generator[ForcedSegment]:
    known = voice.looked_up(given.words)
    while known is not None and not wait([known], _LOOK_ON_S).done:
        if not wanted():
            known.cancel()
            raise Left("nobody waits for the answer")
    for one in family.force(given):
        if not wanted():
            raise Left("nobody waits for the answer")
        yield one


def _joined(family: Any, segments: Sequence[ForcedSegment], count: int) -> Attended:
    wide = max((one.by_layer.shape[2] for one in segments), default=0)
    layers = segments[0].by_layer.shape[0] if segments else 0
    found = Attended(
        family.attends_to,
        np.full(count, -1, np.int32),
        np.zeros((layers, count, wide), np.float16),
        np.full(count, np.nan, np.float32),
        np.full(count, np.nan, np.float32),
    )
    for one in segments:
        here = slice(one.first, one.first + len(one.p_eos))
        found.word[here] = one.word
        found.by_layer[:, here, : one.by_layer.shape[2]] = one.by_layer
        found.p_eos[here], found.log_likelihood[here] = one.p_eos, one.log_likelihood
    return found


def _lead(frames: np.ndarray, silence: float) -> int:
    """Frames before the first that is clearly louder than the speaker's silence."""
    loud = np.flatnonzero(frames.astype(np.float32).mean(1) >= silence + _LOUDER_LEVELS)
    return int(loud[0]) if len(loud) else 0


def _first_begins(event: ev.Event, sample: int) -> ev.Event:
    """The first word begins where speech does, not with the recording."""
    is_first = isinstance(event, ev.WordStart) and event.i == 0 and event.source != "aligner"
    return replace(event, sample=sample) if is_first else event  # type: ignore[call-arg]


def _sides(spans: Sequence[WordSpan]) -> tuple[list[float], list[float]]:
    """Where words start, and where they end, s."""
    return [one.start_s for one in spans], [one.end_s for one in spans]


def _of_spoken(spans: Sequence[WordSpan], words: Sequence[SpokenWord]) -> list[WordSpan]:
    """A span for each spoken word; those of one written word share its own by letters."""
    if not spans:
        return []
    written = [span for span in spans for _ in TOKEN.findall(span.text)]
    found: list[WordSpan] = []
    for number in sorted({word.written for word in words}):
        mine = [word for word in words if word.written == number]
        span = written[number]
        sizes = np.cumsum([0] + [len(word.word) + 1 for word in mine]) / sum(len(word.word) + 1 for word in mine)
        at = span.start_s + (span.end_s - span.start_s) * sizes
        found += [WordSpan(word.word, *map(float, at[k : k + 2])) for k, word in enumerate(mine)]
    return found


def _placed(spans: Sequence[WordSpan], card: Card, samples: int) -> list[ev.Event]:
    """The words where whoever placed them says."""
    events: list[ev.Event] = []
    for i, one in enumerate(spans):
        start, end = (min(samples, round(at_s * card.sample_rate_hz)) for at_s in (one.start_s, one.end_s))
        events.append(ev.WordStart(i=i, sample=start, source="aligner"))
        events.append(ev.WordEnd(i=i, sample=end, source="aligner"))
    return events


def _range(words: Sequence[int]) -> range:
    found = range(words[0], words[-1] + 1) if words else range(0)
    if [*found] != [*words]:
        raise BadFile("a segment of the trace speaks words that do not follow each other", "the trace is damaged")
    return found
