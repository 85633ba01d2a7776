"""Training sequences of DSM-TTS: two streams of text on the grid, the sound delayed, who speaks; their batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.families.bpe import Bpe
from studio.engine.families.dsm.depth import GROUP_CHANNELS
from studio.engine.families.dsm.net import Config
from studio.engine.families.dsm.rule import MOST_SPEAKERS, Grid, lay_out
from studio.train.bpe import encoded_words, phones_of_tokens
from studio.train.families.guide import NOWHERE, spread
from studio.train.features import Sentence
from studio.train.loop.spoken import SpokenText, cut, in_batches, join, noisy, prompts
from studio.train.recipes.fits import DsmFit


@dataclass(frozen=True)
class Batch:
    """Tensors of one step of training; S is the longest sequence's steps.

    Attributes:
        text, ahead: int64 [B, S], symbols of the two text streams.
        fed, drawn: uint8 [B, S, 80], what the step before drew, and what this one is to draw: channels of different
            frames, padding where nothing is due.
        action: int64 [B, S], 1 where a word begins next, 0 where none does, -1 where it is not asked.
        phones: int64 [B, S], of the frame whose first group is drawn; -1 where none is.
        token_at: int64 [B, S], the step of the text token that this frame speaks; ``guide.NOWHERE`` where none does.
        extracts: uint8 [K, E, 80], recordings of speakers.
        speakers: int64 [B, 5], indices into them; -1 for nobody.
    """

    text: Tensor
    ahead: Tensor
    fed: Tensor
    drawn: Tensor
    action: Tensor
    phones: Tensor
    token_at: Tensor
    extracts: Tensor
    speakers: Tensor

    @property
    def predicted(self) -> int:
        """Frames to predict."""
        return int((self.drawn[:, :, 0] != dmel.PAD).sum())

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return Batch(**{k: v.to(device) for k, v in vars(self).items()})


@dataclass(frozen=True)
class Spoken:
    """Sentences as one stretch.

    Attributes:
        words: tokens of each, that of a turn before them.
        starts: the frame in which each begins; ``end`` the one in which the last ends.
        levels: uint8 [F, 80]; phones: uint8 [F].
        speakers: who speaks, the main one first.
    """

    words: list[list[int]]
    starts: list[int]
    end: int
    levels: np.ndarray
    phones: np.ndarray
    speakers: list[str]


@dataclass(frozen=True)
class Sequenced:
    """A stretch on its grid without its first ``skip`` steps, and recordings of its speakers, uint8 [e, 80] each.

    ``token_at`` int64 [F] is the step of the token that each frame speaks, ``guide.NOWHERE`` of none.
    """

    grid: Grid
    levels: np.ndarray
    phones: np.ndarray
    token_at: np.ndarray
    extracts: list[np.ndarray]
    skip: int = 0

    def __len__(self) -> int:
        return len(self.grid.text) - self.skip

    def guided(self, delay: int) -> np.ndarray:
        """Of each step that is left, the step (among these) whose token it speaks, int64 [S]; else NOWHERE."""
        whole = np.full(len(self.grid.text), NOWHERE, np.int64)
        whole[delay : delay + len(self.token_at)] = self.token_at
        left = whole[self.skip :]
        return np.where(left < self.skip, NOWHERE, left - self.skip)


def word_starts(sentence: Sentence) -> list[int]:
    """The frame in which each word begins: after the word before it and its pause."""
    starts = []
    for begin, end in zip([0, *sentence.word_ends[:-1]], sentence.word_ends, strict=True):
        heard = np.flatnonzero(sentence.phones[begin:end])
        starts.append(begin + int(heard[0]) if len(heard) else begin)
    return starts


class Streams:
    """Sentences as stretches by an encoding, and stretches as sequences by a net's delays."""

    def __init__(self, bpe: Bpe, config: Config, dropout: float = 0.0) -> None:
        self.bpe, self.config, self.symbols, self._dropout = bpe, config, config.symbols, dropout
        self._phones = phones_of_tokens(bpe)

    def spoken(self, parts: Sequence[Sentence], rng: np.random.Generator | None = None) -> Spoken:
        """Sentences one after another, with who speaks each; the first one's speaker is the main one.

        Where a generator is given, merges of the encoding are passed over as often as the dropout says.
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
        starts[0] = 0  # a stretch begins with a word
        levels, phones = (np.concatenate([getattr(one, name) for one in parts]) for name in ("levels", "phones"))
        return Spoken(words, starts, end, levels, phones, speakers)

    def sequence(self, said: Spoken, extracts: list[np.ndarray]) -> Sequenced:
        """A stretch on the grid, up to the step that draws the last of its sound."""
        c = self.config
        steps = len(said.levels) + c.delay_frames + c.acoustic_delay_frames
        grid = lay_out(said.words, said.starts, said.end, steps, self.symbols, c.look_ahead_words)
        frames = np.arange(len(said.levels))
        of_frame = np.where(frames < said.end, np.searchsorted(said.starts, frames, "right") - 1, len(said.words))
        phones = [[self._phones[token] if token < self.bpe.size else () for token in word] for word in said.words]
        token = spread(of_frame, said.phones, phones)
        begins = np.flatnonzero(np.array(grid.text) == self.symbols.word)
        steps_of = np.concatenate([b + 1 + np.arange(len(w)) for b, w in zip(begins, said.words, strict=True)])
        token_at = np.where(token == NOWHERE, NOWHERE, steps_of[token])
        return Sequenced(grid, said.levels, said.phones, token_at, extracts)

    def without_text(self, made: Sequenced) -> Sequenced:
        """The same where nobody tells the text: there is no action to be learned then."""
        count, symbol = len(made.grid.text), self.symbols.nothing
        grid = Grid([symbol] * count, [symbol] * count, [-1] * count)
        return replace(made, grid=grid, token_at=np.full_like(made.token_at, NOWHERE))

    def delayed(self, levels: np.ndarray, steps: int) -> np.ndarray:
        """Frames [F, 80] as they are drawn, [steps, 80]: the first group after the delay, the others yet later."""
        c = self.config
        out = np.full((steps, dmel.CHANNELS), dmel.PAD, np.uint8)
        for channels, delay in (
            (slice(0, GROUP_CHANNELS), c.delay_frames),
            (slice(GROUP_CHANNELS, None), c.delay_frames + c.acoustic_delay_frames),
        ):
            count = min(len(levels), steps - delay)
            out[delay : delay + count, channels] = levels[:count, channels]
        return out


def cut_short(sentence: Sentence, rng: np.random.Generator) -> Sentence:
    """A sentence up to a word's end, as a flush leaves it."""
    count = int(rng.integers(1, len(sentence.words) + 1))
    if count == len(sentence.words):
        return sentence
    stop = sentence.word_ends[count - 1]
    words, ends = sentence.words[:count], sentence.word_ends[:count]
    return replace(sentence, words=words, word_ends=ends, levels=sentence.levels[:stop], phones=sentence.phones[:stop])


def training_batches(text: SpokenText, streams: Streams, recipe: DsmFit, seed: int, number: int) -> Iterator[Batch]:
    """One pass over every sentence in random order and company; the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])
    for group in in_batches(text, recipe, rng, lambda plans: [_make(one, text, streams, recipe, rng) for one in plans]):
        yield collate(group, streams, recipe.noise_share, rng)


def validation_batches(
    text: SpokenText, streams: Streams, recipe: DsmFit, *, with_text: bool = True, each: int = 24
) -> Iterator[Batch]:
    """The first unseen sentences of every speaker by the voice's own recordings, without noise."""
    first = prompts(text, *recipe.extract_frames)
    made = [
        streams.sequence(streams.spoken([s]), [first[speaker].levels[: recipe.extract_frames[1]]])
        for speaker in text.speakers
        for s in text.validation[speaker][:each]
    ]
    made.sort(key=len)
    for group in cut([one if with_text else streams.without_text(one) for one in made], recipe.batch_tokens):
        yield collate(group, streams, 0.0, np.random.default_rng(0))


def _make(
    group: list[Sentence], text: SpokenText, streams: Streams, recipe: DsmFit, rng: np.random.Generator
) -> Sequenced:
    """Sentences of a speaker, perhaps in turn with another's, perhaps without text or speaker (20% each, paper)."""
    speaker = group[0].speaker
    others = [one for one in text.speakers if one != speaker and text.training[one]]
    if others and rng.random() < recipe.turn_share:
        parts = _dialogue(group, text, others[int(rng.integers(len(others)))], recipe, rng)
    else:
        sentence = join(group, text.silence[speaker], rng)
        parts = [cut_short(sentence, rng) if rng.random() < recipe.flush_share else sentence]
    said = streams.spoken(parts, rng)
    extracts = [_extract(text.training[one], recipe, rng) for one in said.speakers]
    made = streams.sequence(said, extracts)
    if len(group) > 1 and rng.random() < recipe.crop_share:
        made = replace(made, skip=int(rng.integers(1, len(made) // 2)))
    if rng.random() < recipe.speaker_dropout:
        made = replace(made, extracts=[])
    return streams.without_text(made) if rng.random() < recipe.text_dropout else made


def _dialogue(
    group: list[Sentence], text: SpokenText, other: str, recipe: DsmFit, rng: np.random.Generator
) -> list[Sentence]:
    """The sentences of a group with answers of another speaker between them, while they fit."""
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
    """Speech of a speaker from elsewhere in the corpus, as long as chance says, uint8 [e, 80]."""
    fewest, most = recipe.extract_frames
    wanted, found, frames = int(rng.integers(fewest, most + 1)), list[np.ndarray](), 0
    while frames < wanted:
        found.append(sentences[int(rng.integers(len(sentences)))].levels)
        frames += len(found[-1])
    return np.concatenate(found)[:wanted]


def collate(group: Sequence[Sequenced], streams: Streams, noise_share: float, rng: np.random.Generator) -> Batch:
    """Pad sequences to the longest; what is fed is noisy, what is drawn is not."""
    count, steps = len(group), max(len(s) for s in group)
    delay = streams.config.delay_frames
    text, ahead = (np.full((count, steps), streams.symbols.pad, np.int64) for _ in range(2))
    action, phones, token_at = (np.full((count, steps), -1, np.int64) for _ in range(3))
    fed, drawn = (np.full((count, steps, dmel.CHANNELS), dmel.PAD, np.uint8) for _ in range(2))
    speakers = np.full((count, MOST_SPEAKERS), -1, np.int64)
    extracts: list[np.ndarray] = []
    for row, s in enumerate(group):
        here, whole = slice(0, len(s)), len(s.grid.text)
        for out, of_step in ((text, s.grid.text), (ahead, s.grid.ahead), (action, s.grid.action)):
            out[row, here] = of_step[s.skip :]
        drawn[row, here] = streams.delayed(s.levels, whole)[s.skip :]
        before = np.full((1, dmel.CHANNELS), dmel.PAD, np.uint8)
        heard = np.concatenate((before, streams.delayed(noisy(s.levels, noise_share, rng), whole - 1)))
        fed[row, here] = heard[s.skip :]
        named = np.full(whole, -1, np.int64)
        named[delay : delay + len(s.phones)] = s.phones
        phones[row, here] = named[s.skip :]
        token_at[row, here] = s.guided(delay)
        for place, extract in enumerate(s.extracts[:MOST_SPEAKERS]):
            speakers[row, place] = len(extracts)
            extracts.append(extract)
    longest = max((len(one) for one in extracts), default=1)
    recorded = np.full((max(len(extracts), 1), longest, dmel.CHANNELS), dmel.PAD, np.uint8)
    for i, one in enumerate(extracts):
        recorded[i, : len(one)] = one
    arrays = (text, ahead, fed, drawn, action, phones, token_at, recorded, speakers)
    return Batch(*map(torch.from_numpy, arrays))
