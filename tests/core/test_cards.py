"""Which speaker is offered first, and whom the net calls its first."""

import json
from dataclasses import replace

from tones import tone_card

from studio.core.cards import parse_voice
from studio.serve.live.protocol import hello


def test_the_default_speaker_is_offered_first() -> None:
    card = tone_card()
    assert card.speakers == card.offered == ("low", "high")
    other = replace(card, default_speaker="high")
    assert other.offered == ("high", "low") and other.speakers == ("low", "high")
    assert parse_voice("", {"tone": other}) == (other, "high") == parse_voice("tone", {"tone": other})
    assert parse_voice("tone:low", {"tone": other}) == (other, "low")
    assert json.loads(hello([other]))["voices"][0]["speakers"] == ["high", "low"]
