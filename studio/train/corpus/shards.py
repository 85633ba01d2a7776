"""Shards of a corpus: folders of WAV files with word and phone times; import of recordings with alignments.

A shard is a folder ``<speaker>-<number>`` of ``0000.wav`` ... (24 kHz, mono) and ``labels.jsonl``. It is written under
a temporary name and renamed, so a stopped run resumes.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track

from studio.core.checks import OBJECT, TEXT, Rule, check_values, is_file_name, list_of, number, rule_of
from studio.core.clips import to_float, to_int16, write_wav
from studio.core.errors import BadFile, bad_file
from studio.core.files import read_bounded
from studio.core.sound_files import read_mono
from studio.core.traces.textgrid import MAX_BYTES, TextGridTier, read_tiers
from studio.engine.tokenizers import dmel
from studio.train.teachers.port import AlignedSpeech, spoken_words

LEFT_OUT = "left_out.txt"  # beside labels.jsonl: names of clips excluded by the ASR filter
RATE_HZ = dmel.TIME_BASE.rate_hz
_LONGEST_S = 86_400.0  # of a clip
_PEAK = 0.95  # limit of the gain
_SOUNDS = (".wav", ".flac")
_TEXTS = (".normalized.txt", ".txt", ".lab")
_SILENCES = frozenset({"", "sil", "sp", "spn", "<eps>"})


def write_shard(out: Path, name: str, spoken: Iterable[AlignedSpeech | None], gain_db: float) -> None:
    """Write a shard atomically; None entries are skipped."""
    folder = out / f".{name}.part"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = []
    for i, speech in enumerate(spoken):
        if speech is None:
            continue
        write_wav(folder / f"{i:04}.wav", resample_and_scale(speech, gain_db), dmel.TIME_BASE.rate_hz)
        lines.append(_label(f"{i:04}.wav", speech))
    (folder / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    shutil.rmtree(out / name, ignore_errors=True)
    folder.rename(out / name)


def resample_and_scale(speech: AlignedSpeech, gain_db: float) -> NDArray[np.int16]:
    """Samples at the voice's rate with a gain, which is reduced where the sound would clip."""
    sound = dmel.resample(torch.from_numpy(to_float(speech.pcm)), speech.rate_hz, dmel.TIME_BASE.rate_hz)
    return to_int16((sound * min(10 ** (gain_db / 20), _PEAK / float(sound.abs().max().clamp(min=1e-6)))).numpy())


def _label(wav: str, speech: AlignedSpeech) -> dict[str, Any]:
    return {
        "wav": wav,
        "speaker": speech.speaker,
        "kind": speech.kind,
        "text": speech.text,
        "words": speech.words,
        "word_ends_s": [round(t, 4) for t in speech.word_ends_s],
        "phones": [[name, round(end, 4)] for name, end in speech.phones],
    }


def shards(corpus: Path) -> list[Path]:
    """Finished shards, alternating speakers. Raises BadFile if there are none."""
    folders = [p.parent for p in corpus.glob("*/labels.jsonl") if not p.parent.name.startswith(".")]
    if not folders:
        raise BadFile(f"{corpus} holds no finished shard", "make some with `studio train corpus` or `recordings`")
    return sorted(folders, key=lambda p: (p.name.rpartition("-")[2], p.name))


def all_labels(shard: Path) -> Iterator[dict[str, Any]]:
    """All labels of a shard. Raises BadFile if one is damaged."""
    path = shard / "labels.jsonl"
    do = "remove the shard, and make it again"
    with bad_file(f"{path} is damaged", do, ValueError), path.open(encoding="utf-8") as file:
        lines = list(file)
    for at, line in enumerate(lines, 1):
        damaged = f"line {at} of {path} is damaged"
        with bad_file(damaged, do, ValueError, RecursionError):
            label = json.loads(line)
        _check_label(label, lambda what, _, damaged=damaged: BadFile(f"{damaged}: {what!s:.200}", do))
        yield {"kind": "", **label}


def _check_label(label: Any, error: Callable[[str, str], BadFile]) -> None:
    """Raises unless it is a label as ``write_shard`` writes it; the order of times is not checked."""
    check_values({"label": label}, {"label": OBJECT}, "the {} is", error)
    values = {**dict.fromkeys(_RULES), "kind": "", **label}  # the kind is optional
    check_values(values, _RULES, "{} is", error)
    if len(values["words"]) != len(values["word_ends_s"]):
        raise error("there is not one end for each word", "")


_TIME_BOUNDS = (0.0, _LONGEST_S)

_RULES = {
    "wav": Rule(is_file_name, "a file name"),
    **dict.fromkeys(("speaker", "kind", "text"), TEXT),
    "words": list_of(Rule(lambda value: TEXT.fits(value) and value != "", "text"), fewest=1),
    "word_ends_s": list_of(number(*_TIME_BOUNDS), fewest=1),
    "phones": list_of(rule_of(tuple[str, float], _TIME_BOUNDS), fewest=1),
}


def labels(shard: Path) -> Iterator[dict[str, Any]]:
    """Labels of a shard, without the clips that `studio train hear` left out. Raises BadFile."""
    without = left_out(shard)
    return (label for label in all_labels(shard) if label["wav"] not in without)


def left_out(shard: Path) -> set[str]:
    """Names of a shard's clips that `studio train hear` left out. Raises BadFile."""
    path = shard / LEFT_OUT
    with bad_file(f"{path} cannot be read", "make it again with `studio train hear`", ValueError):
        return set(path.read_text(encoding="utf-8").split()) if path.is_file() else set()


def read_sound(path: Path) -> NDArray[np.int16]:
    """Samples of a corpus file. Raises BadFile unless it is mono 16-bit at the voice's rate."""
    pcm, rate_hz = read_mono(path)
    if rate_hz != dmel.TIME_BASE.rate_hz:
        raise BadFile(f"{path} has {rate_hz} Hz, not {dmel.TIME_BASE.rate_hz} Hz", "make it with `studio train corpus`")
    return pcm


def import_recordings(
    recordings: Path, textgrids: Path, out: Path, speaker: str = "", shard_sentences: int = 250
) -> tuple[int, int]:
    """Write shards of all recordings with a text and a TextGrid; returns how many were imported and skipped.

    A recording's text is ``<stem>.normalized.txt``, ``.txt`` or ``.lab`` beside it, or its line in ``metadata.csv``
    (``id|text|normalised text``). Punctuation comes from the text, times from the tiers ``words`` and ``phones``.

    Raises:
        BadFile: there are no recordings, or a file name has no speaker and none is given.
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
        for shard_number, start in enumerate(track(starts, name)):
            shard = f"{name}-{shard_number:03}"
            group = of_speaker[start : start + shard_sentences]
            if not (out / shard / "labels.jsonl").is_file():
                write_shard(out, shard, _aligned(group, grids, lines, name), gain_db=0.0)
            written = sum(1 for _ in (out / shard / "labels.jsonl").open(encoding="utf-8"))
            imported, skipped = imported + written, skipped + len(group) - written
    return imported, skipped


def _speaker(path: Path, speaker_option: str) -> str:
    name, mark, _ = path.stem.partition("_")
    if not speaker_option and not mark:
        raise BadFile(f"{path.name} does not name its speaker", "give one with --speaker")
    return speaker_option or name


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
    """
    with bad_file(f"{grid.name} or {sound.name} cannot be read", "align the corpus again", BadFile, ValueError):
        tiers = read_tiers(read_bounded(grid, MAX_BYTES))
        words = [(label.lower(), end) for label, end in _intervals(tiers, "words") if label not in _SILENCES]
        labels = _intervals(tiers, "phones")
        pcm, rate_hz = read_mono(sound)
    expected = spoken_words(text)
    aligned = [re.sub(r"[^a-z']", "", w).strip("'") for w, _ in words]
    if not expected or aligned != [w.rstrip(",.?!;:") for w in expected]:
        return None
    if any(label == "spn" for label, _ in labels):
        return None  # a word missing in the aligner's lexicon
    phones = [(_phone(label), end) for label, end in labels]
    return AlignedSpeech(text, speaker, rate_hz, pcm, expected, [end for _, end in words], phones)


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
