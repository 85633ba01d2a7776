"""A user's lexicon: IPA and respellings of written words, whatever the cuts of the text."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from studio.core.errors import BadFile
from studio.core.text.words import WordStream
from studio.engine.families.common.text_tokens import PHONEMES
from studio.text import phonemes
from studio.text.lexicon import Lexicon, LexiconNormaliser, read_lexicon
from studio.text.normalise import english


def lexicon_of(folder: Path, text: str) -> Lexicon:
    path = folder / "lexicon.txt"
    path.write_text(text, encoding="utf-8")
    return read_lexicon(path, PHONEMES)


@pytest.mark.parametrize(
    ("written", "symbols"),
    [
        ("/dʒɪf/", "ʤɪf"),
        ("/həˈloʊ/", "həlˈO"),
        ("/ˈstɹiːmɪŋ/", "stɹˈimɪŋ"),
        ("/ˌɪntəˈnæʃənəl/", "ˌɪntənˈæʃənəl"),
        ("/ˈɡɪtˌhʌb/", "ɡˈɪthˌʌb"),
        ("/ˈt͡ʃeɪndʒ/", "ʧˈAnʤ"),
    ],
)
def test_ipa_is_written_in_the_voices_symbols(tmp_path: Path, written: str, symbols: str) -> None:
    assert lexicon_of(tmp_path, f"Word {written}  # a comment\n").phonemes == {"word": symbols}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ok /k/\nbad /bad/", "line 1 .* has no vowel"),
        ("good /ɡʊd/\nbad /bad/", "line 2 .* no voice has 'a' .*; the nearest is 'æ'; use A I O"),
        ("bad /bɪ☃d/", "no voice has '☃' \\(snowman\\); use A I"),
        ("W3C /ˈdʌ/", "no word of letters; respell it"),
        ("gif //", "line 1 .* no IPA between two slashes"),
        ("gif /dʒɪf", "no IPA between two slashes"),
        ("gif dʒɪf/", "no IPA between two slashes"),
        ("alone", "line 1 .* is no entry"),
        ("x " + "y" * 201, "is no entry"),
        ("a b\n" * 0 + "".join(f"w{k} x\n" for k in range(10_001)), "at most 10,000 lines"),
    ],
)
def test_mistakes_name_the_line_and_the_symbol(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadFile, match=told):
        lexicon_of(tmp_path, text)


def test_file_that_is_absent_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="cannot be read"):
        read_lexicon(tmp_path / "absent", PHONEMES)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(BadFile, match="UTF-8"):
        read_lexicon(tmp_path / "binary", PHONEMES)


@pytest.mark.parametrize("step", [1, 3, 100])
def test_words_are_read_as_the_lexicon_says(tmp_path: Path, step: int) -> None:
    lexicon = lexicon_of(tmp_path, "nginx engine x\nGIF /ɡɪf/\nW3C double u three c\n")
    stream = WordStream(LexiconNormaliser(lexicon, english()))
    text = "Our nginx, a GIF: 1999 of W3C. $5 million"
    changes = [stream.push(text[at : at + step]) for at in range(0, len(text), step)] + [stream.end()]
    words = [word for change in changes for word in change.words]
    spoken = "our engine x, a gif: nineteen ninety nine of double u three c. five million dollars"
    assert " ".join(word.word for word in words) == spoken
    assert {text[word.char_start : word.char_end] for word in words[1:3]} == {"nginx,"}


@pytest.fixture
def own() -> Iterator[None]:
    phonemes.load()
    golds, before = phonemes._front_end().lexicon.golds, dict(phonemes._front_end().lexicon.golds)
    yield
    golds.clear()
    golds.update(before)
    phonemes._OWN.clear()


def test_phonemes_are_the_users(own: None) -> None:
    phonemes.add_pronunciations({"nginx": "ˈɛnʤəneks", "live": "lˈIv"})
    assert phonemes.request_phonemes(["nginx,"]) is None  # no net is asked
    assert phonemes.pronounce(["they", "live", "nginx,"])[1:] == ["lˈIv", "ˈɛnʤəneks,"]
    assert not phonemes.depends_on_words_before("live")


def test_long_texts_take_linear_time_and_words_keep_their_neighbours() -> None:
    seen: list[tuple[str, ...]] = []

    def other(tokens: Sequence[str], before: Sequence[str] = ()) -> list[tuple[str, int]]:
        seen.append(tuple(before))
        return [(token, at) for at, token in enumerate(tokens)]

    normaliser = LexiconNormaliser(Lexicon({"gif": "ʤˈɪf"}, {}), other)
    began_s = time.process_time()
    words = normaliser(["GIF", "w"] * 100_000, ["a", "b"])
    assert time.process_time() - began_s < 5.0
    assert words[:2] == [("gif", 0), ("w", 1)] and len(words) == 200_000
    asked = [one for one in seen if one]
    assert asked[:3] == [("b", "GIF"), ("w", "GIF"), ("w", "GIF")]
