"""Voices by the names that foreign clients give: a voice, a speaker, or both, and a model."""

import re
from collections.abc import Iterator, Sequence

from studio.core.cards import Card
from studio.core.errors import BadVoice

DEFAULT = "default"
# Beginnings of names that clients send by default; what elevenlabs before 2.10 says where none is given is a mistake.
VENDOR_MODELS = ("tts-1", "gpt-", "eleven_", "sonic", "Ellipsis")


class BadModel(BadVoice):
    """There is no model of this name."""

    code = "model_not_found"


def find_voice(
    voice: str, model: str, cards: Sequence[Card], aliases: Sequence[str] = (), language: str | None = None
) -> tuple[Card, str]:
    """The card and the address (``name:speaker``, with the options that were given) of a voice.

    Args:
        voice: ``name``, ``name:speaker`` or ``name/speaker``, a speaker of the model, or ``default``; options of the
            voice may follow: ``name?language=fr``. ``open_stream`` reads them.
        model: a voice's name or a family. A vendor's model is the first voice, or the first with this speaker.
        aliases: of the settings (``voice_aliases``), for names that are no voices here.
        language: of the client's text, with a region or without (``fr-FR``); ignored if the voice lacks it, or the
            address sets one.

    Raises:
        BadModel: there is no such model.
        BadVoice: there is no such voice; the message lists those there are.
    """
    voice, mark, options = voice.partition("?")
    card, address = _find_bare(voice, model, cards, aliases)
    if mark:
        address = _with_options(address, options)
    code = re.split("[-_]", language or "")[0].lower()
    if "language=" not in address and any(one.name == "language" and code in one.choices for one in card.options):
        address = _with_options(address, f"language={code}")
    return card, address


def _with_options(address: str, options: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}{options}"


def _find_bare(voice: str, model: str, cards: Sequence[Card], aliases: Sequence[str]) -> tuple[Card, str]:
    """A voice without options; those of an alias are in its address."""
    candidates = _of_model(model, cards)
    name, _, speaker = voice.replace("/", ":", 1).partition(":")
    by_name = next((card for card in cards if card.name == name), None)
    if by_name is not None and (not speaker or speaker in by_name.speakers):
        return by_name, f"{by_name.name}:{speaker or by_name.speakers_default_first[0]}"
    if voice in ("", DEFAULT):
        return candidates[0], f"{candidates[0].name}:{candidates[0].speakers_default_first[0]}"
    for card in candidates:
        if voice in card.speakers:
            return card, f"{card.name}:{voice}"
    for alias, _, known in (one.partition("=") for one in aliases):
        if voice == alias.strip():
            return find_voice(known.strip(), "", cards)
    raise BadVoice(f"there is no voice {voice[:80]!r}", f"there are {', '.join([DEFAULT, *addresses(candidates)])}")


def addresses(cards: Sequence[Card]) -> Iterator[str]:
    """``name:speaker`` of every speaker."""
    for card in cards:
        yield from (f"{card.name}:{speaker}" for speaker in card.speakers_default_first)


def _of_model(model: str, cards: Sequence[Card]) -> Sequence[Card]:
    """The voices of a model, at least one."""
    if not cards:
        raise BadVoice("there are no voices", "point --voices at a folder of voices")
    if model in ("", DEFAULT) or model.startswith(VENDOR_MODELS):
        return cards
    of_model = [card for card in cards if model in (card.name, card.family)]
    if not of_model:
        raise BadModel(f"there is no model {model[:80]!r}", f"there are {', '.join(card.name for card in cards)}")
    return of_model
