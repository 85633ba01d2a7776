"""Batches for Tacotron 2: clauses as the engine cuts them, with what their frames are to attend to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studio.core.text.clauses import ClauseRule
from studio.core.text.typography import MARKS
from studio.engine.alphabets import dmel
from studio.engine.families.spelling import END, PHONEMES, SPACE, spell, words_of
from studio.engine.families.tacotron.rule import WHOLE, Options, prosody_of, repeated
from studio.text.phonemes import pronounce
from studio.train.families.guide import spread
from studio.train.features import Sentence, phone_of
from studio.train.loop.spoken import SpokenText, cut, in_batches, join, noisy, words_of_frames
from studio.train.recipes.fits import TacotronFit


@dataclass(frozen=True)
class ClauseFrames:
    """A clause of T symbols, its end among them, and F frames.

    Attributes:
        symbols, prosody: int64 [T].
        levels: uint8 [1 + F, 80], the frame before and its own.
        words: int64 [T], the word of each symbol; the end is of the last one.
        spoken: int64 [F], the word of each frame; places: int64 [F], the symbol that it should attend to.
        phones: uint8 [F], what is heard in each frame.
        speaker: who says it.
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
class Batch:
    """Tensors of one step: B clauses of at most T symbols and F frames.

    Attributes:
        symbols, prosody, words: int64 [B, T]; real: bool [B, T], what is there.
        speaker: int64 [B].
        fed, frames: uint8 [B, F, 80], the frame before each, and itself; there: bool [B, F].
        spoken: int64 [B, F], the word of each frame; places: float32 [B, F], where it should attend, in symbols.
        phones: int64 [B, F], what is heard in each frame.
        last: int64 [B], the frame with which each clause is over.
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
        """How many frames are predicted."""
        return int(self.there.sum())

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return replace(self, **{name: value.to(device) for name, value in vars(self).items()})


def training_batches(text: SpokenText, recipe: TacotronFit, seed: int, number: int) -> Iterator[Batch]:
    """One pass over every sentence, cut into clauses anew each time; the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])

    def make(plans: Sequence[list[Sentence]]) -> Iterator[ClauseFrames]:
        for plan in plans:
            silence = text.silence[plan[0].speaker]
            yield from clauses(join(plan, silence, rng), silence, rule_of(int(rng.choice(recipe.clause_words))))

    for group in in_batches(text, recipe, rng, make):
        yield collate(group, text.speakers, recipe.noise_share, rng)


def validation_batches(text: SpokenText, words: int, batch_tokens: int, each: int = 24) -> Iterator[Batch]:
    """The first unseen sentences of every speaker in clauses of so many words, without noise."""
    rng = np.random.default_rng(0)
    made = [
        clause
        for speaker in text.speakers
        for sentence in text.validation[speaker][:each]
        for clause in clauses(sentence, text.silence[speaker], rule_of(words))
    ]
    for group in cut(sorted(made, key=len), batch_tokens):
        yield collate(group, text.speakers, 0.0, rng)


def rule_of(words: int) -> ClauseRule:
    """The engine's own rule for clauses of so many words; 0 for all the text at once."""
    return (Options(clause_words=words) if words else Options(mode=WHOLE)).clauses


def clauses(sentence: Sentence, silence: np.ndarray, rule: ClauseRule) -> list[ClauseFrames]:
    """A sentence in clauses, each with its pause; before the first one comes a silence, uint8 [S, 80]."""
    frames = np.minimum(words_of_frames(sentence), len(sentence.words) - 1)
    levels, found, first = np.concatenate((silence[-1:], sentence.levels)), list[ClauseFrames](), 0
    while first < len(sentence.words):
        count = rule.length(sentence.words[first:], is_all=True)
        assert count is not None, "the whole sentence is there"
        here = np.flatnonzero((frames >= first) & (frames < first + count))
        said = pronounce(sentence.words[first : first + count])
        spelled = [spell(phonemes) for phonemes in said]
        if len(here):
            made = ClauseFrames(
                symbols=np.array([*chain.from_iterable(spelled), END], np.int64),
                prosody=np.array(repeated([prosody_of(phonemes) for phonemes in said], spelled), np.int64),
                levels=levels[here[0] : here[-1] + 2],
                words=np.array([*words_of(spelled), count - 1], np.int64),
                spoken=frames[here] - first,
                places=spread(frames[here] - first, sentence.phones[here], [*map(_phones_of_symbols, said)]),
                phones=sentence.phones[here],
                speaker=sentence.speaker,
            )
            found.append(made)
        first += count
    return found


def _phones_of_symbols(said: str) -> list[tuple[int, ...]]:
    """The phone of each symbol of a word that is spelt by ``spell``: none of the space before it."""
    phones = (phone_of(symbol) for symbol in said if symbol in PHONEMES or symbol in MARKS)
    return [(), *((phone,) for phone in phones if phone is not None)]


def collate(
    group: Sequence[ClauseFrames], speakers: Sequence[str], noise_share: float, rng: np.random.Generator
) -> Batch:
    """Pad clauses to the longest."""
    count, most, longest = len(group), max(len(s.symbols) for s in group), max(len(s.spoken) for s in group)
    made: dict[str, Any] = {
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
        made["symbols"][row, symbols], made["prosody"][row, symbols] = s.symbols, s.prosody
        made["words"][row, symbols], made["real"][row, symbols] = s.words, True
        made["fed"][row, frames] = noisy(s.levels[:-1], noise_share, rng)
        made["frames"][row, frames], made["there"][row, frames] = s.levels[1:], True
        made["spoken"][row, frames], made["places"][row, frames] = s.spoken, s.places
        made["phones"][row, frames] = s.phones
    return Batch(**{name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in made.items()})
