"""What systems are called before visitors: who speaks and how, in the words of the voices' cards.

Owners, exports and reports call a system by its name; what a name such as ``miles?m=3,n=1`` means nobody else can tell.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from studio.core.cards import Card, OptionSpec
from studio.mos.campaign.speaking_systems import TEACHER
from studio.mos.store.tables.stimuli import System

_COUNTED = "words "  # how the help of an option begins whose value is a number of words


def system_titles(systems: Iterable[System], cards: Sequence[Card]) -> dict[str, str]:
    """A title for each system, by its name; the name itself of what is no voice of these cards.

    The voice is named where the systems have several, an option where it is not the voice's own default or the systems
    differ in it. No two systems have one title.
    """
    told = {s.name: json.loads(s.voice) for s in systems}
    voices = {name: card for name, voice in told.items() if (card := _card_of(voice, cards)) is not None}
    several = len({card.name for card in voices.values()}) > 1
    titles = {
        name: _title(told[name], card, _settings([told[n] for n, c in voices.items() if c is card], card), several)
        for name, card in voices.items()
    }
    titles |= {name: f"{_spoken(v['speaker'])}, whom voices learned from" for name, v in told.items() if _is_teacher(v)}
    often = Counter(titles.values())
    return {name: t if often[t := titles.get(name, name)] < 2 else f"{t} ({name})" for name in told}


def _title(voice: Mapping[str, Any], card: Card, options: Sequence[OptionSpec], several: bool) -> str:
    speaker = voice.get("speaker") or card.offered[0]
    who = f"{_spoken(speaker)} ({card.title.partition(',')[0]})" if several else _spoken(speaker)
    said = [_said(option, voice.get(option.name, option.default)) for option in options]
    return ", ".join([who, *said])


def _settings(voices: Sequence[Mapping[str, Any]], card: Card) -> list[OptionSpec]:
    """The options that are worth a word: some voice has it otherwise than its card."""
    own = OptionSpec("temperature", "float", card.temperature, "temperature")
    seed = OptionSpec("seed", "int", 0, "seed")
    every = [*card.options, own, seed]
    return [o for o in every if any(voice.get(o.name, o.default) not in (o.default, None) for voice in voices)]


def _said(option: OptionSpec, value: Any) -> str:
    """``3 words seen per segment`` where the card's help says so, else ``Scheme S2``."""
    if option.kind == "int" and option.help.startswith(_COUNTED):
        rest = option.help.removeprefix(_COUNTED).partition(",")[0]
        return f"{value} word{'' if value == 1 else 's'} {rest}"
    return f"{option.label.lower()} {value}"


def _card_of(voice: Mapping[str, Any], cards: Sequence[Card]) -> Card | None:
    """The card of a system's voice; where it names none, the first that has the speaker, as the engine looks it up."""
    if _is_teacher(voice) or not (voice.get("voice") or voice.get("speaker")):
        return None
    named = [card for card in cards if card.name == voice.get("voice")]
    return next(iter(named or [c for c in cards if not voice.get("voice") and voice["speaker"] in c.speakers]), None)


def _is_teacher(voice: Mapping[str, Any]) -> bool:
    return voice.get("voice") == TEACHER and bool(voice.get("speaker"))


def _spoken(speaker: str) -> str:
    return speaker[:1].upper() + speaker[1:]
