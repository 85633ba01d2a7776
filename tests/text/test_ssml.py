"""The subset of SSML: parts of plain text, and pauses between them."""

import time

import pytest

from studio.core.errors import BadText
from studio.text import inline_phonemes
from studio.text.inline_phonemes import without_pronunciation
from studio.text.normalise import best
from studio.text.phonemes import pronounce
from studio.text.ssml import BreakReader, SpokenPart, read_ssml


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Hello there.", [("Hello there.", 0)]),
        ('<speak>One <break time="500ms"/> two.</speak>', [("One", 500), ("two.", 0)]),
        ('One<break time="1.5s" />two<break/>', [("One", 1500), ("two", 400)]),
        ('<break strength="weak"/><break time="1s"/> Now.', [("", 1200), ("Now.", 0)]),
        ('a <break time="0s"/> b', [("a b", 0)]),
        ("<p><s>One</s><s>Two!</s></p> three", [("One. Two! three", 0)]),
        ('<sub alias="World Wide Web Consortium">W3C</sub> rules', [("World Wide Web Consortium rules", 0)]),
        ('<say-as interpret-as="characters">TTS2</say-as>', [("T T S two", 0)]),
        ('Room <say-as interpret-as="digits">2011</say-as>.', [("Room two zero one one .", 0)]),
        ('<say-as interpret-as="telephone">555-01</say-as>', [("five five five, zero one", 0)]),
        (
            '<say-as interpret-as="ordinal">3</say-as> <say-as interpret-as="cardinal">12</say-as>',
            [("third twelve", 0)],
        ),
        ('<say-as interpret-as="date">3 May 2024</say-as>', [("3 May 2024", 0)]),
        (
            '<?xml version="1.0"?><speak version="1.1" xml:lang="en" xmlns="http://www.w3.org/2001/10/synthesis">'
            "Hi &amp; bye</speak>",
            [("Hi & bye", 0)],
        ),
    ],
)
def test_ssml_is_text_and_pauses(written: str, spoken: list[tuple[str, float]]) -> None:
    assert read_ssml(written) == [SpokenPart(text, pause_ms) for text, pause_ms in spoken]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("<emphasis>x</emphasis>", "<emphasis> is not supported; use <speak>, <p>"),
        ("<speak>a & b</speak>", "not well-formed"),
        ("<speak>a", "not well-formed"),
        ('<!DOCTYPE speak [<!ENTITY a "b">]><speak>&a;</speak>', "not well-formed|document type"),
        ('<break time="11s"/>x', "0s to 10s"),
        ('<break time="soon"/>x', "0s to 10s"),
        ('<break strength="huge"/>x', "x-strong"),
        ('<p role="x">y</p>', "no attribute 'role'"),
        ('<say-as interpret-as="joke">x</say-as>', "'joke'; use characters"),
        ('<say-as interpret-as="cardinal">many</say-as>', "give a number"),
        ('<say-as interpret-as="cardinal">1/2</say-as>', "give a number"),
        ('<say-as interpret-as="number">(1)</say-as>', "give a number"),
        ("a\ud800b", "not well-formed"),
        ("<p>" * 21 + "a" + "</p>" * 21, "at most 20"),
        ("<sub alias='x'><p>y</p></sub>", "another tag"),
        ("<speak> </speak>", "nothing to speak"),
        ("a<break/>" * 200, "at most 99 breaks"),
    ],
)
def test_what_is_not_supported_is_named(written: str, told: str) -> None:
    with pytest.raises(BadText, match=told):
        read_ssml(written)


def test_entities_that_grow_are_refused() -> None:
    entities = "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 10))
    began_s = time.process_time()
    with pytest.raises(BadText, match="document type"):
        read_ssml(f'<?xml version="1.0"?><!DOCTYPE speak [<!ENTITY a0 "x">{entities}]><speak>&a9;</speak>')
    with pytest.raises(BadText):
        read_ssml("<p>" * 1000)
    with pytest.raises(BadText, match="at most 20"):
        read_ssml("<p>" * 20_000 + "a" + "</p>" * 20_000)
    assert time.process_time() - began_s < 1.0


def read_breaks(text: str, size: int = 1000) -> list[tuple[str, float]]:
    """Texts and pauses, in whatever pieces they come."""
    reader = BreakReader()
    parts = [one for at in range(0, len(text), size) for one in reader.feed(text[at : at + size])] + [*reader.end()]
    assert "".join(one.text + one.tag for one in parts) == text
    out = [("", 0.0)]
    for part in parts:
        out[-1] = out[-1][0] + part.text, part.pause_ms
        out += [("", 0.0)] * bool(part.pause_ms)
    return out


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        (" a & <b> b ", [(" a & <b> b ", 0)]),
        ('Wait. <break time="1.0s" /> Go.', [("Wait. ", 1000), (" Go.", 0)]),
        ("<break/>Go <break strength='weak'/>", [("", 400), ("Go ", 200), ("", 0)]),
        ('One<break time="1s">two', [('One<break time="1s">two', 0)]),
        ("a < b <br> <bre", [("a < b <br> <bre", 0)]),
        ('<<break time="300ms"/>', [("<", 300), ("", 0)]),
        ('a <break time="0s"/> b', [('a <break time="0s"/> b', 0)]),
    ],
)
def test_breaks_of_a_plain_text_however_it_is_cut(written: str, spoken: list[tuple[str, float]], size: int) -> None:
    assert read_breaks(written, size) == spoken


def test_breaks_are_bounded() -> None:
    with pytest.raises(BadText, match="at most 99"):
        read_breaks("a <break/>" * 100)
    with pytest.raises(BadText, match="0s to 10s"):
        read_breaks('<break time="99s"/>')


@pytest.mark.parametrize("text", ["<break " + " " * 100_000, "<" * 100_000, '<break time="' * 10_000])
def test_what_never_becomes_a_break_is_passed_on_in_linear_time(text: str) -> None:
    began_s = time.process_time()
    read_breaks(text, 1)
    assert time.process_time() - began_s < 5.0


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ('<prosody rate="slow">One</prosody> two', [("One", 0.75), ("two", 1.0)]),
        (
            'a <prosody rate="150%"> b <prosody rate="50%">c</prosody> d</prosody>',
            [("a", 1), ("b", 1.5), ("c", 0.5), ("d", 1.5)],
        ),
        ('<prosody rate="+20%">a</prosody><prosody rate="-20%">b</prosody>', [("a", 1.2), ("b", 0.8)]),
        ('<p><prosody rate="fast">One</prosody></p>', [("One", 1.3), (".", 1.0)]),
        ('<prosody rate="0.9">a</prosody> <prosody rate="90%">b</prosody>', [("a b", 0.9)]),
    ],
)
def test_rates_are_parts(written: str, spoken: list[tuple[str, float]]) -> None:
    assert [(one.text, one.rate) for one in read_ssml(written)] == spoken


@pytest.mark.parametrize("rate", ["warp", "0", "3", "201%", "49%", "-60%", "", "1e1", "9" * 100])
def test_rates_out_of_range_are_named(rate: str) -> None:
    with pytest.raises(BadText, match="50% to 200%"):
        read_ssml(f'<prosody rate="{rate}">x</prosody>')


def test_phonemes_are_those_of_the_word() -> None:
    one, other = (
        read_ssml(f'<phoneme alphabet="ipa" ph="{ph}">tomato</phoneme>.')[0].text for ph in ("təˈmeɪtoʊ", "təˈmɑːtəʊ")
    )
    assert one != other and one[:7] == other[:7] == "tomato'"
    assert [best()([token])[0][0] for token in (one, other)] == [one, other], "the normaliser leaves them alone"
    assert read_ssml('<phoneme ph="təˈmeɪtoʊ">Tomato</phoneme>.')[0].text == one
    assert pronounce([one.rstrip("."), other.rstrip("."), "tomato"])[:2] == ["təmˈATO".replace("T", "t"), "təmˈɑtO"]
    assert without_pronunciation(one.rstrip(".")) == "tomato"
    assert without_pronunciation("don't") == "don't"


def test_nobody_exhausts_the_phonemes_of_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients without a key may send any number; the owner's lexicon is not forgotten for them."""
    monkeypatch.setattr(inline_phonemes, "MAX_PRONUNCIATIONS", 50)
    [own] = inline_phonemes.name_lexicon({"tv": "tivˈi"}).values()
    vowels = "AIOWYiuæɑɐɔəɛɜɪʊʌᵊᵻ"
    names = [
        read_ssml(f'<phoneme ph="{one}{other}">{word}</phoneme>')[0].text
        for word in ("a", "to")
        for one in vowels
        for other in vowels[:8]
    ]
    assert len(set(names)) == len(names) > 200
    assert without_pronunciation(names[-1]) == "to" and without_pronunciation(names[0]) == names[0]
    assert pronounce([own, names[-1]])[0] == "tivˈi" and without_pronunciation(own) == "tv"
    assert inline_phonemes.name_lexicon({"tv": "tivˈi"}) == {"tv": own}
    inline_phonemes.name_lexicon({})
    assert without_pronunciation(own) == "tv", "a text that has it is still being spoken"


@pytest.mark.parametrize(
    ("ph", "word", "told"),
    [
        ("", "x y", "no vowel"),
        ("bøt", "boat", "the nearest is"),
        ("a" * 300, "ah", "at most 200"),
        ("ɪf", "7", "no word of letters"),
    ],
)
def test_phonemes_that_cannot_be_are_named(ph: str, word: str, told: str) -> None:
    with pytest.raises(BadText, match=told):
        read_ssml(f'<phoneme ph="{ph}">{word}</phoneme>')
    with pytest.raises(BadText, match="use ipa"):
        read_ssml('<phoneme alphabet="x-sampa" ph="A">ah</phoneme>')
