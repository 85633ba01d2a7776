"""Cards: what a voice is, in one JSON file beside its weights."""

import glob
import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast
from unicodedata import category

from studio.core.errors import BadVoice
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.core.numbers import is_number
from studio.core.shipped import DEFAULT_VOICE
from studio.core.time import TimeBase

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OptionSpec:
    """One option of a family, as the page draws it and the engine checks it."""

    name: str
    kind: str  # "int" | "choice" | "float"
    default: Any
    label: str
    help: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Card:
    """A voice's card.

    Attributes:
        look_ahead_words: committed words a word must wait for, with the default options.
        config: the family's net configuration; ``vocoders`` those of its vocoders by name,
            ``vocoder`` the default one's name.
        default_speaker: who speaks where nobody is named; empty for the first. Chosen by measurement.
        options: the family's options with this voice's ranges and defaults.
        learned_from: what the voice learned from, and under which licence.
        sha256: of every weight file, by file name.
        stored_in: what the file of the net's weights keeps matrices in, bfloat16 or int8; another one is another voice.
        number_format: what the net computes in, float32 or int8; another one is another voice, with figures of its own.
    """

    name: str
    family: str
    vocoder: str
    title: str
    config: dict[str, Any]
    vocoders: dict[str, dict[str, Any]]
    alphabet: str
    sample_rate_hz: int
    frame_samples: int
    phase: int
    speakers: tuple[str, ...]
    temperature: float
    look_ahead_words: int
    delay_frames: int
    options: tuple[OptionSpec, ...]
    licence: str
    learned_from: str
    parameters: dict[str, int]
    sha256: dict[str, str]
    number_format: str = "float32"
    stored_in: str = "bfloat16"
    notes: str = ""
    default_speaker: str = ""
    figures: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def offered(self) -> tuple[str, ...]:
        """The speakers as people are to find them: the default one first. ``speakers`` is the order of the net."""
        first = self.default_speaker or self.speakers[0]
        return (first, *(name for name in self.speakers if name != first))

    @property
    def time_base(self) -> TimeBase:
        """Rate, frame length and phase."""
        return TimeBase(self.sample_rate_hz, self.frame_samples, self.phase)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "Card":
        """A card from its JSON form. Raises BadVoice when a key is missing or unknown."""
        if not isinstance(cast("Any", data), dict):
            raise BadVoice("the card is no object", "compare it with a shipped card.json")
        known = {f.name for f in fields(Card)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise BadVoice(f"the card has unknown keys: {', '.join(unknown)}", f"known are {', '.join(sorted(known))}")
        values = dict(data)
        try:
            values["options"] = tuple(_option(o) for o in data.get("options", ()))
            said = data["speakers"]  # a text would be one of a letter each
            values["speakers"] = tuple(cast("list[Any]", said)) if isinstance(said, list | tuple) else ()
            card = Card(**values)
        except (TypeError, KeyError, ValueError) as error:
            raise BadVoice(f"the card is not complete: {error}", "compare it with a shipped card.json") from error
        if card.default_speaker and card.default_speaker not in card.speakers:
            wanted = f"it is one of {', '.join(card.speakers)}"
            raise BadVoice(f"default_speaker of the card is {card.default_speaker!r:.80}", wanted)
        for name, (check, wanted) in _CHECKS.items():
            if not check(getattr(card, name)):
                value = repr(getattr(card, name))[:80]
                raise BadVoice(f"{name} of the card is {value}", f"it is {wanted}; compare it with a shipped card.json")
        return card


def _option(data: Mapping[str, Any]) -> OptionSpec:
    values: dict[str, Any] = dict(data)
    values["choices"] = tuple(data.get("choices", ()))
    return OptionSpec(**values)


Check = Callable[[Any], bool]


_TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # the direction of what follows


def _is_text(value: Any) -> bool:
    """Whether it can be shown: no half a sign, nothing that a terminal obeys or that turns what follows around."""
    return isinstance(value, str) and not any(category(sign) in ("Cc", "Cs") or sign in _TURNS for sign in value)


def _is_name(value: Any) -> bool:
    return _is_text(value) and 0 < len(value) <= 80 and not set(value) & set("/\\:")


def is_file_name(value: Any) -> bool:
    """Whether a card may name a file so, and a folder be a voice's: letters, digits, ``_``, ``-`` and dots, no path."""
    return isinstance(value, str) and re.fullmatch(r"\w[\w.-]{0,79}", value) is not None


def _are_digests(value: Any) -> bool:
    return isinstance(value, dict) and all(
        is_file_name(name) and isinstance(digest, str) and len(digest) == 64
        for name, digest in cast("dict[Any, Any]", value).items()
    )


def _is_whole(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def _is_between(low: float, high: float) -> Check:
    return lambda value: is_number(value) and low <= value <= high


def _is_object_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, cast("dict[Any, Any]", value).values()))


def _are_speakers(value: Any) -> bool:
    return 0 < len(value) == len(set(map(str, value))) and all(map(_is_name, value))


def _is_option(option: OptionSpec) -> bool:
    texts = (option.name, option.label, option.help, *option.choices)
    limits = [one for one in (option.low, option.high) if one is not None]
    if not all(map(_is_text, texts)) or not all(map(is_number, limits)):
        return False
    if option.kind == "choice":
        return option.default in option.choices
    return option.kind in ("int", "float") and is_number(option.default)


_NAME, _WHOLE = (_is_name, "a name without / and :"), "a whole number"
_CHECKS: Mapping[str, tuple[Check, str]] = {
    "name": _NAME,
    "family": _NAME,
    "vocoder": _NAME,
    "alphabet": _NAME,
    **dict.fromkeys(("title", "licence", "learned_from", "notes", "default_speaker"), (_is_text, "text")),
    "config": (_is_object_of(lambda value: True), "an object"),
    "vocoders": (_is_object_of(lambda value: isinstance(value, dict)), "an object of objects"),
    "sample_rate_hz": (_is_whole(8_000, 192_000), _WHOLE),
    "frame_samples": (_is_whole(1, 192_000), _WHOLE),
    "phase": (_is_whole(0, 192_000), _WHOLE),
    "speakers": (_are_speakers, "a list of different names"),
    "temperature": (_is_between(0.0, 2.0), "a number from 0 to 2"),
    "look_ahead_words": (_is_whole(0, 1000), _WHOLE),
    "delay_frames": (_is_whole(0, 10_000), _WHOLE),
    "options": (lambda value: all(map(_is_option, value)), "a list of options with name, kind, default and label"),
    "stored_in": (lambda value: value in ("bfloat16", "int8"), "bfloat16 or int8"),
    "parameters": (_is_object_of(_is_whole(0, 2**63 - 1)), "an object of whole numbers"),
    "sha256": (_are_digests, "an object of digests by the names of files in the voice's folder"),
    "figures": (_is_object_of(lambda value: True), "an object"),
}


def read_card(folder: Path) -> Card:
    """The card of a voice folder. Raises BadVoice when it is absent or damaged."""
    path = folder / "card.json"
    try:
        data = json.loads(read_bounded(path, MAX_SETTINGS_BYTES))
    except FileNotFoundError as error:
        raise BadVoice(
            f"there is no card.json in {folder}", "a voice is a folder of card.json and *.safetensors"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadVoice(f"{path} is not valid JSON: {error}", "restore it from the repository") from error
    except OSError as error:
        raise BadVoice(f"{path} cannot be read: {error.strerror}", "restore it from the repository") from error
    try:
        return Card.from_dict(data)
    except BadVoice as error:
        raise BadVoice(f"{path}: {error.what}", error.do) from error


def write_card(folder: Path, card: Card) -> None:
    """Write a card beside the weights it names."""
    text = json.dumps(card.to_dict(), indent=1, ensure_ascii=False)
    (folder / "card.json").write_text(text + "\n", encoding="utf-8")


def sha256_of(path: Path) -> str:
    """Hex sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def find_file(folder: Path, card: Card, name: str) -> Path | None:
    """A file that a card names, in the voice's folder, or with its digest in that of a voice beside it."""
    if (folder / name).is_file():
        return folder / name
    digest = card.sha256.get(name)
    beside = (path for path in sorted(folder.parent.glob(f"*/{glob.escape(name)}")) if path.is_file())
    return next((path for path in beside if sha256_of(path) == digest), None)


def read_cards(root: Path) -> dict[str, tuple[Card, Path]]:
    """Cards and folders under ``root`` by name: the studio's default voice first, the others in the order of names.

    A damaged card is left out, and the log says why: the other voices speak.

    Raises:
        BadVoice: there is none, or none that is whole.
    """
    found: dict[str, tuple[Card, Path]] = {}
    damaged: list[BadVoice] = []
    for path in sorted(root.glob("*/card.json"), key=lambda path: (path.parent.name != DEFAULT_VOICE, path)):
        try:
            card = _named_as_its_folder(path.parent)
        except BadVoice as error:
            damaged.append(error)
        else:
            found[card.name] = (card, path.parent)
    if not found and damaged:
        raise damaged[0]
    if not found:
        raise BadVoice(f"there are no voices in {root}", "point --voices at a folder such as assets/voices")
    for error in damaged:
        log.warning("left out: %s", error)
    return found


def _named_as_its_folder(folder: Path) -> Card:
    card = read_card(folder)
    if card.name != folder.name:
        raise BadVoice(
            f"the card in {folder} is of a voice {card.name!r}",
            f"call the folder {card.name}, or write the folder's name into card.json",
        )
    return card


def parse_voice(address: str, cards: Mapping[str, Card]) -> tuple[Card, str]:
    """The card and speaker of ``name[:speaker]``; empty means the first card and its default speaker.

    Raises:
        BadVoice: no such voice or speaker.
    """
    if not cards:
        raise BadVoice("there are no voices", "assets/voices holds the shipped ones; point --voices at it")
    name, _, speaker = address.partition(":")
    card = cards.get(name) if name else next(iter(cards.values()))
    if card is None:
        raise BadVoice(f"there is no voice {name!r}", f"there are {', '.join(cards)}")
    if speaker and speaker not in card.speakers:
        raise BadVoice(f"voice {card.name!r} has no speaker {speaker!r}", f"it has {', '.join(card.speakers)}")
    return card, speaker or card.offered[0]


def voice_address(voice: str, speaker: str, cards: Sequence[Card]) -> str:
    """``name:speaker`` of a description that may leave the voice out, or name nothing but it."""
    if voice:
        return f"{voice}:{speaker}" if speaker else voice
    by_speaker = next((card.name for card in cards if speaker in card.speakers), None)
    return f"{by_speaker}:{speaker}" if by_speaker else speaker
