"""Texts of a corpus: deterministic, of every kind, speakable, never held out."""

import re
import tomllib
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from studio.core.errors import BadFile
from studio.train.corpus.texts import (
    GRAMMAR,
    CorpusText,
    Grammar,
    HeldOut,
    draw_texts,
    frequent_words,
    read_texts,
    usage_examples,
    write_texts,
)
from studio.train.recipes.recipe import read_held_out, read_recipe
from studio.train.teachers.port import normalised_words

ASSETS = Path(__file__).parents[2] / "assets"
PROSE = [f"The old harbour number {n} was quiet in the morning." for n in ("one", "two", "three", "four", "five")]
COUNTS = {"prose": 3, "usage": 2, "short": 3, "question": 2, "dialogue": 2, "number": 2, "words": 2}
RULES = tomllib.loads(GRAMMAR.read_text(encoding="utf-8"))


@pytest.fixture
def wordnet(tmp_path) -> Path:
    """WordNet's four files with a line or two each."""
    lines = {
        "noun": 'a thing; "it was full of rackets, balls and other objects"; "the team is a unit"',
        "verb": 'draw air into the lungs; "I can breathe better when the air is clean"',
        "adj": 'having the means; "able to swim"; "a 50% share of ™ goods"',
        "adv": "only just",
    }
    for part, text in lines.items():
        (tmp_path / f"data.{part}").write_text(f"  1 a licence line\n0001 03 n 01 entity 0 000 | {text}\n")
    return tmp_path


def dealt(wordnet: Path, held_out: HeldOut, seed: int = 1, shards: int = 3) -> list[CorpusText]:
    return list(draw_texts(PROSE, wordnet, COUNTS, shards, held_out, seed))


def test_seed_determines_texts_and_every_shard_has_all_kinds(wordnet, tmp_path):
    texts = dealt(wordnet, HeldOut([]))
    assert texts == dealt(wordnet, HeldOut([])) != dealt(wordnet, HeldOut([]), seed=2)
    assert texts[: sum(COUNTS.values())] == dealt(wordnet, HeldOut([]), shards=1)  # more shards do not change the first
    for start in range(0, len(texts), sum(COUNTS.values())):
        shard = texts[start : start + sum(COUNTS.values())]
        assert Counter(t.kind for t in shard) == COUNTS and len(set(shard)) == len(shard)
    assert all(normalised_words(t.text) for t in texts)
    assert write_texts(texts, tmp_path / "new" / "texts.jsonl") == len(texts)
    assert read_texts(tmp_path / "new" / "texts.jsonl") == texts
    with pytest.raises(BadFile, match="studio train texts"):
        read_texts(tmp_path / "data.noun")


def test_held_out_texts_are_never_used(wordnet):
    guard = HeldOut([PROSE[0], "The team is a unit", "Go on. I can breathe better when the air is clean, she said."])
    texts = [t.text for t in dealt(wordnet, guard, shards=2)]
    assert PROSE[0] not in texts and not any("team is a unit" in t.lower() for t in texts)
    assert any(t in texts for t in PROSE[1:])
    for text, held in (
        ("the team, is a unit!", True),
        ("We know that the team is a unit, and so on.", True),  # as part of a longer text
        ("go on", True),  # a sentence of a held-out line
        ("Go on, and on.", False),  # short ones only if they are the whole text
        ("the team is one", False),
    ):
        assert guard.contains(text) is held, text


def test_studio_test_texts_are_held_out():
    recipe = read_recipe(ASSETS / "voices" / "wren" / "recipe.toml")
    guard = HeldOut(read_held_out(recipe, ASSETS / "texts"))
    for name in ("eval.txt", "live.txt", "latency.txt", "paragraphs.txt"):
        for line in (ASSETS / "texts" / name).read_text(encoding="utf-8").splitlines():
            assert guard.contains(line)
            for sentence in re.split(r"(?<=[.!?])\s+", line):
                assert guard.contains(sentence)
                assert guard.contains(" ".join(w.word for w in normalised_words(sentence)))


def test_every_grammar_rule_is_known_and_speakable():
    known = {*RULES, "int", "year", "money", "decimal", "nth", "time", "word", "common"}
    used = {name for forms in RULES.values() for form in forms for name in re.findall(r"\{(\w+)", form)}
    assert used <= known and set(RULES) - used == {"short", "dialogue", "number", "words"}
    for rule, forms in RULES.items():
        assert len(forms) == len(set(forms)) or rule in ("short", "dialogue", "who"), rule
    words = (f"word{'abcdefghij'[n % 10]}" for n in range(10**6))
    grammar = Grammar(Random(0), lambda: next(words), ["the"])
    for rule in ("short", "question", "dialogue", "number", "words"):
        for _ in range(300):
            text = grammar.text(rule)
            assert "{" not in text and normalised_words(text), text


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("{thing}s", ["Boxes", "boxes"]),
        ("a {adj} end.", ["An old end."]),
        ("we. {adj}.", ["We. Old."]),
        ("from 8 a.m. to 9 p.m..", ["From 8 a.m. to 9 p.m."]),
    ],
)
def test_forms_are_written_as_people_write(form, text):
    grammar = Grammar(Random(0), lambda: "", [])
    grammar._rules = {"rule": [form], "thing": ["box"], "adj": ["old"]}
    assert grammar.text("rule") in text


def test_carriers_use_the_most_frequent_unused_words(wordnet):
    texts = dealt(wordnet, HeldOut([]), shards=4)
    carried = [w.word.rstrip(",.?!;:") for t in texts if t.kind == "words" for w in normalised_words(t.text)]
    first = set(frequent_words()[:400])
    assert len(first & set(carried)) > 15


def test_examples_of_wordnet(wordnet, tmp_path):
    assert usage_examples(wordnet)[:2] == ["it was full of rackets, balls and other objects", "the team is a unit"]
    usage = [t.text for t in islice(draw_texts(PROSE, wordnet, {"usage": 3}, 2, HeldOut([]), 0), 6)]
    assert not any("™" in t for t in usage)
    assert {t.lower().rstrip(".") for t in usage} <= {e.lower() for e in usage_examples(wordnet)}
    (tmp_path / "data.adv").unlink()
    with pytest.raises(BadFile, match="wordnet-base"):
        usage_examples(tmp_path)


@pytest.mark.parametrize("prose", [[], PROSE[:2], ["# not plain", "<b>"]])
def test_too_little_prose_is_reported_without_looping(wordnet, prose):
    with pytest.raises(BadFile, match="of 3 texts of kind 'prose'"):
        list(draw_texts(prose, wordnet, COUNTS, 1, HeldOut([]), 1))


def test_recipe_without_kinds_has_no_texts(wordnet):
    with pytest.raises(BadFile, match="no kinds of text"):
        list(draw_texts(PROSE, wordnet, {}, 3, HeldOut([]), 1))
