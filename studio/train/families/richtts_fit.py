"""Train RichTTS on whole texts or on pieces of n words: next-frame cross-entropy (paper 000, sections III.B and IV.A).

Training sequences are cut by the engine's own code, so the two cannot differ. Sequences are laid out as
SpeakStream's, with a single segment and no window, and use the same training-only phone head, so that the two families
are compared on equal terms. In a text read whole, the spoken word may be at any position, whereas SpeakStream has just
read it: so one head of attention may be guided to it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from studio.engine.families.richtts.model import RichTts, RichTtsConfig
from studio.engine.families.richtts.policy import NGRAM, RichTtsOptions, symbols
from studio.engine.families.speakstream.policy import spell
from studio.engine.nets.transformer import AttentionHook
from studio.engine.tokenizers import dmel
from studio.train.families import speakstream_fit as speakstream
from studio.train.families.common import GuidedHead, NextFrameModule, noise_of, validation_sentences
from studio.train.families.speakstream_fit import FRAME, SYMBOL, SpeakStreamBatch, SpeakStreamSequence
from studio.train.features import Sentence
from studio.train.fit.dataset import SpeechDataset, frame_words, join_sentences
from studio.train.fit.training import FamilyTraining, Groups, Rng
from studio.train.recipes.fits import RichTtsFit


@dataclass(frozen=True)
class RichTtsSequence(SpeakStreamSequence):
    """A text of T positions with its speech.

    Attributes:
        first_letter, last_letter: int64 [F], positions of the word that each predicted frame speaks.
    """

    first_letter: np.ndarray
    last_letter: np.ndarray


@dataclass(frozen=True)
class RichTtsBatch(SpeakStreamBatch):
    """SpeakStream's batch, and the position in its row of each predicted frame's word, int64 [P] each."""

    first_letter: Tensor
    last_letter: Tensor


def options_of(words: int) -> RichTtsOptions:
    """Engine options for pieces of so many words; 0 leaves the text whole."""
    return RichTtsOptions(NGRAM, words) if words else RichTtsOptions()


def pieces(sentence: Sentence, silence: np.ndarray, options: RichTtsOptions, prompt: int) -> list[RichTtsSequence]:
    """A sentence cut into the texts that are fed, each with its speech; a pause belongs to the mark before it.

    Args:
        silence: the speaker's, uint8 [S, 80].
        prompt: frames of silence that follow s_bos.
    """
    of_word = np.minimum(frame_words(sentence), len(sentence.words) - 1)
    quiet, out, first = np.resize(silence, (prompt, dmel.CHANNELS)), list[RichTtsSequence](), 0
    while first < len(sentence.words):
        count = options.pieces.length(sentence.words[first:], is_all=True)
        assert count is not None, "the whole sentence is there"
        here = (of_word >= first) & (of_word < first + count)
        if here.any():
            out.append(_lay_out(sentence, sentence.words[first : first + count], here, of_word[here] - first, quiet))
        first += count
    return out


def _lay_out(
    sentence: Sentence, words: list[str], here: np.ndarray, word_of_frame: np.ndarray, quiet: np.ndarray
) -> RichTtsSequence:
    """[w_bos, w_1 .. w_t, w_eos, s_bos, silence, s_1 .. s_t]; s_eos is predicted after the last frame.

    Args:
        here: bool [F], the sentence's frames in which these words are spoken.
        word_of_frame: the word of each of these frames.
    """
    text, levels, phones = symbols(words), sentence.levels[here], sentence.phones[here]
    ends = np.array([*accumulate((len(spell(word)) for word in words), initial=0)])  # behind w_bos
    tokens, prompt, frames = len(text), len(quiet), len(levels)
    kind = np.repeat(np.array([SYMBOL, FRAME], np.uint8), [tokens, prompt + frames])
    target = np.full(len(kind), -1, np.int32)
    stop = np.full(len(kind), np.nan, np.float32)
    before = tokens + prompt - 1  # the position that predicts the first frame
    target[before : before + frames] = prompt + np.arange(frames)
    stop[before : before + frames + 1] = 0.0
    stop[-1] = 1.0
    return RichTtsSequence(
        kind=kind,
        value=np.array([*text, *range(prompt + frames)], np.int32),
        target=target,
        stop=stop,
        windows=np.zeros((0, 3), np.int64),
        levels=np.concatenate((quiet, levels)),
        phones=np.concatenate((np.zeros(prompt, np.uint8), phones)),
        starts=[0],
        speaker=sentence.speaker,
        first_letter=1 + ends[word_of_frame],
        last_letter=ends[word_of_frame + 1],
    )


def collate(group: Sequence[RichTtsSequence], speakers: list[str], noise_share: float, rng: Rng) -> RichTtsBatch:
    """Pad pieces to the longest."""
    batch = speakstream.collate(group, speakers, noise_share, rng)
    first, last = (
        torch.from_numpy(np.concatenate([getattr(piece, name) for piece in group]))
        for name in ("first_letter", "last_letter")
    )
    return RichTtsBatch(**vars(batch), first_letter=first, last_letter=last)


class RichTtsTrainingModule(NextFrameModule):
    """RichTTS with its training-only phone head; one head of attention may be guided."""

    def guided_head(self, batch: RichTtsBatch) -> GuidedHead:
        """Guided to any letter of the spoken word."""
        return GuidedHead(self.net.decoder, batch.target_at, batch.first_letter, batch.last_letter)

    def hidden(self, batch: RichTtsBatch, watch: AttentionHook | None = None) -> Tensor:
        net = self.net
        rows, length = batch.symbols.shape
        x = net.embed_symbols(batch.symbols, batch.speaker).flatten(0, 1)
        frames = net.embed_frames(batch.frame_levels, batch.speaker[batch.frame_at // length])
        x = x.index_copy(0, batch.frame_at, frames.to(x.dtype))
        return net.decoder(x.view(rows, length, -1), watch=watch).flatten(0, 1)


class RichTtsTraining(FamilyTraining[RichTtsFit]):
    """Training of RichTTS or its n-gram form by a recipe."""

    def build_module(self) -> RichTtsTrainingModule:
        fit = self.settings
        net = RichTts(RichTtsConfig.read(fit.config))
        return RichTtsTrainingModule(net, fit.phone_weight, fit.eos_weight, fit.guide_weight)

    def draw(self, groups: Groups, data: SpeechDataset, rng: Rng) -> Iterator[RichTtsSequence]:
        for group in groups:
            silence = data.silence[group[0].speaker]
            options = options_of(int(rng.choice(self.settings.pieces)))
            yield from pieces(join_sentences(group, silence, rng), silence, options, int(rng.integers(8, 17)))

    def validation(self, data: SpeechDataset) -> Iterator[tuple[str, list[RichTtsSequence]]]:
        """In pieces of every length that is trained."""
        for words in sorted(set(self.settings.pieces)):
            options = options_of(words)
            sequences = [
                piece for s, quiet in validation_sentences(data) for piece in pieces(s, quiet, options, prompt=10)
            ]
            yield f"{words or 'all'} words", sequences

    def collate(self, group: Sequence[RichTtsSequence], data: SpeechDataset, rng: Rng | None) -> RichTtsBatch:
        return collate(group, data.speakers, *noise_of(self.settings, rng))
