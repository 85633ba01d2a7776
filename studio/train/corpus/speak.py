"""From texts to a spoken corpus: who says what, in shards that are spoken side by side and can be resumed."""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.progress import Progress

from studio.core.errors import BadFile
from studio.core.files import read_lines
from studio.train.corpus.shards import write_shard
from studio.train.corpus.texts import PROSE, HeldOut, Text, read_texts
from studio.train.recipes.recipe import CorpusRecipe, Recipe, check_held_out
from studio.train.teachers.choose import open_teacher
from studio.train.teachers.port import spoken_words

_PLAIN = re.compile(r"[A-Za-z ,.;:?!'\"()\-’]+")


@dataclass(frozen=True)
class ShardPlan:
    """Texts that one speaker is to speak into one folder."""

    name: str
    speaker: str
    texts: list[Text]


def read_sentences(path: Path) -> list[str]:
    """Sentences of a file: one a line, ``id|text`` or the text alone. Raises BadFile when it cannot be read."""
    try:
        lines = read_lines(path)
    except OSError as error:
        raise BadFile(f"the sentences {path} cannot be read: {error.strerror}", "give one sentence a line") from error
    return [line.rpartition("|")[2].strip() for line in lines]


def plan_shards(sentences: Sequence[str], recipe: CorpusRecipe, held_out: set[str]) -> list[ShardPlan]:
    """Deal sentences to speakers in turn, so that every speaker's shards hold all kinds of text."""
    usable = [
        text
        for text in dict.fromkeys(sentences)
        if _PLAIN.fullmatch(text)
        and text.lower() not in held_out
        and recipe.min_words <= len(spoken_words(text)) <= recipe.max_words
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
    recipe: Recipe, source: Path, texts: Path, out: Path, workers: int | None = None, teacher: str = ""
) -> int:
    """Speak every planned shard that is not there yet; answers how many there are.

    Args:
        source: sentences, one a line; for a recipe with stages, what `studio train texts` wrote.
        texts: folder of the held-out files.
        teacher: NAME or NAME:WEIGHTS; the recipe's unless given.

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
    taught = open_teacher(teacher).speak(plan.speaker, [t.text for t in plan.texts])
    spoken = (replace(s, kind=t.kind) if s else None for s, t in zip(taught, plan.texts, strict=True))
    write_shard(out, plan.name, spoken, recipe.gain_db.get(plan.speaker, 0.0))
