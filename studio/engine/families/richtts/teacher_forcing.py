"""Teacher forcing of RichTTS."""

from collections.abc import Sequence

import numpy as np
import torch

from studio.engine.families.common.teacher_forcing import NO_WORD, TeacherForcedSegment, TeacherForcingInput
from studio.engine.families.richtts.model import RichTts
from studio.engine.families.richtts.policy import RichTtsInput, RichTtsRow
from studio.engine.families.speakstream.policy import SPACE
from studio.engine.families.speakstream.teacher_forcing import FrameDecoderForcing

ATTENDS_TO = "self-attention to the characters of each word of the piece"


class RichTtsTeacherForcing(FrameDecoderForcing):
    """See ``TeacherForcingRun``; every piece starts from an empty context."""

    def __init__(self, net: RichTts, row: RichTtsRow, recording: TeacherForcingInput) -> None:
        super().__init__(net, row, recording)
        self._net, self._row = net, row

    @torch.inference_mode()
    def _segment(self, first: int, fed: RichTtsInput) -> TeacherForcedSegment:
        words = self._row.planned
        frames, stop = self._planned_frames(first, words, self._net.config.longest_word_frames)
        symbols = torch.tensor([[*fed.symbols]], device=self._device)
        spoken = self.embed_frames(np.concatenate((fed.silence, frames)))
        x = torch.cat((self._net.embed_symbols(symbols, self._speaker)[0], spoken))
        self.restart()
        return self.decode(first, words, x, _words(fed.symbols, words, len(x) - len(frames)), frames, stop)


def _words(symbols: Sequence[int], words: range, tokens: int) -> np.ndarray:
    """The word of each of a piece's tokens, int [T]; a word includes the space that ends it."""
    words_of_tokens, word = np.full(tokens, NO_WORD), words.start
    for at, symbol in enumerate(symbols[1:-2], start=1):  # between w_bos and w_eos, s_bos
        words_of_tokens[at] = word
        word += symbol == SPACE
    return words_of_tokens
