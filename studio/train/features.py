"""Features of a corpus: dMel levels with word ends and phones, one safetensors file per shard; alignment of phones.

A voice's speech has word ends but no phone times. ``align`` finds a Viterbi path through each word's phonemes: a
monophone HMM with one state and one diagonal Gaussian per phone, estimated on a corpus with known phones. Pauses are
allowed before and after every word.
"""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from studio.core.clips import to_float
from studio.core.errors import BadFile, bad_file
from studio.core.text.typography import MARKS
from studio.engine.tokenizers import dmel
from studio.text.phonemes import pronounce
from studio.train.corpus import shards
from studio.train.teachers.kokoro import SPACE, START, STOP
from studio.train.teachers.programs import PAUSES

PHONES = (
    "pau aa ae ah ao aw ax ay b ch d dh eh er ey f g hh ih iy jh k l m n ng ow oy p r s sh t th uh uw v w y z zh other"
).split()
# Kokoro's phones (IPA, with capitals for diphthongs) as festival and flite write them.
_IPA = dict(
    zip(
        "AIOWYæɑɐəᵊɔɛɜiɪᵻuʊʌðŋɡhjɹɾTʔʃʒʤʧθ",
        "ey ay ow aw oy ae aa ax ax ax ao eh er iy ih ih uw uh ah dh ng g hh y r d d t sh zh jh ch th".split(),
        strict=True,
    )
)
_PHONE_ID = {p: i for i, p in enumerate(PHONES)}
_PHONE_ID |= {ipa: _PHONE_ID[p] for ipa, p in _IPA.items()} | dict.fromkeys((*PAUSES, *MARKS, START, STOP), 0)
PAUSE = PHONES.index("pau")
_JOINED = ("ˈ", "ˌ", SPACE)  # part of the next phone; a long space is a pause
_LONG_SPACE_FRAMES = 4
_TENSORS = ("levels", "phones", "frames", "word_ends", "silence")
_MIN_SAMPLES = dmel.TIME_BASE.rate_hz // 20  # the analysis window is longer than a frame
_LEAD_FRAMES = 1  # before the first phone: the silence prompt ends there
_TAIL_FRAMES = 4  # after the last word, where the end token closes the window
_MIN_DEVIATION = 0.5  # in levels: a nearly constant channel must not dominate


@dataclass(frozen=True)
class Sentence:
    """A sentence in frames."""

    speaker: str
    words: list[str]
    word_ends: list[int]  # the frame before which each word ends; F - word_ends[-1] is the tail
    levels: np.ndarray  # uint8 [F, 80], from just before the first phone to just after the last
    phones: np.ndarray  # uint8 [F], the phone of each frame


def phone_of(name: str) -> int | None:
    """The id of a teacher's phone; None for a symbol that belongs to the next phone."""
    return None if name in _JOINED else _PHONE_ID.get(name, len(PHONES) - 1)


def encode_label(folder: Path, label: dict) -> tuple[Sentence, np.ndarray]:
    """The sentence of a label line, and the silent frames around it, uint8 [S, 80]. Raises BadFile."""
    base = dmel.TIME_BASE
    pcm = shards.read_sound(folder / label["wav"])
    if len(pcm) < _MIN_SAMPLES:
        raise BadFile(
            f"{folder / label['wav']} holds {len(pcm)} samples", f"a sentence has at least {_MIN_SAMPLES} of them"
        )
    levels = dmel.encode(torch.from_numpy(to_float(pcm))).numpy()
    ends = [base.frame_of_time(t) for _, t in label["phones"]]
    phones = np.zeros(len(levels), np.uint8)
    after = 0
    for (name, _), end, before in reversed(list(zip(label["phones"], ends, [0, *ends], strict=False))):
        phone = 0 if name == SPACE and end - before >= _LONG_SPACE_FRAMES else phone_of(name)
        after = after if phone is None else phone
        phones[before:end] = after
    first = ends[0] if label["phones"][0][0] in PAUSES else 0
    start = max(0, first - _LEAD_FRAMES)
    word_ends = [base.frame_of_time(t) for t in label["word_ends_s"]]
    stop = min(len(levels), word_ends[-1] + _TAIL_FRAMES)
    sentence = Sentence(
        label["speaker"], label["words"], [e - start for e in word_ends], levels[start:stop], phones[start:stop]
    )
    return sentence, np.concatenate([levels[1 : max(1, start - 1)], levels[stop:]])


def write_features(corpus_folder: Path, out: Path, workers: int | None = None) -> int:
    """Encode all finished shards that are not encoded yet; returns the number of shards. Raises BadFile."""
    folders = shards.shards(corpus_folder)
    out.mkdir(parents=True, exist_ok=True)
    todo = [s for s in folders if not (out / f"{s.name}.safetensors").is_file()]
    with ProcessPoolExecutor(workers) as pool:
        for _ in track(pool.map(_encode_shard, todo, [out] * len(todo)), "encoding", total=len(todo)):
            pass
    return len(folders)


def _encode_shard(shard: Path, out: Path) -> None:
    torch.set_num_threads(1)
    pairs = [encode_label(shard, label) for label in shards.labels(shard)]
    sentences = [s for s, _ in pairs if _is_in_order(s)]
    silences = np.concatenate([q for _, q in pairs if len(q)] or [np.zeros((1, dmel.CHANNELS), np.uint8)])
    speaker = sentences[0].speaker if sentences else shard.name.rpartition("-")[0]
    save_features(speaker, sentences, silences[-4000:], out / f"{shard.name}.safetensors")


def _is_in_order(one: Sentence) -> bool:
    """Whether each word has a frame."""
    return bool(one.word_ends[0] > 0 and (np.diff(one.word_ends) > 0).all() and one.word_ends[-1] <= len(one.levels))


def save_features(speaker: str, sentences: Sequence[Sentence], silence: np.ndarray, path: Path) -> None:
    """Write a shard of a speaker's sentences (maybe none) and silent frames uint8 [S, 80], atomically."""
    none = np.zeros((0, dmel.CHANNELS), np.uint8)
    tensors = {
        "levels": torch.from_numpy(np.concatenate([none, *(s.levels for s in sentences)])),
        "phones": torch.from_numpy(np.concatenate([none[:, 0], *(s.phones for s in sentences)])),
        "frames": torch.tensor([len(s.levels) for s in sentences], dtype=torch.int32),
        "word_ends": torch.tensor([e for s in sentences for e in s.word_ends], dtype=torch.int32),
        "silence": torch.from_numpy(np.ascontiguousarray(silence)),
    }
    meta = {"words": json.dumps([s.words for s in sentences]), "speaker": speaker}
    part = path.parent / f".{path.stem}.part"
    save_file(tensors, part, meta)
    part.rename(path)


def read_features(path: Path) -> tuple[list[Sentence], np.ndarray]:
    """Sentences of an encoded shard, and its silent frames uint8 [S, 80]. Raises BadFile if it is damaged."""
    with bad_file(
        f"{path} holds no features",
        "remove it and make it with `studio train features` or `taught`",
        SafetensorError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ):
        with safe_open(path, "np") as file:
            meta = file.metadata() or {}
            levels, phones, frames, ends, silence = map(file.get_tensor, _TENSORS)
        sentences, at, word = list[Sentence](), 0, 0
        for words, count in zip(json.loads(meta["words"]), frames.tolist(), strict=True):
            stop = word + len(words)
            piece = slice(at, at + count)
            one = Sentence(meta["speaker"], words, ends[word:stop].tolist(), levels[piece], phones[piece])
            _check(one, count)
            sentences.append(one)
            at, word = at + count, stop
        if (at, word) != (len(levels), len(ends)) or not _are_levels(silence):
            raise ValueError("its frames, words or silence do not match their counts")
    return sentences, silence


def _check(one: Sentence, count: int) -> None:
    """Raises ValueError unless a sentence is valid."""
    if not one.words or not all(isinstance(word, str) and word for word in one.words):
        raise ValueError("a sentence has no words")
    if len(one.words) != len(one.word_ends):
        raise ValueError("a sentence has not one end per word")
    if not len(one.levels) == len(one.phones) == count > 0 or not _are_levels(one.levels):
        raise ValueError("its levels are not frames of 80 channels")
    if one.phones.dtype != np.uint8 or one.phones.ndim != 1 or one.phones.max() >= len(PHONES):
        raise ValueError("a phone is unknown")
    steps = np.diff([0, *one.word_ends, count + 1])
    if one.word_ends[0] < 0 or (steps[1:] <= 0).any():
        raise ValueError("the word ends are out of order, or beyond the frames")


def _are_levels(levels: np.ndarray) -> bool:
    shape = levels.dtype == np.uint8 and levels.ndim == 2 and levels.shape[1] == dmel.CHANNELS
    return bool(shape and len(levels) and levels.max() < dmel.LEVELS)


def typical_silence(silences: Sequence[np.ndarray]) -> np.ndarray:
    """A speaker's silence prompt: the median level of each channel, uint8 [dmel.SILENCE_FRAMES, 80]."""
    median = np.median(np.concatenate(silences), axis=0).astype(np.uint8)
    return np.tile(median, (dmel.SILENCE_FRAMES, 1))


@dataclass(frozen=True)
class PhoneModel:
    """Mean and deviation of each phone's levels, float64 [P, 80]; NaN for phones that the corpus lacks."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    @staticmethod
    def estimate(sentences: Iterable[Sentence]) -> "PhoneModel":
        """Estimate from labelled sentences. Raises BadFile if these have no pauses or no phones."""
        count = np.zeros(len(PHONES))
        total, squares = (np.zeros((len(PHONES), dmel.CHANNELS)) for _ in range(2))
        for s in sentences:
            levels = s.levels.astype(np.float64)
            np.add.at(count, s.phones, 1)
            np.add.at(total, s.phones, levels)
            np.add.at(squares, s.phones, levels**2)
        if count[PAUSE] == 0 or (count > 0).sum() < 2:
            raise BadFile(
                "the corpus has no pauses or no phones to align by", "name a folder of `studio train features`"
            )
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / count[:, None]
            deviation = np.sqrt(np.maximum(squares / count[:, None] - mean**2, 0.0))
        return PhoneModel(mean, np.maximum(deviation, _MIN_DEVIATION))

    @staticmethod
    def load(features: Path) -> "PhoneModel":
        """Estimate from all shards of a folder. Raises BadFile."""
        paths = sorted(features.glob("*.safetensors"))
        return PhoneModel.estimate(sentence for path in paths for sentence in read_features(path)[0])

    def score(self, levels: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Log likelihood of each phone in each frame, [F, P]; an unknown phone gets the lowest of the others."""
        away = (levels[:, None].astype(np.float64) - self.mean) / self.deviation
        score = -(0.5 * away**2 + np.log(self.deviation)).sum(-1)
        return np.where(np.isnan(score), np.nanmin(score, axis=1, keepdims=True), score)


def align(sentence: Sentence, model: PhoneModel) -> Sentence | None:
    """Set the phone of each frame, and move word ends from the end of a pause to the end of the last phone.

    Args:
        sentence: word ends include the pause after the word; phones are ignored.

    Returns:
        None if a word has no phonemes, or fewer frames than phonemes.
    """
    score = model.score(sentence.levels)
    phones, ends, begin = np.zeros(len(sentence.levels), np.uint8), list[int](), 0
    for names, end in zip(pronounce(sentence.words), sentence.word_ends, strict=True):
        states = [phone for name in names if (phone := phone_of(name)) is not None and phone != PAUSE]
        if not states or end - begin < len(states):
            return None
        states = np.array([PAUSE, *states, PAUSE])
        phones[begin:end] = states[best_path(score[begin:end, states])]
        ends.append(begin + int(np.flatnonzero(phones[begin:end] != PAUSE)[-1]) + 1)
        begin = end
    return replace(sentence, word_ends=ends, phones=phones)


def best_path(score: NDArray[np.float64]) -> NDArray[np.int64]:
    """The best monotonic path through the states: the state of each frame, int64 [F]. Ties stay in the state.

    Args:
        score: of each state in each frame, [F, S]. The first and the last state are optional; at most F others.
    """
    best = np.full(score.shape, -np.inf)
    entered = np.zeros(score.shape, bool)  # from the previous state rather than from itself
    best[0, :2] = score[0, :2]
    for frame in range(1, len(score)):
        moved = np.concatenate(([-np.inf], best[frame - 1, :-1]))
        entered[frame] = moved > best[frame - 1]
        best[frame] = np.maximum(moved, best[frame - 1]) + score[frame]
    state = score.shape[1] - (1 if best[-1, -1] > best[-1, -2] else 2)
    out = np.empty(len(score), np.int64)
    for frame in range(len(score) - 1, -1, -1):
        out[frame] = state
        state -= int(entered[frame, state])
    return out
