"""The subset of SSML: parts of plain text, and pauses between them."""

import time

import pytest

from studio.core.errors import BadText
from studio.text.ssml import SpokenPart, read_ssml, split_breaks


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


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        (" a & <b> b ", [(" a & <b> b ", 0)]),
        ('Wait. <break time="1.0s" /> Go.', [("Wait.", 1000), ("Go.", 0)]),
        ("<break/>Go <break strength='weak'/>", [("", 400), ("Go", 200), ("", 0)]),
        ('One<break time="1s">two', [('One<break time="1s">two', 0)]),
    ],
)
def test_breaks_of_a_plain_text(written: str, spoken: list[tuple[str, float]]) -> None:
    assert split_breaks(written) == [SpokenPart(text, pause_ms) for text, pause_ms in spoken]


def test_breaks_are_bounded() -> None:
    with pytest.raises(BadText, match="at most 99"):
        split_breaks("a <break/>" * 100)
    with pytest.raises(BadText, match="0s to 10s"):
        split_breaks('<break time="99s"/>')
