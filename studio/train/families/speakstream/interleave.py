"""From sentences to training sequences: text and speech interleaved by the family's own feeding rule.

The same rule that decides what to feed while someone types cuts the training sequences, so the two cannot differ.
"""

from dataclasses import dataclass

import numpy as np

from studio.engine.alphabets import dmel
from studio.engine.families.speakstream.rule import LARGEST_WINDOW, SCHEMES, W_EOS, FeedingRule, Options, spell
from studio.train.features import Sentence
from studio.train.recipes.windows import WindowDraw

SYMBOL, BOS, FRAME, EOS = range(4)  # kinds of position


@dataclass(frozen=True)
class Interleaved:
    """One training sequence of T positions over a table of F frames.

    Attributes:
        kind: uint8 [T], what stands at each position (SYMBOL, BOS, FRAME, EOS).
        value: int32 [T], a character id, an index into ``windows``, or into ``levels``.
        target: int32 [T], index of the frame to predict, -1 for none.
        stop: float32 [T], whether s_eos comes next; NaN where nothing is predicted.
        windows: int64 [S, 3], (scheme, words spoken, look-ahead) of each segment.
        levels: uint8 [F, 80]; phones: uint8 [F].
        starts: position at which each segment's text begins.
    """

    kind: np.ndarray
    value: np.ndarray
    target: np.ndarray
    stop: np.ndarray
    windows: np.ndarray
    levels: np.ndarray
    phones: np.ndarray
    starts: list[int]
    speaker: str

    def __len__(self) -> int:
        return len(self.kind)


def draw_options(draw: WindowDraw, rng: np.random.Generator) -> Options:
    """A window at random."""
    n = int(rng.choice(draw.n, p=draw.n_weights))
    look = int(rng.choice(draw.look_ahead, p=draw.look_ahead_weights))
    scheme = SCHEMES[int(rng.random() < draw.s2_share)]
    return Options(scheme, min(n + look, LARGEST_WINDOW), n)


def interleave(
    sentence: Sentence, silence: np.ndarray, draw: WindowDraw | Options, rng: np.random.Generator, prompt: int = 0
) -> Interleaved:
    """Cut a sentence into [T_1, A_1, T_2, A_2, ...] (section III.C).

    Args:
        silence: the speaker's silence, uint8 [S, 80].
        draw: how windows are drawn; fixed options for validation.
        prompt: frames of silence after the first BOS; 0 draws 8 to 16.
    """
    prompt = prompt or int(rng.integers(8, 17))
    levels = np.concatenate([np.resize(silence, (prompt, dmel.CHANNELS)), sentence.levels])
    phones = np.concatenate([np.zeros(prompt, np.uint8), sentence.phones])
    total, rule = len(sentence.words), FeedingRule()
    options = draw if isinstance(draw, Options) else draw_options(draw, rng)
    kind: list[int] = []
    value: list[int] = []
    target: list[int] = []
    stop: list[float] = []
    windows: list[tuple[int, int, int]] = []
    starts: list[int] = []

    def put(k: int, v: int, t: int = -1, s: float = float("nan")) -> None:
        kind.append(k)
        value.append(v)
        target.append(t)
        stop.append(s)

    flushed, frame = 0, prompt
    while rule.spoken < total:
        if isinstance(draw, WindowDraw):
            if rng.random() < draw.change_share:
                options = draw_options(draw, rng)
            if flushed <= rule.spoken and options.m > 1 and rng.random() < draw.flush_share:
                flushed = rule.spoken + int(rng.integers(1, options.m))
        visible = min(total, flushed) if flushed > rule.spoken else total
        plan = rule.next(visible, options, ended=visible == total, flushed=flushed)
        assert plan is not None, "training sentences are whole, so there is always a next segment"
        starts.append(len(kind))
        for i in plan.feed:
            for symbol in spell(sentence.words[i]):
                put(SYMBOL, symbol)
        if plan.close:
            put(SYMBOL, W_EOS)
        windows.append((SCHEMES.index(plan.scheme), len(plan.speak), plan.look_ahead))
        last = plan.speak[-1]
        end = prompt + sentence.word_ends[last]
        if last == total - 1 and rule.closed:
            end = len(levels)
        if frame == prompt and len(starts) == 1:
            put(BOS, 0)
            for p in range(prompt - 1):
                put(FRAME, p)
            put(FRAME, prompt - 1, frame, 0.0)
        else:
            put(BOS, len(windows) - 1, frame, 0.0)
        for f in range(frame, end):
            put(FRAME, f, f + 1 if f + 1 < end else -1, float(f + 1 == end))
        put(EOS, 0)
        frame = end
    return Interleaved(
        np.array(kind, np.uint8),
        np.array(value, np.int32),
        np.array(target, np.int32),
        np.array(stop, np.float32),
        np.array(windows, np.int64),
        levels,
        phones,
        starts,
        sentence.speaker,
    )


def crop(sequence: Interleaved, start: int) -> Interleaved:
    """The sequence from a segment's start on: what a slot holds after the oldest segments were dropped."""
    keep = slice(start, None)
    s = sequence
    return Interleaved(
        s.kind[keep], s.value[keep], s.target[keep], s.stop[keep], s.windows, s.levels, s.phones, [], s.speaker
    )
