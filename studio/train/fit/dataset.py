"""The sentences of a features folder, and how every family draws batches of them: grouped, joined, with noise."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from pathlib import Path
from typing import TypeVar

import numpy as np

from studio.core.errors import BadFile
from studio.engine.tokenizers import dmel
from studio.train.features import Sentence, read_features, typical_silence
from studio.train.recipes.fits import FitRecipe
from studio.train.recipes.recipe import CorpusRecipe

BUCKET = 384  # sequences that are sorted by length together

TrainingSequence = TypeVar("TrainingSequence", bound=Sized)  # a training sequence


class SpeechDataset:
    """All sentences of a features folder, by speaker.

    Args:
        unseen: speakers whose shards are all for validation.
    """

    def __init__(self, folder: Path, speakers: list[str], validation_shards: int, unseen: Sequence[str] = ()) -> None:
        self.speakers = speakers
        self.training: dict[str, list[Sentence]] = {s: [] for s in speakers}
        self.validation: dict[str, list[Sentence]] = {s: [] for s in speakers}
        self.silence: dict[str, np.ndarray] = {}
        self.shards = 0
        for speaker in speakers:
            paths = sorted(folder.glob(f"{speaker}-*.safetensors"))
            self.shards += len(paths)
            silences = []
            for i, path in enumerate(paths):
                sentences, silence = read_features(path)
                silences.append(silence)
                side = self.validation if i < validation_shards or speaker in unseen else self.training
                side[speaker] += sentences
            if not silences:
                raise BadFile(f"{folder} has no features of {speaker}", "make them first with `studio train features`")
            self.silence[speaker] = typical_silence(silences)

    @staticmethod
    def load(folder: Path, corpus: CorpusRecipe) -> "SpeechDataset":
        """The data of a recipe. Raises BadFile if the features of a speaker are missing or damaged."""
        return SpeechDataset(folder, corpus.speakers, corpus.validation_shards, corpus.unseen)

    @property
    def hours(self) -> float:
        """Duration of the training speech."""
        frames = sum(len(s.levels) for side in self.training.values() for s in side)
        return frames * dmel.TIME_BASE.frame_ms / 3.6e6


def sentence_groups(data: SpeechDataset, recipe: FitRecipe, rng: np.random.Generator) -> list[list[Sentence]]:
    """All sentences in random order, some in groups of one speaker, to be joined."""
    groups: list[list[Sentence]] = []
    for speaker in data.speakers:
        sentences = [data.training[speaker][i] for i in rng.permutation(len(data.training[speaker]))]
        while sentences:
            group = [sentences.pop()]
            if rng.random() < recipe.join_share:
                limit = rng.uniform(0.3, 1.0) * recipe.max_frames
                while sentences and sum(len(s.levels) + 12 for s in [*group, sentences[-1]]) <= limit:
                    group.append(sentences.pop())
            groups.append(group)
    return groups


def split_batches(sequences: Sequence[TrainingSequence], batch_tokens: int) -> Iterator[list[TrainingSequence]]:
    """Batches of sequences that are sorted by length: at most ``batch_tokens`` tokens each, padding included."""
    group: list[TrainingSequence] = []
    for sequence in sequences:
        if group and (len(group) + 1) * max(len(sequence), len(group[-1])) > batch_tokens:
            yield group
            group = []
        group.append(sequence)
    if group:
        yield group


def bucketed_batches(
    data: SpeechDataset,
    recipe: FitRecipe,
    rng: np.random.Generator,
    make: Callable[[Sequence[list[Sentence]]], Iterable[TrainingSequence]],
) -> Iterator[list[TrainingSequence]]:
    """One epoch over all sentences: batches of sequences of similar length, in random order.

    Args:
        make: builds the sequences of some of ``sentence_groups``.
    """
    plans = sentence_groups(data, recipe, rng)
    order = rng.permutation(len(plans))
    for first in range(0, len(order), BUCKET):
        sequences = sorted(make([plans[i] for i in order[first : first + BUCKET]]), key=len)
        groups = list(split_batches(sequences, recipe.batch_tokens))
        for i in rng.permutation(len(groups)):
            yield groups[i]


def join_sentences(sentences: Sequence[Sentence], silence: np.ndarray, rng: np.random.Generator) -> Sentence:
    """Join sentences of one speaker, with pauses of 150-300 ms between them."""
    if len(sentences) == 1:
        return sentences[0]
    words: list[str] = []
    ends: list[int] = []
    levels: list[np.ndarray] = []
    phones: list[np.ndarray] = []
    at = 0
    for i, s in enumerate(sentences):
        if i:
            pause = np.resize(silence, (int(rng.integers(6, 13)), dmel.CHANNELS))
            levels.append(pause)
            phones.append(np.zeros(len(pause), np.uint8))
            at += len(pause)
        words += s.words
        ends += [at + e for e in s.word_ends]
        levels.append(s.levels)
        phones.append(s.phones)
        at += len(s.levels)
    return Sentence(sentences[0].speaker, words, ends, np.concatenate(levels), np.concatenate(phones))


def add_level_noise(levels: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Move the bins of some frames by at most one level, so that the net learns to recover from its own errors."""
    if share == 0.0:
        return levels.copy()
    moved = rng.integers(-1, 2, size=levels.shape, dtype=np.int8)
    moved[rng.random(len(levels)) >= share] = 0
    return np.clip(levels.astype(np.int8) + moved, 0, dmel.LEVELS - 1).astype(np.uint8)


def find_prompts(data: SpeechDataset, fewest: int, most: int) -> dict[str, Sentence]:
    """The first sentence of each speaker that ends with a full stop and has the length of a prompt. Raises BadFile."""
    prompts = {}
    for speaker in data.speakers:
        of = data.training[speaker] or data.validation[speaker]
        fits = (s for s in of if fewest <= len(s.levels) <= most and s.words[-1].endswith("."))
        sentence = next(fits, None)
        if sentence is None:
            raise BadFile(
                f"no sentence of {speaker} has {fewest} to {most} frames",
                "change the recipe's prompt_frames, extract_frames or reference_frames, whichever it has",
            )
        prompts[speaker] = sentence
    return prompts


def frame_words(sentence: Sentence) -> np.ndarray:
    """The word of each frame, int64 [F]: a pause belongs to the mark before it, else to the word after it.

    Frames after the last word, if that has no mark, get the number of words.
    """
    total = len(sentence.levels)
    out = np.full(total, len(sentence.words), np.int64)
    begin = 0
    for i, (word, end) in enumerate(zip(sentence.words, sentence.word_ends, strict=True)):
        if not word[-1].isalpha():
            while end < total and sentence.phones[end] == 0:
                end += 1
        out[begin:end] = i
        begin = end
    return out
