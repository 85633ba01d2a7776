"""Training batches of S5-TTS and T5-TTS: phonemes for the encoder, frames for the decoder."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from studio.engine.families.common.text_tokens import END, SPACE, spell, words_of
from studio.engine.tokenizers import dmel
from studio.text.phonemes import pronounce
from studio.train.families.common import TensorBatch, padded
from studio.train.features import Sentence
from studio.train.fit.dataset import add_level_noise, frame_words

WHOLE = 0  # look-ahead to the end of the text
_CONTEXT_WORDS = 8  # preceding words on which a word's pronunciation may depend
_NO_WORD = 1 << 20  # the word of padding: later than all


@dataclass(frozen=True)
class S5Sequence:
    """One training sequence: T phonemes and F frames.

    Attributes:
        symbols, words: int64 [T], ids and the word of each; the text's end is the last word.
        levels: uint8 [P + F, 80], P of them before the first frame that is predicted.
        spoken: int64 [F], the word of each frame by the corpus.
        begins: whether the text begins here, so that the decoder's first input is its BOS token.
    """

    symbols: np.ndarray
    words: np.ndarray
    levels: np.ndarray
    spoken: np.ndarray
    prompt: int
    begins: bool
    k: int
    speaker: str

    def __len__(self) -> int:
        return len(self.symbols) + len(self.levels)


@dataclass(frozen=True)
class S5Batch(TensorBatch):
    """Tensors of one step: B sequences of at most T phonemes, F frames and S decoder steps.

    Attributes:
        symbols, words: int64 [B, T]; real: bool [B, T], not padding; position: int64 [B], of the first symbol.
        k, speaker: int64 [B].
        frames: uint8 [B, F, 80]; frame_count: int64 [B]; spoken: int64 [B, F], the word of each frame.
        fed: uint8 [B, S, 80], the input of each decoder step; is_bos: bool [B, S], where that is the BOS token.
        step_of: int64 [B, F], the decoder step that predicts a frame; predicts: bool [B, F], where one does.
        frame_of: int64 [B, S], the frame of each step (0 before the first); last: int64 [B], the stop token's step.
    """

    symbols: Tensor
    words: Tensor
    real: Tensor
    position: Tensor
    k: Tensor
    speaker: Tensor
    frames: Tensor
    frame_count: Tensor
    spoken: Tensor
    fed: Tensor
    is_bos: Tensor
    step_of: Tensor
    predicts: Tensor
    frame_of: Tensor
    last: Tensor

    @property
    def predicted(self) -> int:
        return int(self.predicts.sum())


def sequence(sentence: Sentence, silence: np.ndarray, k: int, skip: int = 0) -> S5Sequence:
    """A sentence with its phonemes, each word pronounced from a context of k later words.

    Args:
        k: the look-ahead, or ``WHOLE``.
        silence: uint8 [P, 80], frames that precede the first one.
        skip: words omitted at the beginning, as if dropped from a slot; the frame before them is the first input.
    """
    words = sentence.words
    pronounced = pronounce(words)[skip:] if k == WHOLE else _pronounce_with(words, k)[skip:]
    spelled = [*map(spell, pronounced), [END]]
    first = sentence.word_ends[skip - 1] if skip else 0
    before = sentence.levels[first - 1 : first] if skip else silence
    return S5Sequence(
        symbols=np.concatenate([np.array(word, np.int64) for word in spelled]),
        words=np.array(words_of(spelled), np.int64),
        levels=np.concatenate([before, sentence.levels[first:]]),
        spoken=frame_words(sentence)[first:] - skip,
        prompt=len(before),
        begins=skip == 0,
        k=k,
        speaker=sentence.speaker,
    )


def _pronounce_with(words: Sequence[str], k: int) -> list[str]:
    """The phonemes of each word when k words after it are known."""
    return [pronounce(words[max(0, i - _CONTEXT_WORDS) : i + k + 1])[min(i, _CONTEXT_WORDS)] for i in range(len(words))]


def can_align(one: S5Sequence) -> bool:
    """Whether there are enough frames for every phoneme."""
    return len(one.spoken) >= len(one.symbols)


def collate(
    group: Sequence[S5Sequence],
    speakers: Sequence[str],
    noise_share: float,
    rng: np.random.Generator,
    offset_positions: bool = True,
) -> S5Batch:
    """Pad sequences to the longest; ``offset_positions`` draws a random position offset for each."""
    position = rng.integers(0, 2048, len(group)) if offset_positions else np.zeros(len(group), np.int64)
    steps = [np.arange(s.begins + len(s.levels)) for s in group]
    fed = [add_level_noise(s.levels, noise_share, rng) for s in group]
    first = np.zeros((1, dmel.CHANNELS), np.uint8)  # placeholder of the decoder's BOS token
    last_frames = [len(s.spoken) - 1 for s in group]
    arrays = {
        "symbols": padded([s.symbols for s in group], SPACE),
        "words": padded([s.words for s in group], _NO_WORD),
        "real": padded([np.ones(len(s.symbols), bool) for s in group]),
        "frames": padded([s.levels[s.prompt :] for s in group]),
        "spoken": padded([s.spoken for s in group]),
        "fed": padded([np.concatenate((first, one)) if s.begins else one for s, one in zip(group, fed, strict=True)]),
        "is_bos": padded([(at == 0) & s.begins for s, at in zip(group, steps, strict=True)]),
        "step_of": padded([s.begins + s.prompt - 1 + np.arange(len(s.spoken)) for s in group]),
        "predicts": padded([np.ones(len(s.spoken), bool) for s in group]),
        "frame_of": padded(
            [
                np.clip(at + 1 - s.begins - s.prompt, 0, last)
                for s, at, last in zip(group, steps, last_frames, strict=True)
            ]
        ),
        "position": position,
        "k": np.array([s.k for s in group]),
        "speaker": np.array([speakers.index(s.speaker) for s in group]),
        "frame_count": np.array([len(s.spoken) for s in group]),
        "last": np.array([at[-1] for at in steps]),
    }
    return S5Batch(**{name: torch.from_numpy(value) for name, value in arrays.items()})
