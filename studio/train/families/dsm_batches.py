"""Training batches of DSM-TTS: two text streams on the step grid, delayed sound, and speakers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.dsm.depth import GROUP_CHANNELS
from studio.engine.families.dsm.model import DsmConfig
from studio.engine.families.dsm.policy import MOST_SPEAKERS, StepGrid, lay_out
from studio.engine.tokenizers import dmel
from studio.train.families.common import (
    NO_TARGET,
    TensorBatch,
    encoded_words,
    padded,
    phones_of_tokens,
    token_of_frames,
)
from studio.train.features import Sentence
from studio.train.fit.dataset import SpeechDataset, add_level_noise, join_sentences
from studio.train.recipes.fits import DsmFit


@dataclass(frozen=True)
class DsmBatch(TensorBatch):
    """Sequences of at most S steps.

    Attributes:
        text, ahead: int64 [B, S], symbols of the two text streams.
        fed, targets: uint8 [B, S, 80], output of the step before, and target of this one: channels of different frames
            (the acoustic delay), padding where there is none.
        action: int64 [B, S], 1 where a word begins next, 0 where none does, -1 without a target.
        phones: int64 [B, S], of the frame whose first group is predicted; -1 for none.
        token_at: int64 [B, S], the step of the text token spoken in this frame; ``NO_TARGET`` for none.
        extracts: uint8 [K, E, 80], recordings of speakers.
        speakers: int64 [B, 5], indices into them; -1 for none.
    """

    text: Tensor
    ahead: Tensor
    fed: Tensor
    targets: Tensor
    action: Tensor
    phones: Tensor
    token_at: Tensor
    extracts: Tensor
    speakers: Tensor

    @property
    def predicted(self) -> int:
        return int((self.targets[:, :, 0] != dmel.PAD).sum())


@dataclass(frozen=True)
class DsmSpeech:
    """Sentences as one passage.

    Attributes:
        words: tokens of each; the token of a turn precedes them.
        starts: the frame in which each begins; end: the frame in which the last one ends.
        levels: uint8 [F, 80]; phones: uint8 [F].
        speakers: the main one first.
    """

    words: list[list[int]]
    starts: list[int]
    end: int
    levels: np.ndarray
    phones: np.ndarray
    speakers: list[str]


@dataclass(frozen=True)
class DsmSequence:
    """A passage on its grid without its first ``skip`` steps, and recordings of its speakers, uint8 [e, 80] each.

    ``token_at`` int64 [F] is the step of the token that each frame speaks, or ``NO_TARGET``.
    """

    grid: StepGrid
    levels: np.ndarray
    phones: np.ndarray
    token_at: np.ndarray
    extracts: list[np.ndarray]
    skip: int = 0

    def __len__(self) -> int:
        return len(self.grid.text) - self.skip

    def guided(self, delay: int) -> np.ndarray:
        """For each remaining step, the remaining step of its spoken token, int64 [S]; else NO_TARGET."""
        whole = np.full(len(self.grid.text), NO_TARGET, np.int64)
        whole[delay : delay + len(self.token_at)] = self.token_at
        left = whole[self.skip :]
        return np.where(left < self.skip, NO_TARGET, left - self.skip)


def word_starts(sentence: Sentence) -> list[int]:
    """The frame in which each word begins: after the previous word and its pause."""
    starts = []
    for begin, end in zip([0, *sentence.word_ends[:-1]], sentence.word_ends, strict=True):
        voiced = np.flatnonzero(sentence.phones[begin:end])
        starts.append(begin + int(voiced[0]) if len(voiced) else begin)
    return starts


class DsmSequencer:
    """Turns sentences into passages by an encoding, and passages into sequences by a net's delays."""

    def __init__(self, bpe: Bpe, config: DsmConfig, dropout: float = 0.0) -> None:
        self.bpe, self.config, self.symbols, self._dropout = bpe, config, config.symbols, dropout
        self._phones = phones_of_tokens(bpe)

    def spoken(self, parts: Sequence[Sentence], rng: np.random.Generator | None = None) -> DsmSpeech:
        """Sentences one after another with their speakers; the first one's is the main one.

        With a generator, BPE merges are dropped at random.
        """
        speakers = [*dict.fromkeys(one.speaker for one in parts)]
        words, starts, end, at, before = list[list[int]](), list[int](), 0, 0, ""
        for one in parts:
            spelled = [[*tokens] for tokens in encoded_words(self.bpe, one.words, self._dropout, rng)]
            if one.speaker != before:
                turn = self.symbols.main if one.speaker == speakers[0] else self.symbols.other
                spelled[0], before = [turn, *spelled[0]], one.speaker
            words += spelled
            starts += [at + start for start in word_starts(one)]
            end, at = at + one.word_ends[-1], at + len(one.levels)
        starts[0] = 0  # a passage begins with a word
        levels, phones = (np.concatenate([getattr(one, name) for one in parts]) for name in ("levels", "phones"))
        return DsmSpeech(words, starts, end, levels, phones, speakers)

    def sequence(self, speech: DsmSpeech, extracts: list[np.ndarray]) -> DsmSequence:
        """A passage on the grid, up to the step that predicts its last channels."""
        c = self.config
        steps = len(speech.levels) + c.delay_frames + c.acoustic_delay_frames
        grid = lay_out(speech.words, speech.starts, speech.end, steps, self.symbols, c.look_ahead_words)
        frames = np.arange(len(speech.levels))
        of_frame = np.where(frames < speech.end, np.searchsorted(speech.starts, frames, "right") - 1, len(speech.words))
        phones = [[self._phones[token] if token < self.bpe.size else () for token in word] for word in speech.words]
        token = token_of_frames(of_frame, speech.phones, phones)
        begins = np.flatnonzero(np.array(grid.text) == self.symbols.word)
        steps_of = np.concatenate([b + 1 + np.arange(len(w)) for b, w in zip(begins, speech.words, strict=True)])
        token_at = np.where(token == NO_TARGET, NO_TARGET, steps_of[token])
        return DsmSequence(grid, speech.levels, speech.phones, token_at, extracts)

    def without_text(self, sequence: DsmSequence) -> DsmSequence:
        """The same sequence without text, and so without action targets."""
        count, symbol = len(sequence.grid.text), self.symbols.nothing
        grid = StepGrid([symbol] * count, [symbol] * count, [-1] * count)
        return replace(sequence, grid=grid, token_at=np.full_like(sequence.token_at, NO_TARGET))

    def delayed(self, levels: np.ndarray, steps: int) -> np.ndarray:
        """Frames [F, 80] on the prediction grid, [steps, 80]: the first group after the delay, the others later."""
        c = self.config
        out = np.full((steps, dmel.CHANNELS), dmel.PAD, np.uint8)
        for channels, delay in (
            (slice(0, GROUP_CHANNELS), c.delay_frames),
            (slice(GROUP_CHANNELS, None), c.delay_frames + c.acoustic_delay_frames),
        ):
            count = min(len(levels), steps - delay)
            out[delay : delay + count, channels] = levels[:count, channels]
        return out


def truncate_at_word(sentence: Sentence, rng: np.random.Generator) -> Sentence:
    """A sentence cut at a random word's end, as by a flush."""
    count = int(rng.integers(1, len(sentence.words) + 1))
    if count == len(sentence.words):
        return sentence
    stop = sentence.word_ends[count - 1]
    words, ends = sentence.words[:count], sentence.word_ends[:count]
    return replace(sentence, words=words, word_ends=ends, levels=sentence.levels[:stop], phones=sentence.phones[:stop])


def draw(
    group: list[Sentence], text: SpeechDataset, sequencer: DsmSequencer, recipe: DsmFit, rng: np.random.Generator
) -> DsmSequence:
    """Sentences of a speaker, at random in dialogue with another, without text or without speaker (paper: 20% each)."""
    speaker = group[0].speaker
    others = [one for one in text.speakers if one != speaker and text.training[one]]
    if others and rng.random() < recipe.turn_share:
        parts = _dialogue(group, text, others[int(rng.integers(len(others)))], recipe, rng)
    else:
        sentence = join_sentences(group, text.silence[speaker], rng)
        parts = [truncate_at_word(sentence, rng) if rng.random() < recipe.flush_share else sentence]
    speech = sequencer.spoken(parts, rng)
    extracts = [_extract(text.training[one], recipe, rng) for one in speech.speakers]
    sequence = sequencer.sequence(speech, extracts)
    if len(group) > 1 and rng.random() < recipe.crop_share:
        sequence = replace(sequence, skip=int(rng.integers(1, len(sequence) // 2)))
    if rng.random() < recipe.speaker_dropout:
        sequence = replace(sequence, extracts=[])
    return sequencer.without_text(sequence) if rng.random() < recipe.text_dropout else sequence


def _dialogue(
    group: list[Sentence], text: SpeechDataset, other: str, recipe: DsmFit, rng: np.random.Generator
) -> list[Sentence]:
    """Sentences of a group, each answered by another speaker, up to ``max_frames``."""
    answers, parts, frames = text.training[other], list[Sentence](), 0
    for sentence in group:
        answer = answers[int(rng.integers(len(answers)))]
        for one in (sentence, answer):
            if parts and frames + len(one.levels) > recipe.max_frames:
                return parts
            pause = np.resize(text.silence[one.speaker], (int(rng.integers(2, 13)), dmel.CHANNELS))
            parts.append(_after(one, pause) if parts else one)
            frames += len(parts[-1].levels)
    return parts


def _after(sentence: Sentence, pause: np.ndarray) -> Sentence:
    """A sentence after a pause."""
    return replace(
        sentence,
        word_ends=[len(pause) + end for end in sentence.word_ends],
        levels=np.concatenate((pause, sentence.levels)),
        phones=np.concatenate((np.zeros(len(pause), np.uint8), sentence.phones)),
    )


def _extract(sentences: Sequence[Sentence], recipe: DsmFit, rng: np.random.Generator) -> np.ndarray:
    """Speech of a speaker from random sentences, of random length, uint8 [e, 80]."""
    fewest, most = recipe.extract_frames
    length, parts, frames = int(rng.integers(fewest, most + 1)), list[np.ndarray](), 0
    while frames < length:
        parts.append(sentences[int(rng.integers(len(sentences)))].levels)
        frames += len(parts[-1])
    return np.concatenate(parts)[:length]


def collate(
    group: Sequence[DsmSequence], sequencer: DsmSequencer, noise_share: float, rng: np.random.Generator
) -> DsmBatch:
    """Pad sequences to the longest; fed frames are noisy, targets are not."""
    delay, before = sequencer.config.delay_frames, np.full((1, dmel.CHANNELS), dmel.PAD, np.uint8)
    speakers = np.full((len(group), MOST_SPEAKERS), -1, np.int64)
    extracts: list[np.ndarray] = []
    fed, targets, phones = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for row, s in enumerate(group):
        whole = len(s.grid.text)
        targets.append(sequencer.delayed(s.levels, whole)[s.skip :])
        past = sequencer.delayed(add_level_noise(s.levels, noise_share, rng), whole - 1)
        fed.append(np.concatenate((before, past))[s.skip :])
        of_step = np.full(whole, -1, np.int64)
        of_step[delay : delay + len(s.phones)] = s.phones
        phones.append(of_step[s.skip :])
        own = s.extracts[:MOST_SPEAKERS]
        speakers[row, : len(own)] = len(extracts) + np.arange(len(own))
        extracts += own
    text, ahead, action = (
        padded([np.array(getattr(s.grid, name)[s.skip :], np.int64) for s in group], fill)
        for name, fill in (("text", sequencer.symbols.pad), ("ahead", sequencer.symbols.pad), ("action", -1))
    )
    return DsmBatch(
        *map(torch.from_numpy, (text, ahead, padded(fed, dmel.PAD), padded(targets, dmel.PAD), action)),
        phones=torch.from_numpy(padded(phones, -1)),
        token_at=torch.from_numpy(padded([s.guided(delay) for s in group], NO_TARGET)),
        extracts=torch.from_numpy(padded(extracts or [before], dmel.PAD)),
        speakers=torch.from_numpy(speakers),
    )
