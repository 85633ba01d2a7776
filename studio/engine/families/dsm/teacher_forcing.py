"""Teacher forcing of DSM-TTS: action stream, likelihood, and attention to text.

Steps run one after another, as in synthesis: the input of a step depends on the action before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from studio.core.events import EOS_AT, Eos, Event, Frames, Segment, WordEnd
from studio.engine.families.common.rows import sigmoid
from studio.engine.families.common.teacher_forcing import (
    NO_WORD,
    TeacherForcedSegment,
    TeacherForcingInput,
    TracedSegment,
    segment_mismatch,
    sum_by_word,
)
from studio.engine.families.dsm.depth import GROUP_CHANNELS
from studio.engine.families.dsm.model import Dsm
from studio.engine.families.dsm.policy import MOST_SPEAKERS, DsmInput, DsmOutput
from studio.engine.families.dsm.row import DsmDelays, DsmRow
from studio.engine.nets.transformer import ReferenceDecoder
from studio.engine.tokenizers import dmel

ATTENDS_TO = (
    "self-attention to the steps that fed the tokens of the word being spoken and of those after it; "
    "p_eos is the action stream, how likely the next word begins"
)


@dataclass(frozen=True)
class _ForcedPassage:
    """A passage: its segments in the trace (none of a recording), and its frames [first, stop).

    Attributes:
        closed: the frame with which a trace's text ended; None where it was cancelled.
    """

    segments: Sequence[TracedSegment]
    first: int
    stop: int
    closed: int | None

    @cached_property
    def word_starts(self) -> frozenset[int]:
        """The frames with which its words begin."""
        return frozenset(one.first for one in self.segments)


@dataclass
class _OpenSegment:
    """The present segment, with results for each of its frames so far."""

    index: int
    first: int
    word: int
    shares: list[np.ndarray] = field(default_factory=list[np.ndarray])
    p: list[float] = field(default_factory=list[float])
    events: list[Event] = field(default_factory=list[Event])

    def segment(self, likely: np.ndarray, *, forced: bool) -> TeacherForcedSegment:
        """The finished segment."""
        layers, wide = len(self.shares[0]), max(one.shape[1] for one in self.shares)
        by_layer = np.zeros((layers, len(self.shares), wide), np.float32)
        for k, one in enumerate(self.shares):
            by_layer[:, k, : one.shape[1]] = one
        p_eos = np.array(self.p, np.float32)
        return TeacherForcedSegment(self.index, self.first, self.word, by_layer, p_eos, likely, forced, self.events)


class _Backbone:
    """A backbone that runs step by step, with its KV cache."""

    def __init__(self, net: Dsm) -> None:
        self._net, self._decoder = net, ReferenceDecoder(net.decoder)
        self._embedded = net.encoder(net.extract)
        self._speakers = net.speakers(self._embedded, torch.full((1, MOST_SPEAKERS), -1, device=net.nobody.device))
        self._seen = torch.ones(1, 1, MOST_SPEAKERS, dtype=torch.bool, device=net.nobody.device)

    def step(self, step_input: DsmInput, last: Tensor) -> tuple[Tensor, Tensor]:
        """A step after the levels ``last`` uint8 [80]: hidden state [D], and shares of the steps held [L, S]."""
        net, device = self._net, last.device
        if step_input.start > self._decoder.start:
            self._decoder.forget(step_input.start)
        if step_input.begins:
            which = torch.tensor(
                [[*step_input.speakers, *[-1] * (MOST_SPEAKERS - len(step_input.speakers))]], device=device
            )
            self._speakers = net.speakers(self._embedded, which)
        text, ahead = (torch.tensor([one], device=device) for one in (step_input.text, step_input.ahead))
        crossings = net.crossings()
        hidden, shares = self._decoder.extend(
            net.embed(text, ahead, last[None]), lambda layer, h: crossings[layer](h, self._speakers, self._seen)[0]
        )
        return hidden[0], shares[:, 0]


class DsmTeacherForcing:
    """One pass over given frames; see ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``.

    A frame is made in two steps (the acoustic delay), long after its text was fed. Steps beyond a passage's last frame
    are fed that frame again: their outputs were never played and are unknown.

    Args:
        row: without slots and without limits of words; a single passage ends with the frames.
    """

    def __init__(self, net: Dsm, row: DsmRow, recording: TeacherForcingInput) -> None:
        self._net, self._row, self._recording, self._delays = net, row, recording, row.delays
        self._device = net.nobody.device
        with torch.inference_mode():
            self._text, self._bare = _Backbone(net), _Backbone(net)
        self._committed = 0
        self._token_words: list[int] = []  # of every step: the word whose token it fed

    def segments(self) -> Iterator[TeacherForcedSegment]:
        """See ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``."""
        for one in passages(self._recording):
            self._arrive(one)
            yield from self._run(one)

    def _arrive(self, one: _ForcedPassage) -> None:
        """Give the row the text of a passage, and the text after it that was known when it ended."""
        row, words = self._row, self._recording.words
        if not one.segments:
            row.commit(words)
            row.end()
            return
        last = one.segments[-1]
        seen = max(segment.seen.stop for segment in one.segments)
        row.set_options(one.segments[0].options, None)
        row.commit(words[self._committed : last.words.stop])
        if last.flushed:
            row.flush()
        row.commit(words[max(self._committed, last.words.stop) : seen])
        self._committed = max(self._committed, last.words.stop, seen)
        if not last.flushed:
            row.end()

    @torch.inference_mode()
    def _run(self, passage: _ForcedPassage) -> Iterator[TeacherForcedSegment]:
        row, segment, count = self._row, None, 0
        last = torch.full((dmel.CHANNELS,), dmel.PAD, dtype=torch.uint8, device=self._device)
        likely = _Likelihood(self._net, self._delays)
        frame = passage.first
        while frame < passage.stop:
            if passage.segments and count < len(passage.segments):
                row.set_options(passage.segments[count].options, None)
            module_input = row.next_input()
            if module_input is None:
                raise segment_mismatch(count)
            step_input: DsmInput = module_input.inputs
            hidden, shares = self._text.step(step_input, last)
            bare = self._bare.step(self._without(step_input), last)[0] if step_input.guidance != 1.0 else None
            self._token_words.append(NO_WORD if row.is_between_words(step_input.text) else row.words_fed - 1)
            levels = self._levels(passage, likely.steps)
            last = torch.from_numpy(levels).to(self._device)
            p = sigmoid(self._net.action_out(hidden).float().cpu().numpy()[0])
            likely.add(hidden, bare, step_input.guidance, last)
            output = row.on_output(DsmOutput(levels, p, self._begins(passage, passage.first + likely.steps, p), True))
            for one in output.before:
                if isinstance(one, Segment):
                    if passage.segments and (
                        count == len(passage.segments) or [*passage.segments[count].words] != one.words
                    ):
                        raise segment_mismatch(one.index)
                    segment, count = _OpenSegment(one.index, frame, one.words[0]), count + 1
                if segment is not None and isinstance(one, Frames):
                    segment.p += one.p_eos
                elif segment is not None:
                    segment.events.append(one)
            if not len(output.frames):
                continue
            assert segment is not None, "a passage begins with a word"
            held = np.array(self._token_words[step_input.start :])
            columns = range(segment.word, max(segment.word + 1, row.words_fed))
            segment.shares.append(sum_by_word(shares[:, None].float().cpu().numpy(), held, columns)[:, 0])
            frame += 1
            segment.events += output.after
            if frame == passage.stop and not passage.segments:
                segment.events += self._end(segment, frame)
            ends = [one for one in segment.events if isinstance(one, Eos)]
            if ends or frame == passage.stop:
                forced = bool(ends) and ends[0].p < EOS_AT
                if not passage.segments:
                    segment.events = [
                        replace(one, forced=forced) if isinstance(one, Eos) else one for one in segment.events
                    ]
                first = segment.first - passage.first
                yield segment.segment(likely.of(range(first, frame - passage.first)), forced=forced)

    def _end(self, segment: _OpenSegment, frame: int) -> list[Event]:
        """The events of a recording's end, which the row does not know."""
        sample = dmel.TIME_BASE.samples(frame)
        has_end = any(isinstance(one, WordEnd) and one.i == segment.word for one in segment.events)
        ended: list[Event] = [] if has_end else [WordEnd(i=segment.word, sample=sample, source="action")]
        return [*ended, Eos(segment=segment.index, frame=frame, p=segment.p[-1], forced=False)]

    def _begins(self, passage: _ForcedPassage, frame: int, p: float) -> bool:
        """Whether a word, or the text's end, begins with this frame."""
        recording = self._recording
        if passage.segments:
            return frame == passage.closed or frame in passage.word_starts
        if recording.word_starts:
            at = self._row.words_fed
            return frame >= (recording.word_starts[at] if at < len(recording.words) else recording.word_ends[-1])
        return p >= EOS_AT and frame >= recording.lead

    def _levels(self, passage: _ForcedPassage, step: int) -> np.ndarray:
        """The output of a step, uint8 [80]: channels of two frames, padding where there is no sound."""
        levels = np.full(dmel.CHANNELS, dmel.PAD, np.uint8)
        groups = (slice(None, GROUP_CHANNELS), self._delays.sound), (slice(GROUP_CHANNELS, None), self._delays.total)
        for channels, delay in groups:
            if step >= delay:
                frame = min(passage.first + step - delay, passage.stop - 1)
                levels[channels] = self._recording.frames[frame, channels]
        return levels

    def _without(self, step_input: DsmInput) -> DsmInput:
        """The same step without text and speaker (equation 8)."""
        nothing = self._net.config.symbols.nothing
        return replace(step_input, text=nothing, ahead=nothing, speakers=())


class _Likelihood:
    """Log-likelihood of the frames of a passage; steps are collected one by one and computed together."""

    def __init__(self, net: Dsm, delays: DsmDelays) -> None:
        self._net, self._delays = net, delays
        self._queue: list[tuple[Tensor, Tensor, float, Tensor]] = []
        self._first, self._others = list[float](), list[float]()  # of each step's first group, and of its others
        self.steps = 0

    def add(self, hidden: Tensor, bare: Tensor | None, guidance: float, levels: Tensor) -> None:
        """Add a step: hidden states with and without text [D], and its levels uint8 [80]."""
        self._queue.append((hidden, hidden if bare is None else bare, guidance, levels))
        self.steps += 1

    def of(self, frames: range) -> np.ndarray:
        """The values of frames, counted from the passage's first, whose steps were all added: float32 [n]."""
        if self._queue:
            hidden, bare, guidance, levels = zip(*self._queue, strict=True)
            self._queue = []
            targets = torch.stack(levels)
            embedded = self._net.level(targets.long())
            logits = self._net.depth(torch.stack(hidden), embedded)
            if any(alpha != 1.0 for alpha in guidance):
                without = self._net.depth(torch.stack(bare), embedded)
                alphas = torch.tensor(guidance, device=targets.device)[:, None, None]
                logits = without + alphas * (logits - without)
            real = targets.long().clamp_max(dmel.LEVELS - 1).unsqueeze(-1)  # padding is not read
            each = logits.float().log_softmax(-1).gather(-1, real)[..., 0].cpu()
            self._first += each[:, :GROUP_CHANNELS].sum(1).tolist()
            self._others += each[:, GROUP_CHANNELS:].sum(1).tolist()
        sound, whole = self._delays.sound, self._delays.total
        return np.array([self._first[k + sound] + self._others[k + whole] for k in frames], np.float32)


def passages(recording: TeacherForcingInput) -> list[_ForcedPassage]:
    """The passages: one of a recording; each of a trace but the last ends with a pause after its last word."""
    total = len(recording.frames)
    if not recording.spoken:
        return [_ForcedPassage((), 0, total, None)]
    out, segments = list[_ForcedPassage](), list[TracedSegment]()
    for at, one in enumerate(recording.spoken):
        segments.append(one)
        is_last = at + 1 == len(recording.spoken)
        if is_last or (one.spoke is not None and one.spoke < one.stop):
            out.append(_ForcedPassage(segments, segments[0].first, min(total, one.stop), one.spoke))
            segments = []
    return out
