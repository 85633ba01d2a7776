"""DSM-TTS over frames that are given: the action stream, likelihood and the text that each frame attended to.

Steps are run one after another, as when it speaks: what is fed at a step hangs on what the action stream said before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from studio.core.events import EOS_AT, Eos, Event, Frames, Segment, WordEnd
from studio.core.time import TimeBase
from studio.engine.alphabets import dmel
from studio.engine.families.drawn import probability
from studio.engine.families.dsm.depth import GROUP_CHANNELS
from studio.engine.families.dsm.net import Dsm
from studio.engine.families.dsm.row import Delays, DsmRow
from studio.engine.families.dsm.rule import MOST_SPEAKERS
from studio.engine.families.dsm.step import Drawn, Step
from studio.engine.families.forcing import ForcedSegment, Given, Spoken, another, by_word
from studio.engine.nets.opened import OpenDecoder

ATTENDS_TO = (
    "self-attention to the steps that fed the tokens of the word being heard and of those after it; "
    "p_eos is the action stream, how likely the next word begins"
)
_NO_WORD = -1


@dataclass(frozen=True)
class _Stretch:
    """A stretch: its segments as a trace tells of them (none of a recording), and its frames [first, stop).

    Attributes:
        closed: the frame with which a trace's text was over; None where it was broken off.
    """

    said: Sequence[Spoken]
    first: int
    stop: int
    closed: int | None

    @cached_property
    def begun(self) -> frozenset[int]:
        """The frames with which its words begin."""
        return frozenset(one.first for one in self.said)


@dataclass
class _Heard:
    """The segment that is being heard, so far: what was found of each of its frames."""

    index: int
    first: int
    word: int
    shares: list[np.ndarray] = field(default_factory=list[np.ndarray])
    p: list[float] = field(default_factory=list[float])
    events: list[Event] = field(default_factory=list[Event])

    def segment(self, likely: np.ndarray, *, forced: bool) -> ForcedSegment:
        """As it is told."""
        layers, wide = len(self.shares[0]), max(one.shape[1] for one in self.shares)
        by_layer = np.zeros((layers, len(self.shares), wide), np.float32)
        for k, one in enumerate(self.shares):
            by_layer[:, k, : one.shape[1]] = one
        p_eos = np.array(self.p, np.float32)
        return ForcedSegment(self.index, self.first, self.word, by_layer, p_eos, likely, forced, self.events)


class _Backbone:
    """A backbone that is fed a step at a time, with what it remembers."""

    def __init__(self, net: Dsm) -> None:
        self._net, self._memory = net, OpenDecoder(net.decoder)
        self._embedded = net.encoder(net.extract)
        self._speakers = net.speakers(self._embedded, torch.full((1, MOST_SPEAKERS), -1, device=net.nobody.device))
        self._seen = torch.ones(1, 1, MOST_SPEAKERS, dtype=torch.bool, device=net.nobody.device)

    def step(self, given: Step, last: Tensor) -> tuple[Tensor, Tensor]:
        """A step after the levels ``last`` uint8 [80]: hidden state [D], and shares of the steps held [L, S]."""
        net, device = self._net, last.device
        if given.start > self._memory.start:
            self._memory.forget(given.start)
        if given.begins:
            which = torch.tensor([[*given.speakers, *[-1] * (MOST_SPEAKERS - len(given.speakers))]], device=device)
            self._speakers = net.speakers(self._embedded, which)
        text, ahead = (torch.tensor([one], device=device) for one in (given.text, given.ahead))
        crossings = net.crossings()
        hidden, shares = self._memory.extend(
            net.embed(text, ahead, last[None]), lambda layer, h: crossings[layer](h, self._speakers, self._seen)[0]
        )
        return hidden[0], shares[:, 0]


class DsmForcing:
    """One pass over given frames; see ``studio.engine.families.forcing.Forcible``.

    A frame is drawn in two steps (the acoustic delay), long after its text was fed. Steps beyond a stretch's last frame
    are fed with that one again: what was drawn there was never heard, and nobody knows it.

    Args:
        row: of no slots and without a limit of a word; a stretch that is alone has no end but that of the frames.
    """

    def __init__(self, net: Dsm, row: DsmRow, given: Given, delays: Delays, time_base: TimeBase) -> None:
        self._net, self._row, self._given = net, row, given
        self._delays, self._time_base = delays, time_base
        self._device = net.nobody.device
        with torch.inference_mode():
            self._text, self._bare = _Backbone(net), _Backbone(net)
        self._committed = 0
        self._token_words: list[int] = []  # of every step: the word whose token it fed

    def segments(self) -> Iterator[ForcedSegment]:
        """See ``studio.engine.families.forcing.Forcible``."""
        for one in stretches(self._given):
            self._arrive(one)
            yield from self._run(one)

    def _arrive(self, one: _Stretch) -> None:
        """Let the row have the text of a stretch, and what of the text after it was there when it ended."""
        row, words = self._row, self._given.words
        if not one.said:
            row.commit(words)
            row.end()
            return
        last = one.said[-1]
        seen = max(said.seen.stop for said in one.said)
        row.set_options(one.said[0].options, None)
        row.commit(words[self._committed : last.words.stop])
        if last.flushed:
            row.flush()
        row.commit(words[max(self._committed, last.words.stop) : seen])
        self._committed = max(self._committed, last.words.stop, seen)
        if not last.flushed:
            row.end()

    @torch.inference_mode()
    def _run(self, stretch: _Stretch) -> Iterator[ForcedSegment]:
        row, heard, told = self._row, None, 0
        last = torch.full((dmel.CHANNELS,), dmel.PAD, dtype=torch.uint8, device=self._device)
        likely = _Likelihood(self._net, self._delays)
        frame = stretch.first
        while frame < stretch.stop:
            if stretch.said and told < len(stretch.said):
                row.set_options(stretch.said[told].options, None)
            want = row.want()
            if want is None:
                raise another(told)
            given: Step = want.inputs
            hidden, shares = self._text.step(given, last)
            bare = self._bare.step(self._without(given), last)[0] if given.guidance != 1.0 else None
            self._token_words.append(_NO_WORD if row.is_between_words(given.text) else row.begun - 1)
            levels = self._levels(stretch, likely.steps)
            last = torch.from_numpy(levels).to(self._device)
            p = probability(self._net.action_out(hidden).float().cpu().numpy()[0])
            likely.take(hidden, bare, given.guidance, last)
            turn = row.took(Drawn(levels, p, self._begins(stretch, stretch.first + likely.steps, p), True))
            for one in turn.before:
                if isinstance(one, Segment):
                    if stretch.said and (told == len(stretch.said) or [*stretch.said[told].words] != one.words):
                        raise another(one.index)
                    heard, told = _Heard(one.index, frame, one.words[0]), told + 1
                if heard is not None and isinstance(one, Frames):
                    heard.p += one.p_eos
                elif heard is not None:
                    heard.events.append(one)
            if not len(turn.frames):
                continue
            assert heard is not None, "a stretch begins with a word"
            held = np.array(self._token_words[given.start :])
            columns = range(heard.word, max(heard.word + 1, row.begun))
            heard.shares.append(by_word(shares[:, None].float().cpu().numpy(), held, columns)[:, 0])
            frame += 1
            heard.events += turn.after
            if frame == stretch.stop and not stretch.said:
                heard.events += self._end(heard, frame)
            ends = [one for one in heard.events if isinstance(one, Eos)]
            if ends or frame == stretch.stop:
                forced = bool(ends) and ends[0].p < EOS_AT
                if not stretch.said:
                    heard.events = [
                        replace(one, forced=forced) if isinstance(one, Eos) else one for one in heard.events
                    ]
                first = heard.first - stretch.first
                yield heard.segment(likely.of(range(first, frame - stretch.first)), forced=forced)

    def _end(self, heard: _Heard, frame: int) -> list[Event]:
        """What the row would tell of a recording's end if it knew it."""
        sample = self._time_base.samples(frame)
        is_said = any(isinstance(one, WordEnd) and one.i == heard.word for one in heard.events)
        ended: list[Event] = [] if is_said else [WordEnd(i=heard.word, sample=sample, source="action")]
        return [*ended, Eos(segment=heard.index, frame=frame, p=heard.p[-1], forced=False)]

    def _begins(self, stretch: _Stretch, frame: int, p: float) -> bool:
        """Whether a word, or the text's end, begins at the step after whose number a frame is called."""
        given = self._given
        if stretch.said:
            return frame == stretch.closed or frame in stretch.begun
        if given.word_starts:
            at = self._row.begun
            return frame >= (given.word_starts[at] if at < len(given.words) else given.word_ends[-1])
        return p >= EOS_AT and frame >= given.lead

    def _levels(self, stretch: _Stretch, step: int) -> np.ndarray:
        """What a step of a stretch draws, uint8 [80]: channels of two frames, padding where no sound is due."""
        levels = np.full(dmel.CHANNELS, dmel.PAD, np.uint8)
        groups = (slice(None, GROUP_CHANNELS), self._delays.sound), (slice(GROUP_CHANNELS, None), self._delays.all)
        for channels, delay in groups:
            if step >= delay:
                frame = min(stretch.first + step - delay, stretch.stop - 1)
                levels[channels] = self._given.frames[frame, channels]
        return levels

    def _without(self, given: Step) -> Step:
        """The same step without text and speaker (equation 8)."""
        nothing = self._net.config.symbols.nothing
        return replace(given, text=nothing, ahead=nothing, speakers=())


class _Likelihood:
    """The log-likelihood of each frame of a stretch, of steps that are taken one by one and computed together."""

    def __init__(self, net: Dsm, delays: Delays) -> None:
        self._net, self._delays = net, delays
        self._waiting: list[tuple[Tensor, Tensor, float, Tensor]] = []
        self._first, self._others = list[float](), list[float]()  # of each step's first group, and of its others
        self.steps = 0

    def take(self, hidden: Tensor, bare: Tensor | None, guidance: float, levels: Tensor) -> None:
        """A step's hidden states with and without text [D], and the levels of its channels uint8 [80]."""
        self._waiting.append((hidden, hidden if bare is None else bare, guidance, levels))
        self.steps += 1

    def of(self, frames: range) -> np.ndarray:
        """Of frames, counted from the stretch's beginning, whose steps were all taken: float32 [n]."""
        if self._waiting:
            hidden, bare, guidance, levels = zip(*self._waiting, strict=True)
            self._waiting = []
            said = torch.stack(levels)
            embedded = self._net.level(said.long())
            logits = self._net.depth(torch.stack(hidden), embedded)
            if any(alpha != 1.0 for alpha in guidance):
                without = self._net.depth(torch.stack(bare), embedded)
                alphas = torch.tensor(guidance, device=said.device)[:, None, None]
                logits = without + alphas * (logits - without)
            real = said.long().clamp_max(dmel.LEVELS - 1).unsqueeze(-1)  # padding counts for no frame
            each = logits.float().log_softmax(-1).gather(-1, real)[..., 0].cpu()
            self._first += each[:, :GROUP_CHANNELS].sum(1).tolist()
            self._others += each[:, GROUP_CHANNELS:].sum(1).tolist()
        sound, whole = self._delays.sound, self._delays.all
        return np.array([self._first[k + sound] + self._others[k + whole] for k in frames], np.float32)


def stretches(given: Given) -> list[_Stretch]:
    """A recording is one; each of a trace but the last ends with a pause after its last word."""
    total = len(given.frames)
    if not given.spoken:
        return [_Stretch((), 0, total, None)]
    found, said = list[_Stretch](), list[Spoken]()
    for at, one in enumerate(given.spoken):
        said.append(one)
        is_last = at + 1 == len(given.spoken)
        if is_last or (one.spoke is not None and one.spoke < one.stop):
            found.append(_Stretch(said, said[0].first, min(total, one.stop), one.spoke))
            said = []
    return found
