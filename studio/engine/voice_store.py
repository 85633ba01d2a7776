"""The voices of an engine and their added speakers."""

import hashlib
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from studio.core.cards import Card
from studio.core.checks import escape_unprintable
from studio.core.errors import BadVoice
from studio.core.files import read_bounded
from studio.core.speakers import MAX_TENSORS_BYTES, AddedSpeaker, SpeakerStore
from studio.engine.families.base import SupportsReferences
from studio.engine.voices import Voice, damaged_speaker

_log = logging.getLogger(__name__)


class VoiceStore:
    """The voices of an engine, each loaded once, at its first use.

    Attributes:
        voices: cards and folders by name, the default voice first.
        cards: by name, with the added speakers.
        speakers: the added ones.
    """

    def __init__(
        self,
        voices: Mapping[str, tuple[Card, Path]],
        load: Callable[[Card, Path], Voice],
        speakers: SpeakerStore | None = None,
    ) -> None:
        self.voices = dict(voices)
        self.cards = {name: card for name, (card, _) in voices.items()}
        self.load, self.speakers = load, speakers or SpeakerStore(None)
        self._loaded: dict[str, Voice | BadVoice] = {}
        self._loading, self._adding = threading.Lock(), threading.Lock()
        self._read: Mapping[str, AddedSpeaker] = {}
        self._numbers: dict[tuple[str, str], int | None] = {}  # by voice and the token of an added speaker
        self.refresh()

    def refresh(self) -> None:
        """Reread the store and update ``cards`` if it has changed."""
        current = self.speakers.read()
        if current is not self._read:
            with self._adding:
                self._read = current
                for name in [*self.cards]:
                    self.cards[name] = self.speakers.extended(self.voices[name][0])

    def current_cards(self) -> dict[str, Card]:
        """``cards`` with the current speakers."""
        self.refresh()
        return self.cards

    def speaker(self, voice: Voice, name: str) -> tuple[int, AddedSpeaker | None]:
        """The family's number of a speaker, and the record of an added one. Raises BadVoice: removed or damaged.

        Both belong to the same speaker, even if another process adds or removes speakers meanwhile.
        """
        if name in voice.card.speakers:
            return voice.number_of(name), None
        number, one = self._add_speakers(voice).get(name, (None, None))
        if one is None:
            raise BadVoice(f"the speaker {name!r} was removed from voice {voice.card.name!r}", "choose another one")
        if number is None:
            raise damaged_speaker(name)
        return number, one

    def is_loaded(self, name: str) -> bool:
        """Whether a voice was loaded, or failed to load."""
        return name in self._loaded

    def get(self, name: str) -> Voice:
        """Load a voice, once. Raises BadVoice; a failed load is not retried."""
        if name not in self._loaded:  # checked without the lock: a loaded voice does not wait for one being loaded
            with self._loading:
                if name not in self._loaded:
                    try:
                        self._loaded[name] = self.load(*self.voices[name])
                    except BadVoice as error:
                        self._loaded[name] = error
        loaded = self._loaded[name]
        if isinstance(loaded, BadVoice):
            raise BadVoice(loaded.what, loaded.do)  # a new one: the traceback of a reraised error grows each time
        if self.cards[name].speakers != loaded.card.speakers:
            self._add_speakers(loaded)
        return loaded

    def _add_speakers(self, voice: Voice) -> dict[str, tuple[int | None, AddedSpeaker]]:
        """Register new speakers with a loaded voice; returns all added ones with their numbers, by name.

        Damaged ones are logged, and have no number.
        """
        name = voice.card.name
        with self._adding:
            for token, one in self._read.items():
                if one.voice != name or (name, token) in self._numbers:
                    continue
                self._numbers[name, token] = number = self._add_speaker(voice, token, one)
                if number is None:
                    voice.added.pop(one.name, None)
                else:
                    voice.added[one.name] = number
            added = [(token, one) for token, one in self._read.items() if one.voice == name]
            return {one.name: (self._numbers[name, token], one) for token, one in added}

    def _add_speaker(self, voice: Voice, token: str, one: AddedSpeaker) -> int | None:
        """The family's number of an added speaker; None for a damaged one."""
        try:
            if not isinstance(voice.family, SupportsReferences):
                raise BadVoice(f"speakers cannot be added to voice {one.voice!r}", "remove the speaker")
            return voice.family.add_reference(read_tensors(self.speakers.tensors(token), one.tensors_sha256))
        except BadVoice as error:
            _log.warning("%s:%s cannot speak: %s", one.voice, escape_unprintable(one.name), error)
            return None

    def load_first(self) -> None:
        """Load the first voice that can be loaded; drop and log those before it. Raises BadVoice: none can."""
        damaged: dict[str, BadVoice] = {}
        for name in self.cards:
            try:
                self.get(name)
                break
            except BadVoice as error:
                damaged[name] = error
        else:
            raise next(iter(damaged.values()))
        for name, error in damaged.items():
            del self.cards[name]
            _log.warning("left out: %s", escape_unprintable(str(error)))


def read_tensors(path: Path, digest: str) -> dict[str, np.ndarray]:
    """The tensors of an added speaker. Raises BadVoice."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        data = read_bounded(path, MAX_TENSORS_BYTES)
        if hashlib.sha256(data).hexdigest() == digest:
            return load(data)
        problem = "the sha256 differs"
    except (OSError, SafetensorError, ValueError) as error:
        problem = str(error)[:200]
    raise BadVoice(f"{path} is damaged: {problem}", "remove the speaker, and add it again")
