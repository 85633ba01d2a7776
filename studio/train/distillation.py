"""Synthesise training features with a voice: sequence-level distillation (Kim & Rush 2016).

The voice samples as in use. The output trains students of paper 001 ("Interleaved multi-source distillation"), or
voices of other families, and is faster than a corpus' teacher.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from studio.core import events as ev
from studio.core.cards import Card, parse_voice
from studio.core.errors import BadFile, BadOption
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.engine.engine import LocalEngine
from studio.engine.tokenizers import dmel
from studio.measure.wer import word_errors
from studio.train.corpus.asr_filter import Transcribe
from studio.train.corpus.synthesis import read_sentences
from studio.train.corpus.texts import read_texts
from studio.train.features import PhoneModel, Sentence, align, save_features

SHARD_TEXTS = 50


@dataclass(frozen=True)
class DistillationOptions:
    """How texts are spoken and filtered.

    Attributes:
        transcribe: recogniser of the filter ("only examples with zero WER are retained", paper 001); None for all.
        phone_model: aligns phones; None sets all frames to one phone.
        options: of the family, by name.
        at_once: number of concurrent utterances.
    """

    transcribe: Transcribe | None = None
    phone_model: PhoneModel | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    at_once: int = 1


@dataclass
class DistillationCounts:
    """Numbers of texts spoken, and of those that passed the filter."""

    spoken: int = 0
    accepted: int = 0


def lines_of(path: Path, after: int = 0, count: int | None = None) -> list[str]:
    """Up to ``count`` texts after the first ``after`` of a file: one per line, or written by `studio train texts`.

    Raises:
        BadFile: the file cannot be read, or has no such texts.
    """
    lines = [one.text for one in read_texts(path)] if path.suffix == ".jsonl" else read_sentences(path)
    if not lines:
        raise BadFile(f"{path} holds no texts", "give one text a line, or what `studio train texts` wrote")
    if not lines[after:]:
        raise BadFile(f"{path} holds {len(lines)} texts, and {after} of them are passed over", "pass over fewer")
    return lines[after:][:count]


def distil(
    engine: LocalEngine,
    names: Mapping[str, str],
    texts: Sequence[str],
    out: Path,
    seed: int,
    settings: DistillationOptions,
    voice: str = "",
) -> DistillationCounts:
    """Synthesise texts with a voice, distributed over its speakers, and write features. Raises BadOption, BadVoice.

    File names have the corpus' speaker, the voice, and a digest of all inputs, so a stopped run resumes (existing files
    are not counted), and other texts or settings get other files.

    Args:
        engine: with slots for ``settings.at_once`` utterances.
        names: the corpus' speaker for each of the card's.
        out: folder of features, maybe with others.
        seed: of the first text; incremented for each.
        voice: ``name``, or ``name:speaker`` for that speaker's share only; empty for the engine's first voice.
    """
    out.mkdir(parents=True, exist_ok=True)
    card, only = parse_voice(voice, {one.name: one for one in engine.cards()})
    if unknown := sorted({*card.speakers} - {*names}):
        raise BadOption(f"the recipe knows no speaker {unknown[0]!r} of {card.name}", f"it has {', '.join(names)}")
    count = DistillationCounts()
    for k, speaker in enumerate(card.speakers):
        if ":" in voice and speaker != only:
            continue
        own = [(i, text) for i, text in enumerate(texts) if i % len(card.speakers) == k]
        silence = engine.voice(card.name).family.prompt(k)[-dmel.SILENCE_FRAMES :]
        request = SpeakRequest(voice=f"{card.name}:{speaker}", options=settings.options)
        for shard in track(range(0, len(own), SHARD_TEXTS), speaker):
            part = [(replace(request, seed=seed + i), text) for i, text in own[shard : shard + SHARD_TEXTS]]
            path = out / f"{names[speaker]}-{card.name}-{_digest(card, part, settings)}.safetensors"
            if path.is_file():
                continue
            sentences = _synthesise(engine, part, settings)
            save_features(names[speaker], [replace(one, speaker=names[speaker]) for one in sentences], silence, path)
            count.spoken, count.accepted = count.spoken + len(part), count.accepted + len(sentences)
    return count


def _digest(card: Card, requests: Sequence[tuple[SpeakRequest, str]], settings: DistillationOptions) -> str:
    is_unfiltered, is_unaligned = settings.transcribe is None, settings.phone_model is None
    inputs = [
        [card.sha256, card.temperature, dict(settings.options), is_unfiltered, is_unaligned],
        [(request.voice, request.seed, text) for request, text in requests],
    ]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _synthesise(
    engine: LocalEngine, requests: Sequence[tuple[SpeakRequest, str]], settings: DistillationOptions
) -> list[Sentence]:
    """Synthesised sentences that pass the filter."""
    with ThreadPoolExecutor(settings.at_once) as pool:
        spoken = [*pool.map(lambda one: _speak(engine, *one), requests)]
    if settings.transcribe is not None:
        rate_hz = engine.cards()[0].sample_rate_hz
        transcripts = settings.transcribe([(pcm, rate_hz) for _, pcm in spoken])
        triples = zip(spoken, requests, transcripts, strict=True)
        spoken = [one for one, (_, text), transcript in triples if is_exact(text, transcript)]
    sentences = [sentence for sentence, _ in spoken if sentence is not None]
    if settings.phone_model is None:
        return sentences
    return [aligned for one in sentences if (aligned := align(one, settings.phone_model)) is not None]


def is_exact(text: str, transcript: str) -> bool:
    """Whether a transcript has no word errors."""
    errors = word_errors(text, transcript)
    return errors.words > 0 and errors.errors == 0


def _speak(engine: LocalEngine, request: SpeakRequest, text: str) -> tuple[Sentence | None, np.ndarray]:
    """The sentence of a text (None if a word has no frame or an end was forced), and its sound, int16 [T]."""
    trace = speak_once(engine, request, text)
    words = [one.text for one in trace.words()]
    ends = [one.sample // dmel.TIME_BASE.frame_samples for one in trace.events if isinstance(one, ev.WordEnd)]
    forced = any(one.forced for one in trace.events if isinstance(one, ev.Eos))
    if forced or not words or len(ends) != len(words) or (np.diff([0, *ends]) <= 0).any():
        return None, trace.pcm
    # Phones are unknown; word ends by attention include the pause.
    return Sentence(request.voice, words, ends, trace.frames, np.ones(len(trace.frames), np.uint8)), trace.pcm
