"""Teacher forcing of RichTTS."""

from collections.abc import Sequence

import numpy as np
import torch

from studio.core.events import EOS_AT, Event
from studio.engine.families.common.teacher_forcing import (
    TeacherForcedSegment,
    TeacherForcingInput,
    TeacherForcingRun,
    eos_probabilities,
    replay_frames,
    sum_by_word,
    with_predicted_eos,
)
from studio.engine.families.richtts.model import RichTts
from studio.engine.families.richtts.policy import RichTtsInput, RichTtsRow
from studio.engine.families.speakstream.policy import SPACE
from studio.engine.nets.sampling import log_likelihood
from studio.engine.nets.transformer import ReferenceDecoder

ATTENDS_TO = "self-attention to the characters of each word of the piece"
_NO_WORD = -1


class RichTtsTeacherForcing(TeacherForcingRun):
    """See ``TeacherForcingRun``; every piece starts from an empty context."""

    def __init__(self, net: RichTts, row: RichTtsRow, given: TeacherForcingInput) -> None:
        super().__init__(row, given)
        self._net, self._row = net, row
        self._device = next(net.parameters()).device
        self._speaker = torch.tensor([given.speaker], device=self._device)

    @torch.inference_mode()
    def _segment(self, index: int, first: int, fed: RichTtsInput) -> tuple[TeacherForcedSegment, Sequence[Event]]:
        net, words = self._net, self._row.planned
        stop = self._schedule.stop(first, words)
        frames = self._frames(first, stop, net.config.longest_word_frames * len(words))
        levels = torch.from_numpy(frames.copy()).to(self._device)
        all_levels = torch.cat((torch.from_numpy(fed.silence).to(self._device), levels))
        text = net.embed_symbols(torch.tensor([[*fed.symbols]], device=self._device), self._speaker)[0]
        x = torch.cat((text, net.embed_frames(all_levels, self._speaker.expand(len(all_levels)))))
        hidden, shares = ReferenceDecoder(net.decoder).extend(x)
        last = len(x) - len(frames) - 1  # the token that the first frame is sampled from
        logits, eos = net.heads(hidden[last:])
        p_eos = eos_probabilities(eos[1:])
        count = len(frames) if stop is not None else self._end(p_eos >= EOS_AT, first)
        events = replay_frames(self._row, frames[:count])
        by_layer = sum_by_word(
            shares[:, last : last + count].float().cpu().numpy(), _words(fed.symbols, words, len(x)), words
        )
        likelihood = log_likelihood(logits[:-1], levels)[:count].cpu().numpy()
        forced = bool(p_eos[count - 1] < EOS_AT)
        ended = with_predicted_eos(events, float(p_eos[count - 1]), forced=forced)
        segment = TeacherForcedSegment(index, first, words.start, by_layer, p_eos[:count], likelihood, forced, ended)
        return segment, events


def _words(symbols: Sequence[int], words: range, tokens: int) -> np.ndarray:
    """The word of each of a piece's tokens, int [T]; a word includes the space that ends it."""
    words_of_tokens, word = np.full(tokens, _NO_WORD), words.start
    for at, symbol in enumerate(symbols[1:-2], start=1):  # between w_bos and w_eos, s_bos
        words_of_tokens[at] = word
        word += symbol == SPACE
    return words_of_tokens
