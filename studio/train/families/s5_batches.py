"""Training batches of S5-TTS and T5-TTS: phonemes for the encoder, frames for the decoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studio.engine.families.common.text_tokens import END, SPACE, spell, words_of
from studio.engine.tokenizers import dmel
from studio.text.phonemes import pronounce
from studio.train.families.common import TensorBatch
from studio.train.features import Sentence
from studio.train.fit.dataset import (
    add_level_noise,
    frame_words,
)

WHOLE = 0  # the look-ahead of a text that is seen to its end
_CONTEXT_WORDS = 8  # words before a word that its pronunciation may depend on
_NO_WORD = 1 << 20  # the word of padding: later than all


@dataclass(frozen=True)
class S5Sequence:
    """One training sequence: T phonemes and F frames.

    Attributes:
        symbols, words: int64 [T], ids and the word of each; the text's end is the last word.
        levels: uint8 [P + F, 80], P of them before the first frame that is predicted.
        spoken: int64 [F], the word of each frame by the corpus.
        begins: whether the text begins here, so that the decoder is fed its first token.
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
        symbols, words: int64 [B, T]; real: bool [B, T], not padding; place: int64 [B], of the first symbol.
        k, speaker: int64 [B].
        frames: uint8 [B, F, 80]; frame_count: int64 [B]; spoken: int64 [B, F], the word of each frame.
        fed: uint8 [B, S, 80], what each decoder step is fed; is_bos: bool [B, S], where that is the first token.
        step_of: int64 [B, F], the decoder step that predicts a frame; predicts: bool [B, F], where one does.
        frame_of: int64 [B, S], the frame of each step (0 before the first); last: int64 [B], the stop token's step.
    """

    symbols: Tensor
    words: Tensor
    real: Tensor
    place: Tensor
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
        """Number of frames to predict."""
        return int(self.predicts.sum())


def sequence(sentence: Sentence, silence: np.ndarray, k: int, skip: int = 0) -> S5Sequence:
    """A sentence with its phonemes, each word pronounced as long as word + k + 1 is unknown.

    Args:
        k: the look-ahead, or ``WHOLE``.
        silence: uint8 [P, 80], frames that precede the first one.
        skip: words left out at the beginning, as if a slot had dropped them; the frame before is fed.
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
    places: bool = True,
) -> S5Batch:
    """Pad sequences to the longest; ``places`` draws a random position offset for each."""
    count, most_symbols = len(group), max(len(s.symbols) for s in group)
    most_frames = max(len(s.spoken) for s in group)
    most_steps = max(s.begins + len(s.levels) for s in group)
    arrays: dict[str, Any] = {
        "symbols": np.full((count, most_symbols), SPACE),
        "words": np.full((count, most_symbols), _NO_WORD),
        "real": np.zeros((count, most_symbols), bool),
        "frames": np.zeros((count, most_frames, dmel.CHANNELS), np.uint8),
        "spoken": np.zeros((count, most_frames), np.int64),
        "fed": np.zeros((count, most_steps, dmel.CHANNELS), np.uint8),
        "is_bos": np.zeros((count, most_steps), bool),
        "step_of": np.zeros((count, most_frames), np.int64),
        "predicts": np.zeros((count, most_frames), bool),
        "frame_of": np.zeros((count, most_steps), np.int64),
        "place": rng.integers(0, 2048, count) if places else np.zeros(count, np.int64),
        "k": np.array([s.k for s in group]),
        "speaker": np.array([speakers.index(s.speaker) for s in group]),
        "frame_count": np.array([len(s.spoken) for s in group]),
        "last": np.array([s.begins + len(s.levels) - 1 for s in group]),
    }
    for row, s in enumerate(group):
        symbols, frames, steps = len(s.symbols), len(s.spoken), s.begins + len(s.levels)
        arrays["symbols"][row, :symbols], arrays["words"][row, :symbols] = s.symbols, s.words
        arrays["real"][row, :symbols] = True
        arrays["frames"][row, :frames], arrays["spoken"][row, :frames] = s.levels[s.prompt :], s.spoken
        arrays["is_bos"][row, 0] = s.begins
        arrays["fed"][row, int(s.begins) : steps] = add_level_noise(s.levels, noise_share, rng)
        arrays["step_of"][row, :frames] = s.begins + s.prompt - 1 + np.arange(frames)
        arrays["predicts"][row, :frames] = True
        arrays["frame_of"][row, :steps] = np.clip(np.arange(steps) + 1 - s.begins - s.prompt, 0, frames - 1)
    return S5Batch(**{name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()})
