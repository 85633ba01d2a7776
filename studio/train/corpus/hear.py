"""A corpus is listened to: clips in which a recogniser hears other sounds than were written are left out.

Phonemes are compared, not words: a rare word is often heard as a common one that sounds alike, and nothing is wrong
with the clip. One or two words, and carriers of rare words, give a recogniser too little to go by: they are judged by
length and loudness alone.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from studio.core.errors import BadFile
from studio.core.text.typography import MARKS
from studio.measure.signal.loudness import active_level_db
from studio.text.phonemes import phonemise
from studio.train.corpus import shards
from studio.train.corpus.texts import WORDS
from studio.train.teachers import phonemes
from studio.train.teachers.kokoro import SPACE, START, STOP

MISHEARD = 0.2  # share of phonemes that differ
ENOUGH = 0.01  # where a smaller share of a kind's sample is misheard, the rest of it is taken unheard
_PHONEME_S = (0.025, 0.35)  # a clip's length for each of its phonemes
_LEVEL_DB = (-30.0, -10.0)  # of active speech
_UNSPOKEN = frozenset((*MARKS, SPACE, START, STOP, "ˈ", "ˌ"))

Sound = tuple[np.ndarray, int]  # int16 [T] and its rate in Hz
Transcribe = Callable[[Sequence[Sound]], list[str]]


@dataclass(frozen=True)
class Clip:
    """A clip of a corpus."""

    shard: Path
    label: dict[str, Any]

    @property
    def name(self) -> str:
        """Where it lies, under the corpus."""
        return f"{self.shard.name}/{self.label['wav']}"

    @property
    def judged_by_ear(self) -> bool:
        """Whether it is long and plain enough for a recogniser."""
        return self.label["kind"] != WORDS and len(self.label["words"]) > 2


@dataclass
class KindHeard:
    """What was heard of one kind of text: clips there are, heard, misheard, of a wrong length or loudness."""

    clips: int = 0
    heard: int = 0
    misheard: int = 0
    odd: int = 0

    @property
    def share(self) -> float:
        """Of the clips that were heard, how many were misheard."""
        return self.misheard / self.heard if self.heard else 0.0


def phonemes_of(text: str) -> str:
    """The phonemes of a text, without marks, stress and spaces."""
    words = phonemes.spoken(text)
    return "".join(s for group in phonemise(phonemes.cased(text, words)) for s in group if s not in _UNSPOKEN)


def written_phonemes(label: dict[str, Any]) -> str:
    """The phonemes that a label says were spoken."""
    return "".join(name for name, _ in label["phones"] if name not in _UNSPOKEN)


def difference(label: dict[str, Any], heard: str) -> float:
    """Phonemes to change, leave out or put in, for each one that was written; or characters, where these differ less.

    Characters help where a recogniser writes digits without their colons: 4:05 is heard as 405.
    """
    from rapidfuzz.distance import Levenshtein

    pairs = ((written_phonemes(label), phonemes_of(heard)), (_characters(label["text"]), _characters(heard)))
    return min(Levenshtein.distance(written, other) / max(1, len(written)) for written, other in pairs)


def _characters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def is_odd(clip: Clip) -> bool:
    """Whether a clip's length or loudness cannot be right."""
    pcm = shards.read_sound(clip.shard / clip.label["wav"])
    rate_hz = shards.RATE_HZ
    each_s = len(pcm) / rate_hz / max(1, len(written_phonemes(clip.label)))
    level_db = active_level_db(pcm, rate_hz)
    return not (_PHONEME_S[0] <= each_s <= _PHONEME_S[1] and _LEVEL_DB[0] <= level_db <= _LEVEL_DB[1])


def hear_corpus(
    corpus: Path, transcribe: Transcribe, sample: int, seed: int = 0, batch: int = 24
) -> dict[str, KindHeard]:
    """Hear a sample of every kind, and all of the kinds of which more than 1% is misheard; leave out what is wrong.

    What was heard is kept in ``heard.jsonl``, so a stopped run goes on. Clips left out are named in each shard's
    ``left_out.txt``, which `studio train features` and the vocoder's training read.

    Args:
        transcribe: sounds to texts, in order.
        sample: clips of each kind.

    Raises:
        BadFile: there are no shards, or a label, a sound or ``heard.jsonl`` is damaged.
    """
    clips = [Clip(s, label) for s in shards.shards(corpus) for label in shards.every_label(s)]
    kinds: dict[str, list[Clip]] = {}
    for clip in clips:
        kinds.setdefault(clip.label["kind"], []).append(clip)
    memory = _Memory(corpus / "heard.jsonl", transcribe, batch)
    found: dict[str, KindHeard] = {}
    wrong: set[str] = {c.name for c in clips if is_odd(c)}
    for kind, mine in sorted(kinds.items()):
        audible = [c for c in mine if c.judged_by_ear]
        drawn = Random(f"{seed} {kind}").sample(audible, min(sample, len(audible)))
        summary = found[kind] = KindHeard(len(mine), odd=sum(c.name in wrong for c in mine))
        for part in (drawn, audible):
            heard = memory.hear(part)
            misheard = {c.name for c, text in zip(part, heard, strict=True) if difference(c.label, text) > MISHEARD}
            summary.heard, summary.misheard = len(part), len(misheard)
            if summary.share < ENOUGH:
                break
        wrong |= misheard
    _leave_out(clips, wrong)
    return found


def _leave_out(clips: Iterable[Clip], wrong: set[str]) -> None:
    by_shard: dict[Path, list[str]] = {}
    for clip in clips:
        names = by_shard.setdefault(clip.shard, [])
        if clip.name in wrong:
            names.append(clip.label["wav"])
    for shard, names in by_shard.items():
        (shard / shards.LEFT_OUT).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def _known(path: Path) -> dict[str, str]:
    """What was heard before, by clip. Raises BadFile."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        pairs = [json.loads(line) for line in lines if line.endswith("\n")]  # a stopped run may leave half a line
        known = {pair["clip"]: pair["heard"] for pair in pairs}
        if not all(isinstance(text, str) for one in known.items() for text in one):
            raise ValueError("a transcript is no text")
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise BadFile(f"{path} is damaged: {error!s:.200}", "remove it: the clips are heard anew") from error
    return known


class _Memory:
    """Transcripts by clip, kept in a file as they come."""

    def __init__(self, path: Path, transcribe: Transcribe, batch: int) -> None:
        self._path, self._transcribe, self._batch = path, transcribe, batch
        self._known = _known(path) if path.is_file() else {}

    def hear(self, clips: Sequence[Clip]) -> list[str]:
        """What is heard in each clip."""
        todo = [c for c in clips if c.name not in self._known]
        for at in range(0, len(todo), self._batch):
            part = todo[at : at + self._batch]
            sounds = [(shards.read_sound(c.shard / c.label["wav"]), shards.RATE_HZ) for c in part]
            texts = self._transcribe(sounds)
            self._known |= {c.name: text for c, text in zip(part, texts, strict=True)}
            with self._path.open("a", encoding="utf-8") as file:
                for c, text in zip(part, texts, strict=True):
                    pair = {"clip": c.name, "written": c.label["text"], "heard": text}
                    file.write(json.dumps(pair, ensure_ascii=False) + "\n")
        return [self._known[c.name] for c in clips]
