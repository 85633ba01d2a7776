"""Training sequences of IST-LM, a prompt and then text and speech interleaved by the family's rule; their batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from studio.core.errors import BadFile
from studio.engine import dmel
from studio.engine.families.ist.bpe import Bpe
from studio.engine.families.ist.layout import FRAME, Layout, Symbols
from studio.engine.families.ist.rule import RATIOS, Ratio
from studio.train.features import Sentence, read_features, typical_silence
from studio.train.recipe import IstRecipe

_BUCKET = 384  # sequences sorted by length together
_PAUSE_FRAMES = (6, 13)  # between joined sentences


@dataclass(frozen=True)
class Batch:
    """Tensors of one step; positions ``..._at`` are flat indices into [B * T].

    Attributes:
        symbols, places: int64 [B, T]; filler where something else stands.
        start_at, start_ratio: int64 [N], stretches' starts and the ratio of each.
        frame_at [M], frame_levels uint8 [M, 80] (end frames among them).
        target_at [P], target_levels uint8 [P, 80], target_phones [P].
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
    stop_at: Tensor
    stop: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return Batch(**{k: v.to(device) for k, v in vars(self).items()})


@dataclass(frozen=True)
class Stretch:
    """Spoken in one go: text tokens with the symbol that closes them, frames uint8 [F, 80], phones uint8 [F]."""

    tokens: list[int]
    levels: np.ndarray
    phones: np.ndarray


@dataclass(frozen=True)
class Interleaved:
    """Stretches laid out by one ratio, and the phone of every frame, end frames too."""

    layout: Layout
    phones: np.ndarray
    ratio: int

    def __len__(self) -> int:
        return len(self.layout)


class SpokenText:
    """All sentences of a features folder by speaker, with their tokens."""

    def __init__(self, folder: Path, speakers: Sequence[str], validation_shards: int, bpe: Bpe) -> None:
        self.bpe, self.symbols = bpe, Symbols.after(bpe.size)
        self.training: dict[str, list[Sentence]] = {s: [] for s in speakers}
        self.validation: dict[str, list[Sentence]] = {s: [] for s in speakers}
        self.silence: dict[str, np.ndarray] = {}
        for speaker in speakers:
            silences = []
            for i, path in enumerate(sorted(folder.glob(f"{speaker}-*.safetensors"))):
                sentences, silence = read_features(path)
                silences.append(silence)
                (self.validation if i < validation_shards else self.training)[speaker] += sentences
            if not silences:
                raise BadFile(f"{folder} has no features of {speaker}", "make them first with `studio train features`")
            self.silence[speaker] = typical_silence(silences)

    @property
    def hours(self) -> float:
        """Speech to learn from."""
        frames = sum(len(s.levels) for side in self.training.values() for s in side)
        return frames * dmel.TIME_BASE.frame_ms / 3.6e6

    def prompts(self, fewest: int, most: int) -> list[Sentence]:
        """The first sentence of each speaker that is a whole one and as long as a prompt should be."""
        found = []
        for speaker, sentences in self.training.items():
            fits = (s for s in sentences if fewest <= len(s.levels) <= most and s.words[-1].endswith("."))
            sentence = next(fits, None)
            if sentence is None:
                raise BadFile(f"no sentence of {speaker} has {fewest} to {most} frames", "change prompt_frames")
            found.append(sentence)
        return found

    def stretch(self, words: Sequence[str], levels: np.ndarray, phones: np.ndarray, closed_by: int) -> Stretch:
        """Words encoded one by one, as they are when they are committed."""
        return Stretch([*(t for word in words for t in self.bpe.encode(word)), closed_by], levels, phones)

    def whole(self, sentence: Sentence) -> Stretch:
        """A sentence that the text's end closes."""
        return self.stretch(sentence.words, sentence.levels, sentence.phones, self.symbols.end)


def lay_out(stretches: Sequence[Stretch], ratio: str, symbols: Symbols) -> Interleaved:
    """Stretches one after another, each by the same ratio."""
    layout, phones = Layout(), list[np.ndarray]()
    for one in stretches:
        layout.stretch(symbols, one.tokens, one.levels, Ratio.parse(ratio))
        phones += [one.phones, np.zeros(1, np.uint8)]
    return Interleaved(layout, np.concatenate(phones), RATIOS.index(ratio))


def training_batches(text: SpokenText, recipe: IstRecipe, seed: int, number: int) -> Iterator[Batch]:
    """One pass over every sentence in random order and company; the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])
    plans: list[tuple[str, list[Sentence]]] = []
    for speaker, sentences in text.training.items():
        waiting = [sentences[i] for i in rng.permutation(len(sentences))]
        while waiting:
            group = [waiting.pop()]
            if rng.random() < recipe.join_share:
                wanted = rng.uniform(0.2, 1.0) * recipe.max_frames
                while waiting and sum(len(s.levels) + 12 for s in [*group, waiting[-1]]) <= wanted:
                    group.append(waiting.pop())
            plans.append((speaker, group))
    order = rng.permutation(len(plans))
    for first in range(0, len(order), _BUCKET):
        made = [_make(*plans[i], text, recipe, rng) for i in order[first : first + _BUCKET]]
        made.sort(key=len)
        groups = list(_cut(made, recipe.batch_tokens))
        for i in rng.permutation(len(groups)):
            yield collate(groups[i], text.symbols, recipe.noise_share, rng)


def validation_batches(text: SpokenText, recipe: IstRecipe, ratio: str, each: int = 24) -> Iterator[Batch]:
    """The first unseen sentences of every speaker after the voice's own prompt, without noise."""
    prompts = dict(zip(text.validation, text.prompts(*recipe.prompt_frames), strict=True))
    made = [
        lay_out([text.whole(prompts[speaker]), text.whole(s)], ratio, text.symbols)
        for speaker, sentences in text.validation.items()
        for s in sentences[:each]
    ]
    made.sort(key=len)
    for group in _cut(made, recipe.batch_tokens):
        yield collate(group, text.symbols, 0.0, np.random.default_rng(0))


def _make(
    speaker: str, group: list[Sentence], text: SpokenText, recipe: IstRecipe, rng: np.random.Generator
) -> Interleaved:
    """A prompt of the same speaker, the sentences as one stretch or as two, perhaps a stretch more."""
    sentences, silence = text.training[speaker], text.silence[speaker]
    fewest, most = recipe.prompt_frames
    stretches: list[Stretch] = []
    for _ in range(20):
        prompt = sentences[int(rng.integers(len(sentences)))]
        if fewest <= len(prompt.levels) <= most:
            stretches.append(text.whole(prompt))
            break
    stretches += _flushed(group[0], text, rng) if rng.random() < recipe.flush_share else [text.whole(group[0])]
    for sentence in group[1:]:
        last = stretches[-1]
        if rng.random() < recipe.next_share:
            stretches.append(text.whole(sentence))
            continue
        pause = np.resize(silence, (int(rng.integers(*_PAUSE_FRAMES)), dmel.CHANNELS))
        after = text.whole(sentence)
        stretches[-1] = Stretch(
            last.tokens[:-1] + after.tokens,
            np.concatenate([last.levels, pause, after.levels]),
            np.concatenate([last.phones, np.zeros(len(pause), np.uint8), after.phones]),
        )
    names = recipe.ratios or RATIOS
    return lay_out(stretches, names[int(rng.integers(len(names)))], text.symbols)


def _flushed(s: Sentence, text: SpokenText, rng: np.random.Generator) -> list[Stretch]:
    """A sentence cut where a flush came: the symbol of the flush closes its first part."""
    if len(s.words) < 2:
        return [text.whole(s)]
    word = int(rng.integers(1, len(s.words)))
    at = s.word_ends[word - 1]
    return [
        text.stretch(s.words[:word], s.levels[:at], s.phones[:at], text.symbols.flush),
        text.stretch(s.words[word:], s.levels[at:], s.phones[at:], text.symbols.end),
    ]


def _cut(made: list[Interleaved], batch_tokens: int) -> Iterator[list[Interleaved]]:
    group: list[Interleaved] = []
    for sequence in made:
        if group and (len(group) + 1) * max(len(sequence), len(group[-1])) > batch_tokens:
            yield group
            group = []
        group.append(sequence)
    if group:
        yield group


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
        parts["frame_levels"].append(_noisy(levels, noise_share, rng))
        which = np.cumsum(is_frame) - 1  # the frame that stands at a position
        is_end = is_frame & (levels[np.maximum(which, 0), 0] == dmel.EOS)
        comes = np.append(is_frame & ~is_end, False)[1:]  # a frame is to be predicted here
        ends = np.append(is_end, False)[1:]
        parts["target_at"].append(at[comes])
        parts["target_levels"].append(levels[which[1:][comes[:-1]]])
        parts["target_phones"].append(s.phones[which[1:][comes[:-1]]].astype(np.int64))
        closes = (mine == symbols.end) | (mine == symbols.flush)
        is_closed = np.cumsum(closes) > np.cumsum(is_end)
        parts["stop_at"].append(at[is_closed])
        parts["stop"].append(ends[is_closed].astype(np.float32))
    tensors = {k: torch.from_numpy(np.concatenate(v)) for k, v in parts.items()}
    return Batch(symbols=torch.from_numpy(ids), places=torch.from_numpy(places), **tensors)


def _noisy(levels: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Move the bins of some frames by at most one level, so that the voice learns to walk on its own mistakes."""
    if share == 0.0:
        return levels.copy()
    moved = rng.integers(-1, 2, size=levels.shape, dtype=np.int8)
    moved[(rng.random(len(levels)) >= share) | (levels[:, 0] == dmel.EOS)] = 0
    top = np.where(levels == dmel.EOS, dmel.EOS, dmel.LEVELS - 1)
    return np.clip(levels.astype(np.int8) + moved, 0, top).astype(np.uint8)
