"""Cards: a JSON file beside a voice's weights that describes the voice."""

import glob
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from studio.core.card_checks import check_keys, check_option, check_values
from studio.core.checks import escape_unprintable
from studio.core.errors import BadVoice
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.core.folders import DEFAULT_VOICE
from studio.core.time import TimeBase

log = logging.getLogger(__name__)

MAX_WEIGHTS_BYTES = 1 << 32  # of one file: two thousand million bfloat16 numbers


@dataclass(frozen=True)
class OptionSpec:
    """One option of a family, drawn by the page and checked by the engine."""

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
        look_ahead_words: committed words after a word that are needed to speak it, with the default options.
        config: the family's net configuration; ``vocoders`` has those of the vocoders by name, ``vocoder`` names the
            default one.
        default_speaker: empty for the first of ``speakers``. Chosen by measurement.
        options: the family's options with this voice's ranges and defaults.
        learned_from: training data and licence.
        sha256: of every weight file, by file name.
        stored_in: storage format of the weight matrices, bfloat16 or int8.
        number_format: format in which the net computes, float32 or int8.
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
    def speakers_default_first(self) -> tuple[str, ...]:
        """Speakers in display order; ``speakers`` is the order of the net's embedding."""
        first = self.default_speaker or self.speakers[0]
        return (first, *(name for name in self.speakers if name != first))

    @property
    def time_base(self) -> TimeBase:
        return TimeBase(self.sample_rate_hz, self.frame_samples, self.phase)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "Card":
        """A card from its JSON form. Raises BadVoice for missing or unknown keys and invalid values."""
        check_keys("the card", data, Card)
        check_values(data)
        values: dict[str, Any] = dict(data)
        values["options"] = tuple(map(_option, data["options"]))
        values["speakers"] = tuple(data["speakers"])
        return Card(**values)


def _option(data: Mapping[str, Any]) -> OptionSpec:
    check_keys("an option of the card", data, OptionSpec)
    check_option(data)
    values: dict[str, Any] = {**data, "choices": tuple(data.get("choices", ()))}
    return OptionSpec(**values)


def read_card(folder: Path) -> Card:
    """The card of a voice folder. Raises BadVoice where it is missing or damaged."""
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
    text = json.dumps(card.to_dict(), indent=1, ensure_ascii=False)
    (folder / "card.json").write_text(text + "\n", encoding="utf-8")


def sha256_of(path: Path) -> str:
    """Hex sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def find_copies(folder: Path, name: str, digest: str) -> Iterator[Path]:
    """Files of this name in the folders of other voices whose cards list this digest; nothing is hashed."""
    for path in sorted(folder.parent.glob(f"*/{glob.escape(name)}")):
        if path.parent == folder or not path.is_file() or path.stat().st_size > MAX_WEIGHTS_BYTES:
            continue
        try:
            listed = read_card(path.parent).sha256.get(name)
        except BadVoice:
            continue
        if listed == digest:
            yield path


def find_file(folder: Path, card: Card, name: str) -> Path | None:
    """A file that a card names: in the voice's folder, or one with the same digest in another voice's folder."""
    if (folder / name).is_file():
        return folder / name
    digest = card.sha256.get(name, "")
    return next((path for path in find_copies(folder, name, digest) if sha256_of(path) == digest), None)


def read_cards(root: Path) -> dict[str, tuple[Card, Path]]:
    """Cards and folders under ``root`` by name, the default voice first, then by name. Damaged cards are logged.

    Raises:
        BadVoice: there is no valid card.
    """
    cards: dict[str, tuple[Card, Path]] = {}
    damaged: list[BadVoice] = []
    for path in sorted(root.glob("*/card.json"), key=lambda path: (path.parent.name != DEFAULT_VOICE, path)):
        try:
            card = _read_named_card(path.parent)
        except BadVoice as error:
            damaged.append(error)
        else:
            cards[card.name] = (card, path.parent)
    if not cards and damaged:
        raise damaged[0]
    if not cards:
        raise BadVoice(f"there are no voices in {root}", "point --voices at a folder such as assets/voices")
    for error in damaged:
        log.warning("left out: %s", escape_unprintable(str(error)))
    return cards


def _read_named_card(folder: Path) -> Card:
    """The card of a folder of the same name. Raises BadVoice."""
    card = read_card(folder)
    if card.name != folder.name:
        raise BadVoice(
            f"the card in {folder} is of a voice {card.name!r}",
            f"rename the folder to {card.name}, or write the folder's name into card.json",
        )
    return card


def parse_voice(address: str, cards: Mapping[str, Card]) -> tuple[Card, str]:
    """The card and speaker of ``name[:speaker]``; empty means the first card and its default speaker.

    Raises:
        BadVoice: there is no such voice or speaker.
    """
    if not cards:
        raise BadVoice("there are no voices", "assets/voices holds the shipped ones; point --voices at it")
    name, _, speaker = address.partition(":")
    card = cards.get(name) if name else next(iter(cards.values()))
    if card is None:
        raise BadVoice(f"there is no voice {name!r}", f"there are {', '.join(cards)}")
    if speaker and speaker not in card.speakers:
        raise BadVoice(f"voice {card.name!r} has no speaker {speaker!r}", f"it has {', '.join(card.speakers)}")
    return card, speaker or card.speakers_default_first[0]


def voice_address(voice: str, speaker: str, cards: Sequence[Card]) -> str:
    """``name:speaker`` of a voice or a speaker alone, or of both."""
    if voice:
        return f"{voice}:{speaker}" if speaker else voice
    by_speaker = next((card.name for card in cards if speaker in card.speakers), None)
    return f"{by_speaker}:{speaker}" if by_speaker else speaker
