"""Teacher forcing of IST-LM: p_eos, likelihood, and attention to text tokens."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from studio.core.events import EOS_AT, Event, Frames
from studio.engine.families.common.rows import FrameOutput, sigmoid
from studio.engine.families.common.teacher_forcing import (
    TeacherForcedSegment,
    TeacherForcingInput,
    TeacherForcingRun,
    sum_by_word,
    with_predicted_eos,
)
from studio.engine.families.ist.model import Ist
from studio.engine.families.ist.policy import FRAME
from studio.engine.families.ist.row import IstPrefill, IstRow
from studio.engine.nets.sampling import log_likelihood
from studio.engine.nets.transformer import ReferenceDecoder

ATTENDS_TO = "self-attention to the text tokens of each word of the passage that were fed so far"
_NO_WORD = -1


class IstTeacherForcing(TeacherForcingRun):
    """See ``TeacherForcingRun``; a segment is a chunk of text with its frames, and the row remembers as when it speaks.

    Until the text is consumed the end is masked (section 3). The last frame of any other chunk is fed together with
    the text after it, so what the net says of an end after it is known with the next chunk alone.
    """

    def __init__(self, net: Ist, row: IstRow, given: TeacherForcingInput) -> None:
        super().__init__(row, given)
        self._net, self._row = net, row
        self._device = net.ratio.weight.device
        self._memory = ReferenceDecoder(net.decoder)
        self._token_words = np.zeros(0, np.int64)  # of the tokens held
        self._p_before = 0.0  # of the end after what the newest chunk begins with

    def segments(self) -> Iterator[TeacherForcedSegment]:
        """See ``studio.engine.families.common.teacher_forcing.TeacherForcedFamily``."""
        held: TeacherForcedSegment | None = None
        for one in super().segments():
            if held is not None:
                if len(held.p_eos) and np.isnan(held.p_eos[-1]):
                    held.p_eos[-1] = self._p_before
                yield held
            held = one
        if held is not None:
            yield held

    @torch.inference_mode()
    def _segment(self, index: int, first: int, fed: IstPrefill) -> tuple[TeacherForcedSegment, Sequence[Event]]:
        assert isinstance(fed, IstPrefill), "a chunk begins with its text"
        net, plan = self._net, self._row.planned
        if fed.start > self._memory.start:
            self._token_words = self._token_words[fed.start - self._memory.start :]
            self._memory.forget(fed.start)
        closes = plan.chunk_frames is None
        least = 0 if plan.frames else 1
        stop = self._schedule.stop(first, plan.words, least) if closes else first + (plan.chunk_frames or 0)
        longest = max(least, net.config.longest_word_frames * len(plan.words) - plan.frames)
        frames = self._frames(first, stop, longest)
        levels = torch.from_numpy(frames.copy()).to(self._device)
        again = levels if closes else levels[:-1]  # those that are fed back before the next text is
        text = self._embed(fed)
        places = plan.frames + torch.arange(len(again), device=self._device)
        hidden, shares = self._memory.extend(torch.cat((text, net.embed_frames(again, places))))
        logits, eos = net.heads(hidden[len(text) - 1 :])
        if closes:
            p_end = np.array([sigmoid(one) for one in eos.float().cpu().numpy()], np.float32)
            count = len(frames) if stop is not None else self._count(p_end, first, least)
            self._p_before, p_eos = float(p_end[0]), p_end[1 : count + 1]
            forced = bool(p_end[count] < EOS_AT)
        else:
            count, self._p_before, forced = len(frames), 0.0, False
            p_eos = np.append(np.zeros(count - 1, np.float32), np.float32(np.nan))
        self._memory.cut(self._memory.length - (len(frames) - count))
        fed_back = count if closes else count - 1
        self._token_words = np.concatenate((self._token_words, plan.tokens, np.full(fed_back, _NO_WORD)))
        likely = log_likelihood(logits[:count], levels[:count])
        attention = shares[:, len(text) - 1 : len(text) - 1 + count, : len(self._token_words)].float().cpu().numpy()
        events = self._row_events(frames[:count], closes=closes)
        segment = TeacherForcedSegment(
            index=index,
            first=first,
            word=plan.started.start,
            by_layer=sum_by_word(attention, self._token_words, plan.started),
            p_eos=p_eos,
            log_likelihood=likely.cpu().numpy(),
            forced=forced,
            events=with_predicted_eos(events, float(p_end[count]), forced=forced) if closes else events,
        )
        return segment, events

    def _count(self, p_end: np.ndarray, first: int, least: int) -> int:
        """Number of frames of a passage's last chunk when the net decides; may be 0."""
        if least == 0 and p_end[0] >= EOS_AT and first > self._given.lead:
            return 0
        return self._end(p_end[1:] >= EOS_AT, first)

    def _embed(self, given: IstPrefill) -> Tensor:
        """All tokens of a prefill [T, D]."""
        net, layout = self._net, given.layout
        symbols, places = (torch.tensor(one, device=self._device) for one in (layout.symbols, layout.places))
        is_frame = symbols == FRAME
        x = torch.zeros(len(layout), net.config.width, device=self._device)
        x[~is_frame] = net.embed_symbols(symbols[~is_frame], places[~is_frame])
        x[symbols == net.config.symbols.start] += net.ratio.weight[given.ratio]
        if layout.frames:
            x[is_frame] = net.embed_frames(torch.from_numpy(layout.stacked()).to(self._device), places[is_frame])
        return x

    def _row_events(self, frames: np.ndarray, *, closes: bool) -> list[Event]:
        """The row's events of a chunk with these frames."""
        outputs = [FrameOutput(frame[None], 0.0, True) for frame in frames]
        if closes:
            outputs.append(FrameOutput(np.zeros((1, *self._given.frames.shape[1:]), np.uint8), 1.0, True))
        events = list[Event]()
        for one in outputs:
            self._row.next_input()
            output = self._row.on_output(one)
            events += [*output.before, *output.after]
        return [one for one in events if not isinstance(one, Frames)]
