"""Train SpeakStream: next-frame cross-entropy on interleaved sequences (paper 000, section III).

The engine's feeding policy interleaves text and speech in the training sequences, so the two cannot differ.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.policy import (
    FILLER,
    LARGEST_WINDOW,
    SCHEMES,
    W_EOS,
    FeedingPolicy,
    SpeakStreamOptions,
    spell,
)
from studio.engine.nets.transformer import AttentionHook
from studio.engine.tokenizers import dmel
from studio.train.families.common import NextFrameBatch, NextFrameModule, noise_of, validation_sentences
from studio.train.features import Sentence
from studio.train.fit.dataset import BUCKET, SpeechDataset, add_level_noise, join_sentences
from studio.train.fit.training import FamilyTraining, Groups, Rng
from studio.train.recipes.fits import SpeakStreamFit, WindowDraw

SYMBOL, BOS, FRAME, EOS = range(4)  # kinds of position


@dataclass(frozen=True)
class SpeakStreamSequence:
    """One training sequence of T positions over a table of F frames.

    Attributes:
        kind: uint8 [T], the kind of each position (SYMBOL, BOS, FRAME, EOS).
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


@dataclass(frozen=True)
class SpeakStreamBatch(NextFrameBatch):
    """See ``NextFrameBatch``; positions are flat indices into [B * T].

    Attributes:
        speaker: int64 [B].
        bos_at: [N]; bos_windows: [N, 3].
    """

    speaker: Tensor
    bos_at: Tensor
    bos_windows: Tensor


def draw_options(draw: WindowDraw, rng: Rng) -> SpeakStreamOptions:
    """A random window."""
    n = int(rng.choice(draw.n, p=draw.n_weights))
    look = int(rng.choice(draw.look_ahead, p=draw.look_ahead_weights))
    scheme = SCHEMES[int(rng.random() < draw.s2_share)]
    return SpeakStreamOptions(scheme, min(n + look, LARGEST_WINDOW), n)


def interleave(
    sentence: Sentence, silence: np.ndarray, draw: WindowDraw | SpeakStreamOptions, rng: Rng, prompt: int = 0
) -> SpeakStreamSequence:
    """Cut a sentence into [T_1, A_1, T_2, A_2, ...] (section III.C).

    Args:
        silence: the speaker's silence, uint8 [S, 80].
        draw: how windows are drawn; fixed options for validation.
        prompt: frames of silence after the first BOS; 0 draws 8 to 16.
    """
    prompt = prompt or int(rng.integers(8, 17))
    levels = np.concatenate([np.resize(silence, (prompt, dmel.CHANNELS)), sentence.levels])
    phones = np.concatenate([np.zeros(prompt, np.uint8), sentence.phones])
    total, rule = len(sentence.words), FeedingPolicy()
    options = draw if isinstance(draw, SpeakStreamOptions) else draw_options(draw, rng)
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
        assert plan is not None, "training sentences are complete, so there is always a next segment"
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
    return SpeakStreamSequence(
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


def crop(sequence: SpeakStreamSequence, start: int) -> SpeakStreamSequence:
    """The sequence from the start of a segment, as in a slot that has dropped the segments before it."""
    keep = slice(start, None)
    s = sequence
    return SpeakStreamSequence(
        s.kind[keep], s.value[keep], s.target[keep], s.stop[keep], s.windows, s.levels, s.phones, [], s.speaker
    )


def collate(
    group: Sequence[SpeakStreamSequence], speakers: list[str], noise_share: float, rng: Rng
) -> SpeakStreamBatch:
    """Pad sequences to the longest, and collect the positions of each kind."""
    length = max(len(s) for s in group)
    symbols = np.full((len(group), length), FILLER, np.int64)
    names = [k for k in SpeakStreamBatch.__dataclass_fields__ if k not in ("symbols", "speaker")]
    parts: dict[str, list[np.ndarray]] = {k: [] for k in names}
    for row, s in enumerate(group):
        at = row * length + np.arange(len(s))
        is_symbol = s.kind == SYMBOL
        symbols[row, : len(s)][is_symbol] = s.value[is_symbol]
        is_bos = s.kind == BOS
        parts["bos_at"].append(at[is_bos])
        parts["bos_windows"].append(s.windows[s.value[is_bos]])
        is_frame = (s.kind == FRAME) | (s.kind == EOS)
        levels = add_level_noise(s.levels, noise_share, rng)[np.where(s.kind == FRAME, s.value, 0)[is_frame]]
        levels[s.kind[is_frame] == EOS] = dmel.EOS
        parts["frame_at"].append(at[is_frame])
        parts["frame_levels"].append(levels)
        has_target = s.target >= 0
        parts["target_at"].append(at[has_target])
        parts["target_levels"].append(s.levels[s.target[has_target]])
        parts["target_phones"].append(s.phones[s.target[has_target]].astype(np.int64))
        has_stop = ~np.isnan(s.stop)
        parts["stop_at"].append(at[has_stop])
        parts["stop"].append(s.stop[has_stop])
    speaker = torch.tensor([speakers.index(s.speaker) for s in group])
    tensors = {k: torch.from_numpy(np.concatenate(v)) for k, v in parts.items()}
    return SpeakStreamBatch(symbols=torch.from_numpy(symbols), speaker=speaker, **tensors)


class SpeakStreamTrainingModule(NextFrameModule):
    """SpeakStream with its training-only phone head."""

    def hidden(self, batch: SpeakStreamBatch, watch: AttentionHook | None = None) -> Tensor:
        net = self.net
        rows, length = batch.symbols.shape
        x = net.embed_symbols(batch.symbols, batch.speaker).flatten(0, 1)
        frames = net.embed_frames(batch.frame_levels, batch.speaker[batch.frame_at // length])
        bos = net.embed_bos(batch.bos_windows, batch.speaker[batch.bos_at // length])
        x = x.index_copy(0, batch.frame_at, frames.to(x.dtype)).index_copy(0, batch.bos_at, bos.to(x.dtype))
        return net.decoder(x.view(rows, length, -1), watch=watch).flatten(0, 1)


class SpeakStreamTraining(FamilyTraining[SpeakStreamFit]):
    """Training of SpeakStream by a recipe."""

    def build_module(self) -> SpeakStreamTrainingModule:
        net = SpeakStream(SpeakStreamConfig.read(self.settings.config))
        return SpeakStreamTrainingModule(net, self.settings.phone_weight, self.settings.eos_weight)

    def draw(self, groups: Groups, data: SpeechDataset, rng: Rng) -> Iterator[SpeakStreamSequence]:
        seeds = rng.integers(0, 2**63, size=BUCKET)
        for group, seed in zip(groups, seeds, strict=False):
            yield self._draw(group, data.silence[group[0].speaker], np.random.default_rng(seed))

    def _draw(self, group: list[Sentence], silence: np.ndarray, rng: Rng) -> SpeakStreamSequence:
        sequence = interleave(join_sentences(group, silence, rng), silence, self.settings.windows, rng)
        is_s1 = bool((sequence.windows[:, 0] == 0).all())  # S2's sequence needs the dropped words
        if len(group) > 1 and is_s1 and rng.random() < self.settings.crop_share:
            sequence = crop(sequence, sequence.starts[int(rng.integers(0, max(1, len(sequence.starts) // 2)))])
        return sequence

    def validation(self, data: SpeechDataset) -> Iterator[tuple[str, list[SpeakStreamSequence]]]:
        """With fixed windows, m = 1, 3, 5."""
        rng = np.random.default_rng(0)
        for m in (1, 3, 5):
            options = SpeakStreamOptions("S1", m, 1)
            yield f"m{m}", [interleave(s, quiet, options, rng, prompt=10) for s, quiet in validation_sentences(data)]

    def collate(self, group: Sequence[SpeakStreamSequence], data: SpeechDataset, rng: Rng | None) -> SpeakStreamBatch:
        return collate(group, data.speakers, *noise_of(self.settings, rng))
