"""Cards: the JSON file next to a voice's weights that describes the voice."""

import glob
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from studio.core.checks import (
    OBJECT,
    PRINTABLE,
    Rule,
    check_keys,
    check_values,
    escape_unprintable,
    is_file_name,
    is_printable,
    list_of,
    number,
    object_of,
    one_of,
    whole,
)
from studio.core.errors import BadVoice
from studio.core.files import MAX_SETTINGS_BYTES, open_unbuffered, read_bounded
from studio.core.folders import DEFAULT_VOICE
from studio.core.options import OptionSpec
from studio.core.time import TimeBase

log = logging.getLogger(__name__)

MAX_WEIGHTS_BYTES = 1 << 32  # of one file: two thousand million bfloat16 numbers


_MAX_DEPTH = 16  # of nested lists and objects: the JSON encoder recurses
_MAX_FILES = 64
_NAME = Rule(
    lambda value: is_printable(value) and 0 < len(value) <= 80 and not set(value) & set("/\\:"),
    "a name without / and :",
)
_NAMES = list_of(_NAME, fewest=1)
_DIGEST = Rule(lambda value: isinstance(value, str) and len(value) == 64, "a digest")
_RULES = {
    **dict.fromkeys(("name", "family", "vocoder", "alphabet", "number_format"), _NAME),
    **dict.fromkeys(("title", "about", "licence", "learned_from", "notes", "default_speaker"), PRINTABLE),
    **dict.fromkeys(("config", "figures"), OBJECT),
    "vocoders": object_of(_NAME.fits, OBJECT, "an object of objects by the names of vocoders", _MAX_FILES),
    "sample_rate_hz": whole(8_000, 192_000),
    "frame_samples": whole(1, 192_000),
    "phase": whole(0, 192_000),
    "speakers": Rule(lambda value: _NAMES.fits(value) and len(value) == len(set(value)), "a list of different names"),
    "temperature": number(0, 2),
    "look_ahead_words": whole(0, 1_000),
    "delay_frames": whole(0, 10_000),
    "options": list_of(OBJECT),
    "stored_in": one_of(("bfloat16", "int8")),
    "parameters": object_of(_NAME.fits, whole(0), "an object of whole numbers by names", _MAX_FILES),
    "sha256": object_of(
        is_file_name,
        _DIGEST,
        f"an object of up to {_MAX_FILES} digests by the names of files in the voice's folder",
        _MAX_FILES,
    ),
}


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
        about: one sentence for people who choose a voice: what it is good at.
        figures: measured with these weights (``studio bench card-figures``).
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
    about: str = ""
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
        check_keys(Card, data, "the card", BadVoice)
        if not _is_shallow(data, _MAX_DEPTH):
            raise BadVoice(f"lists and objects of the card are nested more than {_MAX_DEPTH} deep", "flatten them")
        check_values(data, _RULES, "{} of the card is", BadVoice)
        speaker, speakers = data.get("default_speaker"), data["speakers"]
        if speaker and speaker not in speakers:
            raise BadVoice(f"default_speaker of the card is {speaker!r:.80}", f"it is one of {', '.join(speakers)}")
        options = tuple(map(OptionSpec.from_dict, data["options"]))
        values: dict[str, Any] = {**data, "options": options, "speakers": tuple(speakers)}
        return Card(**values)


def _is_shallow(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list | tuple):
        return True
    parts = cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    return levels > 0 and all(_is_shallow(part, levels - 1) for part in parts)


def read_card(folder: Path) -> Card:
    """The card of a voice folder. Raises BadVoice: it is missing or damaged."""
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


def has_files(card: Card, digests: object) -> bool:
    """Whether a card's files match those that something was made with: ``digests`` is sha256 by file name.

    A file of the card that is not among them, such as a later one for word times, adds nothing to the sound.
    """
    if not isinstance(digests, Mapping):
        return False
    files = cast("Mapping[str, Any]", digests)
    return all(card.sha256.get(name) == digest for name, digest in files.items())


def write_card(folder: Path, card: Card) -> None:
    text = json.dumps(card.to_dict(), indent=1, ensure_ascii=False)
    (folder / "card.json").write_text(text + "\n", encoding="utf-8")


def sha256_of(path: Path) -> str:
    """Hex sha256 of a file."""
    digest = hashlib.sha256()
    with open_unbuffered(path) as file:
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
