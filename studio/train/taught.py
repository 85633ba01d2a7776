"""What a voice speaks of texts that nobody has spoken, written as features, as those of a corpus are.

It decodes by itself, with sampling. So a teacher of paper 001 ("Interleaved multi-source distillation") gives its
student more to learn from; and so a voice that is there speaks, much sooner than a corpus' teacher would, what voices
of other families learn from before the corpus itself (Kim & Rush 2016: distillation of sequences).
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
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
from studio.core.traces.trace import collect
from studio.engine.alphabets import dmel
from studio.engine.loop import LocalEngine
from studio.measure.recognisers.port import Sound
from studio.measure.wer import word_errors
from studio.train.alignment import Phonebook, align
from studio.train.corpus.speak import read_sentences
from studio.train.corpus.texts import read_texts
from studio.train.features import Sentence, save_features

SHARD_TEXTS = 50
Ear = Callable[[Sequence[Sound]], list[str]]  # what is heard in each sound


@dataclass(frozen=True)
class Speaking:
    """How texts are spoken and what of it is kept.

    Attributes:
        hear: only what it hears word by word as it is written is kept ("only examples with zero WER are retained",
            paper 001); without it, everything.
        book: phones are found by it; without it nobody knows them, and all frames are of one.
        options: the family's, by name.
        at_once: utterances that the engine speaks together.
    """

    hear: Ear | None = None
    book: Phonebook | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    at_once: int = 1


@dataclass
class Kept:
    """How many texts were spoken, and how many of them were kept."""

    spoken: int = 0
    kept: int = 0


def lines_of(path: Path, after: int = 0, count: int | None = None) -> list[str]:
    """Texts of a file, one a line or what `studio train texts` wrote: ``count`` of those after the first ``after``.

    Raises:
        BadFile: it cannot be read, or holds no such texts.
    """
    found = [one.text for one in read_texts(path)] if path.suffix == ".jsonl" else read_sentences(path)
    if not found:
        raise BadFile(f"{path} holds no texts", "give one text a line, or what `studio train texts` wrote")
    if not found[after:]:
        raise BadFile(f"{path} holds {len(found)} texts, and {after} of them are passed over", "pass over fewer")
    return found[after:][:count]


def speak_taught(
    engine: LocalEngine,
    names: Mapping[str, str],
    texts: Sequence[str],
    out: Path,
    seed: int,
    how: Speaking,
    voice: str = "",
) -> Kept:
    """Let a voice speak texts, each by one of its speakers.

    A file is called after the corpus' speaker, the voice, and a digest of all that decides what is in it. So a stopped
    run goes on (what is there is not made again, and not counted), and other texts or settings lie beside it.

    Args:
        engine: with places for ``how.at_once`` utterances.
        names: the corpus' speaker of each of the card's.
        out: folder of features, which may hold others.
        seed: of the first text; the next has the next one.
        voice: ``name`` or ``name:speaker``, who then speaks his share alone; the engine's first voice unless named.

    Raises:
        BadOption: the voice has a speaker whom the corpus has not.
        BadVoice: there is no such voice.
    """
    out.mkdir(parents=True, exist_ok=True)
    card, only = parse_voice(voice, {one.name: one for one in engine.cards()})
    if strange := sorted({*card.speakers} - {*names}):
        raise BadOption(f"the recipe knows no speaker {strange[0]!r} of {card.name}", f"it has {', '.join(names)}")
    count = Kept()
    for k, speaker in enumerate(card.speakers):
        if ":" in voice and speaker != only:
            continue
        own = [(i, text) for i, text in enumerate(texts) if i % len(card.speakers) == k]
        silence = engine.voice(card.name).family.prompt(k)[-dmel.SILENCE_FRAMES :]
        asked = SpeakRequest(voice=f"{card.name}:{speaker}", options=how.options)
        for shard in track(range(0, len(own), SHARD_TEXTS), speaker):
            part = [(replace(asked, seed=seed + i), text) for i, text in own[shard : shard + SHARD_TEXTS]]
            path = out / f"{names[speaker]}-{card.name}-{_digest(card, part, how)}.safetensors"
            if path.is_file():
                continue
            kept = _kept(engine, part, how)
            save_features(names[speaker], [replace(one, speaker=names[speaker]) for one in kept], silence, path)
            count.spoken, count.kept = count.spoken + len(part), count.kept + len(kept)
    return count


def _digest(card: Card, asked: Sequence[tuple[SpeakRequest, str]], how: Speaking) -> str:
    settings = [card.sha256, card.temperature, dict(how.options), how.hear is None, how.book is None]
    whole = [settings, [(request.voice, request.seed, text) for request, text in asked]]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _kept(engine: LocalEngine, asked: Sequence[tuple[SpeakRequest, str]], how: Speaking) -> list[Sentence]:
    """Texts as they are spoken, without those that are not kept."""
    with ThreadPoolExecutor(how.at_once) as pool:
        said = [*pool.map(lambda one: _speak(engine, *one), asked)]
    if how.hear is not None:
        rate_hz = engine.cards()[0].sample_rate_hz
        heard = how.hear([(pcm, rate_hz) for _, pcm in said])
        said = [one for one, (_, text), words in zip(said, asked, heard, strict=True) if is_heard(text, words)]
    whole = [sentence for sentence, _ in said if sentence is not None]
    if how.book is None:
        return whole
    return [found for one in whole if (found := align(one, how.book)) is not None]


def is_heard(text: str, heard: str) -> bool:
    """The filter: whether a transcript has every word of a text, and no other."""
    errors = word_errors(text, heard)
    return errors.words > 0 and errors.errors == 0


def _speak(engine: LocalEngine, request: SpeakRequest, text: str) -> tuple[Sentence | None, np.ndarray]:
    """A text as a sentence, None where a word has no frame or an end was forced; and its sound, int16 [T]."""
    utterance = engine.open(request)
    utterance.push_text(text)
    utterance.end()
    spoken = collect(utterance.provenance, utterance.events())
    words = [one.text for one in spoken.words()]
    ends = [one.sample // dmel.TIME_BASE.frame_samples for one in spoken.events if isinstance(one, ev.WordEnd)]
    forced = any(one.forced for one in spoken.events if isinstance(one, ev.Eos))
    if forced or not words or len(ends) != len(words) or (np.diff([0, *ends]) <= 0).any():
        return None, spoken.pcm
    # Nobody knows its phones; a word's end by the attention has its pause already.
    return Sentence(request.voice, words, ends, spoken.frames, np.ones(len(spoken.frames), np.uint8)), spoken.pcm
