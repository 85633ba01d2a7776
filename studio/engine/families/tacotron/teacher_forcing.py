"""Teacher forcing of incremental Tacotron 2: stop token, likelihood and alignment."""

from collections.abc import Sequence

import numpy as np
import torch

from studio.core.events import EOS_AT, Event, Frames
from studio.engine.families.common.teacher_forcing import (
    TeacherForcedSegment,
    TeacherForcingInput,
    TeacherForcingRun,
    eos_probabilities,
    sum_by_word,
)
from studio.engine.families.common.text_tokens import SPACE
from studio.engine.families.tacotron.model import Tacotron
from studio.engine.families.tacotron.policy import TacotronClause, TacotronFrames, TacotronRow
from studio.engine.nets.sampling import log_likelihood, uniform
from studio.engine.tokenizers import dmel

ATTENDS_TO = (
    "the alignment: location-sensitive attention to the phonemes of each word of the clause, "
    "whose end counts as its last word's"
)


class TacotronTeacherForcing(TeacherForcingRun):
    """See ``TeacherForcingRun``; a clause depends only on the frame before it.

    The pre-net has dropout in inference, too: it follows the noise of the utterance's seed, as in synthesis.
    """

    def __init__(self, net: Tacotron, row: TacotronRow, recording: TeacherForcingInput) -> None:
        super().__init__(row, recording)
        self._net, self._row = net, row
        self._device = net.silence.device

    @torch.inference_mode()
    def _segment(self, first: int, fed: TacotronClause) -> TeacherForcedSegment:
        net, words = self._net, self._row.planned
        frames, stop = self._planned_frames(first, words, net.config.longest_word_frames, None)
        levels = torch.from_numpy(frames.copy()).to(self._device)
        symbols, prosody = (torch.tensor([[*values]], device=self._device) for values in (fed.symbols, fed.prosody))
        real = torch.ones_like(symbols, dtype=torch.bool)
        encoded = net.encode(symbols, prosody, torch.tensor([fed.speaker], device=self._device), real)
        before = torch.cat((torch.from_numpy(fed.last.copy()).to(self._device)[None], levels[:-1]))
        frame_numbers = torch.arange(first, first + len(frames), device=self._device)
        noise = uniform(
            torch.full_like(frame_numbers, self._recording.seed),
            frame_numbers,
            dmel.CHANNELS + 2 * net.config.prenet_width,
        )
        seen, shares = net.decode(encoded, real, before[None], noise[None, :, dmel.CHANNELS :])
        logits, stops = net.heads(seen[0])
        p_stop = eos_probabilities(stops)
        count = len(frames) if stop is not None else self._end(p_stop >= EOS_AT, first)
        likely = log_likelihood(logits, levels)
        alignment = shares[0, :count].float().cpu().numpy()
        return self._result(
            first,
            words.start,
            sum_by_word(alignment[None], _words(fed.symbols, words), words),
            p_stop[:count],
            likely[:count].cpu().numpy(),
            self._row_events(frames[:count], alignment.argmax(1)),
            forced=bool(p_stop[count - 1] < EOS_AT),
        )

    def _row_events(self, frames: np.ndarray, attended: np.ndarray) -> list[Event]:
        """The row's events of a clause with these frames and attended encoder steps.

        All frames are given at once; the row may hand them out in several chunks.
        """
        p_stop = [0.0] * (len(frames) - 1) + [1.0]
        self._row.on_output(None)
        frames_left, events = TacotronFrames(frames, p_stop, attended, is_finite=True), list[Event]()
        while True:
            self._row.next_input()
            output = self._row.on_output(frames_left)
            events += [*output.before, *output.after]
            if output.is_clause_end:
                return [one for one in events if not isinstance(one, Frames)]
            frames_left = TacotronFrames(frames[:0], [], attended[:0], is_finite=True)


def _words(symbols: Sequence[int], words: range) -> np.ndarray:
    """The word of each of a clause's symbols, int [T]: words begin with a space; the end belongs to the last word."""
    return words.start - 1 + np.cumsum(np.array(symbols) == SPACE)
