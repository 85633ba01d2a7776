"""From sentences to a spoken corpus: shards of WAV files with word and phone times.

A shard is a folder ``<speaker>-<number>`` of ``0000.wav`` ... (24 kHz, mono) and ``labels.jsonl``, written whole
(under another name until it is), so a stopped run goes on where it was.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress

from studio.core.clips import read_wav, to_float, to_int16, write_wav
from studio.core.errors import BadFile, BadOption
from studio.engine import dmel
from studio.train import kokoro, teachers
from studio.train.recipe import CorpusRecipe, Recipe, check_held_out
from studio.train.texts.build import PROSE, HeldOut, Text, read_texts

_PLAIN = re.compile(r"[A-Za-z ,.;:?!'\"()\-’]+")
_PEAK = 0.95  # no sound is louder: a clip that would be gets less gain


@dataclass(frozen=True)
class ShardPlan:
    """Texts that one speaker is to speak into one folder."""

    name: str
    speaker: str
    texts: list[Text]


def read_sentences(path: Path) -> list[str]:
    """Sentences of a file: one a line, ``id|text`` or the text alone. Raises BadFile when it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadFile(f"the sentences {path} cannot be read: {error}", "give a text file with --sentences") from error
    return [line.rpartition("|")[2].strip() for line in lines if line.strip()]


def plan_shards(sentences: Sequence[str], recipe: CorpusRecipe, held_out: set[str]) -> list[ShardPlan]:
    """Deal sentences to speakers in turn, so that every speaker's shards hold all kinds of text."""
    usable = [
        text
        for text in dict.fromkeys(sentences)
        if _PLAIN.fullmatch(text)
        and text.lower() not in held_out
        and recipe.min_words <= len(teachers.spoken_words(text)) <= recipe.max_words
    ]
    plans = []
    for turn, speaker in enumerate(recipe.speakers):
        mine = [Text(PROSE, text) for text in usable[turn :: len(recipe.speakers)]]
        for number, start in enumerate(range(0, len(mine), recipe.shard_sentences)):
            plans.append(ShardPlan(f"{speaker}-{number:03}", speaker, mine[start : start + recipe.shard_sentences]))
    return sorted(plans, key=lambda p: p.name.rpartition("-")[2])  # speakers alternate, so a part of it is useful


def plan_stages(texts: Sequence[Text], recipe: CorpusRecipe) -> list[ShardPlan]:
    """Give each shard of the recipe's stages the next texts; the order is the one in which they are spoken.

    Raises:
        BadFile: there are fewer texts than the stages need.
    """
    plans: list[ShardPlan] = []
    count: dict[str, int] = {}
    for speakers, shards_each in recipe.stages:
        for speaker in speakers * shards_each:
            start = len(plans) * recipe.shard_sentences
            number = count[speaker] = count.get(speaker, -1) + 1
            plans.append(
                ShardPlan(f"{speaker}-{number:03}", speaker, list(texts[start : start + recipe.shard_sentences]))
            )
    need = len(plans) * recipe.shard_sentences
    if len(texts) < need:
        raise BadFile(f"there are {len(texts)} texts for {need} places", "make them with `studio train texts`")
    return plans


def speak_corpus(
    recipe: Recipe, source: Path, texts: Path, out: Path, workers: int | None = None, teacher: str = teachers.PROGRAMS
) -> int:
    """Speak every planned shard that is not there yet; answers how many there are.

    Args:
        source: sentences, one a line; for a recipe with stages, what `studio train texts` wrote.
        texts: folder of the held-out files.
        teacher: "programs", or "kokoro:FOLDER".

    Raises:
        BadFile: texts or weights cannot be read, or a held-out file is not the recipe's.
        BadOption: there is no such teacher.
        NeedsPackage: a teacher's program or package is not installed.
    """
    held_out = check_held_out(recipe, texts)
    if recipe.corpus.stages:
        given, guard = read_texts(source), HeldOut(held_out)
        if any(guard.holds(t.text) for t in given):
            raise BadFile(f"{source} holds sentences that are held out", "make it with `studio train texts`")
        plans = plan_stages(given, recipe.corpus)
    else:
        plans = plan_shards(read_sentences(source), recipe.corpus, held_out)
    todo = [p for p in plans if not (out / p.name / "labels.jsonl").is_file()]
    out.mkdir(parents=True, exist_ok=True)
    with Progress() as progress, ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        bar = progress.add_task("speaking", total=len(plans), completed=len(plans) - len(todo))
        for done in as_completed([pool.submit(_speak_shard, p, recipe.corpus, out, teacher) for p in todo]):
            done.result()
            progress.advance(bar)
    return len(plans)


def _speak_shard(plan: ShardPlan, recipe: CorpusRecipe, out: Path, teacher: str) -> None:
    torch.set_num_threads(1)
    name, _, folder = teacher.partition(":")
    if name == "kokoro" and folder:
        net = kokoro.opened(Path(folder))
        taught = [kokoro.teach(net, plan.speaker, t.text) for t in plan.texts]
    elif teacher == teachers.PROGRAMS:
        with tempfile.TemporaryDirectory() as scratch:
            taught = teachers.speak(plan.speaker, [t.text for t in plan.texts], Path(scratch))
    else:
        raise BadOption(f"there is no teacher {teacher!r}", f"there are {teachers.PROGRAMS} and kokoro:FOLDER")
    spoken = (replace(s, kind=t.kind) if s else None for s, t in zip(taught, plan.texts, strict=True))
    write_shard(out, plan.name, spoken, recipe.gain_db.get(plan.speaker, 0.0))


def write_shard(out: Path, name: str, spoken: Iterable[teachers.Taught | None], gain_db: float) -> None:
    """Write a shard whole: under another name until it is complete."""
    folder = out / f".{name}.part"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    gain = 10 ** (gain_db / 20)
    lines = []
    for number, taught in enumerate(spoken):
        if taught is None:
            continue
        pcm = torch.from_numpy(to_float(taught.pcm))
        voice = dmel.resample(pcm, taught.rate_hz, dmel.TIME_BASE.rate_hz)
        voice *= min(gain, _PEAK / float(voice.abs().max().clamp(min=1e-6)))
        write_wav(folder / f"{number:04}.wav", to_int16(voice.numpy()), dmel.TIME_BASE.rate_hz)
        lines.append(_label(f"{number:04}.wav", taught))
    (folder / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    shutil.rmtree(out / name, ignore_errors=True)
    folder.rename(out / name)


def _label(wav: str, taught: teachers.Taught) -> dict[str, Any]:
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
    """Finished shards, speakers in turn."""
    found = [p.parent for p in corpus.glob("*/labels.jsonl") if not p.parent.name.startswith(".")]
    return sorted(found, key=lambda p: (p.name.rpartition("-")[2], p.name))


def labels(shard: Path) -> Iterator[dict[str, Any]]:
    """Label lines of a shard."""
    with (shard / "labels.jsonl").open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def read_sound(path: Path) -> NDArray[np.int16]:
    """Samples of a corpus file. Raises BadFile when it is not mono 16-bit at the voice's rate."""
    pcm, rate_hz = read_wav(path)
    if rate_hz != dmel.TIME_BASE.rate_hz:
        raise BadFile(f"{path} has {rate_hz} Hz, not {dmel.TIME_BASE.rate_hz} Hz", "make it with `studio train corpus`")
    return pcm
