"""Shards of a corpus: folders of WAV files with word and phone times.

A shard is a folder ``<speaker>-<number>`` of ``0000.wav`` ... (24 kHz, mono) and ``labels.jsonl``. It is written under
a temporary name and renamed, so a stopped run resumes.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from studio.core.checks import OBJECT, TEXT, Rule, check_values, is_file_name, list_of, number, rule_of
from studio.core.clips import read_wav, to_float, to_int16, write_wav
from studio.core.errors import BadFile
from studio.engine.tokenizers import dmel
from studio.train.teachers.port import AlignedSpeech

LEFT_OUT = "left_out.txt"  # beside labels.jsonl: names of clips excluded by the ASR filter
RATE_HZ = dmel.TIME_BASE.rate_hz
_LONGEST_S = 86_400.0  # of a clip
_PEAK = 0.95  # limit of the gain


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
    try:
        with path.open(encoding="utf-8") as file:
            lines = list(file)
    except (OSError, ValueError) as error:
        raise _damaged(f"{path}", error) from error
    for at, line in enumerate(lines, 1):
        try:
            label = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _damaged(f"line {at} of {path}", error) from error
        _check_label(label, lambda what, _, at=at: _damaged(f"line {at} of {path}", what))
        yield {"kind": "", **label}


def _damaged(what: str, why: object) -> BadFile:
    return BadFile(f"{what} is damaged: {why!s:.200}", "remove the shard, and make it again")


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
    try:
        return set(path.read_text(encoding="utf-8").split()) if path.is_file() else set()
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} cannot be read: {error!s:.200}", "make it again with `studio train hear`") from error


def read_sound(path: Path) -> NDArray[np.int16]:
    """Samples of a corpus file. Raises BadFile unless it is mono 16-bit at the voice's rate."""
    pcm, rate_hz = read_wav(path)
    if rate_hz != dmel.TIME_BASE.rate_hz:
        raise BadFile(f"{path} has {rate_hz} Hz, not {dmel.TIME_BASE.rate_hz} Hz", "make it with `studio train corpus`")
    return pcm
