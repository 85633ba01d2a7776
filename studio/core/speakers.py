"""Speakers that users add to a voice from a recording, with the consent that was given for it.

A speaker is a folder of two files: ``speaker.json``, and the tensors that the voice's family made of the recording. The
recording itself is stored on request only. Every process that opens voices rereads the store when it changes.
"""

import json
import logging
import re
import secrets
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from studio.core import durable
from studio.core.cards import Card
from studio.core.checks import (
    PRINTABLE,
    Rule,
    check_keys,
    check_values,
    escape_unprintable,
    is_printable,
    number,
    to_printable,
)
from studio.core.errors import BadOption, BadVoice, NotStored, StudioError, not_stored
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.core.folders import SPEAKERS_VARIABLE

log = logging.getLogger(__name__)

RECORD, TENSORS = "speaker.json", "reference.safetensors"
REFERENCE = "speaker_reference"  # key of a trace's meta: the consent for an added speaker
MIN_SPEECH_S, MAX_SPEECH_S = 3.0, 10.0
MAX_SPEAKERS = 64  # of all voices: each is a name in every list of voices
MAX_NAME_CHARS, MAX_TEXT_CHARS, MAX_CONSENT_CHARS = 40, 500, 200
MAX_TENSORS_BYTES = 4_000_000
SENTENCE = "The rain has stopped, and the birds are singing in the old garden again this morning."  # to be read aloud
CONSENT = (
    "The speaker has agreed that speech in this voice is made from this recording, and that it is marked as synthetic"
)
LIMITS = (
    "Expect a voice that resembles the recording, not one that passes for the speaker. finch was measured with two "
    "speakers that it was not trained on: a speaker recogniser assigned 1 of 20 sentences to the right speaker."
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_REMOVED = ".removed"
_HIDDEN = re.compile(r"\.[0-9a-f]{16}(\.removed)?")  # folders of speakers that are being stored or removed
_ABANDONED_S = 3600.0
_SUFFIXES = {b"RIFF": "wav", b"RF64": "wav", b"fLaC": "flac", b"OggS": "ogg", b"FORM": "aiff"}  # by a file's beginning
_NAME = Rule(
    lambda value: is_printable(value) and 0 < len(value) <= MAX_NAME_CHARS and not set(value) & set("/\\:,?"),
    f"a name of up to {MAX_NAME_CHARS} characters without / \\ : , and ?",
)
_DIGEST = Rule(lambda value: isinstance(value, str) and len(value) == 64, "a digest")
_RULES = {
    "voice": PRINTABLE,
    "name": _NAME,
    **dict.fromkeys(("text", "added_at", "consent", "consent_by", "consent_at"), PRINTABLE),
    "length_s": number(0, 60),
    **dict.fromkeys(("recording_sha256", "tensors_sha256"), _DIGEST),
}


class NoConsent(StudioError, code="no_consent"):
    """A recording was given without the speaker's consent."""


class BadRecording(StudioError, code="bad_recording"):
    """A recording is unusable as a speaker's reference: too short, too quiet, clipped, noisy, no speech."""


@dataclass(frozen=True)
class AddedSpeaker:
    """A speaker of a voice that a user added.

    Attributes:
        text: what the recording says.
        length_s: of the speech that is used.
        added_at, consent_at: UTC, ISO 8601.
        consent: the sentence that was agreed to; ``consent_by`` names who confirmed it, and how.
        recording_sha256: of the file of the recording.
        tensors_sha256: of the tensors file that the family made from it.
    """

    voice: str
    name: str
    text: str
    length_s: float
    added_at: str
    consent: str
    consent_by: str
    consent_at: str
    recording_sha256: str
    tensors_sha256: str

    @property
    def provenance(self) -> dict[str, str]:
        """The entry for the speaker in an utterance's trace."""
        return {"consent_at": self.consent_at, "added_at": self.added_at, "recording_sha256": self.recording_sha256}


@dataclass(frozen=True)
class SpeakerRequest:
    """A speaker to be added.

    Attributes:
        voice: its name.
        name: of the new speaker.
        text: what the recording says; empty for a family that does not need it.
        samples: float32 [T], cleaned (``studio.measure.references``).
        has_consent: whether the user states ``CONSENT``.
        consent_by: who confirms it, and how.
        recording: the file of the recording, to be stored; None to store none.
    """

    voice: str
    name: str
    text: str
    samples: np.ndarray = field(repr=False)
    rate_hz: int
    recording_sha256: str
    has_consent: bool
    consent_by: str = ""
    recording: bytes | None = field(default=None, repr=False)

    def check(self) -> None:
        """See ``check_words``."""
        self.check_words(self.name, self.text, self.consent_by, has_consent=self.has_consent)

    @staticmethod
    def check_words(name: str, text: str, consent_by: str, *, has_consent: bool) -> None:
        """Checks that do not need the recording. Raises NoConsent, BadOption."""
        if not has_consent:
            raise NoConsent("the speaker's consent is missing", f"confirm it, or use no recording: {CONSENT}")
        if not _NAME.fits(name):
            raise BadOption(f"the name {name[:80]!r} is not allowed", f"give {_NAME.expected}")
        for what, words, most in (
            ("the text", text, MAX_TEXT_CHARS),
            ("who confirms the consent", consent_by, MAX_CONSENT_CHARS),
        ):
            if not is_printable(words) or len(words) > most:
                raise BadOption(f"{what} is too long, or has control characters", f"give at most {most} characters")


@dataclass(frozen=True)
class SpeakerVoice:
    """A voice to which speakers can be added, and whether that needs the text of the recording."""

    name: str
    title: str
    needs_text: bool


class Speakers(Protocol):
    """The added speakers of an engine's voices."""

    def voices(self) -> Sequence[SpeakerVoice]:
        """Voices to which speakers can be added."""
        ...

    def listed(self) -> Sequence[AddedSpeaker]:
        """The added speakers, the oldest first."""
        ...

    def add(self, wanted: SpeakerRequest) -> AddedSpeaker:
        """Make, store and offer a speaker.

        Raises:
            NoConsent, BadOption: see ``SpeakerRequest.check``; the name is taken; there are too many.
            BadVoice: there is no such voice, or it takes no speakers.
            BadText: no word of the text can be spoken.
            BadRecording: it does not say the text.
            NotStored: the folder cannot be written.
        """
        ...

    def remove(self, voice: str, name: str) -> None:
        """Remove an added speaker; running utterances go on. Raises BadVoice: there is none; NotStored."""
        ...


@runtime_checkable
class SupportsSpeakers(Protocol):
    """An engine to whose voices speakers can be added."""

    def speakers(self) -> Speakers: ...


class SpeakerStore:
    """The added speakers of a folder; every process that reads it sees changes at its next ``read``.

    Args:
        root: need not exist; None for a store that is always empty.
    """

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._seen_ns = -1
        self._speakers: dict[str, AddedSpeaker] = {}

    def read(self) -> dict[str, AddedSpeaker]:
        """The speakers by the names of their folders, the oldest first. Damaged ones are logged and left out."""
        if self.root is None:
            return {}
        with self._lock:
            try:
                changed_ns = self.root.stat().st_mtime_ns  # a speaker appears and disappears in one rename
            except OSError:
                changed_ns = 0
            if changed_ns != self._seen_ns:
                found = {path.parent.name: _read(path.parent) for path in self.root.glob(f"*/{RECORD}")}
                whole = {name: one for name, one in found.items() if one is not None and "." not in name}
                oldest = sorted(whole.items(), key=lambda item: (item[1].added_at, item[0]))
                self._speakers, self._seen_ns = dict(oldest[:MAX_SPEAKERS]), changed_ns
            return self._speakers

    def add(self, speaker: AddedSpeaker, tensors: bytes, recording: bytes | None) -> str:
        """Store a speaker; returns its folder's name. Raises BadOption: too many, or no folder is known; NotStored."""
        if self.root is None:
            do = f"set {SPEAKERS_VARIABLE} to a folder, or set HOME or XDG_DATA_HOME"
            raise BadOption("no folder of speakers is known", do)
        if len(self.read()) >= MAX_SPEAKERS:
            raise BadOption(f"there are {MAX_SPEAKERS} added speakers already", "remove one")
        self._delete_abandoned()
        token = secrets.token_hex(8)
        part = self.root / f".{token}"
        with not_stored(f"the speaker {speaker.name} cannot be stored", "make room on the disk"):
            durable.make_folder(part)
            try:
                files = {TENSORS: tensors, RECORD: (json.dumps(asdict(speaker), indent=1) + "\n").encode()}
                if recording is not None:
                    files[_recording_name(recording)] = recording
                for name, data in files.items():
                    durable.replace(part / name, data)
                part.rename(self.root / token)
                durable.sync_folder(self.root)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        self._seen_ns = -1
        return token

    def remove(self, voice: str, name: str) -> None:
        """Remove a speaker with its recording. Raises BadVoice, NotStored: files remain, or the disk fails."""
        self._delete_abandoned()
        token = next((t for t, one in self.read().items() if (one.voice, one.name) == (voice, name)), None)
        if token is None or self.root is None:
            raise BadVoice(f"{voice[:80]!r} has no added speaker {name[:80]!r}", "the list shows those that there are")
        gone = self.root / f".{token}{_REMOVED}"
        failed = not_stored(f"the removal of {name} cannot be stored", "make room on the disk")
        with failed, suppress(FileNotFoundError):  # another process removed it
            (self.root / token).rename(gone)
            durable.sync_folder(self.root)
            self._seen_ns = -1
            try:
                shutil.rmtree(gone)
            except OSError as error:
                if not gone.exists():  # another process deleted it
                    return
                raise NotStored(f"files of {name} remain in {gone}: {error.strerror}", "delete that folder") from error

    def _delete_abandoned(self) -> None:
        """Delete folders of removed or incompletely stored speakers that a killed process left behind."""
        if self.root is None:
            return
        for folder in self.root.glob(".*"):
            match = _HIDDEN.fullmatch(folder.name)
            with suppress(OSError):
                if match and (match[1] or time.time() - folder.stat().st_mtime > _ABANDONED_S):
                    shutil.rmtree(folder)

    def tensors(self, token: str) -> Path:
        """The file of a speaker's tensors."""
        assert self.root is not None, "a store without a folder has no speakers"
        return self.root / token / TENSORS

    def extended(self, card: Card) -> Card:
        """A card with the names of the voice's added speakers after its own."""
        names = [one.name for one in self.read().values() if one.voice == card.name and one.name not in card.speakers]
        return replace(card, speakers=(*card.speakers, *dict.fromkeys(names))) if names else card


def sound_comment(meta: Mapping[str, Any]) -> str:
    """The comment that marks a sound file as synthetic speech: the voice and, for an added speaker, the consent.

    From a trace's ``meta``, which is untrusted. Empty for recordings, also after teacher forcing.
    """
    if meta.get("source") in ("recording", "forced") or not meta.get("voice"):
        return ""
    voice = ":".join(to_printable(meta[name], 80) for name in ("voice", "speaker") if meta.get(name))
    date = consent_date(meta)
    cloned = f" The speaker was cloned from a recording with consent given on {date}." if date else ""
    return f"Synthetic speech: voice {voice}, Streaming-TTS Studio.{cloned}"


def consent_date(meta: Mapping[str, Any]) -> str:
    """The date of the consent for a trace's added speaker; empty for other speakers."""
    reference = meta.get(REFERENCE)
    date = cast("Mapping[str, Any]", reference).get("consent_at") if isinstance(reference, Mapping) else None
    return date[:10] if isinstance(date, str) and _DATE.match(date) else ""


def now_utc() -> str:
    """The current UTC time, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _recording_name(data: bytes) -> str:
    """The name of a stored recording, by the kind of its file."""
    is_mp3 = data[:3] == b"ID3" or data[:1] == b"\xff"
    return f"recording.{'mp3' if is_mp3 else _SUFFIXES.get(data[:4], 'sound')}"


def _read(folder: Path) -> AddedSpeaker | None:
    """The record of a speaker; None if it is damaged."""
    try:
        data: Any = json.loads(read_bounded(folder / RECORD, MAX_SETTINGS_BYTES))
        check_keys(AddedSpeaker, data, "the record", BadVoice)
        check_values(data, _RULES, "{} of the record is", BadVoice)
        return AddedSpeaker(**data)
    except (OSError, ValueError, RecursionError, BadVoice) as error:
        log.warning("left out: the speaker in %s: %s", folder, escape_unprintable(str(error)))
        return None
