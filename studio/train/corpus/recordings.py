"""Shards from recordings with forced alignments of the Montreal Forced Aligner (LJSpeech, LibriTTS)."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rich.progress import track

from studio.core.clips import to_int16
from studio.core.errors import BadFile, NeedsPackage
from studio.core.files import read_bounded
from studio.core.traces.textgrid import MAX_BYTES, TextGridTier, read_tiers
from studio.train.corpus.shards import write_shard
from studio.train.teachers.port import AlignedSpeech, spoken_words

_SOUNDS = (".wav", ".flac")
_TEXTS = (".normalized.txt", ".txt", ".lab")
_SILENCES = frozenset({"", "sil", "sp", "spn", "<eps>"})


def import_recordings(
    recordings: Path, textgrids: Path, out: Path, speaker: str = "", shard_sentences: int = 250
) -> tuple[int, int]:
    """Write shards of all recordings with a text and a TextGrid; returns how many were imported and skipped.

    A recording's text is ``<stem>.normalized.txt``, ``.txt`` or ``.lab`` beside it, or its line in ``metadata.csv``
    (``id|text|normalised text``). Punctuation comes from the text, times from the tiers ``words`` and ``phones``.

    Raises:
        BadFile: there are no recordings, or a file name has no speaker and none is given.
        NeedsPackage: soundfile is not installed.
    """
    sounds = sorted(p for p in recordings.rglob("*") if p.suffix.lower() in _SOUNDS)
    if not sounds:
        raise BadFile(f"there are no WAV or FLAC files in {recordings}", "give the corpus's folder with --recordings")
    grids = {p.stem: p for p in textgrids.rglob("*.TextGrid")}
    lines = _metadata(recordings)
    out.mkdir(parents=True, exist_ok=True)
    imported = skipped = 0
    by_speaker = groupby(sorted(sounds, key=lambda p: (_speaker(p, speaker), p)), key=lambda p: _speaker(p, speaker))
    for name, of_speaker in ((name, list(paths)) for name, paths in by_speaker):
        starts = range(0, len(of_speaker), shard_sentences)
        for number, start in enumerate(track(starts, name)):
            shard = f"{name}-{number:03}"
            group = of_speaker[start : start + shard_sentences]
            if not (out / shard / "labels.jsonl").is_file():
                write_shard(out, shard, _aligned(group, grids, lines, name), gain_db=0.0)
            written = sum(1 for _ in (out / shard / "labels.jsonl").open(encoding="utf-8"))
            imported, skipped = imported + written, skipped + len(group) - written
    return imported, skipped


def _speaker(path: Path, given: str) -> str:
    name, mark, _ = path.stem.partition("_")
    if not given and not mark:
        raise BadFile(f"{path.name} does not name its speaker", "give one with --speaker")
    return given or name


def _metadata(recordings: Path) -> dict[str, str]:
    """Texts of an LJSpeech metadata.csv in the recordings' folder or its parent."""
    for folder in (recordings, recordings.parent):
        path = folder / "metadata.csv"
        if path.is_file():
            rows = (line.split("|") for line in path.read_text(encoding="utf-8").splitlines() if "|" in line)
            return {row[0]: row[-1] for row in rows}
    return {}


def _aligned(
    sounds: list[Path], grids: dict[str, Path], lines: dict[str, str], speaker: str
) -> Iterator[AlignedSpeech | None]:
    for path in sounds:
        text = _text(path, lines)
        grid = grids.get(path.stem)
        yield read_aligned(path, grid, text, speaker) if text and grid else None


def _text(path: Path, lines: dict[str, str]) -> str:
    beside = (path.with_name(path.stem + ending) for ending in _TEXTS)
    path_of_text = next((p for p in beside if p.is_file()), None)
    return path_of_text.read_text(encoding="utf-8").strip() if path_of_text else lines.get(path.stem, "")


def read_aligned(sound: Path, grid: Path, text: str, speaker: str) -> AlignedSpeech | None:
    """A recording with its alignment; None if the aligner's words differ from the text's.

    Raises:
        BadFile: the TextGrid has no tiers ``words`` and ``phones``, or a file cannot be read.
        NeedsPackage: soundfile is not installed.
    """
    try:
        import soundfile
    except ImportError as error:
        raise NeedsPackage("recordings need soundfile", "pip install 'streaming-tts-studio[train]'") from error
    try:
        tiers = read_tiers(read_bounded(grid, MAX_BYTES))
        words = [(label.lower(), end) for label, end in _intervals(tiers, "words") if label not in _SILENCES]
        labels = _intervals(tiers, "phones")
        samples, rate_hz = soundfile.read(sound, dtype="float32", always_2d=True)
    except (BadFile, OSError, ValueError, soundfile.SoundFileError) as error:
        raise BadFile(f"{grid.name} or {sound.name} cannot be read: {error}", "align the corpus again") from error
    expected = spoken_words(text)
    aligned = [re.sub(r"[^a-z']", "", w).strip("'") for w, _ in words]
    if not expected or aligned != [w.rstrip(",.?!;:") for w in expected]:
        return None
    if any(label == "spn" for label, _ in labels):
        return None  # a word missing in the aligner's lexicon
    phones = [(_phone(label), end) for label, end in labels]
    pcm, ends = to_int16(samples.mean(axis=1)), [end for _, end in words]
    return AlignedSpeech(text, speaker, rate_hz, pcm, expected, ends, phones)


def _intervals(tiers: Sequence[TextGridTier], name: str) -> list[tuple[str, float]]:
    """(label, end in s) of each interval of a tier. Raises ValueError if it is missing or a point tier."""
    tier = next((one for one in tiers if one.name == name), None)
    if tier is None:
        raise ValueError(f"there is no tier {name}")
    if tier.is_points:
        raise ValueError(f"the tier {name} holds points, not intervals")
    return [(one.text.strip(), one.end_s) for one in tier.entries]


def _phone(label: str) -> str:
    """A phone name as the teachers write it, from ARPAbet with stress digits; unstressed AH is their schwa."""
    if label in _SILENCES:
        return "pau"
    return "ax" if label == "AH0" else re.sub(r"\d", "", label).lower()
