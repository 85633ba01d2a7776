"""A data folder with everything that a backup has to hold."""

import signal
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from durability.write_paths import LAYER, recording
from mos.world import ACR, World
from sqlmodel import select

from studio.annotation.edits import AnnotationEdit, PutMark
from studio.annotation.layers import AnnotationMark
from studio.library.index import Query
from studio.library.library import Library
from studio.mos.service import open_listening_tests
from studio.mos.stimuli.editing import new_draft
from studio.mos.store.tables import Answer, Campaign, Score, Trial
from studio.serve.mos.draft_audio import DraftSounds
from studio.text.lexicon_book import LexiconBook


class Site:
    """A data folder with everything in it, and a client that keeps saving."""

    def __init__(self, data: Path, database: str = "") -> None:
        self.data, self.database = data, database
        self.listening = open_listening_tests(database, data)
        self.token = self.listening.access.first_token
        self.world = World(self.listening.store, data / "clips")
        self.world.listening = self.listening
        self.world.campaign(replace(ACR, raters_per_stimulus=1000))
        self.library = Library(data / "library")
        self.utterance = self.library.add(recording(0), "Text 0")
        self.library.annotate(self.utterance, "a", AnnotationEdit("e", (LAYER,), at=1.0))
        new_draft(self.listening, "d", "incremental-mos")
        DraftSounds(self.listening).store("d", "system", "item.wav", recording(1, frames=22))
        self.lexicon = LexiconBook(data / "lexicon.txt")
        self.saved: set[str] = set()

    def save(self, number: int) -> None:
        """Save an answer, an edit, an utterance and a word of the lexicon, each acknowledged."""
        rater = self.world.join(f"P{number}")
        shown = rater.to_trials()
        rater.answer(shown)
        self.saved.add(shown["trial"]["trial"])
        mark = PutMark("l1", AnnotationMark(number, number + 1, id=f"m{number}"))
        self.library.annotate(self.utterance, "a", AnnotationEdit(f"e{number}", (mark,), at=1.0))
        self.saved.add(f"m{number}")
        self.saved.add(self.library.add(recording(number + 1), f"Text {number + 1}").sha256)
        self.lexicon.add(f"word{number}", "one")
        self.saved.add(f"word{number}")

    def close(self) -> None:
        self.library.close()
        self.listening.close()


def found_in(data: Path, database: str = "") -> set[str]:
    """Everything that a new server reads in a data folder; raises on unreadable data."""
    with closing(open_listening_tests(database, data)) as listening, closing(Library(data / "library")) as library:
        with listening.store.read() as session:
            found = {*session.exec(select(Trial.id).join(Answer))}
            assert len(session.exec(select(Score)).all()) == len(found)
            assert set(session.exec(select(Campaign.name))) == {"first", "d"}
        for path in listening.clips.root.glob("*/*.wav"):
            listening.clips.read(path.stem)
        entries = library.find(Query(limit=1000))[0]
        assert all(library.read(entry) for entry in entries)
        (utterance,) = [entry for entry in entries if entry.text == "Text 0"]
        marks = {mark for layer in library.document(utterance, "a").layers.values() for mark in layer.marks}
        assert (data / "uploads/d/system/item.wav").read_bytes() == recording(1, frames=22)
        return found | marks | {entry.sha256 for entry in entries} | {*LexiconBook(data / "lexicon.txt").entries()}


def default_signals() -> None:
    """preexec function: restore signal handlers, some of which are ignored if tests run in the background."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
