"""What the teacher speaks of texts that nobody has spoken (paper 001, "Interleaved multi-source distillation").

It decodes by itself, with sampling; "only examples with zero WER are retained". What is kept is written as features, as
those of a corpus are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.progress import track

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.core.ports import SpeakRequest
from studio.core.traces.trace import collect
from studio.engine import dmel
from studio.engine.loop import LocalEngine
from studio.measure.recognisers.port import Sound
from studio.measure.wer import word_errors
from studio.train.features import Sentence, save_features

SHARD_TEXTS = 50
Ear = Callable[[Sequence[Sound]], list[str]]  # what is heard in each sound


@dataclass
class Kept:
    """How many texts were spoken, and how many of them were heard without an error."""

    spoken: int = 0
    kept: int = 0


def speak_taught(
    engine: LocalEngine, names: dict[str, str], texts: Sequence[str], hear: Ear, out: Path, seed: int
) -> Kept:
    """Let a voice speak texts, each by one of its speakers, and keep what is heard word by word as it is written.

    A stopped run goes on: shards that are there are not made again, and not counted.

    Args:
        engine: with the one voice.
        names: the corpus' speaker of each of the card's.
        hear: transcribes sounds; ``studio.measure.recognisers``.
        out: folder of features.

    Raises:
        BadOption: the voice has a speaker whom the corpus has not.
    """
    out.mkdir(parents=True, exist_ok=True)
    (card,) = engine.cards()
    if strange := sorted({*card.speakers} - {*names}):
        raise BadOption(f"the recipe knows no speaker {strange[0]!r} of {card.name}", f"it has {', '.join(names)}")
    count = Kept()
    for k, speaker in enumerate(card.speakers):
        own = [(i, text) for i, text in enumerate(texts) if i % len(card.speakers) == k]
        silence = engine.voice(card.name).family.prompt(k)[-dmel.SILENCE_FRAMES :]
        for shard in track(range(0, len(own), SHARD_TEXTS), speaker):
            path = out / f"{names[speaker]}-{shard // SHARD_TEXTS:03d}.safetensors"
            if path.is_file():
                continue
            part = own[shard : shard + SHARD_TEXTS]
            said = [_speak(engine, f"{card.name}:{speaker}", names[speaker], text, seed + i) for i, text in part]
            heard = hear([(pcm, card.sample_rate_hz) for _, pcm in said])
            kept = [
                sentence
                for (sentence, _), (_, text), words in zip(said, part, heard, strict=True)
                if sentence is not None and is_heard(text, words)
            ]
            save_features(names[speaker], kept, silence, path)
            count.spoken, count.kept = count.spoken + len(part), count.kept + len(kept)
    return count


def is_heard(text: str, heard: str) -> bool:
    """The filter: whether a transcript has every word of a text, and no other."""
    errors = word_errors(text, heard)
    return errors.words > 0 and errors.errors == 0


def _speak(engine: LocalEngine, voice: str, speaker: str, text: str, seed: int) -> tuple[Sentence | None, np.ndarray]:
    """A text as a sentence, None where a word has no frame or an end was forced; and its sound, int16 [T]."""
    utterance = engine.open(SpeakRequest(voice=voice, seed=seed))
    utterance.push_text(text)
    utterance.end()
    spoken = collect(utterance.provenance, utterance.events())
    words = [one.text for one in spoken.words()]
    ends = [one.sample // dmel.TIME_BASE.frame_samples for one in spoken.events if isinstance(one, ev.WordEnd)]
    forced = any(one.forced for one in spoken.events if isinstance(one, ev.Eos))
    if forced or not words or len(ends) != len(words) or (np.diff([0, *ends]) <= 0).any():
        return None, spoken.pcm
    # Nobody knows its phones; a word's end by the attention has its pause already.
    return Sentence(speaker, words, ends, spoken.frames, np.ones(len(spoken.frames), np.uint8)), spoken.pcm
