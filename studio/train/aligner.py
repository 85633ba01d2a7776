"""Fit the letter net of a voice whose nets do not report word positions, on the voice's own speech.

The voice speaks texts; pocketsphinx aligns the words with the sound. A word's frames are divided evenly among its
letters at first; then the letters are realigned within their words by the net's scores, as in the training of a hybrid
speech recogniser.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.core.cards import parse_voice, read_card, sha256_of, write_card
from studio.core.errors import BadFile
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.engine.engine import open_engine
from studio.engine.families.common.letter_net import FILE, LetterModel
from studio.engine.families.common.word_alignment import (
    AHEAD_FRAMES,
    NEXT,
    PAST_FRAMES,
    SILENCE,
    SKIP,
    STAY,
    SYMBOLS,
    letters_of,
    scaled,
)
from studio.measure.recognisers.pocketsphinx import WordTime, align_all
from studio.train.fit.resources import write_weights

_ROUNDS, _STEPS, _BATCH, _RATE = 4, 500, 1024, 2e-3
_PRIOR_SHARE = 0.7  # factor on a letter's log prior, which is subtracted from its score
_LEAST_WORDS = 100


@dataclass(frozen=True)
class Example:
    """A spoken text: its frames as windows float32 [F, 480], and each word's letters with its frames [first, end)."""

    windows: np.ndarray
    words: Sequence[tuple[list[int], int, int]]


def fit_aligner(voices: Path, voice: str, texts: Sequence[str], device: str, seed: int, workers: int) -> dict[str, Any]:
    """Fit the net and write it beside the voice's weights, with its hash on the card. Returns counts and the loss.

    Raises:
        BadFile: fewer than 100 words could be aligned.
    """
    from studio.text.normalise import best

    torch.manual_seed(seed)
    with closing(open_engine(voices, best(), device, voice_names=[voice])) as engine:
        card, only = parse_voice(voice, {one.name: one for one in engine.cards()})
        speakers = [only] if ":" in voice else [*card.speakers]
        names = [f"{card.name}:{speaker}" for speaker in speakers]
        traces = [speak_once(engine, SpeakRequest(voice=name, seed=seed), text) for name in names for text in texts]
    sounds = [(trace.pcm, trace.rate_hz) for trace in traces]
    spoken = [[word.text for word in trace.words()] for trace in traces]
    aligned = align_all(sounds, [" ".join(words) for words in spoken], workers=workers)
    frame_s = card.frame_samples / card.sample_rate_hz
    examples = [
        _example(trace.frames, words, times, frame_s)
        for trace, words, times in zip(traces, spoken, aligned, strict=True)
        if times is not None and len(times) == len(words)
    ]
    count = sum(len(one.words) for one in examples)
    if count < _LEAST_WORDS:
        raise BadFile(f"only {count} words could be aligned", f"give texts with {_LEAST_WORDS} words or more")
    model = LetterModel()
    loss = _fit(model, examples)
    folder = voices / card.name
    write_weights({name: tensor.half() for name, tensor in model.state_dict().items()}, folder / FILE)
    stored = read_card(folder)
    write_card(folder, replace(stored, sha256=stored.sha256 | {FILE: sha256_of(folder / FILE)}))
    return {"voice": card.name, "speakers": speakers, "texts": len(examples), "words": count, "loss": loss}


def _example(frames: np.ndarray, words: Sequence[str], times: Sequence[WordTime], frame_s: float) -> Example:
    padded = np.pad(scaled(frames), ((PAST_FRAMES, AHEAD_FRAMES), (0, 0)), mode="edge")
    windows = np.concatenate([padded[k : k + len(frames)] for k in range(PAST_FRAMES + 1 + AHEAD_FRAMES)], axis=1)
    bounds = [(round(one.start_s / frame_s), round(one.end_s / frame_s)) for one in times]
    return Example(
        windows,
        [
            (letters_of(word), first, min(max(first + 1, end), len(frames)))
            for word, (first, end) in zip(words, bounds, strict=True)
            if first < len(frames)
        ],
    )


def _fit(model: LetterModel, examples: Sequence[Example]) -> float:
    """Fit in rounds, each to the alignment by the round before. Returns the last loss, nats a frame."""
    windows = torch.from_numpy(np.concatenate([one.windows for one in examples]))
    targets = [_evenly(one) for one in examples]
    optimiser = torch.optim.Adam(model.parameters(), _RATE, weight_decay=1e-5)
    loss, share = torch.zeros(()), torch.zeros(SYMBOLS)
    for _ in range(_ROUNDS):
        goal = torch.from_numpy(np.concatenate(targets))
        for _ in range(_STEPS):
            picked = torch.randint(len(windows), (_BATCH,))
            loss = torch.nn.functional.cross_entropy(model(windows[picked]), goal[picked])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        counts = torch.bincount(goal, minlength=SYMBOLS) + 10.0
        share = _PRIOR_SHARE * (counts / counts.sum()).log()
        with torch.no_grad():
            scores = [(model(torch.from_numpy(one.windows)) - share).numpy() for one in examples]
        targets = [_placed(one, score) for one, score in zip(examples, scores, strict=True)]
    with torch.no_grad():
        model.out.bias.sub_(share)
    return float(loss.detach())


def _evenly(example: Example) -> np.ndarray:
    return _targets(example, lambda letters, first, end: (np.arange(end - first) * len(letters)) // (end - first))


def _placed(example: Example, scores: np.ndarray) -> np.ndarray:
    """The best path of each word's letters through its frames."""
    return _targets(example, lambda letters, first, end: _best_letters(scores[first:end, letters]))


def _targets(example: Example, place: Callable[[list[int], int, int], np.ndarray]) -> np.ndarray:
    """The letter of each frame, int64 [F]; ``place`` gives the index of the letter for each frame of a word."""
    targets = np.full(len(example.windows), SILENCE)
    for letters, first, end in example.words:
        targets[first:end] = np.array(letters)[place(letters, first, end)]
    return targets


def _best_letters(scores: np.ndarray) -> np.ndarray:
    """The best path from the first to the last column of scores [F, L], int64 [F]."""
    frames, count = scores.shape
    if frames < (count + 1) // 2 + 1:  # too short for all letters
        return (np.arange(frames) * count) // frames
    best, steps = np.full(count, -np.inf), np.zeros((frames, count), int)
    best[0] = scores[0, 0]
    for at in range(1, frames):
        reached = np.full((3, count), -np.inf)
        reached[0], reached[1, 1:], reached[2, 2:] = best + STAY, best[:-1] + NEXT, best[:-2] + SKIP
        steps[at] = reached.argmax(0)
        best = reached.max(0) + scores[at]
    path, state = np.zeros(frames, int), count - 1
    for at in range(frames - 1, -1, -1):
        path[at] = state
        state -= steps[at, state]
    return path
