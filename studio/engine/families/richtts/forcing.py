"""RichTTS over frames that are given: p_eos, likelihood and the text that each frame attended to."""

from collections.abc import Sequence

import numpy as np
import torch

from studio.core.events import EOS_AT, Event
from studio.engine.families.drawn import Drawn, probability
from studio.engine.families.forcing import ForcedPass, ForcedSegment, Given, by_word, with_end
from studio.engine.families.richtts.net import RichTts
from studio.engine.families.richtts.row import Piece, RichTtsRow
from studio.engine.families.speakstream.rule import SPACE
from studio.engine.nets.opened import OpenDecoder
from studio.engine.noise.sampling import log_likelihood

ATTENDS_TO = "self-attention to the characters of each word of the piece"
_NO_WORD = -1


class RichTtsForcing(ForcedPass):
    """See ``ForcedPass``; each piece is a text of its own, so nothing is remembered between two."""

    def __init__(self, net: RichTts, row: RichTtsRow, given: Given) -> None:
        super().__init__(row, given)
        self._net, self._row = net, row
        self._device = next(net.parameters()).device
        self._speaker = torch.tensor([given.speaker], device=self._device)

    @torch.inference_mode()
    def _segment(self, index: int, first: int, fed: Piece) -> tuple[ForcedSegment, Sequence[Event]]:
        net, words = self._net, self._row.planned
        stop = self._arrivals.stop(first, words)
        frames = self._frames(first, stop, net.config.longest_word_frames * len(words))
        levels = torch.from_numpy(frames.copy()).to(self._device)
        heard = torch.cat((torch.from_numpy(fed.silence).to(self._device), levels))
        text = net.embed_symbols(torch.tensor([[*fed.symbols]], device=self._device), self._speaker)[0]
        x = torch.cat((text, net.embed_frames(heard, self._speaker.expand(len(heard)))))
        hidden, shares = OpenDecoder(net.decoder).extend(x)
        begun = len(x) - len(frames) - 1  # the token that the first frame is drawn from
        logits, eos = net.heads(hidden[begun:])
        p_eos = np.array([probability(one) for one in eos[1:].float().cpu().numpy()], np.float32)
        count = len(frames) if stop is not None else self._end(p_eos >= EOS_AT, first)
        likely = log_likelihood(logits[:-1], levels)
        forced = bool(p_eos[count - 1] < EOS_AT)
        events = self._told(frames[:count])
        found = ForcedSegment(
            index=index,
            first=first,
            word=words.start,
            by_layer=by_word(
                shares[:, begun : begun + count].float().cpu().numpy(), _words(fed.symbols, words, len(x)), words
            ),
            p_eos=p_eos[:count],
            log_likelihood=likely[:count].cpu().numpy(),
            forced=forced,
            events=with_end(events, float(p_eos[count - 1]), forced=forced),
        )
        return found, events

    def _told(self, frames: np.ndarray) -> list[Event]:
        """What the row says of a piece that takes these frames."""
        events = [*self._row.took(Drawn(frames[:1], 0.0, True)).before]
        for frame in frames[1:]:
            self._row.want()
            self._row.took(Drawn(frame[None], 0.0, True))
        self._row.want()
        return [*events, *self._row.took(Drawn(frames[:1], 1.0, True)).after]


def _words(symbols: Sequence[int], words: range, tokens: int) -> np.ndarray:
    """The word of each of a piece's tokens int [T]: its characters, with the space that ends it, are a word's own."""
    found, word = np.full(tokens, _NO_WORD), words.start
    for at, symbol in enumerate(symbols[1:-2], start=1):  # w_bos before them, w_eos and s_bos after them
        found[at] = word
        word += symbol == SPACE
    return found
