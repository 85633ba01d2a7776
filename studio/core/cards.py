"""Cards: what a voice is, in one JSON file beside its weights."""

import glob
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from studio.core.card_checks import check_keys, check_option, check_values
from studio.core.errors import BadVoice
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.core.printable import escaped
from studio.core.shipped import DEFAULT_VOICE
from studio.core.time import TimeBase

log = logging.getLogger(__name__)

MOST_WEIGHTS_BYTES = 1 << 32  # of one file: two thousand million numbers in bfloat16


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
        """A card from its JSON form. Raises BadVoice when a key is missing or unknown, or a value cannot be."""
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


def beside(folder: Path, name: str, digest: str) -> Iterator[Path]:
    """Files of a name in the folders of other voices whose cards give them this digest; nothing is hashed.

    What no card names is no voice's, and could be of any size.
    """
    for path in sorted(folder.parent.glob(f"*/{glob.escape(name)}")):
        if path.parent == folder or not path.is_file() or path.stat().st_size > MOST_WEIGHTS_BYTES:
            continue
        try:
            named = read_card(path.parent).sha256.get(name)
        except BadVoice:
            continue
        if named == digest:
            yield path


def find_file(folder: Path, card: Card, name: str) -> Path | None:
    """A file that a card names, in the voice's folder, or with its digest in that of a voice beside it."""
    if (folder / name).is_file():
        return folder / name
    digest = card.sha256.get(name, "")
    return next((path for path in beside(folder, name, digest) if sha256_of(path) == digest), None)


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
        log.warning("left out: %s", escaped(str(error)))
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
