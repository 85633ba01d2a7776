"""Systems as visitors see them: speaker and settings in words, a distinct title each."""

import json
from collections.abc import Sequence
from dataclasses import replace

from tones import tone_card

from studio.core.cards import Card
from studio.core.options import OptionSpec
from studio.mos.campaign.voices import parse_voice_spec, system_titles, system_voice
from studio.mos.store.tables import System

OPTIONS = (
    OptionSpec("scheme", "choice", "S1", "Scheme", "S1 repeats the look-ahead words", choices=("S1", "S2")),
    OptionSpec("m", "int", 3, "Look-ahead", "words read before speaking", 1, 6),
    OptionSpec("n", "int", 1, "Words per step", "words spoken before it reads on, at most m", 1, 6),
)
WREN = replace(tone_card(), name="wren", title="Wren: SpeakStream, two", speakers=("clara", "miles"), options=OPTIONS)
FINCH = replace(WREN, name="finch", title="Finch: S5-TTS, two", options=(replace(OPTIONS[1], name="k"),))


def titles(*specs: str, cards: Sequence[Card] = (WREN,)) -> list[str]:
    rows = [System(campaign_id=1, name=s, voice=json.dumps(parse_voice_spec(s).to_dict())) for s in specs]
    return list(system_titles(rows, cards).values())


def test_settings_are_shown_where_they_differ_from_the_voice() -> None:
    assert titles("miles?m=3,n=1", "miles?m=5,n=1") == [
        "Miles, 3 words read before speaking",
        "Miles, 5 words read before speaking",
    ]
    assert titles("wren:clara?m=1,n=1", "wren:miles") == [
        "Clara, 1 word read before speaking",
        "Miles, 3 words read before speaking",
    ]
    assert titles("clara?m=3", "miles?n=1") == ["Clara", "Miles"]
    assert titles("clara?scheme=S2", "clara") == ["Clara, scheme S2", "Clara, scheme S1"]
    assert titles("clara?seed=4", "clara") == ["Clara, seed 4", "Clara, seed 0"]


def test_weights_of_a_spoken_system_are_no_option() -> None:
    """The demo's manifest says which weights spoke."""
    stored = {"voice": "wren", "speaker": "clara", "seed": 2, "sha256": {"net.safetensors": "a3"}, "m": 5}
    found = system_voice(System(campaign_id=1, name="wren:clara", voice=json.dumps(stored)))
    assert (found.voice, found.speaker, found.seed, found.options) == ("wren", "clara", 2, {"m": 5})


def test_voice_is_named_if_there_are_several() -> None:
    found = titles("wren:clara?m=5", "finch:clara", cards=(WREN, FINCH))
    assert found == ["Clara (Wren: SpeakStream), 5 words read before speaking", "Clara (Finch: S5-TTS)"]


def test_system_without_a_server_voice_keeps_its_name() -> None:
    rows = [System(campaign_id=1, name="heron", voice="{}")]
    assert system_titles(rows, (WREN,)) == {"heron": "heron"}
    assert titles("gone:clara?m=2") == ["gone:clara?m=2"]
    assert titles("teacher:clara") == ["Clara, a teacher model"]
    assert titles("clara?m=2", cards=()) == ["clara?m=2"]


def test_titles_are_distinct() -> None:
    assert titles("clara", "wren:clara") == ["Clara (clara)", "Clara (wren:clara)"]
