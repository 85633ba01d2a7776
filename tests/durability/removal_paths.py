"""Added speakers, and write paths that remove: what is removed once acknowledged must not come back."""

from abc import abstractmethod
from contextlib import closing
from pathlib import Path

from durability.database_paths import Answers
from durability.write_paths import WritePath, recording
from sqlmodel import select

from studio.core import speakers
from studio.core.errors import BadOption, BadVoice
from studio.core.speakers import AddedSpeaker, SpeakerStore
from studio.library.index import Query
from studio.library.library import Library
from studio.mos.sessions.erasure import erase_rater
from studio.mos.store.tables import Rater
from studio.systems.settings import change_systems, check_system, read_systems
from studio.text.lexicon_book import LexiconBook

ITEMS = 1_000  # more than a sweep removes, except one of every byte


def add_speaker(root: Path, name: str, number: int) -> None:
    speakers.MAX_SPEAKERS = 10_000
    times = dict.fromkeys(("added_at", "consent_at"), "2026-11-30T00:00:00Z")
    record = AddedSpeaker("wren", name, "Hello.", 5.0, consent="yes", consent_by="me", **times,
                          recording_sha256="0" * 64, tensors_sha256="1" * 64)  # fmt: skip
    SpeakerStore(root / "speakers").add(record, b"tensors", recording(number))


class Speakers(WritePath):
    """Added speakers: a folder of record, tensors and recording."""

    is_locked = False

    def save(self, number: int) -> str:
        add_speaker(self.root, f"s{number}", number)
        return f"s{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        store = SpeakerStore(root / "speakers")
        found = store.read()
        for token in found:
            names = {path.name for path in store.tensors(token).parent.iterdir()}
            assert names == {"speaker.json", "reference.safetensors", "recording.wav"}, names
        assert len(found) == len(list((root / "speakers").glob("[!.]*"))), "a speaker that is not whole has a name"
        return {one.name for one in found.values()}


class _Removals(WritePath):
    """Items are stored by ``prepare`` and removed by ``save``; ``read`` names those that are gone."""

    def prepare(self, number: int) -> None:
        self.add(f"r{number}", number)

    def save(self, number: int) -> str:
        try:
            self.remove(f"r{number}")
        except (BadOption, BadVoice):  # a refused removal may have removed it
            assert f"r{number}" not in self.present(self.root)
        return f"r{number}"

    @abstractmethod
    def add(self, name: str, number: int) -> None: ...

    @abstractmethod
    def remove(self, name: str) -> None: ...

    @classmethod
    @abstractmethod
    def present(cls, root: Path) -> set[str]: ...

    @classmethod
    def read(cls, root: Path) -> set[str]:
        return {f"r{number}" for number in range(ITEMS)} - cls.present(root)


class SpeakerRemovals(_Removals):
    """Added speakers whose consent is withdrawn."""

    is_locked = False

    def add(self, name: str, number: int) -> None:
        add_speaker(self.root, name, number)

    def remove(self, name: str) -> None:
        SpeakerStore(self.root / "speakers").remove("wren", name)

    @classmethod
    def present(cls, root: Path) -> set[str]:
        return Speakers.read(root)


class LexiconRemovals(_Removals):
    """Words that leave the owner's lexicon."""

    def add(self, name: str, number: int) -> None:
        LexiconBook(self.root / "lexicon.txt").add(name, "one")

    def remove(self, name: str) -> None:
        LexiconBook(self.root / "lexicon.txt").remove(name)

    @classmethod
    def present(cls, root: Path) -> set[str]:
        return set(LexiconBook(root / "lexicon.txt").entries())


class SystemRemovals(_Removals):
    """Systems that the owner removes."""

    def add(self, name: str, number: int) -> None:
        system = check_system("x", {"kind": "command", "command": "cat"})
        change_systems(self.root / "systems.toml", lambda there: there.update({name: system}))

    def remove(self, name: str) -> None:
        change_systems(self.root / "systems.toml", lambda there: there.pop(name, None))

    @classmethod
    def present(cls, root: Path) -> set[str]:
        return set(read_systems(root / "systems.toml"))


class LibraryRemovals(_Removals):
    """Utterances that the owner removes from the library."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.library = Library(root / "library")

    def close(self) -> None:
        self.library.close()

    def add(self, name: str, number: int) -> None:
        self.library.add(recording(number), name, name)

    def remove(self, name: str) -> None:
        for entry in self.library.find(Query(limit=1000))[0]:
            if entry.text == name:
                self.library.remove(entry)

    @classmethod
    def present(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            return {entry.text for entry in library.find(Query(limit=1000))[0]}


class Erasures(Answers):
    """Raters who are erased with all their answers."""

    def save(self, number: int) -> str:
        listening = self.listening
        with listening.store.read() as session:
            names = [one.pseudonym for one in session.exec(select(Rater)) if one.id == self.rater_id]
        for name in names:
            erase_rater(listening.store, listening.clips, listening.access, "first", name)
        return str(self.rater_id)

    def prepare(self, number: int) -> None:
        super().prepare(number)
        with self.listening.store.read() as session:
            self.rater_id = max(one.id or 0 for one in session.exec(select(Rater)))

    @classmethod
    def read(cls, root: Path) -> set[str]:
        return {str(number) for number in range(ITEMS)} - cls.names(root, select(Rater.id))


REMOVAL_PATHS: tuple[type[WritePath], ...] = (
    Speakers, SpeakerRemovals, LexiconRemovals, SystemRemovals, LibraryRemovals, Erasures,
)  # fmt: skip
