"""The teacher Kokoro-82M (Apache-2.0): natural English speech with the exact frames of every phoneme.

Kokoro's own durations are whole frames of 600 samples at 24 kHz. That is the length of a dMel frame, but not its
place: Kokoro's frame j is [600 j, 600 j + 600), dMel's frame k is [600 k - 300, 600 k + 300). Half a frame is cut
from the sound's beginning, and from there on the two grids are one.
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
from studio.core.errors import BadFile, BadOption, NeedsPackage
from studio.core.text.typography import MARKS
from studio.core.time import TimeBase
from studio.engine.alphabets import dmel
from studio.measure.signal.loudness import AUDIBLE_DB, BLOCK_MS, active_level_db, block_levels_db
from studio.text.phonemes import phonemise
from studio.train.teachers import phonemes
from studio.train.teachers.port import Taught

SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"  # of Kokoro-82M v1.0, int8
DURATIONS = "/encoder/Clip_output_0"  # frames of each token, the first and the last (silence) included
WEIGHTS = ("kokoro-v1.0.int8.onnx", "kokoro.onnx")
VOCABULARY = ("config.json", "vocab.json")
VOICES = "voices-v1.0.bin"  # all of them, as numpy writes several arrays; else voices/<speaker>.bin
FOLDER_VARIABLE = "STUDIO_KOKORO"
MAX_TOKENS = 510
MAX_S = 15.0
START, STOP, SPACE = "<", ">", " "  # names of the first and the last token, and of the space between words
_EARLY_FRAMES = 2  # a phoneme is heard this much before its frames (see `on_time`)
_PAUSE_FRAMES = 3  # silent frames that are a pause where no mark is written
_TAIL_FRAMES = 6  # of what follows the last audible sample: a sentence's end is heard, but not half a second of it
_FADE_SAMPLES = 48  # 2 ms: the cut is at a frame, not where the wave is zero


@dataclass(frozen=True)
class Made:
    """What the net made of some tokens.

    Attributes:
        sound: float32 [600 F].
        frames: int64 [T], whole frames of each token.
    """

    sound: np.ndarray
    frames: np.ndarray


class Net(Protocol):
    """Tokens in, sound and durations out."""

    vocabulary: dict[str, int]

    def make(self, speaker: str, tokens: list[int]) -> Made:
        """Speak token ids, the silent ones at both ends (0) included. Raises BadOption for an unknown speaker."""
        ...


class Kokoro:
    """The port `Teacher` over the net of a folder, which is opened when it is first needed.

    Args:
        weights: folder of the net, its vocabulary and its voices; else the environment names it (STUDIO_KOKORO).
    """

    def __init__(self, weights: str = "") -> None:
        self._folder = weights or os.environ.get(FOLDER_VARIABLE, "")

    @cached_property
    def net(self) -> Net:
        """The net. Raises BadFile, NeedsPackage."""
        if not self._folder:
            raise BadFile(
                "the folder of the teacher's weights, Kokoro-82M's, is not known",
                f"set {FOLDER_VARIABLE} to it; docs/training.md says what it holds",
            )
        return OnnxNet(Path(self._folder))

    def about(self, speaker: str) -> str:
        """Which of Kokoro's voices a speaker is."""
        return (
            f"Kokoro-82M's {speaker} (Apache-2.0; learned in part from synthetic speech)"
            if re.fullmatch("[a-z][fm]_[a-z]+", speaker)
            else ""
        )

    def speak(self, speaker: str, texts: Sequence[str]) -> Iterator[Taught | None]:
        """Speak texts as people write them, in the studio's own reading of numbers and signs."""
        for text in texts:
            yield teach(self.net, speaker, text)


class OnnxNet:
    """The net in ONNX Runtime, on one thread.

    Raises:
        BadFile: a file is missing or the weights are others.
        NeedsPackage: onnx or onnxruntime is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            weights = _first(folder, WEIGHTS).read_bytes()
            vocabulary = json.loads(_first(folder, VOCABULARY).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadFile(f"the teacher cannot be read: {error}", "docs/training.md says what it needs") from error
        if hashlib.sha256(weights).hexdigest() != SHA256:
            raise BadFile(f"{folder} does not hold Kokoro-82M v1.0, int8", f"its sha256 must be {SHA256}")
        self.vocabulary: dict[str, int] = vocabulary.get("vocab", vocabulary)
        self._session = _session(weights)
        self._styles: dict[str, np.ndarray] = {}

    def make(self, speaker: str, tokens: list[int]) -> Made:
        """Speak token ids, the silent ones at both ends (0) included."""
        feed = {
            "tokens": np.array([tokens], np.int64),
            "style": self._style(speaker)[len(tokens) - 3],
            "speed": np.ones(1, np.float32),
        }
        sound, frames = self._session.run(["audio", DURATIONS], feed)
        return Made(np.asarray(sound, np.float32).reshape(-1), np.rint(frames[0]).astype(np.int64))

    def _style(self, speaker: str) -> np.ndarray:
        """A speaker's styles, float32 [510, 1, 256]: one for each number of phonemes."""
        if speaker not in self._styles:
            one, all_of_them = self._folder / "voices" / f"{speaker}.bin", self._folder / VOICES
            if one.is_file():
                self._styles[speaker] = np.fromfile(one, np.float32).reshape(MAX_TOKENS, 1, -1)
            elif all_of_them.is_file() and speaker in (found := np.load(all_of_them)):
                self._styles[speaker] = found[speaker]
            else:
                raise BadOption(f"the teacher has no speaker {speaker!r}", f"{one} or {VOICES} holds them, as af_heart")
        return self._styles[speaker]


def _first(folder: Path, names: Sequence[str]) -> Path:
    """The file of a folder that is there, of several names for the same one."""
    return next((folder / name for name in names if (folder / name).is_file()), folder / names[0])


def _session(weights: bytes) -> Any:
    """An inference session that also answers the durations, which the published graph keeps to itself."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise NeedsPackage(f"the teacher Kokoro needs {error.name}", phonemes.GROUP) from error
    model = onnx.load_from_string(weights)
    model.graph.output.append(onnx.helper.make_tensor_value_info(DURATIONS, onnx.TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def teach(net: Net, speaker: str, text: str) -> Taught | None:
    """Speak a text; None where its words and its groups of phonemes are not one to one, or it is too long."""
    words = phonemes.spoken(text)
    groups = phonemise(phonemes.cased(text, words)) if words else []
    symbols = " ".join(groups)
    if not words or len(groups) != len(words) or len(symbols) > MAX_TOKENS:
        return None
    if not set(symbols) <= set(net.vocabulary) or not all(set(group) - set(MARKS) for group in groups):
        return None
    made = net.make(speaker, [0, *(net.vocabulary[s] for s in symbols), 0])
    base, names = dmel.TIME_BASE, [START, *symbols, STOP]
    assert made.frames.sum() * base.frame_samples == len(made.sound), "the teacher's frames are not its sound"
    sound, frames = cut_silence(Made(made.sound, on_time(made.frames)), base)
    if not 0 < len(sound) <= MAX_S * base.rate_hz:
        return None
    ends = np.cumsum(settle_pauses(names, frames, sound, base)) * base.frame_samples / base.rate_hz
    phones = list(zip(names, ends.tolist(), strict=True))
    return Taught(text, speaker, base.rate_hz, to_int16(sound), [w.word for w in words], word_ends(phones), phones)


def on_time(frames: np.ndarray) -> np.ndarray:
    """Frames of each token, moved to where the sound is: the silence before the first phoneme is two frames shorter.

    Kokoro's sound runs ahead of its durations. The energy of fricatives (above 4.5 kHz) and of vowels (0.2 to 1 kHz)
    fits their tokens best 45 to 55 ms earlier, for every speaker tried.
    """
    early = min(_EARLY_FRAMES, int(frames[0]))
    moved = frames.copy()
    moved[0] -= early
    moved[-1] += early
    return moved


def settle_pauses(names: list[str], frames: np.ndarray, sound: np.ndarray, base: TimeBase) -> np.ndarray:
    """Frames of each token, with a pause given to the mark that writes it, else to the space or the text's end.

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


def cut_silence(made: Made, base: TimeBase) -> tuple[np.ndarray, np.ndarray]:
    """The sound on the voice's own frame grid, with under a frame of silence before it and a short one after it.

    Answers:
        float32 [F * frame_samples - phase] and int64 [T], the frames of each token that are left; F is their sum.
        Both are empty where nothing is heard.
    """
    step, whole = base.frame_samples, int(made.frames.sum())
    sound = made.sound[base.phase :]
    levels = block_levels_db(sound, base.rate_hz)
    heard = np.flatnonzero(levels >= active_level_db(sound, base.rate_hz) - AUDIBLE_DB)
    if len(heard) == 0:
        return made.sound[:0], made.frames[:0]
    block = round(base.rate_hz * BLOCK_MS / 1000.0)
    first, last = int(heard[0]) * block, int(heard[-1]) * block + base.phase
    before = first // step
    after = max(0, whole - (-(-last // step) + _TAIL_FRAMES))
    frames = made.frames.copy()
    before = _take(frames, range(len(frames)), before)
    after = _take(frames, range(len(frames) - 1, -1, -1), after)
    sound = made.sound[before * step + base.phase : (whole - after) * step].copy()
    sound /= max(1.0, float(np.abs(sound).max()))  # a few speakers are louder than full scale
    sound[:_FADE_SAMPLES] *= np.linspace(0.0, 1.0, _FADE_SAMPLES, dtype=np.float32)
    return sound, frames


def _take(frames: np.ndarray, order: range, count: int) -> int:
    """Take up to ``count`` frames from tokens in order, of all but the first leaving one; answers how many it took."""
    left = count
    for place, token in enumerate(order):
        taken = min(left, int(frames[token]) - (place > 0))
        frames[token] -= max(0, taken)
        left -= max(0, taken)
        if left == 0:
            break
    return count - left


def word_ends(phones: Sequence[tuple[str, float]]) -> list[float]:
    """The end of each word's last phoneme; its mark, the space and the pause there are before the next word."""
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
