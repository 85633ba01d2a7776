"""Teacher forcing of IST-LM: p_eos, likelihood, and attention to text tokens."""

from collections.abc import Iterator

import numpy as np
import torch

from studio.core.events import EOS_AT
from studio.engine.families.common.teacher_forcing import (
    NO_WORD,
    TeacherForcedSegment,
    TeacherForcingInput,
    TeacherForcingRun,
    eos_probabilities,
    replay_frames,
    sum_by_word,
    with_predicted_eos,
)
from studio.engine.families.ist.model import Ist
from studio.engine.families.ist.row import IstPrefill, IstRow
from studio.engine.nets.sampling import log_likelihood
from studio.engine.nets.transformer import ReferenceDecoder

ATTENDS_TO = "self-attention to the text tokens of each word of the passage that were fed so far"


class IstTeacherForcing(TeacherForcingRun):
    """See ``TeacherForcingRun``; a segment is a chunk of text with its frames, and the row remembers as when it speaks.

    Until the text is consumed the end is masked (section 3). The last frame of any other chunk is fed together with
    the text after it, so what the net says of an end after it is known with the next chunk alone.
    """

    def __init__(self, net: Ist, row: IstRow, recording: TeacherForcingInput) -> None:
        super().__init__(row, recording)
        self._net, self._row = net, row
        self._device = net.ratio.weight.device
        self._decoder = ReferenceDecoder(net.decoder)
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
    def _segment(self, first: int, fed: IstPrefill) -> TeacherForcedSegment:
        assert isinstance(fed, IstPrefill), "a chunk begins with its text"
        net, plan = self._net, self._row.planned
        if fed.start > self._decoder.start:
            self._token_words = self._token_words[fed.start - self._decoder.start :]
            self._decoder.forget(fed.start)
        closes = plan.chunk_frames is None
        least = 0 if plan.frames else 1
        stop = self._schedule.stop(first, plan.words, least) if closes else first + (plan.chunk_frames or 0)
        longest = max(least, net.config.longest_word_frames * len(plan.words) - plan.frames)
        frames = self._frames(first, stop, longest)
        levels = torch.from_numpy(frames.copy()).to(self._device)
        again = levels if closes else levels[:-1]  # those that are fed back before the next text is
        text = net.embed_layout(fed.layout, fed.ratio, net.embed_frames)
        positions = plan.frames + torch.arange(len(again), device=self._device)
        hidden, shares = self._decoder.extend(torch.cat((text, net.embed_frames(again, positions))))
        logits, eos = net.heads(hidden[len(text) - 1 :])
        if closes:
            p_end = eos_probabilities(eos)
            count = len(frames) if stop is not None else self._count(p_end, first, least)
            self._p_before, p_eos = float(p_end[0]), p_end[1 : count + 1]
            forced = bool(p_end[count] < EOS_AT)
        else:
            count, self._p_before, forced, p_end = len(frames), 0.0, False, None
            p_eos = np.append(np.zeros(count - 1, np.float32), np.float32(np.nan))
        self._decoder.cut(self._decoder.length - (len(frames) - count))
        fed_back = count if closes else count - 1
        self._token_words = np.concatenate((self._token_words, plan.tokens, np.full(fed_back, NO_WORD)))
        likely = log_likelihood(logits[:count], levels[:count])
        attention = shares[:, len(text) - 1 : len(text) - 1 + count, : len(self._token_words)].float().cpu().numpy()
        events = replay_frames(self._row, frames[:count], ends=closes)
        if p_end is not None:  # also where no frame is left
            events = with_predicted_eos(events, float(p_end[count]), forced=forced)
        by_layer = sum_by_word(attention, self._token_words, plan.started)
        return self._result(first, plan.started.start, by_layer, p_eos, likely.cpu().numpy(), events, forced=forced)

    def _count(self, p_end: np.ndarray, first: int, least: int) -> int:
        """Number of frames of a passage's last chunk when the net decides; may be 0."""
        if least == 0 and p_end[0] >= EOS_AT and first > self._recording.lead:
            return 0
        return self._end(p_end[1:] >= EOS_AT, first)
