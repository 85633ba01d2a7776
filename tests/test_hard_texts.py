"""The texts of final reports: counts, lengths, sources, and that neither other texts here nor the corpus have them."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from needs import data_folder

ROOT = Path(__file__).parents[1]
TEXTS = ROOT / "assets" / "texts"
GRAMMAR = tomllib.loads((ROOT / "studio" / "train" / "corpus" / "grammar.toml").read_text(encoding="utf-8"))
HARD, SHORT = ((TEXTS / name).read_text(encoding="utf-8").splitlines() for name in ("hard.txt", "hard-short.txt"))
KINDS = ("names", "numbers", "rare words", "long clauses")
_RUN = 7  # words in a row that independent sentences do not share
_NUMBERS = (
    "two three four five six seven eight nine ten eleven twelve sixteen seventeen twenty thirty forty fifty sixty "
    "seventy ninety hundred thousand half eleventh eighteenth"
).split()

_SLOT = re.compile(r"\{(\w+)(?::(\d+)-(\d+))?\}(s\b)?")
_HOUR = "(?:1[0-2]|[1-9])"
_BUILT_IN = {
    "year": r"(?:1[1-9]\d\d|20[0-2]\d|203[0-5])",
    "time": rf"(?:{_HOUR}:[0-5][05](?: [ap]\.m\.)?|{_HOUR} o'clock|half past {_HOUR}|noon)",
    "nth": f"(?:{'|'.join(GRAMMAR['nthday'])})",
    "common": "(?!)",  # any frequent word: what it makes is no text that somebody wrote
}


def bare(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower().replace("’", "'"))


def sentences(text: str) -> Iterable[str]:
    return (text, *re.split(r"(?<=[.!?])\s+", text))


def shared(texts: Iterable[str], others: Iterable[str]) -> list[str]:
    """The texts that are a sentence of the others, or share seven words in a row with one."""
    whole, runs = set[str](), set[tuple[str, ...]]()
    for other in others:
        whole |= {" ".join(bare(one)) for one in sentences(other)}
        runs |= runs_of(other)
    return [text for text in texts if " ".join(bare(text)) in whole or runs_of(text) & runs]


def runs_of(text: str) -> set[tuple[str, ...]]:
    words = bare(text)
    return {tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)}


@cache
def rule(name: str) -> str:
    """A regular expression of what a rule of the corpus' grammar makes, in lower case."""
    return _BUILT_IN.get(name) or f"(?:{'|'.join(form(one) for one in GRAMMAR[name])})"


def form(text: str) -> str:
    out, at = "", 0
    for slot in _SLOT.finditer(text):
        name, low, high, several = slot.groups()
        drawn = f"(?:{'|'.join(map(str, range(int(low), int(high) + 1)))})" if name == "int" else rule(name)
        out += re.escape(text[at : slot.start()].lower()) + drawn + ("(?:e?s)" if several else "")
        at = slot.end()
    return out + re.escape(text[at:].lower())


def made_by_grammar(text: str) -> bool:
    """Whether the rule for short texts makes it, whatever mark ends it."""
    written = text.lower().rstrip(".!?")
    return any(re.fullmatch(rule("short"), written + mark) for mark in ("", ".", "!", "?"))


def test_counts_lengths_and_characters() -> None:
    assert (len(HARD), len(SHORT)) == (200, 100)
    for texts, fewest, most in ((HARD, 8, 45), (SHORT, 1, 3)):
        for text in texts:
            assert fewest <= len(text.split()) <= most, text
            assert re.fullmatch(r"[A-Za-z0-9 ,.;:?!'\"()$%/-]+", text) and "  " not in text and "--" not in text, text
            assert re.search(r"[.!?]$", text) and not text[0].islower(), text


def test_no_text_is_there_twice() -> None:
    assert [text for text, count in Counter(" ".join(bare(one)) for one in HARD + SHORT).items() if count > 1] == []


def test_sources_are_old_and_mixed() -> None:
    head, *rows = [line.split("\t") for line in (TEXTS / "hard-sources.tsv").read_text(encoding="utf-8").splitlines()]
    assert head == ["kind", "author", "work", "year"] and len(rows) == len(HARD)
    assert [row[0] for row in rows] == [*KINDS] * 50, "the first N texts have all kinds"
    assert max(Counter(work for _, _, work, _ in rows).values()) <= 6
    assert len({author for _, author, _, _ in rows}) >= 25
    assert all(1700 < int(year) < 1929 for *_, year in rows)


def test_kinds_are_what_they_say() -> None:
    for number, text in enumerate(HARD):
        if KINDS[number % 4] == "numbers":
            words = re.split(r"[\s-]+", text.lower())
            assert any(word.strip(",.") in _NUMBERS or re.search(r"\d", word) for word in words), text
        if KINDS[number % 4] == "names":
            assert re.search(r" [(\"]?[A-Z][a-z]", text), text


def test_other_texts_do_not_have_them() -> None:
    others = [path for path in TEXTS.glob("*.txt") if path.stem not in ("hard", "hard-short")]
    assert {path.name for path in others} >= {"eval.txt", "live.txt", "latency.txt", "paragraphs.txt"}
    lines = [line for path in others for line in path.read_text(encoding="utf-8").splitlines()]
    lines += [json.loads(line)["input"] for line in (TEXTS / "words.jsonl").read_text(encoding="utf-8").splitlines()]
    lines += [one["text"] for one in json.loads((TEXTS / "examples.json").read_text(encoding="utf-8"))]
    assert shared(HARD + SHORT, lines) == []
    assert shared([HARD[3]], [f"He wrote: {HARD[3].lower()}"]) == [HARD[3]]
    assert shared([SHORT[3]], [f"I came. {SHORT[3].upper()}"]) == [SHORT[3]]


def test_the_grammar_of_the_corpus_does_not_make_the_short_ones() -> None:
    assert [text for text in SHORT if made_by_grammar(text)] == []
    for text in ("Hello, Anna!", "The boxes.", "Two lamps.", "At half past 7.", "42.", "21st."):
        assert made_by_grammar(text) == (text != "The boxes."), text


def test_prose_of_the_corpus_does_not_have_them() -> None:
    lines = (data_folder() / "ljspeech_sentences.txt").read_text(encoding="utf-8").splitlines()
    prose = [line.partition("|")[2] for line in lines]
    assert shared(HARD + SHORT, prose) == []
    assert shared([prose[0]], prose) == [prose[0]]
