"""Cards: default speaker, valid content, valid requests."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from tones import tone_card

from studio.core.cards import Card, parse_voice, read_cards
from studio.core.errors import BadOption, BadVoice
from studio.core.folders import VOICES
from studio.core.options import OptionSpec, merge_options, options_from_flags, parse_options
from studio.serve.live.protocol import hello


def test_default_speaker_is_offered_first() -> None:
    card = tone_card()
    assert card.speakers == card.speakers_default_first == ("low", "high")
    other = replace(card, default_speaker="high")
    assert other.speakers_default_first == ("high", "low") and other.speakers == ("low", "high")
    assert parse_voice("", {"tone": other}) == (other, "high") == parse_voice("tone", {"tone": other})
    assert parse_voice("tone:low", {"tone": other}) == (other, "low")
    assert json.loads(hello([other]))["voices"][0]["speakers"] == ["high", "low"]


# --- content of a card ---------------------------------------------------------------------------

NESTED: list[Any] = []
for _ in range(500):
    NESTED = [NESTED]
ANY_JSON = [None, True, 0, -1, 1.5, 1e999, 10**400, "", "a", "\x1b]0;a\a", "\ud800", [], [[]], [{}], [1, 2], {}]
ANY_JSON += [{"a": 1}, {"a": "b"}, {"a": {}}, {"\x1b[2J": 1}, {"a": NESTED}]
PLACES = [(), ("options", 0), ("vocoders", "sourcevocos"), ("parameters",), ("sha256",), ("config",)]


def shipped() -> dict[str, Any]:
    return json.loads((VOICES / "wren" / "card.json").read_text(encoding="utf-8"))


def at(card: dict[str, Any], place: tuple[Any, ...]) -> dict[str, Any]:
    for step in place:
        card = card[step]
    return card


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_json_of_any_type_is_refused_with_a_reason_or_valid(place: tuple[Any, ...]) -> None:
    for key in at(shipped(), place):
        for value in ANY_JSON:
            card = deepcopy(shipped())
            at(card, place)[key] = value
            try:
                valid = Card.from_dict(card)
            except BadVoice as error:
                assert str(error).isprintable() and error.do
            else:
                json.dumps(valid.to_dict(), indent=1)
                ", ".join(
                    (*valid.speakers_default_first, *valid.vocoders, *valid.parameters, valid.number_format)
                ).encode()


@pytest.mark.parametrize("field", ["options", "speakers", "figures", "config"])
def test_invalid_card_is_skipped_alone(tmp_path, caplog, field: str) -> None:
    for name, change in (("other", {}), ("shapeless", {field: [[]]})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "card.json").write_text(json.dumps(shipped() | {"name": name} | change))
    assert [*read_cards(tmp_path)] == ["other"]
    assert f"shapeless/card.json: {field} of the card is [[]]" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"low": None}, "'m' has only one of low and high; give both or neither"),
        ({"default": 7}, "default of the card's option 'm' is 7; it is a whole number from 1 to 6"),
        ({"default": 1.5}, "is 1.5; it is a whole number from 1 to 6"),
        ({"default": True}, "is True; it is a whole number from 1 to 6"),
        ({"low": 5}, "is 3; it is a whole number from 5 to 6"),
        ({"kind": "float", "default": 0.5}, "is 0.5; it is a number from 1 to 6"),
        ({"kind": "choice"}, "is 3; it is one of its choices"),
        ({"kind": "choice", "choices": ["a", "b"], "default": "c"}, "is 'c'; it is one of a, b"),
        ({"kind": "choice", "choices": "abc", "default": "a"}, "choices of the card's option 'm' is 'abc'"),
        ({"kind": "text"}, "kind of the card's option 'm' is 'text'; it is one of int, float, choice"),
        ({"\x1b[2J": 1}, r"an option of the card has unknown keys: \\x1b\[2J;"),
    ],
)
def test_unavailable_option_is_refused(change: dict[str, Any], message: str) -> None:
    card = shipped()
    card["options"][1] |= change
    with pytest.raises(BadVoice, match=message):
        Card.from_dict(card)


@pytest.mark.parametrize("sign", ["\x1b[2J", "\x1b]0;a\a", "\ud800", "\u202e"])
@pytest.mark.parametrize("field", ["vocoders", "parameters", "number_format", "a key"])
def test_names_with_control_characters_are_refused(field: str, sign: str) -> None:
    card = shipped()
    match field:
        case "a key":
            card[sign] = 1
        case "number_format":
            card[field] = sign
        case _:
            card[field][sign] = next(iter(card[field].values()))
    with pytest.raises(BadVoice) as refused:
        Card.from_dict(card)
    assert str(refused.value).isprintable()


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(BadVoice, match="nested more than 16 deep"):
        Card.from_dict(shipped() | {"figures": {"a": NESTED}})


SPECS = (
    OptionSpec("guidance", "float", 1.0, "Guidance", "how far to go", low=1.0, high=3.0),
    OptionSpec("other", "int", 0, "Other speaker", "who has the other turns", low=0, high=2),
    OptionSpec("mode", "choice", "whole", "Mode", choices=("whole", "ngram")),
    OptionSpec("far", "int", 0, "Far", low=1),
)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("other=1.5", "other cannot be '1.5'; give a whole number from 0 to 2$"),
        ("other=3", "other cannot be 3; give a whole number from 0 to 2$"),
        ("guidance=abc", "guidance cannot be 'abc'; give a number from 1 to 3$"),
        ("guidance=nan", "guidance cannot be nan; give a number from 1 to 3$"),
        ("far=x", "far cannot be 'x'; give a whole number from 1$"),
        ("mode=all", "mode cannot be 'all'; give one of whole, ngram$"),
        ("other", "other has no value; write other=value, where the value is a whole number from 0 to 2$"),
        ("mode", "mode has no value; write mode=value, where the value is one of whole, ngram$"),
        ("k=1", "'k=1' sets no option of this voice; write name=value with one of guidance, other, mode, far$"),
    ],
)
def test_invalid_option_value_is_reported_with_type_and_range(written, message):
    with pytest.raises(BadOption, match=message):
        merge_options(SPECS, parse_options(SPECS, [written]), {})


def test_flag_is_named_as_typed():
    assert options_from_flags(SPECS, {"--window": ("m", None), "--other": ("other", 2)}) == ["other=2"]
    with pytest.raises(BadOption, match=r"this voice has no option for --window.*its options are far, guidance, mode"):
        options_from_flags(SPECS, {"--window": ("m", 3)})
    with pytest.raises(BadOption, match="it has no options"):
        options_from_flags((), {"--window": ("m", 3)})
