"""Voices of systems: parsing of voice specs, checks for live tests, and titles for visitors."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from studio.core.cards import Card
from studio.core.errors import BadFile, BadOption
from studio.core.options import OptionSpec
from studio.core.plurals import counted
from studio.mos.store.tables import System

TEACHER = "teacher"
_NOT_OPTIONS = ("voice", "speaker", "seed", "temperature", "sha256")  # sha256: of the weights that spoke
_SPEC = re.compile(r"(?:(?P<voice>[^:?]*):)?(?P<speaker>[^:?]*)(?:\?(?P<options>.*))?")


@dataclass(frozen=True)
class SystemVoice:
    """A system's voice (empty if the speaker is unique), speaker, seed, temperature and options."""

    voice: str
    speaker: str
    seed: int
    temperature: float | None
    options: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The form stored in a system's row and in manifests, as read by ``system_voice``."""
        temperature = {} if self.temperature is None else {"temperature": self.temperature}
        return {"voice": self.voice, "speaker": self.speaker, "seed": self.seed, **temperature, **self.options}


def parse_voice_spec(text: str) -> SystemVoice:
    """Parse ``[voice:]speaker[?option=value,...]``; the voice ``teacher`` is the model that made the training data.

    Raises BadOption: the spec is malformed.
    """
    match = _SPEC.fullmatch(text)
    if match is None or not (match["voice"] or match["speaker"]):
        raise BadOption(f"{text!r:.100} is not a system", "write [voice:]speaker[?m=3,n=1], clara?m=3,n=1 for instance")
    options: dict[str, Any] = {}
    for part in filter(None, (match["options"] or "").split(",")):
        key, mark, value = part.partition("=")
        if not mark or key in options:
            raise BadOption(f"{part!r:.60} in {text!r:.100} is not an option of its own", "write name=value, each once")
        options[key] = _value(value)
    seed, temperature = options.pop("seed", 0), options.pop("temperature", None)
    return SystemVoice(match["voice"] or "", match["speaker"] or "", seed, temperature, options)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def system_voice(system: System) -> SystemVoice:
    """The voice of a system. Raises BadOption for a folder of sounds or a teacher."""
    stored: dict[str, Any] = json.loads(system.voice)
    voice, speaker = stored.get("voice") or "", stored.get("speaker") or ""
    if not (voice or speaker) or voice == TEACHER:
        raise BadOption(
            f"{system.name!r} cannot be used in a live test: it is not one of the studio's voices",
            "make a live test from --texts and --systems such as 'clara?m=3,n=1'",
        )
    options = {name: value for name, value in stored.items() if name not in _NOT_OPTIONS}
    return SystemVoice(voice, speaker, int(stored.get("seed") or 0), stored.get("temperature"), options)


def check_voices(systems: Iterable[System], rates_hz: Iterable[int]) -> None:
    """Check that every system can speak live at one sample rate, since the rate would reveal a system.

    Raises BadOption: a system is a folder of sounds or a teacher; BadFile: the voices have different sample rates.
    """
    for system in systems:
        system_voice(system)
    if len(rates := sorted(set(rates_hz))) > 1:
        raise BadFile(
            f"the voices speak at {', '.join(map(str, rates))} Hz, which a rater's browser would see",
            "compare voices of one sample rate",
        )


_COUNTED = "words "  # prefix of the help text of options that count words


def system_titles(systems: Iterable[System], cards: Sequence[Card]) -> dict[str, str]:
    """Unique titles of systems for visitors, by name; the name itself for systems without a card.

    A title names the voice if there are several, and options that differ from the default in some system.
    """
    stored = {s.name: json.loads(s.voice) for s in systems}
    voices = {name: card for name, voice in stored.items() if (card := _card_of(voice, cards)) is not None}
    several = len({card.name for card in voices.values()}) > 1
    titles = {
        name: _title(stored[name], card, _settings([stored[n] for n, c in voices.items() if c is card], card), several)
        for name, card in voices.items()
    }
    titles |= {name: f"{_capitalised(v['speaker'])}, a teacher model" for name, v in stored.items() if _is_teacher(v)}
    often = Counter(titles.values())
    return {name: t if often[t := titles.get(name, name)] < 2 else f"{t} ({name})" for name in stored}


def _title(voice: Mapping[str, Any], card: Card, options: Sequence[OptionSpec], several: bool) -> str:
    speaker = voice.get("speaker") or card.speakers_default_first[0]
    name = _capitalised(speaker)
    head = f"{name} ({card.title.partition(',')[0]})" if several else name
    return ", ".join([head, *(_option_text(option, voice.get(option.name, option.default)) for option in options)])


def _settings(voices: Sequence[Mapping[str, Any]], card: Card) -> list[OptionSpec]:
    """The options that differ from the card's default in some voice."""
    own = OptionSpec("temperature", "float", card.temperature, "temperature")
    seed = OptionSpec("seed", "int", 0, "seed")
    every = [*card.options, own, seed]
    return [o for o in every if any(voice.get(o.name, o.default) not in (o.default, None) for voice in voices)]


def _option_text(option: OptionSpec, value: Any) -> str:
    """``3 words read before speaking`` if the card's help counts words, else ``Scheme S2``."""
    if option.kind == "int" and option.help.startswith(_COUNTED):
        rest = option.help.removeprefix(_COUNTED).partition(",")[0]
        return f"{counted(value, 'word')} {rest}"
    return f"{option.label.lower()} {value}"


def _card_of(voice: Mapping[str, Any], cards: Sequence[Card]) -> Card | None:
    """The card of a system's voice; without a voice name the first card with the speaker, as in the engine."""
    if _is_teacher(voice) or not (voice.get("voice") or voice.get("speaker")):
        return None
    named = [card for card in cards if card.name == voice.get("voice")]
    return next(iter(named or [c for c in cards if not voice.get("voice") and voice["speaker"] in c.speakers]), None)


def _is_teacher(voice: Mapping[str, Any]) -> bool:
    return voice.get("voice") == TEACHER and bool(voice.get("speaker"))


def _capitalised(speaker: str) -> str:
    return speaker[:1].upper() + speaker[1:]
