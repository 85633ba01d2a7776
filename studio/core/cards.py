"""Cards: what a voice is, in one JSON file beside its weights."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from studio.core.errors import BadVoice
from studio.core.time import TimeBase


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
        options: the family's options with this voice's ranges and defaults.
        learned_from: what the voice learned from, and under which licence.
        sha256: of every weight file, by file name.
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
    notes: str = ""
    figures: dict[str, Any] = field(default_factory=dict[str, Any])

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
        known = {f.name for f in fields(Card)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise BadVoice(f"the card has unknown keys: {', '.join(unknown)}", f"known are {', '.join(sorted(known))}")
        values = dict(data)
        try:
            values["options"] = tuple(_option(o) for o in data.get("options", ()))
            values["speakers"] = tuple(data["speakers"])
            return Card(**values)
        except (TypeError, KeyError) as error:
            raise BadVoice(f"the card is not complete: {error}", "compare it with a shipped card.json") from error


def _option(data: Mapping[str, Any]) -> OptionSpec:
    values: dict[str, Any] = dict(data)
    values["choices"] = tuple(data.get("choices", ()))
    return OptionSpec(**values)


def read_card(folder: Path) -> Card:
    """The card of a voice folder. Raises BadVoice when it is absent or damaged."""
    path = folder / "card.json"
    try:
        return Card.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise BadVoice(
            f"there is no card.json in {folder}", "a voice is a folder of card.json and *.safetensors"
        ) from error
    except ValueError as error:
        raise BadVoice(f"{path} is not valid JSON: {error}", "restore it from the repository") from error


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


def read_cards(root: Path) -> dict[str, tuple[Card, Path]]:
    """Cards and folders under ``root`` by voice name, in the order of the names.

    Raises:
        BadVoice: there is none, one is damaged, or one names another voice than its folder does.
    """
    found: dict[str, tuple[Card, Path]] = {}
    for path in sorted(root.glob("*/card.json")):
        folder, card = path.parent, read_card(path.parent)
        if card.name != folder.name:
            raise BadVoice(
                f"the card in {folder} is of a voice {card.name!r}",
                f"call the folder {card.name}, or write the folder's name into card.json",
            )
        found[card.name] = (card, folder)
    if not found:
        raise BadVoice(f"there are no voices in {root}", "point --voices at a folder such as assets/voices")
    return found


def parse_voice(address: str, cards: Mapping[str, Card]) -> tuple[Card, str]:
    """The card and speaker of ``name[:speaker]``; empty means the first card and its first speaker.

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
    return card, speaker or card.speakers[0]


def voice_address(voice: str, speaker: str, cards: Sequence[Card]) -> str:
    """``name:speaker`` of a description that may leave the voice out, or name nothing but it."""
    if voice:
        return f"{voice}:{speaker}" if speaker else voice
    by_speaker = next((card.name for card in cards if speaker in card.speakers), None)
    return f"{by_speaker}:{speaker}" if by_speaker else speaker
