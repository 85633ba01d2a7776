"""Synthesise a corpus: assign texts to speakers and shards, and speak the shards in parallel. Resumable."""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.progress import Progress

from studio.core.errors import BadFile, bad_file
from studio.core.files import read_lines
from studio.train.corpus.shards import write_shard
from studio.train.corpus.texts import PROSE, CorpusText, HeldOut, read_texts
from studio.train.recipes.recipe import CorpusRecipe, Recipe, read_held_out
from studio.train.teachers.port import spoken_words
from studio.train.teachers.registry import open_teacher

_PLAIN = re.compile(r"[A-Za-z ,.;:?!'\"()\-’]+")


@dataclass(frozen=True)
class ShardPlan:
    """Texts of one speaker and one shard."""

    name: str
    speaker: str
    texts: list[CorpusText]


def read_sentences(path: Path) -> list[str]:
    """Sentences of a file, one per line: ``id|text`` or only the text. Raises BadFile if it cannot be read."""
    with bad_file(f"the sentences {path} cannot be read", "give one sentence a line"):
        lines = read_lines(path)
    return [line.rpartition("|")[2].strip() for line in lines]


def plan_shards(sentences: Sequence[str], recipe: CorpusRecipe, held_out: set[str]) -> list[ShardPlan]:
    """Assign sentences to speakers in turn, so that the shards of every speaker have all kinds of text."""
    usable = [
        text
        for text in dict.fromkeys(sentences)
        if _PLAIN.fullmatch(text)
        and text.lower() not in held_out
        and recipe.min_words <= len(spoken_words(text)) <= recipe.max_words
    ]
    plans = []
    for turn, speaker in enumerate(recipe.speakers):
        of_speaker = [CorpusText(PROSE, text) for text in usable[turn :: len(recipe.speakers)]]
        for number, start in enumerate(range(0, len(of_speaker), recipe.shard_sentences)):
            part = of_speaker[start : start + recipe.shard_sentences]
            plans.append(ShardPlan(f"{speaker}-{number:03}", speaker, part))
    # Alternating speakers, so that a part of the corpus is useful.
    return sorted(plans, key=lambda p: p.name.rpartition("-")[2])


def plan_stages(texts: Sequence[CorpusText], recipe: CorpusRecipe) -> list[ShardPlan]:
    """Assign texts to the shards of the recipe's stages, in order. Raises BadFile."""
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


def synthesise_corpus(
    recipe: Recipe, source: Path, texts: Path, out: Path, workers: int | None = None, teacher: str = ""
) -> int:
    """Synthesise all planned shards that do not exist yet; returns the number of shards.

    Args:
        source: sentences, one per line; for a recipe with stages, the output of `studio train texts`.
        texts: folder of the held-out files.
        teacher: NAME or NAME:WEIGHTS; empty for the recipe's.

    Raises:
        BadFile: texts or weights cannot be read, or a held-out file is not the recipe's.
        BadOption: unknown teacher.
        NeedsPackage: a teacher's program or package is not installed.
    """
    held_out = read_held_out(recipe, texts)
    if recipe.corpus.stages:
        corpus_texts, excluded = read_texts(source), HeldOut(held_out)
        if any(excluded.contains(t.text) for t in corpus_texts):
            raise BadFile(f"{source} holds sentences that are held out", "make it with `studio train texts`")
        plans = plan_stages(corpus_texts, recipe.corpus)
    else:
        plans = plan_shards(read_sentences(source), recipe.corpus, held_out)
    if not plans:
        raise BadFile(
            f"{source} holds no sentence that can be spoken",
            f"give sentences of {recipe.corpus.min_words} to {recipe.corpus.max_words} words and plain marks",
        )
    name = teacher or recipe.corpus.teacher
    todo = [p for p in plans if not (out / p.name / "labels.jsonl").is_file()]
    out.mkdir(parents=True, exist_ok=True)
    count = min(workers or os.cpu_count() or 1, max(1, len(todo)))
    with Progress() as progress:
        bar = progress.add_task("speaking", total=len(plans), completed=len(plans) - len(todo))
        if count == 1:
            for plan in todo:
                _speak_shard(plan, recipe.corpus, out, name)
                progress.advance(bar)
        else:
            with ProcessPoolExecutor(count, initializer=_one_thread) as pool:
                for done in as_completed([pool.submit(_speak_shard, p, recipe.corpus, out, name) for p in todo]):
                    done.result()
                    progress.advance(bar)
    return len(plans)


def _one_thread() -> None:
    torch.set_num_threads(1)


def _speak_shard(plan: ShardPlan, recipe: CorpusRecipe, out: Path, teacher: str) -> None:
    speech = open_teacher(teacher).speak(plan.speaker, [t.text for t in plan.texts])
    spoken = (replace(s, kind=t.kind) if s else None for s, t in zip(speech, plan.texts, strict=True))
    write_shard(out, plan.name, spoken, recipe.gain_db.get(plan.speaker, 0.0))
