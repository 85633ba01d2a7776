"""Teacher forcing: the trace of a recording, and the attention behind a trace.

Frames are aligned as in training: a recording's frame k is centred on its sample 600 k (``dmel``). A time becomes the
nearest frame boundary, so a word that ends at frame k ends at sample 600 k.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import wait
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from studio.core import events as ev
from studio.core.cards import Card, has_files
from studio.core.clips import to_float, to_int16
from studio.core.errors import BadFile, BadText, BadVoice
from studio.core.options import default_options, merge_options
from studio.core.ports import MAX_SEED, Normaliser
from studio.core.text.typography import TOKEN
from studio.core.text.words import SpokenWord, is_spoken_word, whole_text
from studio.core.traces.teacher_forcing import (
    MAX_RECORDING_S,
    MIN_RECORDING_S,
    CallerGone,
    NotSupported,
    TeacherForcingRequest,
    TeacherForcingResult,
    WordSpan,
)
from studio.core.traces.trace import Trace, collect_trace
from studio.engine.families.base import family_info, family_names
from studio.engine.families.common.teacher_forcing import (
    TeacherForcedFamily,
    TeacherForcedSegment,
    TeacherForcingInput,
    TracedSegment,
)
from studio.engine.tokenizers import dmel
from studio.engine.voices import Voice

_SPEAKING_META = ("vocoder", "temperature")  # provenance that does not apply, since nothing is sampled
_END_TOLERANCE_S = 0.1  # a word may end after the recording's last whole frame
_POLL_S = 0.2  # interval of should_continue during a lookup
_SPEECH_LEVELS = 2.0  # the mean level of speech is this much above the speaker's silence


def attention_of_trace(voice: Voice, trace: Trace, should_continue: Callable[[], bool]) -> TeacherForcingResult:
    """See ``studio.core.traces.teacher_forcing.SupportsAttention``."""
    family, card = _family_of(voice), voice.card
    if not len(trace.frames):
        raise BadFile(
            "this utterance holds no frames", "its family stores none, or it is a recording: run it through a model"
        )
    _check_length(len(trace.frames) * card.frame_samples / card.sample_rate_hz)
    if not has_files(card, trace.meta.get("checkpoint_sha256", {})):
        problem = f"the weights of {card.name} have changed since this was made"
        raise BadVoice(problem, "its attention cannot be recomputed")
    if trace.frames.shape[1:] != (dmel.CHANNELS,) or int(trace.frames.max()) >= dmel.LEVELS:
        raise BadFile("the frames are of another acoustic tokenizer than the voice's", "the trace is damaged")
    speaker = str(trace.meta.get("speaker", ""))
    if speaker not in card.speakers and speaker not in voice.added:
        raise BadVoice(f"{card.name} has no speaker {speaker!r}", f"it has {', '.join(card.speakers)}")
    traced = _traced_segments(trace, card)
    inputs = TeacherForcingInput(
        _spoken_words(trace),
        trace.frames,
        voice.number_of(speaker),
        traced[0].options,
        traced,
        seed=_meta_value(trace, "seed", 0),
    )
    return _join(family, [*_forced_segments(voice, family, inputs, should_continue)], len(trace.frames))


def trace_of_recording(
    voice: Voice,
    speaker: str,
    recording: TeacherForcingRequest,
    normalise: Normaliser,
    meta: dict[str, Any],
    should_continue: Callable[[], bool],
) -> Trace:
    """Run a recording through a voice's net.

    Raises:
        BadText: the text has no word.
        BadFile: the recording is too long or too short, or words lie beyond its end.
        BadOption: the family does not accept these options.
        NotSupported, CallerGone: see ``studio.core.traces.teacher_forcing``.
    """
    family, card = _family_of(voice), voice.card
    length_s = len(recording.pcm) / recording.rate_hz
    _check_length(length_s)
    if len(recording.pcm) < MIN_RECORDING_S * recording.rate_hz:
        raise BadFile("there is next to no sound in this recording", f"give at least {MIN_RECORDING_S * 1000:.0f} ms")
    options = merge_options(card.options, recording.options, default_options(card.options))
    sound = dmel.resample(torch.from_numpy(to_float(recording.pcm)), recording.rate_hz, card.sample_rate_hz)
    frames = dmel.encode(sound).numpy()
    text = " ".join(span.text for span in recording.spans) if recording.spans else recording.text
    changes = whole_text(normalise, text)
    if not changes.words:
        raise BadText("no word of the text can be spoken", "give the text of the recording")
    if any(not 0.0 <= one.start_s < one.end_s <= length_s + _END_TOLERANCE_S for one in recording.spans):
        raise BadFile(f"a word lies beyond the recording's {length_s:.2f} s", "give the TextGrid of this recording")
    if any(after.start_s < one.start_s for one, after in pairwise(recording.spans)):
        raise BadFile("a word begins earlier than the one before it", "give the words in the order of their times")
    spans = _spans_of_spoken_words(recording.spans, changes.words)
    starts = [card.time_base.frame_of_time(one.start_s) for one in spans]
    ends = [card.time_base.frame_of_time(one.end_s) for one in spans]
    silence = float(family.prompt(voice.number_of(speaker)).astype(np.float32).mean())
    lead = starts[0] if spans else _leading_silence(frames, silence)
    words = [word.word for word in changes.words]
    inputs = TeacherForcingInput(words, frames, voice.number_of(speaker), options, (), starts, ends, lead)
    segments = [*_forced_segments(voice, family, inputs, should_continue)]
    events: list[ev.Event] = [ev.TextReceived(char_start=0, text=text)]
    events += [one.event() for one in changes.unsupported]
    events += [ev.Committed(**vars(word)) for word in changes.words]
    events.append(ev.Audio(sample=0, pcm=to_int16(sound.numpy())))
    for one in segments:
        stop = one.first + len(one.p_eos)
        events.append(ev.Frames(first_frame=one.first, p_eos=[*map(float, one.p_eos)], levels=frames[one.first : stop]))
        events += [event for event in one.events if not (spans and isinstance(event, ev.WordStart | ev.WordEnd))]
    events += _events_of_spans(spans, card, sound.shape[-1])
    trace_meta = {
        **{name: value for name, value in meta.items() if name not in _SPEAKING_META},
        "source": "forced",
        "placed_by": recording.placed_by or "p_eos",
        "voice": card.name,
        "speaker": speaker,
        "family": card.family,
        "options": options,
        "rate_hz": card.sample_rate_hz,
        "frame_samples": card.frame_samples,
    }
    trace = collect_trace(trace_meta, [_move_first_start(one, lead * card.frame_samples) for one in events])
    trace.layers = _join(family, segments, len(trace.frames)).layers()
    return trace


def _family_of(voice: Voice) -> Any:
    if isinstance(voice.family, TeacherForcedFamily):
        return voice.family
    supported = ", ".join(name for name in family_names() if family_info(name).supports_teacher_forcing)
    raise NotSupported(
        f"{voice.card.name} is of the family {voice.card.family}, which does not support teacher forcing",
        f"these families do: {supported}",
    )


def _check_length(length_s: float) -> None:
    if length_s > MAX_RECORDING_S:
        raise BadFile(f"{length_s:.0f} s of sound are too long for this", f"give at most {MAX_RECORDING_S:.0f} s")


def _spoken_words(trace: Trace) -> list[str]:
    """The spoken words of a trace in order. Raises BadFile if one is missing or not a valid spoken word."""
    words = trace.words()
    for index, word in enumerate(words):
        if word.i != index or not is_spoken_word(word.text):
            problem = f"is {word.text!r:.60}" if word.i == index else "is missing"
            raise BadFile(
                f"word {index} of the trace {problem}", "it is damaged: a spoken word is at most 40 letters and a mark"
            )
    return [word.text for word in words]


def _meta_value(trace: Trace, name: str, default: Any) -> Any:
    """A value of the trace's meta. Raises BadFile if it has another type or is out of range."""
    value = trace.meta.get(name, default)
    if type(value) is not type(default) or (name == "seed" and not 0 <= value <= MAX_SEED):
        raise BadFile(f"{name} of the trace is {value!r:.80}", "it is damaged: no utterance has this value")
    return value


def _traced_segments(trace: Trace, card: Card) -> list[TracedSegment]:
    """The segments of a trace, each with the options when it was planned. Raises BadFile."""
    base = default_options(card.options)
    options = merge_options(card.options, _meta_value(trace, "options", {}), base)
    flushed, plans = 0, dict[int, tuple[dict[str, Any], int]]()
    # Word ends as the row reported them. For speech that is the number of frames then: the sample may precede a pause.
    is_forced = trace.meta.get("source") == "forced"
    frames, ends = 0, dict[int, int]()
    for event in trace.events:
        if isinstance(event, ev.OptionsChanged):
            options = merge_options(card.options, event.options, base)
        elif isinstance(event, ev.Flushed):
            flushed = event.words
        elif isinstance(event, ev.Segment):
            plans[event.index] = options, flushed
        elif isinstance(event, ev.Frames):
            frames = event.first_frame + len(event.p_eos)
        elif isinstance(event, ev.WordEnd):
            ends[event.i] = event.sample // card.frame_samples if is_forced else frames
        elif isinstance(event, ev.Revised):
            frames = event.from_sample // card.frame_samples
            ends = {i: end for i, end in ends.items() if end <= frames}
    segments = trace.segments()
    if not segments:
        raise BadFile("no segment of this utterance was spoken", "there is no attention to recompute")
    traced: list[TracedSegment] = []
    words_before = 0
    for one, after in zip(segments, [*segments[1:], None], strict=True):
        words, seen = _word_range(one.words), _word_range(one.seen)
        stop = len(trace.frames) if after is None else after.frame
        options, flushed = plans[one.index]
        last_word_end = ends.get(words[-1]) if words else None
        # A segment without words (IST-LM) was flushed if exactly the words before it were.
        is_flushed = words.start < flushed if words else 0 < flushed == words_before
        traced.append(TracedSegment(words, seen, one.frame, stop, last_word_end, options, is_flushed))
        words_before = words.stop if words else words_before
    return traced


def _word_range(words: Sequence[int]) -> range:
    as_range = range(words[0], words[-1] + 1) if words else range(0)
    if [*as_range] != [*words]:
        raise BadFile("a segment of the trace speaks words that are not consecutive", "the trace is damaged")
    return as_range


def _forced_segments(
    voice: Voice, family: TeacherForcedFamily, inputs: TeacherForcingInput, should_continue: Callable[[], bool]
) -> Generator[TeacherForcedSegment]:
    lookup = voice.start_lookup(inputs.words)
    while lookup is not None and not wait([lookup], _POLL_S).done:
        if not should_continue():
            lookup.cancel()
            raise CallerGone("the client is gone")
    for segment in family.teacher_force(inputs):
        if not should_continue():
            raise CallerGone("the client is gone")
        yield segment


def _join(family: Any, segments: Sequence[TeacherForcedSegment], frames: int) -> TeacherForcingResult:
    """One result over all frames; NaN and -1 for frames outside of the segments."""
    width = max((one.by_layer.shape[2] for one in segments), default=0)
    layers = segments[0].by_layer.shape[0] if segments else 0
    result = TeacherForcingResult(
        family.attends_to,
        np.full(frames, -1, np.int32),
        np.zeros((layers, frames, width), np.float16),
        np.full(frames, np.nan, np.float32),
        np.full(frames, np.nan, np.float32),
    )
    for one in segments:
        here = slice(one.first, one.first + len(one.p_eos))
        result.word[here] = one.word
        result.by_layer[:, here, : one.by_layer.shape[2]] = one.by_layer
        result.p_eos[here], result.log_likelihood[here] = one.p_eos, one.log_likelihood
    return result


def _leading_silence(frames: np.ndarray, silence: float) -> int:
    """Frames before the first that is clearly louder than the speaker's silence."""
    loud = np.flatnonzero(frames.astype(np.float32).mean(1) >= silence + _SPEECH_LEVELS)
    return int(loud[0]) if len(loud) else 0


def _move_first_start(event: ev.Event, sample: int) -> ev.Event:
    """Move the start of the first word from the start of the recording to the start of speech."""
    is_first = isinstance(event, ev.WordStart) and event.i == 0 and event.source != "aligner"
    return replace(event, sample=sample) if is_first else event  # type: ignore[call-arg]


def _spans_of_spoken_words(spans: Sequence[WordSpan], words: Sequence[SpokenWord]) -> list[WordSpan]:
    """A span for each spoken word; those of one written word divide its span in proportion to their letters."""
    if not spans:
        return []
    written = [span for span in spans for _ in TOKEN.findall(span.text)]
    result: list[WordSpan] = []
    for number in sorted({word.written for word in words}):
        mine = [word for word in words if word.written == number]
        span = written[number]
        sizes = np.cumsum([0] + [len(word.word) + 1 for word in mine]) / sum(len(word.word) + 1 for word in mine)
        at = span.start_s + (span.end_s - span.start_s) * sizes
        result += [WordSpan(word.word, *map(float, at[k : k + 2])) for k, word in enumerate(mine)]
    return result


def _events_of_spans(spans: Sequence[WordSpan], card: Card, samples: int) -> list[ev.Event]:
    """Word events at the given spans."""
    events: list[ev.Event] = []
    for i, one in enumerate(spans):
        start, end = (min(samples, round(at_s * card.sample_rate_hz)) for at_s in (one.start_s, one.end_s))
        events.append(ev.WordStart(i=i, sample=start, source="aligner"))
        events.append(ev.WordEnd(i=i, sample=end, source="aligner"))
    return events
