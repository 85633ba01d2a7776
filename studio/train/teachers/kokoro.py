"""Kokoro-82M (Apache-2.0) as a teacher: natural English speech with the frames of every phoneme.

Kokoro's durations are whole frames of 600 samples at 24 kHz, as long as dMel frames but offset by half a frame: frame j
is [600 j, 600 j + 600), dMel's frame k is [600 k - 300, 600 k + 300). Cutting half a frame at the start aligns them.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from studio.core.clips import to_int16
from studio.core.errors import BadFile, BadOption, bad_file, needs
from studio.core.text.typography import MARKS
from studio.core.time import TimeBase
from studio.engine.tokenizers import dmel
from studio.measure.signal import AUDIBLE_DB, BLOCK_MS, active_level_db, block_levels_db
from studio.text.phonemes import phonemise
from studio.train.teachers.port import AlignedSpeech, normalised_words, restore_case

SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"  # of Kokoro-82M v1.0, int8
DURATIONS = "/encoder/Clip_output_0"  # frames of each token, the first and the last (silence) included
WEIGHTS = ("kokoro-v1.0.int8.onnx", "kokoro.onnx")
VOCABULARY = ("config.json", "vocab.json")
VOICES = "voices-v1.0.bin"  # all speakers as .npz; else voices/<speaker>.bin
FOLDER_VARIABLE = "STUDIO_KOKORO"
MAX_TOKENS = 510
MAX_S = 15.0
START, STOP, SPACE = "<", ">", " "  # names of the first token, the last token and the space between words
_EARLY_FRAMES = 2  # see `align_to_sound`
_PAUSE_FRAMES = 3  # silent frames that make a pause without a written mark
_TAIL_FRAMES = 6  # kept after the last audible sample
_FADE_SAMPLES = 48  # 2 ms: the cut is at a frame, not at a zero crossing


@dataclass(frozen=True)
class KokoroOutput:
    """Sound and durations of some tokens."""

    sound: np.ndarray  # float32 [600 F]
    frames: np.ndarray  # int64 [T], whole frames of each token


class KokoroNet(Protocol):
    """Tokens to sound and durations."""

    vocabulary: dict[str, int]

    def make(self, speaker: str, tokens: list[int]) -> KokoroOutput:
        """Synthesise token ids, with the silent ones (0) at both ends. Raises BadOption for an unknown speaker."""
        ...


class Kokoro:
    """Kokoro as a ``Teacher``; the net is loaded on first use.

    Args:
        weights: folder of the net, its vocabulary and its voices; empty for the one in STUDIO_KOKORO.
    """

    def __init__(self, weights: str = "") -> None:
        self._folder = weights or os.environ.get(FOLDER_VARIABLE, "")

    @cached_property
    def net(self) -> KokoroNet:
        """The net. Raises BadFile, NeedsPackage."""
        if not self._folder:
            raise BadFile(
                "the folder of the teacher's weights, Kokoro-82M's, is not known",
                f"set {FOLDER_VARIABLE} to it; docs/training.md says what it holds",
            )
        return OnnxNet(Path(self._folder))

    def about(self, speaker: str) -> str:
        return (
            f"Kokoro-82M's {speaker} (Apache-2.0; learned in part from synthetic speech)"
            if re.fullmatch("[a-z][fm]_[a-z]+", speaker)
            else ""
        )

    def speak(self, speaker: str, texts: Sequence[str]) -> Iterator[AlignedSpeech | None]:
        for text in texts:
            yield synthesise(self.net, speaker, text)


class OnnxNet:
    """The net in ONNX Runtime, on one thread. Raises BadFile, NeedsPackage."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with bad_file("the teacher cannot be read", "docs/training.md says what it needs", ValueError):
            weights = _first(folder, WEIGHTS).read_bytes()
            vocabulary = json.loads(_first(folder, VOCABULARY).read_text(encoding="utf-8"))
        if hashlib.sha256(weights).hexdigest() != SHA256:
            raise BadFile(f"{folder} does not hold Kokoro-82M v1.0, int8", f"its sha256 must be {SHA256}")
        self.vocabulary: dict[str, int] = vocabulary.get("vocab", vocabulary)
        self._session = _session(weights)
        self._styles: dict[str, np.ndarray] = {}

    def make(self, speaker: str, tokens: list[int]) -> KokoroOutput:
        feed = {
            "tokens": np.array([tokens], np.int64),
            "style": self._style(speaker)[len(tokens) - 3],
            "speed": np.ones(1, np.float32),
        }
        sound, frames = self._session.run(["audio", DURATIONS], feed)
        return KokoroOutput(np.asarray(sound, np.float32).reshape(-1), np.rint(frames[0]).astype(np.int64))

    def _style(self, speaker: str) -> np.ndarray:
        """A speaker's styles, float32 [510, 1, 256], by the number of phonemes."""
        if speaker not in self._styles:
            single, archive = self._folder / "voices" / f"{speaker}.bin", self._folder / VOICES
            if single.is_file():
                self._styles[speaker] = np.fromfile(single, np.float32).reshape(MAX_TOKENS, 1, -1)
            elif archive.is_file() and speaker in (voices := np.load(archive)):
                self._styles[speaker] = voices[speaker]
            else:
                raise BadOption(f"the teacher has no speaker {speaker!r}", f"{single} or {VOICES} has them: af_heart")
        return self._styles[speaker]


def _first(folder: Path, names: Sequence[str]) -> Path:
    """The first existing file of a folder among several names; the first name if there is none."""
    return next((folder / name for name in names if (folder / name).is_file()), folder / names[0])


def _session(weights: bytes) -> Any:
    """An inference session that also returns the durations, which are not an output of the published graph."""
    with needs("the teacher Kokoro needs onnx and onnxruntime", "train"):
        import onnx
        import onnxruntime
    model = onnx.load_from_string(weights)
    model.graph.output.append(onnx.helper.make_tensor_value_info(DURATIONS, onnx.TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def synthesise(net: KokoroNet, speaker: str, text: str) -> AlignedSpeech | None:
    """Synthesise a text; None if words and phoneme groups do not correspond, or the text is too long."""
    words = normalised_words(text)
    groups = phonemise(restore_case(text, words)) if words else []
    symbols = " ".join(groups)
    if not words or len(groups) != len(words) or len(symbols) > MAX_TOKENS:
        return None
    if not set(symbols) <= set(net.vocabulary) or not all(set(group) - set(MARKS) for group in groups):
        return None
    output = net.make(speaker, [0, *(net.vocabulary[s] for s in symbols), 0])
    base, names = dmel.TIME_BASE, [START, *symbols, STOP]
    assert output.frames.sum() * base.frame_samples == len(output.sound), "frames and sound differ in length"
    sound, frames = cut_silence(KokoroOutput(output.sound, align_to_sound(output.frames)), base)
    if not 0 < len(sound) <= MAX_S * base.rate_hz:
        return None
    ends = np.cumsum(settle_pauses(names, frames, sound, base)) * base.frame_samples / base.rate_hz
    phones = list(zip(names, ends.tolist(), strict=True))
    spoken = [w.word for w in words]
    return AlignedSpeech(text, speaker, base.rate_hz, to_int16(sound), spoken, word_ends(phones), phones)


def align_to_sound(frames: np.ndarray) -> np.ndarray:
    """Frames of each token, with the silence before the first phoneme shortened by two frames.

    Kokoro's sound is ahead of its durations: the energy of fricatives (above 4.5 kHz) and of vowels (0.2 to 1 kHz)
    matches their tokens best 45 to 55 ms earlier, for every speaker tried.
    """
    early = min(_EARLY_FRAMES, int(frames[0]))
    moved = frames.copy()
    moved[0] -= early
    moved[-1] += early
    return moved


def settle_pauses(names: list[str], frames: np.ndarray, sound: np.ndarray, base: TimeBase) -> np.ndarray:
    """Frames of each token, with each pause assigned to its mark, else to the space or the end of the text.

    Kokoro lengthens a word's last phoneme into the pause after it. Where no mark is written only a long silence is
    a pause; a short one is the closure of a p, t or k.
    """
    spans = np.pad(sound, (base.phase, 0)).reshape(-1, base.frame_samples)
    loud_db = 10.0 * np.log10(np.maximum(np.square(spans.astype(np.float64)).mean(axis=1), 1e-12))
    silent = loud_db < active_level_db(sound, base.rate_hz) - AUDIBLE_DB
    settled, ends = frames.copy(), np.cumsum(frames)
    for token in range(2, len(names)):
        after, end = names[token], int(ends[token - 1])
        if after not in (*MARKS, SPACE, STOP) or names[token - 1] in (*MARKS, SPACE):
            continue
        pause = 0
        while pause < frames[token - 1] - 1 and silent[end - pause - 1]:
            pause += 1
        if after != SPACE or pause >= _PAUSE_FRAMES:
            settled[token - 1] -= pause
            settled[token] += pause
    return settled


def cut_silence(output: KokoroOutput, base: TimeBase) -> tuple[np.ndarray, np.ndarray]:
    """Trim the sound on the voice's frame grid, leaving less than a frame of silence before and a short one after.

    Returns:
        float32 [F * frame_samples - phase] and int64 [T], the remaining frames of each token; F is their sum. Both
        are empty for silence.
    """
    step, whole = base.frame_samples, int(output.frames.sum())
    sound = output.sound[base.phase :]
    levels = block_levels_db(sound, base.rate_hz)
    audible = np.flatnonzero(levels >= active_level_db(sound, base.rate_hz) - AUDIBLE_DB)
    if len(audible) == 0:
        return output.sound[:0], output.frames[:0]
    block = round(base.rate_hz * BLOCK_MS / 1000.0)
    first, last = int(audible[0]) * block, int(audible[-1]) * block + base.phase
    before = first // step
    after = max(0, whole - (-(-last // step) + _TAIL_FRAMES))
    frames = output.frames.copy()
    before = _remove_frames(frames, range(len(frames)), before)
    after = _remove_frames(frames, range(len(frames) - 1, -1, -1), after)
    sound = output.sound[before * step + base.phase : (whole - after) * step].copy()
    sound /= max(1.0, float(np.abs(sound).max()))  # a few speakers exceed full scale
    sound[:_FADE_SAMPLES] *= np.linspace(0.0, 1.0, _FADE_SAMPLES, dtype=np.float32)
    return sound, frames


def _remove_frames(frames: np.ndarray, order: range, count: int) -> int:
    """Remove up to ``count`` frames from tokens in order, leaving one of all but the first; returns how many."""
    left = count
    for position, token in enumerate(order):
        removed = min(left, int(frames[token]) - (position > 0))
        frames[token] -= max(0, removed)
        left -= max(0, removed)
        if left == 0:
            break
    return count - left


def word_ends(phones: Sequence[tuple[str, float]]) -> list[float]:
    """The end of each word's last phoneme, before its mark, the space and a pause."""
    ends: list[float] = []
    inside = False
    for name, end in phones:
        if name in (START, STOP, SPACE):
            inside = False
        elif name not in MARKS:
            if inside:
                ends[-1] = end
            else:
                ends.append(end)
            inside = True
    return ends
