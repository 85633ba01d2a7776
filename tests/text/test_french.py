"""French texts: their readings for every cutting, places, holds, and the lexicon."""

import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from studio.core.errors import BadOption, NeedsPackage
from studio.core.text.language import in_language
from studio.core.text.words import WordChanges, WordStream
from studio.text.french.normalise import FrenchNormaliser
from studio.text.lexicon import Lexicon, LexiconNormaliser
from studio.text.lexicon_book import BookNormaliser
from studio.text.normalise import english, plain

CASES = [
    line.split(" => ")
    for line in (Path(__file__).parent / "french.txt").read_text(encoding="utf-8").split("\n")
    if " => " in line
]


def read(parts: Iterable[str]) -> WordChanges:
    stream, changes = WordStream(FrenchNormaliser()), WordChanges()
    for part in parts:
        changes.extend(stream.push(part))
    changes.extend(stream.end())
    return changes


def said(text: str) -> str:
    return " ".join(one.word for one in read([text]).words)


@pytest.mark.parametrize(("text", "reading"), CASES, ids=lambda one: one[:30])
def test_a_text_is_read_as_a_person_would(text: str, reading: str) -> None:
    changes = read([text])
    assert (" ".join(one.word for one in changes.words), changes.unsupported) == (reading, [])


def test_cuts_change_nothing() -> None:
    rng = random.Random(5)
    texts = [text for text, _ in CASES]
    texts += [" ".join(rng.sample(texts, 3)) for _ in range(100)]
    texts += [
        "".join(rng.choice(" \u202f\n1209eéIM.,:?!«»—…'-/€%h°²(πµΩ½^ß\u0301") for _ in range(30)) for _ in range(400)
    ]
    for text in texts:
        whole = read([text])
        assert read(text) == whole, text
        for _ in range(3):
            edges = sorted({0, len(text), *(rng.randrange(len(text) + 1) for _ in range(4))})
            assert read(text[a:b] for a, b in pairwise(edges)) == whole, (text, edges)


def test_words_lie_in_the_text() -> None:
    for text, _ in CASES:
        for end in range(len(text) + 1):
            words = read([text[:end]]).words
            assert all(0 <= one.char_start < one.char_end <= end for one in words)
            assert all(a.char_start <= b.char_start for a, b in pairwise(words))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("ça va ? oui", [("ça", 0, 2), ("va?", 3, 7), ("oui", 8, 11)]),
        ("« Non », dit-il", [("non,", 2, 6), ("dit-il", 9, 15)]),
        ("e\u0301te\u0301 a\u0300", [("été", 0, 5), ("à", 6, 8)]),
        ("5\u202f000 €", [("cinq", 0, 1), ("mille", 2, 5), ("euros", 6, 7)]),
        ("le 3 mai", [("le", 0, 2), ("trois", 3, 4), ("mai", 5, 8)]),
        ("n° 5", [("numéro", 0, 2), ("cinq", 3, 4)]),
        ("à 14h30", [("à", 0, 1), ("quatorze", 2, 7), ("heures", 2, 7), ("trente", 2, 7)]),
    ],
)
def test_places_are_those_of_the_text_as_sent(text: str, places: list[tuple[str, int, int]]) -> None:
    assert [(one.word, one.char_start, one.char_end) for one in read([text]).words] == places


# For each kind: a text, and after how many of its tokens and the character behind the first word is committed.
HOLDS = """
bonjour à tous | 1
l'homme est là | 1
M. Dupont | 1
14h30 précises | 1
XIXe siècle | 1
50% de moins | 1
12,50€ en tout | 1
5 pommes vertes | 2
1 000 000 euros | 4
12 % moins | 2
3 millions € ou | 3
Me Dupont | 2
p. ex. ceci | 3
01 23 45 67 89 et | 6
"""


@pytest.mark.parametrize("line", HOLDS.strip().splitlines())
def test_a_token_is_held_no_longer_than_it_must_be(line: str) -> None:
    text, count = line.split(" | ")
    stream = WordStream(FrenchNormaliser())
    used, out = 0, WordChanges()
    for token in f"{text} x y".split():
        out.extend(stream.push(token[0]))
        if out.words:
            break
        used += 1
        out.extend(stream.push(f"{token[1:]} "))
    assert used == int(count), out


def test_letters_of_other_scripts_and_long_words_are_reported() -> None:
    changes = read(["le mot 日本 et ñandú ", "é" * 41, " ", "anti-" * 20 + "fin"])
    assert [one.why for one in changes.unsupported] == [
        "this voice speaks French letters only: 日 (cjk unified ideograph-65e5) is not one of them",
        "words of at most 40 letters can be spoken",
    ]
    assert [one.word for one in changes.words][:4] == ["le", "mot", "et", "nandu"]
    assert len(changes.words) == 25


def test_a_word_that_is_too_long_when_spoken_is_read_as_several() -> None:
    assert said("St-St-St-St-St-St-St x") == "saint " * 7 + "x"  # 20 characters written, 41 spoken
    assert said("jusqu'" + "AB-" * 6 + "fin.").endswith(" fin.")
    parts = ["VIIVA", *["cada"] * 6]  # 35 letters and hyphens; 41 with what was elided
    assert said(f"jusqu'{'-'.join(parts)}, x") == f"jusqu' {'-'.join(parts).lower()}, x"
    assert said(f"l'{'-'.join(parts)}, x") == f"l'{'-'.join(parts).lower()}, x"


def test_a_lexicon_is_used_in_french_too(tmp_path: Path) -> None:
    lexicon = LexiconNormaliser(Lexicon({}, {"sncf": ("esse", "enne", "cé", "effe")}), english())
    french = in_language(lexicon, "fr")
    assert french(["La", "SNCF."]) == [("la", 0), ("esse", 1), ("enne", 1), ("cé", 1), ("effe.", 1)]
    assert in_language(lexicon, "fr") is french and in_language(lexicon, "en") is lexicon
    (tmp_path / "lexicon.txt").write_text("km kilo\n")
    book = in_language(BookNormaliser(tmp_path / "lexicon.txt", english()), "fr")
    assert book(["3", "km"]) == [("trois", 0), ("kilo", 1)]


def test_a_language_that_is_not_read_is_refused() -> None:
    with pytest.raises(BadOption, match="not read in the language 'de'"):
        in_language(english(), "de")
    with pytest.raises(BadOption, match="does not read French"):
        in_language(lambda tokens, before=(): [], "fr")
    with pytest.raises(NeedsPackage, match="num2words"):
        in_language(plain(), "fr")
    assert in_language(plain(), "en")(["Hello"]) == [("hello", 0)]
