"""Filter a corpus with a speech recogniser: exclude clips whose transcript differs from the text.

Phonemes are compared, not words: a recogniser writes a rare word as a common one that sounds alike. Clips of one or two
words and carriers of rare words have too little context for a recogniser, and are checked by length and loudness only.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from studio.core.errors import bad_file
from studio.core.text.typography import MARKS
from studio.measure.recognisers.base import Sound
from studio.measure.signal import active_level_db
from studio.text.phonemes import phonemise
from studio.train.corpus import shards
from studio.train.corpus.texts import WORDS
from studio.train.teachers.kokoro import SPACE, START, STOP
from studio.train.teachers.port import normalised_words, restore_case

MAX_DIFFERENCE = 0.2  # share of phonemes that differ
SAMPLE_SUFFICES = 0.01  # the rest of a kind is not transcribed if a smaller share of its sample is wrong
_PHONEME_S = (0.025, 0.35)  # duration per phoneme
_LEVEL_DB = (-30.0, -10.0)  # of active speech
_BATCH = 24  # clips transcribed at once
_UNSPOKEN = frozenset((*MARKS, SPACE, START, STOP, "ˈ", "ˌ"))

Transcribe = Callable[[Sequence[Sound]], list[str]]


@dataclass(frozen=True)
class CorpusClip:
    """A clip of a corpus."""

    shard: Path
    label: dict[str, Any]

    @property
    def name(self) -> str:
        """Path below the corpus folder."""
        return f"{self.shard.name}/{self.label['wav']}"

    @property
    def is_transcribable(self) -> bool:
        """Whether the text gives a recogniser enough context."""
        return self.label["kind"] != WORDS and len(self.label["words"]) > 2


@dataclass
class FilterCounts:
    """Clips of one kind of text: all, transcribed, wrong by transcript, wrong by length or loudness."""

    clips: int = 0
    transcribed: int = 0
    wrong: int = 0
    implausible: int = 0

    @property
    def share(self) -> float:
        """Share of the transcribed clips that are wrong."""
        return self.wrong / self.transcribed if self.transcribed else 0.0


def phonemes_of(text: str) -> str:
    """Phonemes of a text, without marks, stress and spaces."""
    words = normalised_words(text)
    return "".join(s for group in phonemise(restore_case(text, words)) for s in group if s not in _UNSPOKEN)


def written_phonemes(label: dict[str, Any]) -> str:
    """Phonemes of a label, without marks, stress and spaces."""
    return "".join(name for name, _ in label["phones"] if name not in _UNSPOKEN)


def difference(label: dict[str, Any], transcript: str) -> float:
    """Edit distance per written phoneme, or per character if that is less.

    Characters help where a recogniser writes digits without colons: 405 for 4:05.
    """
    from rapidfuzz.distance import Levenshtein

    pairs = ((written_phonemes(label), phonemes_of(transcript)), (_characters(label["text"]), _characters(transcript)))
    return min(Levenshtein.distance(written, other) / max(1, len(written)) for written, other in pairs)


def _characters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def is_implausible(clip: CorpusClip) -> bool:
    """Whether a clip's length or loudness is implausible."""
    pcm = shards.read_sound(clip.shard / clip.label["wav"])
    rate_hz = shards.RATE_HZ
    each_s = len(pcm) / rate_hz / max(1, len(written_phonemes(clip.label)))
    level_db = active_level_db(pcm, rate_hz)
    return not (_PHONEME_S[0] <= each_s <= _PHONEME_S[1] and _LEVEL_DB[0] <= level_db <= _LEVEL_DB[1])


def filter_corpus(corpus: Path, transcribe: Transcribe, sample: int) -> dict[str, FilterCounts]:
    """Transcribe a sample of every kind, and all clips of kinds with more than 1% errors; exclude wrong clips.

    Transcripts are stored in ``heard.jsonl``, so a stopped run resumes. Excluded clips are listed in each shard's
    ``left_out.txt``, which `studio train features` and vocoder training read.

    Args:
        transcribe: a batch of sounds to texts.
        sample: clips of each kind.

    Raises:
        BadFile: there are no shards, or a label, a sound or ``heard.jsonl`` is damaged.
    """
    clips = [CorpusClip(s, label) for s in shards.shards(corpus) for label in shards.all_labels(s)]
    kinds: dict[str, list[CorpusClip]] = {}
    for clip in clips:
        kinds.setdefault(clip.label["kind"], []).append(clip)
    transcripts = _TranscriptStore(corpus / "heard.jsonl", transcribe)
    counts: dict[str, FilterCounts] = {}
    excluded: set[str] = {c.name for c in clips if is_implausible(c)}
    for kind, of_kind in sorted(kinds.items()):
        transcribable = [c for c in of_kind if c.is_transcribable]
        subset = Random(f"0 {kind}").sample(transcribable, min(sample, len(transcribable)))
        summary = counts[kind] = FilterCounts(len(of_kind), implausible=sum(c.name in excluded for c in of_kind))
        for part in (subset, transcribable):
            texts = transcripts.of(part)
            pairs = zip(part, texts, strict=True)
            wrong = {c.name for c, text in pairs if difference(c.label, text) > MAX_DIFFERENCE}
            summary.transcribed, summary.wrong = len(part), len(wrong)
            if summary.share < SAMPLE_SUFFICES:
                break
        excluded |= wrong
    _write_left_out(clips, excluded)
    return counts


def _write_left_out(clips: Iterable[CorpusClip], excluded: set[str]) -> None:
    by_shard: dict[Path, list[str]] = {}
    for clip in clips:
        names = by_shard.setdefault(clip.shard, [])
        if clip.name in excluded:
            names.append(clip.label["wav"])
    for shard, names in by_shard.items():
        (shard / shards.LEFT_OUT).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def _read_transcripts(path: Path) -> dict[str, str]:
    """Stored transcripts by clip. Raises BadFile."""
    with bad_file(
        f"{path} is damaged",
        "remove it: the clips will be transcribed again",
        ValueError,
        TypeError,
        LookupError,
        RecursionError,
    ):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        pairs = [json.loads(line) for line in lines if line.endswith("\n")]  # a stopped run may leave half a line
        transcripts = {pair["clip"]: pair["heard"] for pair in pairs}
        if not all(isinstance(text, str) for one in transcripts.items() for text in one):
            raise ValueError("a transcript is not a text")
    return transcripts


class _TranscriptStore:
    """Transcripts by clip, appended to a file as they arrive."""

    def __init__(self, path: Path, transcribe: Transcribe) -> None:
        self._path, self._transcribe = path, transcribe
        self._known = _read_transcripts(path) if path.is_file() else {}

    def of(self, clips: Sequence[CorpusClip]) -> list[str]:
        """The transcript of each clip."""
        todo = [c for c in clips if c.name not in self._known]
        for at in range(0, len(todo), _BATCH):
            part = todo[at : at + _BATCH]
            sounds = [(shards.read_sound(c.shard / c.label["wav"]), shards.RATE_HZ) for c in part]
            texts = self._transcribe(sounds)
            self._known |= {c.name: text for c, text in zip(part, texts, strict=True)}
            with self._path.open("a", encoding="utf-8") as file:
                for c, text in zip(part, texts, strict=True):
                    pair = {"clip": c.name, "written": c.label["text"], "heard": text}
                    file.write(json.dumps(pair, ensure_ascii=False) + "\n")
        return [self._known[c.name] for c in clips]
