"""Source of a pulled voice: ``hub.json`` next to its card, with the sha256 of each of its files.

The weights are verified against the card whenever they are loaded, and the card and every other file against this
record, so that a voice that was changed on disk does not load.
"""

import json
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from studio.core.cards import Card, read_cards, sha256_of
from studio.core.checks import PRINTABLE, Rule, check_keys, check_values, is_file_name, object_of
from studio.core.errors import BadOption, BadVoice
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.core.folders import VOICES, pulled_voices_folder

log = logging.getLogger(__name__)

RECORD = "hub.json"
_DIGEST = Rule(lambda value: isinstance(value, str) and len(value) == 64, "a digest")
_MAX_FILES = 10_000
_RULES = {
    **dict.fromkeys(("repo", "revision", "endpoint", "licence", "pulled_at"), PRINTABLE),
    "files": object_of(is_file_name, _DIGEST, "an object of digests by the names of files", _MAX_FILES),
}
_PULL_AGAIN = "remove it and pull it again: studio voices remove {name}, studio voices pull {repo}@{revision}"


@dataclass(frozen=True)
class Source:
    """Source of a pulled voice.

    Attributes:
        repo: repository on the hub, as owner/name.
        revision: hex sha of the commit.
        endpoint: address of the hub.
        licence: as the repository states it; empty if it states none. The card has the voice's own.
        pulled_at: UTC, ISO 8601.
        files: sha256 by file name, without ``hub.json``.
    """

    repo: str
    revision: str
    endpoint: str
    licence: str
    pulled_at: str
    files: Mapping[str, str]

    @property
    def address(self) -> str:
        """``owner/name@revision``, the revision in 12 digits."""
        return f"{self.repo}@{self.revision[:12]}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def read_source(folder: Path) -> Source | None:
    """The source of a voice folder; None for a voice that was not pulled. Raises BadVoice: the record is damaged."""
    path = folder / RECORD
    if not path.is_file():
        return None
    try:
        data: Any = json.loads(read_bounded(path, MAX_SETTINGS_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise BadVoice(f"{path} cannot be read: {error!s:.200}", f"studio voices remove {folder.name}") from error
    check_keys(Source, data, str(path), BadVoice)
    check_values(data, _RULES, f"{{}} in {path} is", BadVoice)
    return Source(**data)


def check_pulled(folder: Path, but: Collection[str] = ()) -> None:
    """Verify the files of a pulled voice against its record; a voice that was not pulled passes.

    Args:
        but: names of files that the caller verifies: weights, against the card that is verified here.

    Raises:
        BadVoice: a file is missing or was changed.
    """
    if source := read_source(folder):
        for name in source.files.keys() - but:
            check_file(folder, name, source)


def check_file(folder: Path, name: str, source: Source) -> None:
    """Raises BadVoice if a file of a pulled voice is missing, unreadable or was changed."""
    path = folder / name
    try:
        problem = "" if sha256_of(path) == source.files[name] else "was changed after it was pulled: the sha256 differs"
    except FileNotFoundError:
        problem = "is missing"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    if problem:
        do = _PULL_AGAIN.format(name=folder.name, repo=source.repo, revision=source.revision)
        raise BadVoice(f"{path} {problem}", do)


def find_cards(voices: Path) -> dict[str, tuple[Card, Path]]:
    """Cards and folders as ``read_cards``; then those of pulled voices if ``voices`` is the shipped folder.

    ``about`` of a pulled voice's card ends with its source and licence. A shipped voice hides a pulled one of the same
    name. Raises BadVoice as ``read_cards``.
    """
    cards = read_cards(voices)
    if voices.absolute() != VOICES:
        return cards
    pulled: dict[str, tuple[Card, Path]] = {}
    with suppress(BadOption, BadVoice):  # no home folder, or no pulled voice
        pulled = read_cards(pulled_voices_folder())
    for name, (card, folder) in pulled.items():
        if name in cards:
            log.warning("left out: the pulled voice %s has the name of a shipped one", name)
        else:
            cards[name] = (_with_source(card, folder), folder)
    return cards


def _with_source(card: Card, folder: Path) -> Card:
    try:
        source = read_source(folder)
    except BadVoice:  # loading it reports the error
        return card
    if source is None:
        return card
    return replace(card, about=f"{card.about} From {source.repo}, {card.licence}.".strip())
