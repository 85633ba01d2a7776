"""Training batches of Tacotron 2: clauses as the engine cuts them, with the attention target of each frame."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studio.core.text.typography import MARKS
from studio.core.text.words import ClauseRule
from studio.engine.families.common.text_tokens import END, PHONEMES, SPACE, spell, words_of
from studio.engine.families.tacotron.policy import WHOLE, TacotronOptions, prosody_of, repeat_by_symbol
from studio.engine.tokenizers import dmel
from studio.text.phonemes import pronounce
from studio.train.families.common import TensorBatch, token_of_frames
from studio.train.features import Sentence, phone_of
from studio.train.fit.dataset import (
    add_level_noise,
    frame_words,
)


@dataclass(frozen=True)
class TacotronSequence:
    """A clause of T symbols, its end included, and F frames.

    Attributes:
        symbols, prosody: int64 [T].
        levels: uint8 [1 + F, 80], the frame before and its own.
        words: int64 [T], the word of each symbol; the end belongs to the last one.
        spoken: int64 [F], the word of each frame; places: int64 [F], the symbol that it should attend to.
        phones: uint8 [F].
    """

    symbols: np.ndarray
    prosody: np.ndarray
    levels: np.ndarray
    words: np.ndarray
    spoken: np.ndarray
    places: np.ndarray
    phones: np.ndarray
    speaker: str

    def __len__(self) -> int:
        return len(self.symbols) + len(self.spoken)


@dataclass(frozen=True)
class TacotronBatch(TensorBatch):
    """B clauses of at most T symbols and F frames.

    Attributes:
        symbols, prosody, words: int64 [B, T]; real: bool [B, T], not padding.
        speaker: int64 [B].
        fed, frames: uint8 [B, F, 80], the frame before each, and itself; there: bool [B, F], not padding.
        spoken: int64 [B, F], the word of each frame; places: float32 [B, F], the symbol that it should attend to.
        phones: int64 [B, F].
        last: int64 [B], the last frame of each clause.
    """

    symbols: Tensor
    prosody: Tensor
    words: Tensor
    real: Tensor
    speaker: Tensor
    fed: Tensor
    frames: Tensor
    there: Tensor
    spoken: Tensor
    places: Tensor
    phones: Tensor
    last: Tensor

    @property
    def predicted(self) -> int:
        """Number of frames to predict."""
        return int(self.there.sum())


def clause_rule(words: int) -> ClauseRule:
    """The engine's rule for clauses of so many words; 0 for the whole text at once."""
    return (TacotronOptions(clause_words=words) if words else TacotronOptions(mode=WHOLE)).clauses


def cut_into_clauses(sentence: Sentence, silence: np.ndarray, rule: ClauseRule) -> list[TacotronSequence]:
    """A sentence in clauses, each with its pause; ``silence`` uint8 [S, 80] precedes the first one."""
    frames = np.minimum(frame_words(sentence), len(sentence.words) - 1)
    levels, clauses, first = np.concatenate((silence[-1:], sentence.levels)), list[TacotronSequence](), 0
    while first < len(sentence.words):
        count = rule.length(sentence.words[first:], is_all=True)
        assert count is not None, "the whole sentence is there"
        here = np.flatnonzero((frames >= first) & (frames < first + count))
        pronounced = pronounce(sentence.words[first : first + count])
        spelled = [spell(phonemes) for phonemes in pronounced]
        if len(here):
            of_frames = frames[here] - first
            clause = TacotronSequence(
                symbols=np.array([*chain.from_iterable(spelled), END], np.int64),
                prosody=np.array(repeat_by_symbol([prosody_of(one) for one in pronounced], spelled), np.int64),
                levels=levels[here[0] : here[-1] + 2],
                words=np.array([*words_of(spelled), count - 1], np.int64),
                spoken=of_frames,
                places=token_of_frames(of_frames, sentence.phones[here], [*map(_phones_of_symbols, pronounced)]),
                phones=sentence.phones[here],
                speaker=sentence.speaker,
            )
            clauses.append(clause)
        first += count
    return clauses


def _phones_of_symbols(phonemes: str) -> list[tuple[int, ...]]:
    """The phone of each symbol that ``spell`` makes of a word; the space before it has none."""
    phones = (phone_of(symbol) for symbol in phonemes if symbol in PHONEMES or symbol in MARKS)
    return [(), *((phone,) for phone in phones if phone is not None)]


def collate(
    group: Sequence[TacotronSequence], speakers: Sequence[str], noise_share: float, rng: np.random.Generator
) -> TacotronBatch:
    """Pad clauses to the longest."""
    count, most, longest = len(group), max(len(s.symbols) for s in group), max(len(s.spoken) for s in group)
    arrays: dict[str, Any] = {
        "symbols": np.full((count, most), SPACE),
        "prosody": np.zeros((count, most), np.int64),
        "words": np.full((count, most), -1),
        "real": np.zeros((count, most), bool),
        "fed": np.zeros((count, longest, dmel.CHANNELS), np.uint8),
        "frames": np.zeros((count, longest, dmel.CHANNELS), np.uint8),
        "there": np.zeros((count, longest), bool),
        "spoken": np.zeros((count, longest), np.int64),
        "places": np.zeros((count, longest), np.float32),
        "phones": np.zeros((count, longest), np.int64),
        "speaker": np.array([speakers.index(s.speaker) for s in group]),
        "last": np.array([len(s.spoken) - 1 for s in group]),
    }
    for row, s in enumerate(group):
        symbols, frames = slice(len(s.symbols)), slice(len(s.spoken))
        for name in ("symbols", "prosody", "words"):
            arrays[name][row, symbols] = getattr(s, name)
        for name in ("spoken", "places", "phones"):
            arrays[name][row, frames] = getattr(s, name)
        arrays["real"][row, symbols] = arrays["there"][row, frames] = True
        arrays["fed"][row, frames] = add_level_noise(s.levels[:-1], noise_share, rng)
        arrays["frames"][row, frames] = s.levels[1:]
    return TacotronBatch(**{name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()})
