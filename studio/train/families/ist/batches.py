"""Training sequences of IST-LM, a prompt and then text and speech interleaved by the family's rule; their batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.families.bpe import Bpe
from studio.engine.families.ist.layout import FRAME, Layout, Symbols
from studio.engine.families.ist.rule import RATIOS, Ratio
from studio.train.bpe import encoded_words, phones_of_tokens
from studio.train.families.guide import NOWHERE, spread
from studio.train.features import Sentence
from studio.train.loop.spoken import SpokenText, cut, in_batches, join, noisy, prompts, words_of_frames
from studio.train.recipes.fits import IstFit

_DRAWS = 20  # until a sentence of a prompt's length is found


@dataclass(frozen=True)
class Batch:
    """Tensors of one step; positions ``..._at`` are flat indices into [B * T].

    Attributes:
        symbols, places: int64 [B, T]; filler where something else stands.
        start_at, start_ratio: int64 [N], stretches' starts and the ratio of each.
        frame_at [M], frame_levels uint8 [M, 80] (end frames among them).
        target_at [P], target_levels uint8 [P, 80], target_phones [P]; target_token [P], the position in its row of the
            text token that the frame speaks, ``guide.NOWHERE`` where none does or it has not come yet.
        stop_at [Q], stop float32 [Q].
    """

    symbols: Tensor
    places: Tensor
    start_at: Tensor
    start_ratio: Tensor
    frame_at: Tensor
    frame_levels: Tensor
    target_at: Tensor
    target_levels: Tensor
    target_phones: Tensor
    target_token: Tensor
    stop_at: Tensor
    stop: Tensor

    @property
    def predicted(self) -> int:
        """Frames to predict."""
        return len(self.target_at)

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return Batch(**{k: v.to(device) for k, v in vars(self).items()})


@dataclass(frozen=True)
class Stretch:
    """Spoken in one go: text tokens with the symbol that closes them, frames uint8 [F, 80], phones uint8 [F].

    ``spoken`` int64 [F] is the token of each frame, ``guide.NOWHERE`` where there is none.
    """

    tokens: list[int]
    levels: np.ndarray
    phones: np.ndarray
    spoken: np.ndarray


@dataclass(frozen=True)
class Interleaved:
    """Stretches laid out by one ratio; the phone of every frame, end frames too, and the position of its token."""

    layout: Layout
    phones: np.ndarray
    token_at: np.ndarray
    ratio: int

    def __len__(self) -> int:
        return len(self.layout)


class Encoded:
    """Sentences as stretches: their tokens by an encoding.

    Args:
        dropout: of merges that are passed over where a generator is given.
    """

    def __init__(self, bpe: Bpe, dropout: float = 0.0) -> None:
        self.bpe, self.symbols, self._dropout = bpe, Symbols.after(bpe.size), dropout
        self._phones = phones_of_tokens(bpe)

    def words(self, words: Sequence[str], rng: np.random.Generator | None = None) -> list[tuple[int, ...]]:
        """Words encoded one by one, as they are when they are committed; at random where a generator is given."""
        return encoded_words(self.bpe, words, self._dropout, rng)

    def tokens(self, words: Sequence[str]) -> list[int]:
        """The same in one list."""
        return [*chain.from_iterable(self.words(words))]

    def whole(self, s: Sentence, rng: np.random.Generator | None = None) -> Stretch:
        """A sentence that the text's end closes."""
        words = self.words(s.words, rng)
        return Stretch([*chain.from_iterable(words), self.symbols.end], s.levels, s.phones, self._spoken(s, words))

    def flushed(self, s: Sentence, rng: np.random.Generator) -> list[Stretch]:
        """A sentence cut where a flush came: the symbol of the flush closes its first part."""
        if len(s.words) < 2:
            return [self.whole(s, rng)]
        word = int(rng.integers(1, len(s.words)))
        at, words = s.word_ends[word - 1], self.words(s.words, rng)
        before, after = ([*chain.from_iterable(part)] for part in (words[:word], words[word:]))
        spoken = self._spoken(s, words)
        rest = np.where(spoken[at:] < len(before), NOWHERE, spoken[at:] - len(before))
        return [
            Stretch([*before, self.symbols.flush], s.levels[:at], s.phones[:at], spoken[:at]),
            Stretch([*after, self.symbols.end], s.levels[at:], s.phones[at:], rest),
        ]

    def _spoken(self, s: Sentence, words: Sequence[tuple[int, ...]]) -> np.ndarray:
        """The token of each frame."""
        return spread(words_of_frames(s), s.phones, [[self._phones[token] for token in word] for word in words])


def lay_out(stretches: Sequence[Stretch], ratio: str, symbols: Symbols) -> Interleaved:
    """Stretches one after another, each by the same ratio."""
    layout, phones, token_at = Layout(), list[np.ndarray](), list[np.ndarray]()
    for one in stretches:
        start = len(layout)
        layout.stretch(symbols, one.tokens, one.levels, Ratio.parse(ratio))
        phones += [one.phones, np.zeros(1, np.uint8)]
        places = start + 1 + np.flatnonzero(np.array(layout.symbols[start + 1 :]) != FRAME)
        token_at += [np.where(one.spoken == NOWHERE, NOWHERE, places[one.spoken]), np.full(1, NOWHERE)]
    return Interleaved(layout, np.concatenate(phones), np.concatenate(token_at), RATIOS.index(ratio))


def training_batches(text: SpokenText, encoded: Encoded, recipe: IstFit, seed: int, number: int) -> Iterator[Batch]:
    """One pass over every sentence in random order and company; the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])
    for group in in_batches(text, recipe, rng, lambda plans: [_make(one, text, encoded, recipe, rng) for one in plans]):
        yield collate(group, encoded.symbols, recipe.noise_share, rng)


def validation_batches(
    text: SpokenText, encoded: Encoded, recipe: IstFit, ratio: str, each: int = 24
) -> Iterator[Batch]:
    """The first unseen sentences of every speaker after the voice's own prompt, without noise."""
    first = prompts(text, *recipe.prompt_frames)
    made = [
        lay_out([encoded.whole(first[speaker]), encoded.whole(s)], ratio, encoded.symbols)
        for speaker in text.speakers
        for s in text.validation[speaker][:each]
    ]
    made.sort(key=len)
    for group in cut(made, recipe.batch_tokens):
        yield collate(group, encoded.symbols, 0.0, np.random.default_rng(0))


def _make(
    group: list[Sentence], text: SpokenText, encoded: Encoded, recipe: IstFit, rng: np.random.Generator
) -> Interleaved:
    """A prompt of the same speaker, then the sentences as stretches, some joined to one, one perhaps cut by a flush."""
    speaker = group[0].speaker
    stretches = [encoded.whole(one, rng) for one in _drawn_prompt(text.training[speaker], recipe, rng)]
    parts = [[group[0]]]
    for sentence in group[1:]:
        if rng.random() < recipe.next_share:
            parts.append([])
        parts[-1].append(sentence)
    for part in parts:
        sentence = join(part, text.silence[speaker], rng)
        is_cut = rng.random() < recipe.flush_share
        stretches += encoded.flushed(sentence, rng) if is_cut else [encoded.whole(sentence, rng)]
    names = recipe.ratios or RATIOS
    return lay_out(stretches, names[int(rng.integers(len(names)))], encoded.symbols)


def _drawn_prompt(sentences: Sequence[Sentence], recipe: IstFit, rng: np.random.Generator) -> list[Sentence]:
    """A sentence of a prompt's length, or none where chance finds none soon."""
    fewest, most = recipe.prompt_frames
    drawn = (sentences[int(rng.integers(len(sentences)))] for _ in range(_DRAWS))
    return [next((s for s in drawn if fewest <= len(s.levels) <= most), None) or sentences[0]]


def collate(group: Sequence[Interleaved], symbols: Symbols, noise_share: float, rng: np.random.Generator) -> Batch:
    """Pad sequences to the longest and gather what stands where."""
    length = max(len(s) for s in group)
    ids = np.full((len(group), length), symbols.filler, np.int64)
    places = np.zeros((len(group), length), np.int64)
    names = [k for k in Batch.__dataclass_fields__ if k not in ("symbols", "places")]
    parts: dict[str, list[np.ndarray]] = {k: [] for k in names}
    for row, s in enumerate(group):
        at = row * length + np.arange(len(s))
        mine, levels = np.array(s.layout.symbols), s.layout.stacked()
        is_frame = mine == FRAME
        ids[row, : len(s)][~is_frame] = mine[~is_frame]
        places[row, : len(s)] = s.layout.places
        starts = at[mine == symbols.start]
        parts["start_at"].append(starts)
        parts["start_ratio"].append(np.full(len(starts), s.ratio))
        parts["frame_at"].append(at[is_frame])
        ended = levels[:, 0] == dmel.EOS
        parts["frame_levels"].append(np.where(ended[:, None], levels, noisy(levels, noise_share, rng)))
        which = np.cumsum(is_frame) - 1  # the frame that stands at a position
        is_end = is_frame & ended[np.maximum(which, 0)]
        comes = np.append(is_frame & ~is_end, False)[1:]  # a frame is to be predicted here
        ends = np.append(is_end, False)[1:]
        parts["target_at"].append(at[comes])
        parts["target_levels"].append(levels[which[1:][comes[:-1]]])
        parts["target_phones"].append(s.phones[which[1:][comes[:-1]]].astype(np.int64))
        token_at = s.token_at[which[1:][comes[:-1]]]
        parts["target_token"].append(np.where(token_at <= np.flatnonzero(comes), token_at, NOWHERE))
        closes = (mine == symbols.end) | (mine == symbols.flush)
        is_closed = np.cumsum(closes) > np.cumsum(is_end)
        parts["stop_at"].append(at[is_closed])
        parts["stop"].append(ends[is_closed].astype(np.float32))
    tensors = {k: torch.from_numpy(np.concatenate(v)) for k, v in parts.items()}
    return Batch(symbols=torch.from_numpy(ids), places=torch.from_numpy(places), **tensors)
