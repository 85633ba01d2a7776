"""Shards of a spoken corpus: folders of WAV files with word and phone times.

A shard is a folder ``<speaker>-<number>`` of ``0000.wav`` ... (24 kHz, mono) and ``labels.jsonl``, written whole
(under another name until it is), so a stopped run goes on where it was.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from studio.core.card_checks import is_file_name
from studio.core.clips import read_wav, to_float, to_int16, write_wav
from studio.core.errors import BadFile
from studio.core.numbers import is_number
from studio.engine.alphabets import dmel
from studio.train.teachers.port import Taught

LEFT_OUT = "left_out.txt"  # beside labels.jsonl: names of clips that were misheard
RATE_HZ = dmel.TIME_BASE.rate_hz
_LONGEST_S = 86_400.0  # of a clip
_PEAK = 0.95  # no sound is louder: a clip that would be gets less gain


def write_shard(out: Path, name: str, spoken: Iterable[Taught | None], gain_db: float) -> None:
    """Write a shard whole: under another name until it is complete."""
    folder = out / f".{name}.part"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = []
    for number, taught in enumerate(spoken):
        if taught is None:
            continue
        write_wav(folder / f"{number:04}.wav", levelled(taught, gain_db), dmel.TIME_BASE.rate_hz)
        lines.append(_label(f"{number:04}.wav", taught))
    (folder / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    shutil.rmtree(out / name, ignore_errors=True)
    folder.rename(out / name)


def levelled(taught: Taught, gain_db: float) -> NDArray[np.int16]:
    """A teacher's sound at the voice's rate and level; what would be louder than full scale gets less gain."""
    sound = dmel.resample(torch.from_numpy(to_float(taught.pcm)), taught.rate_hz, dmel.TIME_BASE.rate_hz)
    return to_int16((sound * min(10 ** (gain_db / 20), _PEAK / float(sound.abs().max().clamp(min=1e-6)))).numpy())


def _label(wav: str, taught: Taught) -> dict[str, Any]:
    return {
        "wav": wav,
        "speaker": taught.speaker,
        "kind": taught.kind,
        "text": taught.text,
        "words": taught.words,
        "word_ends_s": [round(t, 4) for t in taught.word_ends_s],
        "phones": [[name, round(end, 4)] for name, end in taught.phones],
    }


def shards(corpus: Path) -> list[Path]:
    """Finished shards, speakers in turn. Raises BadFile where there are none."""
    found = [p.parent for p in corpus.glob("*/labels.jsonl") if not p.parent.name.startswith(".")]
    if not found:
        raise BadFile(f"{corpus} holds no finished shard", "make some with `studio train corpus` or `recordings`")
    return sorted(found, key=lambda p: (p.name.rpartition("-")[2], p.name))


def every_label(shard: Path) -> Iterator[dict[str, Any]]:
    """All label lines of a shard. Raises BadFile where one is damaged."""
    path = shard / "labels.jsonl"
    try:
        with path.open(encoding="utf-8") as file:
            lines = list(file)
    except (OSError, ValueError) as error:
        raise _damaged(f"{path}", error) from error
    for number, line in enumerate(lines, 1):
        try:
            label = json.loads(line)
            _check_label(label)
        except (ValueError, RecursionError) as error:
            raise _damaged(f"line {number} of {path}", error) from error
        yield {"kind": "", **label}


def _damaged(what: str, why: Exception) -> BadFile:
    return BadFile(f"{what} is damaged: {why!s:.200}", "remove the shard, and make it again as it was made")


def _check_label(label: Any) -> None:
    """Raises ValueError unless it is a label as ``write_shard`` writes it; what is in order is not looked at."""
    if not isinstance(label, dict):
        raise ValueError("it is no object")
    said = cast("dict[str, Any]", label)
    for name, fits in _FIELDS.items():
        value = said.get(name, "" if name == "kind" else None)  # nobody may know the kind
        if not fits(value):
            raise ValueError(f"{name} is {value!r:.80}")
    if len(said["words"]) != len(said["word_ends_s"]):
        raise ValueError("there is not one end for each word")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_time(value: Any) -> bool:
    return is_number(value) and 0.0 <= value <= _LONGEST_S


def _lists(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(fits, cast("list[Any]", value)))


def _is_phone(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_text(value[0]) and _is_time(value[1])


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "wav": is_file_name,
    "speaker": _is_text,
    "kind": _is_text,
    "text": _is_text,
    "words": lambda value: _lists(value, lambda word: _is_text(word) and word != ""),
    "word_ends_s": lambda value: _lists(value, _is_time),
    "phones": lambda value: _lists(value, _is_phone),
}


def labels(shard: Path) -> Iterator[dict[str, Any]]:
    """Label lines of a shard, without the clips that `studio train hear` left out. Raises BadFile."""
    without = left_out(shard)
    return (label for label in every_label(shard) if label["wav"] not in without)


def left_out(shard: Path) -> set[str]:
    """Names of the clips of a shard that `studio train hear` left out. Raises BadFile."""
    path = shard / LEFT_OUT
    try:
        return set(path.read_text(encoding="utf-8").split()) if path.is_file() else set()
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} cannot be read: {error!s:.200}", "make it anew with `studio train hear`") from error


def read_sound(path: Path) -> NDArray[np.int16]:
    """Samples of a corpus file. Raises BadFile when it is not mono 16-bit at the voice's rate."""
    pcm, rate_hz = read_wav(path)
    if rate_hz != dmel.TIME_BASE.rate_hz:
        raise BadFile(f"{path} has {rate_hz} Hz, not {dmel.TIME_BASE.rate_hz} Hz", "make it with `studio train corpus`")
    return pcm
