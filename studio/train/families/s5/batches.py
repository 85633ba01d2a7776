"""Batches for S5-TTS: phonemes on the encoder's side, frames on the decoder's, padded and turned into tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.families.spelling import END, SPACE, spell, words_of
from studio.text.phonemes import pronounce
from studio.train.features import Sentence
from studio.train.loop.spoken import SpokenText, cut, in_batches, join, noisy, words_of_frames
from studio.train.recipes.fits import FitRecipe

WHOLE = 0  # the look-ahead of a text that is seen to its end
_BEHIND_WORDS = 8  # that a word's phonemes are asked with
_NO_WORD = 1 << 20  # the word of what only fills up: later than all


@dataclass(frozen=True)
class Sequence5:
    """One training sequence: T phonemes and F frames.

    Attributes:
        symbols, words: int64 [T], ids and the word of each; the text's end is the last word.
        levels: uint8 [P + F, 80], P of them before the first frame that is predicted.
        spoken: int64 [F], the word of each frame by the corpus.
        begins: whether the text begins here, so that the decoder's first token goes ahead.
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
class Batch:
    """Tensors of one step: B sequences of at most T phonemes, F frames and S decoder steps.

    Attributes:
        symbols, words: int64 [B, T]; real: bool [B, T], what is there; place: int64 [B], of the first symbol.
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
        """How many frames are predicted."""
        return int(self.predicts.sum())

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return replace(self, **{name: value.to(device) for name, value in vars(self).items()})


def training_batches(
    text: SpokenText, recipe: FitRecipe, look_ahead: Sequence[int], seed: int, number: int
) -> Iterator[Batch]:
    """One pass over every sentence in random order and company; the same for the same seed and number.

    Args:
        look_ahead: the k of a sequence is one of these.
    """
    rng = np.random.default_rng([seed, number])

    def make(plans: Sequence[list[Sentence]]) -> list[Sequence5]:
        return [*filter(can_align, [_make(one, text, recipe, look_ahead, rng) for one in plans])]

    for group in in_batches(text, recipe, rng, make):
        yield collate(group, text.speakers, recipe.noise_share, rng)


def validation_batches(text: SpokenText, k: int, batch_tokens: int, each: int = 24) -> Iterator[Batch]:
    """The first unseen sentences of every speaker, with a fixed look-ahead and no noise."""
    rng = np.random.default_rng(0)
    made = [sequence(s, text.silence[speaker], k) for speaker in text.speakers for s in text.validation[speaker][:each]]
    for group in cut(sorted((one for one in made if can_align(one)), key=len), batch_tokens):
        yield collate(group, text.speakers, 0.0, rng, places=False)


def sequence(sentence: Sentence, silence: np.ndarray, k: int, skip: int = 0) -> Sequence5:
    """A sentence with its phonemes, each word's as they are said before word + k + 1 is known.

    Args:
        k: the look-ahead, or ``WHOLE``.
        silence: uint8 [P, 80], frames that precede the first one.
        skip: words left out at the beginning, as by a slot that forgot them; the frame before is fed.
    """
    words = sentence.words
    said = pronounce(words)[skip:] if k == WHOLE else _said_with(words, k)[skip:]
    spelled = [*map(spell, said), [END]]
    first = sentence.word_ends[skip - 1] if skip else 0
    before = sentence.levels[first - 1 : first] if skip else silence
    return Sequence5(
        symbols=np.concatenate([np.array(word, np.int64) for word in spelled]),
        words=np.array(words_of(spelled), np.int64),
        levels=np.concatenate([before, sentence.levels[first:]]),
        spoken=words_of_frames(sentence)[first:] - skip,
        prompt=len(before),
        begins=skip == 0,
        k=k,
        speaker=sentence.speaker,
    )


def _said_with(words: Sequence[str], k: int) -> list[str]:
    """The phonemes of each word as k words after it are known."""
    return [pronounce(words[max(0, i - _BEHIND_WORDS) : i + k + 1])[min(i, _BEHIND_WORDS)] for i in range(len(words))]


def _make(
    group: Sequence[Sentence],
    text: SpokenText,
    recipe: FitRecipe,
    look_ahead: Sequence[int],
    rng: np.random.Generator,
) -> Sequence5:
    silence = text.silence[group[0].speaker]
    joined = join(group, silence, rng)
    k = int(rng.choice(look_ahead))
    skip = int(rng.integers(1, len(group[0].words) + 1)) if len(group) > 1 and rng.random() < recipe.crop_share else 0
    return sequence(joined, silence, k, skip)


def can_align(one: Sequence5) -> bool:
    """Whether every phoneme can have a frame."""
    return len(one.spoken) >= len(one.symbols)


def collate(
    group: Sequence[Sequence5],
    speakers: Sequence[str],
    noise_share: float,
    rng: np.random.Generator,
    places: bool = True,
) -> Batch:
    """Pad sequences to the longest; ``places`` draws where in a text each of them stands."""
    count, most_symbols = len(group), max(len(s.symbols) for s in group)
    most_frames = max(len(s.spoken) for s in group)
    most_steps = max(s.begins + len(s.levels) for s in group)
    made: dict[str, Any] = {
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
        made["symbols"][row, :symbols], made["words"][row, :symbols] = s.symbols, s.words
        made["real"][row, :symbols] = True
        made["frames"][row, :frames], made["spoken"][row, :frames] = s.levels[s.prompt :], s.spoken
        made["is_bos"][row, 0] = s.begins
        made["fed"][row, int(s.begins) : steps] = noisy(s.levels, noise_share, rng)
        made["step_of"][row, :frames] = s.begins + s.prompt - 1 + np.arange(frames)
        made["predicts"][row, :frames] = True
        made["frame_of"][row, :steps] = np.clip(np.arange(steps) + 1 - s.begins - s.prompt, 0, frames - 1)
    return Batch(**{name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in made.items()})
