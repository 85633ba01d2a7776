"""French text through a voice of Kyutai's: words, sound, a change of language, and voices without French."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from listening import Listener, of, samples, say, tiny_engine

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.core.ports import SpeakRequest
from studio.engine.engine import LocalEngine

TEXT = "Il est 14h30 : l'été coûte 12,50 € ?"
WORDS = "il est quatorze heures trente: l'été coûte douze euros cinquante?"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with closing(tiny_engine(tmp_path_factory.mktemp("voices"), family="kyutai")) as opened:
        yield opened


def words(events: list[ev.Event]) -> str:
    return " ".join(one.word for one in of(ev.Committed, events))


def test_french_text_is_spoken_as_french_words(engine: LocalEngine) -> None:
    options = {"language": "fr"}
    whole = [*say(engine, TEXT, options=options, seed=2).events()]
    assert words(whole) == WORDS and len(of(ev.WordStart, whole)) == len(WORDS.split())
    assert whole[0].options["language"] == "fr" and isinstance(whole[-1], ev.Ended) and not of(ev.Unsupported, whole)
    typed = Listener(engine, options | {"padding": 1})
    for char in TEXT:
        typed.utterance.push_text(char)
    typed.utterance.end()
    typed.rest()
    at_once = [*say(engine, TEXT, options=options | {"padding": 1}, seed=3).events()]
    assert words(typed.events) == WORDS
    assert (samples(typed.events) == samples(at_once)).all()


def test_english_is_the_default_and_the_language_may_change(engine: LocalEngine) -> None:
    (card,) = engine.cards()
    assert next(one for one in card.options if one.name == "language").choices == ("en", "fr")
    listener = Listener(engine)
    listener.utterance.push_text("It is 3 o'clock now. ")
    listener.until(ev.Committed, 5)
    listener.utterance.set_options({"language": "fr"})
    listener.until(ev.OptionsChanged)
    listener.utterance.push_text("Il est 3 heures")
    listener.utterance.end()
    listener.rest()
    assert words(listener.events) == "it is three o'clock now. il est trois heures"


def test_a_change_of_language_is_ordered_with_the_text(engine: LocalEngine) -> None:
    utterance = engine.open(SpeakRequest(seed=3))
    utterance.push_text("It is 3. " * 24)  # more than the engine reads ahead
    utterance.set_options({"language": "fr"})
    utterance.push_text("Il est 3 heures")
    utterance.end()
    assert words([*utterance.events()]) == "it is three. " * 24 + "il est trois heures"


def test_a_language_that_a_voice_does_not_speak_is_refused(
    engine: LocalEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(BadOption, match="language cannot be 'de'; give one of en, fr"):
        say(engine, TEXT, options={"language": "de"})
    others = tmp_path_factory.mktemp("others")
    refused = pytest.raises(BadOption, match="no choice of language; leave language out")
    with closing(tiny_engine(others)) as other, refused:
        say(other, TEXT, options={"language": "fr"})
