"""Texts of the Live page in other languages: the catalogues are whole, and the browser's language is chosen."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from studio.core.cards import read_card
from studio.core.text.language import LANGUAGES as TEXT_LANGUAGES
from studio.systems.adapters.registry import open_adapter
from studio.systems.engine import system_card
from studio.systems.settings import CommandSystem
from studio.ui.app import PAGES, live_props
from studio.ui.bundle import WIDGETS, sources
from studio.ui.documents import add_documents
from studio.ui.page import TITLE
from studio.ui.translation import read_catalogues, translated

ASSETS = Path(__file__).parents[3] / "assets"
LANGUAGES = set(json.loads((WIDGETS / "rate" / "words.json").read_text(encoding="utf-8")))
CATALOGUES = {name: texts for name, texts in read_catalogues(WIDGETS / "live" / "words").items() if name != "en"}
MODULES = {path for script in ("live/live.js", "live/worker/worker.js", "page/boot.js") for path, _ in sources(script)}
_CALL = re.compile(r'\bt\(\s*"((?:[^"\\]|\\.)*)"')
_PLACES = re.compile(r"\{\w+\}|</?\w+>|&[^;]+;")
_WORD = re.compile(r"[A-Za-z]{2}")
_ENTITY = re.compile(r"&#?\w+;")


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    async def no(_: Request) -> bool:
        return False

    async def nobody(_: Request) -> None:
        return None

    async def no_arena() -> bool:
        return False

    app = FastAPI()
    add_documents(app, PAGES, no, nobody, no_arena)
    with TestClient(app) as made:
        yield made


class _Recorder(dict[str, str]):
    """A catalogue without a translation that records the texts that are looked up."""

    def __init__(self) -> None:
        super().__init__({"": ""})  # not empty: an empty catalogue is not searched
        self.texts: list[str] = []

    def get(self, key: str, default: str = "", /) -> str:
        self.texts.append(key)
        return default


def _markup_texts(markup: str) -> list[str]:
    """The texts and labels of markup that have words."""
    recorder = _Recorder()
    assert translated(markup, recorder) == markup
    return [text for text in recorder.texts if _WORD.search(_ENTITY.sub("", text))]


def _data() -> Iterator[str]:
    """Texts of examples, terms, shipped voices and other people's systems that the page shows."""
    props = live_props()
    yield from (example["title"] for example in props["examples"])
    named: set[str] = set()
    yield from props["reasons"].values()
    yield from TEXT_LANGUAGES.values()  # named in a reason
    for term in props["terms"]:
        named |= term.get("options", {}).keys()
        yield from (term["name"], term["text"], *term.get("options", {}).values())
    cards = [read_card(folder) for folder in sorted((ASSETS / "voices").iterdir())]
    yield from (card.notes for card in cards)
    system = CommandSystem(command="espeak-ng --stdout")
    for card in (*cards, system_card("espeak", system, open_adapter(system))):
        yield card.about
        for option in card.options:
            yield from () if option.name in named else (option.label, option.help)
            yield from (choice for choice in option.choices if re.fullmatch("[a-z]+", choice))


def _english(client: TestClient) -> set[str]:
    """Every English text of the page."""
    body = client.get("/").text.partition("<body")[2]
    texts = {*_markup_texts(re.sub("<script.*?</script>", "", body, flags=re.DOTALL)), *_data()} - {TITLE, ""}
    for path in MODULES:
        found = _CALL.findall((WIDGETS / path).read_text(encoding="utf-8"))
        texts |= {json.loads(f'"{text}"') for text in found}
    return texts


def test_the_languages_are_those_of_raters() -> None:
    assert {"en", *CATALOGUES} == LANGUAGES


@pytest.mark.parametrize("language", CATALOGUES)
def test_catalogue_has_every_text_of_the_page_and_no_other(client: TestClient, language: str) -> None:
    english, texts = _english(client), CATALOGUES[language]
    assert len(english) > 300
    assert english - texts.keys() == set(), "texts without a translation"
    assert texts.keys() - english == set(), "translations of texts that the page does not have"
    for text, other in texts.items():
        assert other.strip() == other != "", text
        assert sorted(_PLACES.findall(text)) == sorted(_PLACES.findall(other)), text


def test_markup_is_translated_around_its_tags() -> None:
    texts = {"Press <kbd>Space</kbd> or <b>End</b>.": "<kbd>Leertaste</kbd> oder <b>Ende</b>.", "Speak": "Sprechen"}
    markup = '<p><span>\n Press <kbd>Space</kbd>\n or <b>End</b>. </span><i title="Speak">x</i><b data-x="Speak"/></p>'
    assert translated(markup, texts) == (
        '<p><span>\n <kbd>Leertaste</kbd> oder <b>Ende</b>. </span><i title="Sprechen">x</i><b data-x="Speak"/></p>'
    )
    assert _markup_texts(markup) == ["Press <kbd>Space</kbd> or <b>End</b>.", "Speak"]


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("de-DE,de;q=0.9,en;q=0.8", "de"),
        ("ja", "ja"),
        ("JA-jp", "ja"),
        ("zh-Hant-TW, fr-CA;q=0.5, es;q=0.7", "es"),
        ("en-GB,en;q=0.9,de;q=0.8", "en"),
        ("fr;q=0.5,de;q=0.50", "fr"),
        ("de;q=0,fr;q=0.1", "fr"),
        ("*", "en"),
        ("*;q=0.5, de;q=0.2", "en"),
        ("de;q=2, fr;q=-1, es;q=x, ja;q=0.3", "ja"),
        ("pt,zh", "en"),
        ("", "en"),
        (";;;,,,=q;\x7f\t<script>", "en"),
        ("de\N{LATIN SMALL LETTER U WITH DIAERESIS}", "en"),
        ("a" * 100_000 + ",de", "en"),
        ("de," + "x;q=0.1," * 12_500, "de"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_browser_gets_the_language_that_it_likes_best(client: TestClient, header: str, language: str) -> None:
    answer = client.get("/", headers=[(b"accept-language", header.encode("latin-1"))])
    assert answer.status_code == 200
    assert f'<html lang="{language}">' in answer.text
    assert answer.headers["vary"] == "Accept-Language"
    assert ('id="texts"' in answer.text) == (language != "en")


@pytest.mark.parametrize(
    ("asked", "language"), [("ja", "ja"), ("en", "en"), ("xx", "de"), ("", "de"), ("../de", "de"), ("a" * 5000, "de")]
)
def test_address_may_ask_for_a_language(client: TestClient, asked: str, language: str) -> None:
    answer = client.get("/", params={"lang": asked}, headers={"accept-language": "de"})
    assert f'<html lang="{language}">' in answer.text


def test_translated_page_is_marked_where_english_is_spoken(client: TestClient) -> None:
    html = client.get("/?lang=de").text
    assert "<title>Live · Streaming-TTS Studio</title>" in html and ">Bibliothek</a>" in html
    assert re.search(r'<textarea id="live-text"[^>]* lang="en"', html)
    assert '<div class="caption" lang="en"' in html


def test_other_pages_stay_english(client: TestClient) -> None:
    answer = client.get("/inspect?lang=de", headers={"accept-language": "de"})
    assert '<html lang="en">' in answer.text and ">Library</a>" in answer.text
    assert "vary" not in answer.headers
