"""Train IST-LM: next-frame cross-entropy on interleaved sequences (paper 003, section 3, equation 2).

A sequence is a prompt, then text and speech interleaved by the engine's policy. Only speech has losses. A
training-only head predicts the phone of the next frame, as for SpeakStream.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from studio.engine.families.common.text_tokens import FILE as BPE_FILE
from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.ist.model import Ist, IstConfig
from studio.engine.families.ist.policy import FRAME, RATIOS, IstLayout, IstOptions, IstSymbols, Ratio
from studio.engine.nets.transformer import AttentionHook
from studio.engine.tokenizers import dmel
from studio.train.families.common import (
    NO_TARGET,
    GuidedHead,
    NextFrameBatch,
    NextFrameModule,
    encoded_words,
    noise_of,
    phones_of_tokens,
    token_of_frames,
    validation_sentences,
)
from studio.train.features import Sentence
from studio.train.fit.dataset import SpeechDataset, add_level_noise, find_prompts, frame_words, join_sentences
from studio.train.fit.training import FamilyTraining, Groups, Rng
from studio.train.recipes.fits import IstFit

CHECKED_RATIOS = ("1:3", "3:9", "12:24", "whole")
_PROMPT_DRAWS = 20  # attempts to find a sentence of a prompt's length


@dataclass(frozen=True)
class IstBatch(NextFrameBatch):
    """See ``NextFrameBatch``; positions ``..._at`` are flat indices into [B * T].

    Attributes:
        positions: int64 [B, T], the index of each symbol or frame among its own kind.
        start_at, start_ratio: int64 [N], passage starts and the ratio of each.
        target_token: [P], the position in its row of the text token that the frame speaks; ``NO_TARGET`` where there is
            none or it comes later.
    """

    positions: Tensor
    start_at: Tensor
    start_ratio: Tensor
    target_token: Tensor


@dataclass(frozen=True)
class IstSpeech:
    """One passage: text tokens with the symbol that closes them, frames uint8 [F, 80], phones uint8 [F].

    ``token_of_frame`` int64 [F] is the token of each frame, or ``NO_TARGET``.
    """

    tokens: list[int]
    levels: np.ndarray
    phones: np.ndarray
    token_of_frame: np.ndarray


@dataclass(frozen=True)
class IstSequence:
    """Passages laid out by one ratio; the phone of every frame, end frames included, and the position of its token."""

    layout: IstLayout
    phones: np.ndarray
    token_at: np.ndarray
    ratio: int

    def __len__(self) -> int:
        return len(self.layout)


class IstSequencer:
    """Turns sentences into passages of tokens.

    Args:
        dropout: share of BPE merges that are skipped where a generator is given.
    """

    def __init__(self, bpe: Bpe, dropout: float = 0.0) -> None:
        self.bpe, self.symbols, self._dropout = bpe, IstSymbols.after(bpe.size), dropout
        self._phones = phones_of_tokens(bpe)

    def words(self, words: Sequence[str], rng: Rng | None = None) -> list[tuple[int, ...]]:
        """Words encoded one by one, as when they are committed; with merge dropout where a generator is given."""
        return encoded_words(self.bpe, words, self._dropout, rng)

    def tokens(self, words: Sequence[str]) -> list[int]:
        """The tokens of ``encoded_words`` in one list."""
        return [*chain.from_iterable(self.words(words))]

    def whole_sentence(self, s: Sentence, rng: Rng | None = None) -> IstSpeech:
        """A sentence closed by the end symbol."""
        words = self.words(s.words, rng)
        tokens = [*chain.from_iterable(words), self.symbols.end]
        return IstSpeech(tokens, s.levels, s.phones, self._token_of_frames(s, words))

    def flushed(self, s: Sentence, rng: Rng) -> list[IstSpeech]:
        """A sentence cut at a random word by a flush: the flush symbol closes its first part."""
        if len(s.words) < 2:
            return [self.whole_sentence(s, rng)]
        word = int(rng.integers(1, len(s.words)))
        at, words = s.word_ends[word - 1], self.words(s.words, rng)
        before, after = ([*chain.from_iterable(part)] for part in (words[:word], words[word:]))
        of_frame = self._token_of_frames(s, words)
        rest = np.where(of_frame[at:] < len(before), NO_TARGET, of_frame[at:] - len(before))
        return [
            IstSpeech([*before, self.symbols.flush], s.levels[:at], s.phones[:at], of_frame[:at]),
            IstSpeech([*after, self.symbols.end], s.levels[at:], s.phones[at:], rest),
        ]

    def _token_of_frames(self, s: Sentence, words: Sequence[tuple[int, ...]]) -> np.ndarray:
        phones = [[self._phones[token] for token in word] for word in words]
        return token_of_frames(frame_words(s), s.phones, phones)


def lay_out(passages: Sequence[IstSpeech], ratio: str, symbols: IstSymbols) -> IstSequence:
    """Passages one after another, each by the same ratio."""
    layout, phones, token_at = IstLayout(), list[np.ndarray](), list[np.ndarray]()
    for one in passages:
        start = len(layout)
        layout.passage(symbols, one.tokens, one.levels, Ratio.parse(ratio))
        phones += [one.phones, np.zeros(1, np.uint8)]
        at = start + 1 + np.flatnonzero(np.array(layout.symbols[start + 1 :]) != FRAME)
        known = one.token_of_frame != NO_TARGET
        token_at += [np.where(known, at[one.token_of_frame], NO_TARGET), np.full(1, NO_TARGET)]
    return IstSequence(layout, np.concatenate(phones), np.concatenate(token_at), RATIOS.index(ratio))


def _draw(group: list[Sentence], text: SpeechDataset, sequencer: IstSequencer, recipe: IstFit, rng: Rng) -> IstSequence:
    """A prompt of the speaker, then the sentences as passages: some joined, some cut by a flush."""
    speaker = group[0].speaker
    passages = [sequencer.whole_sentence(_draw_prompt(text.training[speaker], recipe, rng), rng)]
    parts = [[group[0]]]
    for sentence in group[1:]:
        if rng.random() < recipe.next_share:
            parts.append([])
        parts[-1].append(sentence)
    for part in parts:
        sentence = join_sentences(part, text.silence[speaker], rng)
        is_cut = rng.random() < recipe.flush_share
        passages += sequencer.flushed(sentence, rng) if is_cut else [sequencer.whole_sentence(sentence, rng)]
    names = recipe.ratios or RATIOS
    return lay_out(passages, names[int(rng.integers(len(names)))], sequencer.symbols)


def _draw_prompt(sentences: Sequence[Sentence], recipe: IstFit, rng: Rng) -> Sentence:
    """A random sentence of a prompt's length; the first sentence if none is found soon."""
    fewest, most = recipe.prompt_frames
    candidates = (sentences[int(rng.integers(len(sentences)))] for _ in range(_PROMPT_DRAWS))
    return next((s for s in candidates if fewest <= len(s.levels) <= most), None) or sentences[0]


def collate(group: Sequence[IstSequence], symbols: IstSymbols, noise_share: float, rng: Rng) -> IstBatch:
    """Pad sequences to the longest, and collect the positions of each kind."""
    length = max(len(s) for s in group)
    ids = np.full((len(group), length), symbols.filler, np.int64)
    positions = np.zeros((len(group), length), np.int64)
    names = [k for k in IstBatch.__dataclass_fields__ if k not in ("symbols", "positions")]
    parts: dict[str, list[np.ndarray]] = {k: [] for k in names}
    for row, s in enumerate(group):
        at = row * length + np.arange(len(s))
        row_ids, levels = np.array(s.layout.symbols), s.layout.stacked()
        is_frame = row_ids == FRAME
        ids[row, : len(s)][~is_frame] = row_ids[~is_frame]
        positions[row, : len(s)] = s.layout.positions
        starts = at[row_ids == symbols.start]
        parts["start_at"].append(starts)
        parts["start_ratio"].append(np.full(len(starts), s.ratio))
        parts["frame_at"].append(at[is_frame])
        ended = levels[:, 0] == dmel.EOS
        parts["frame_levels"].append(np.where(ended[:, None], levels, add_level_noise(levels, noise_share, rng)))
        frame_index = np.cumsum(is_frame) - 1  # index of the frame at a position
        is_end = is_frame & ended[np.maximum(frame_index, 0)]
        predicts = np.append(is_frame & ~is_end, False)[1:]
        targets = frame_index[1:][predicts[:-1]]
        parts["target_at"].append(at[predicts])
        parts["target_levels"].append(levels[targets])
        parts["target_phones"].append(s.phones[targets].astype(np.int64))
        token_at = s.token_at[targets]
        parts["target_token"].append(np.where(token_at <= np.flatnonzero(predicts), token_at, NO_TARGET))
        closes = (row_ids == symbols.end) | (row_ids == symbols.flush)
        is_closed = np.cumsum(closes) > np.cumsum(is_end)
        parts["stop_at"].append(at[is_closed])
        parts["stop"].append(np.append(is_end, False)[1:][is_closed].astype(np.float32))
    tensors = {k: torch.from_numpy(np.concatenate(v)) for k, v in parts.items()}
    return IstBatch(symbols=torch.from_numpy(ids), positions=torch.from_numpy(positions), **tensors)


class IstTrainingModule(NextFrameModule):
    """IST-LM with its training-only phone head; one head of attention may be guided."""

    speaker_buffers = ("prompt", "prompt_text")

    def guided_head(self, batch: IstBatch) -> GuidedHead:
        """Guided to the token whose phone is spoken."""
        return GuidedHead(self.net.decoder, batch.target_at, batch.target_token)

    def hidden(self, batch: IstBatch, watch: AttentionHook | None = None) -> Tensor:
        net = self.net
        rows, length = batch.symbols.shape
        positions = batch.positions.flatten()
        x = net.embed_symbols(batch.symbols.flatten(), positions)
        frames = net.embed_frames(batch.frame_levels, positions[batch.frame_at])
        x = x.index_copy(0, batch.frame_at, frames.to(x.dtype))
        x = x.index_add(0, batch.start_at, net.ratio(batch.start_ratio).to(x.dtype))
        return net.decoder(x.view(rows, length, -1), watch=watch).flatten(0, 1)


class IstTraining(FamilyTraining[IstFit]):
    """Training of IST-LM by a recipe; the state folder holds its encoding, ``bpe.json``."""

    voice_files = (BPE_FILE,)

    def build_module(self) -> IstTrainingModule:
        fit, self.validation_tokens = self.settings, self.settings.batch_tokens
        for ratio in fit.ratios:
            IstOptions(ratio)
        return IstTrainingModule(Ist(IstConfig.read(fit.config)), fit.phone_weight, fit.eos_weight, fit.guide_weight)

    def prepare(self, data: SpeechDataset, state: Path) -> None:
        """Read the encoding and give the net a prompt of each speaker. Raises BadFile, BadVoice."""
        bpe = Bpe.for_fit(state, self.module.net.config.text_tokens)
        self._sequencer = IstSequencer(bpe, self.settings.merge_dropout)
        for i, sentence in enumerate(find_prompts(data, *self.settings.prompt_frames).values()):
            tokens = self._sequencer.tokens(sentence.words)
            self.module.net.set_prompt(i, tokens, torch.from_numpy(sentence.levels))

    def draw(self, groups: Groups, data: SpeechDataset, rng: Rng) -> Iterator[IstSequence]:
        return (_draw(group, data, self._sequencer, self.settings, rng) for group in groups)

    def validation(self, data: SpeechDataset) -> Iterator[tuple[str, list[IstSequence]]]:
        """After the voice's own prompt, by four ratios."""
        first, sequencer = find_prompts(data, *self.settings.prompt_frames), self._sequencer
        passages = [[*map(sequencer.whole_sentence, (first[s.speaker], s))] for s, _ in validation_sentences(data)]
        for ratio in CHECKED_RATIOS:
            yield ratio, [lay_out(pair, ratio, sequencer.symbols) for pair in passages]

    def collate(self, group: Sequence[IstSequence], data: SpeechDataset, rng: Rng | None) -> IstBatch:
        return collate(group, self._sequencer.symbols, *noise_of(self.settings, rng))
