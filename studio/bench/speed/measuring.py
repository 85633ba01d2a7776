"""Throughput of ``studio measure``: seconds of sound per second."""

import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from studio.bench.settings import MeasuringSetting
from studio.core.clips import write_wav
from studio.core.errors import BadFile, NeedsPackage, StudioError
from studio.core.traces.textgrid import TextGridEntry, TextGridTier, write_tiers
from studio.inspection.batch import measure
from studio.measure.report import no_bar, print_table

_PAUSES_S = (0.2, 0.4, 0.8)
_WORD_S = 0.3


def bench_measure(setting: MeasuringSetting) -> dict[str, Any]:
    """Create clips and measure them once; the time includes starting the processes.

    Each clip is one recording, or two with a pause between them, at a random level; half of them have a TextGrid, so
    that words are measured as well. The clips are on disk before the clock starts.

    Raises:
        BadFile: the folder has no sounds.
        NeedsPackage: soundfile, or pyworld for the pitch, is not installed.
        StudioError: a clip could not be measured.
    """
    sounds = _sounds(setting.sounds)
    with tempfile.TemporaryDirectory() as scratch:
        draw = random.Random(setting.seed)
        bar = track(range(setting.clips), "making clips", disable=no_bar(setting.quiet))
        audio_s = sum(_write(Path(scratch), number, sounds, draw) for number in bar)
        began_s = time.perf_counter()
        found = measure([scratch], with_pitch=setting.with_pitch, workers=setting.workers)
        wall_s = time.perf_counter() - began_s
    if found.problems:
        raise StudioError(f"{len(found.problems)} clips were not measured", found.problems[0])
    out: dict[str, Any] = {
        "sounds": setting.sounds.name,
        "clips": len(found.utterances),
        "words": len(found.words),
        "workers": setting.workers,
        "pitch": setting.with_pitch,
        "audio_s": audio_s,
        "wall_s": wall_s,
        "x_real_time": audio_s / wall_s,
    }
    if not setting.quiet:
        show(out)
    return out


def _sounds(folder: Path) -> list[tuple[np.ndarray, int]]:
    try:
        import soundfile
    except ImportError as error:
        raise NeedsPackage("reading sounds needs soundfile", "pip install 'streaming-tts-studio[mos]'") from error
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".wav", ".flac"))
    if not paths:
        raise BadFile(f"there are no WAV or FLAC files in {folder}", "give a folder of recordings with --sounds")
    found = []
    for path in paths:
        try:
            samples, rate_hz = soundfile.read(path, dtype="int16", always_2d=True)
        except (OSError, soundfile.SoundFileError) as error:
            raise BadFile(f"{path} cannot be read: {error}", "give another folder with --sounds") from error
        found.append((samples[:, 0], rate_hz))
    return found


def _write(folder: Path, number: int, sounds: Sequence[tuple[np.ndarray, int]], draw: random.Random) -> float:
    """Write a clip with its text and, for every second one, a TextGrid; return its length in seconds."""
    pcm, rate_hz = draw.choice(sounds)
    alike = [one for one, rate in sounds if rate == rate_hz]
    if draw.random() < 0.5:
        pause = np.zeros(round(draw.choice(_PAUSES_S) * rate_hz), np.int16)
        pcm = np.concatenate([pcm, pause, draw.choice(alike)])
    pcm = np.rint(pcm * draw.uniform(0.3, 1.0)).astype(np.int16)
    length_s = len(pcm) / rate_hz
    words = [f"word{k}" for k in range(max(1, int(length_s / _WORD_S)))]
    place = folder / f"{number:05}.wav"
    write_wav(place, pcm, rate_hz)
    place.with_suffix(".txt").write_text(" ".join(words), encoding="utf-8")
    if number % 2:
        step_s = length_s / len(words)
        spans = [TextGridEntry(k * step_s, (k + 1) * step_s, word) for k, word in enumerate(words)]
        place.with_suffix(".TextGrid").write_text(write_tiers([TextGridTier("words", False, spans)], length_s), "utf-8")
    return length_s


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows: list[list[object]] = [
        ["sound, s", round(out["audio_s"], 1)],
        ["time, s", round(out["wall_s"], 1)],
        ["times real time", round(out["x_real_time"], 1)],
    ]
    with_pitch = "with pitch" if out["pitch"] else "without pitch"
    title = f"{out['clips']:,} clips measured by {out['workers']} processes, {with_pitch}, {out['words']:,} words"
    print_table(title, ("", ""), rows)
